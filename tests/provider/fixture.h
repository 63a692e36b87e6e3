// What the provider tests share: entries, requests and one call from start to answer.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "common/http/client.h"
#include "tests/support/provider_double.h"
#include "worker/providers/kinds.h"

namespace audiogen {

// Else the names of tests would have its address in them.
inline void PrintTo(const ProviderKind* kind, std::ostream* out) {  // GoogleTest's name.
  *out << kind->name;
}

}  // namespace audiogen

namespace audiogen::test {

using namespace std::chrono_literals;
using Form = DoubleReply::Form;

inline constexpr auto kPatience = 300s;  // For what must happen; never waited out.
// Words that must not come back in a fault's detail.
inline constexpr const char* kSecret = "sk-very-secret";
inline constexpr const char* kPrompt = "a private prompt";

inline ProviderEntry entry_of(const ProviderKind& kind, const std::string& base_url) {
  ProviderEntry entry = defaults_of(kind);
  entry.name = "under_test";
  entry.base_url = base_url;
  entry.api_key = kSecret;
  entry.model = "owner/app";
  entry.voices = {{"aria", "coral"}, {"atlas", "onyx"}};
  entry.timeout = 120s;
  entry.connect_timeout = 60s;
  return entry;
}

// The kinds that are talked to in that way (DirectFormat, const PolledFormat*).
template <class Format>
std::vector<const ProviderKind*> kinds_of() {
  std::vector<const ProviderKind*> out;
  for (const ProviderKind* kind : provider_kinds()) {
    if (std::holds_alternative<Format>(kind->format)) {
      out.push_back(kind);
    }
  }
  return out;
}

// For the names of tests.
inline std::string name_of(const testing::TestParamInfo<const ProviderKind*>& test) {
  return std::string(test.param->name);
}

inline ProviderRequest request_of(GenerationRequest request = {}) {
  if (request.prompt.empty()) {
    request.prompt = kPrompt;
  }
  ProviderRequest out;
  out.request = std::make_shared<const GenerationRequest>(std::move(request));
  out.request_key = "aud_test-1";
  out.deadline = std::chrono::steady_clock::now() + 300s;
  return out;
}

// A call under way; counts its answers.
struct Running {
  std::shared_ptr<ProviderCall> call;
  std::shared_ptr<std::promise<Result<Audio, ProviderFault>>> promise;
  std::shared_ptr<std::atomic<int>> answers;
  std::future<Result<Audio, ProviderFault>> answer;
};

inline Running start(AudioProvider& provider, ProviderRequest request = request_of()) {
  Running out;
  out.promise = std::make_shared<std::promise<Result<Audio, ProviderFault>>>();
  out.answers = std::make_shared<std::atomic<int>>(0);
  out.answer = out.promise->get_future();
  out.call = provider.start(std::move(request),
                            [promise = out.promise, answers = out.answers](auto result) {
                              if (answers->fetch_add(1) == 0) {
                                promise->set_value(std::move(result));
                              }
                            });
  return out;
}

inline Result<Audio, ProviderFault> wait(Running& running) {
  if (running.answer.wait_for(kPatience) != std::future_status::ready) {
    ADD_FAILURE() << "no answer";
    return ProviderFault{Fault::kCanceled, "the test lost patience", std::nullopt};
  }
  return running.answer.get();
}

inline Result<Audio, ProviderFault> generate(AudioProvider& provider,
                                             ProviderRequest request = request_of()) {
  auto running = start(provider, std::move(request));
  return wait(running);
}

// The fault's name, or "audio".
inline std::string outcome(const Result<Audio, ProviderFault>& result) {
  return result ? "audio" : std::string(fault_name(result.error().fault));
}

}  // namespace audiogen::test
