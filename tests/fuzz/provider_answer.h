// What the fuzz targets of the providers share. An input is one answer, or several with a line "%%"
// between them: the status, header lines, an empty line, the body. Nothing at all is an exchange
// that failed.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "worker/providers/kind.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/polled.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::fuzz {

inline constexpr const char* kKey = "sk-very-secret";
inline constexpr const char* kBase = "https://api.example";
inline constexpr std::string_view kBetween = "\n%%\n";

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Takes everything up to `mark` from `text`; all of it when there is none.
inline std::string_view take(std::string_view& text, std::string_view mark) {
  const std::string_view out = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), out.size() + mark.size()));
  return out;
}

inline http::ClientResponse answer_of(std::string_view text) {
  http::ClientResponse out;
  const std::string_view status = take(text, "\n");
  std::from_chars(status.data(), status.data() + status.size(), out.status);
  while (!text.empty() && text.front() != '\n') {
    std::string_view line = take(text, "\n");
    const std::string_view name = take(line, ": ");
    out.headers.emplace(std::string(name), std::string(line));
  }
  take(text, "\n");
  out.body = text;
  return out;
}

inline ProviderEntry entry(const ProviderKind& kind) {
  ProviderEntry out = defaults_of(kind);
  out.base_url = kBase;
  out.api_key = kKey;
  out.model = "owner/app";
  out.voices = {{"aria", "coral"}};
  return out;
}

inline GenerationRequest request() {
  GenerationRequest out;
  out.prompt = "a private prompt";
  return out;
}

// Details go to logs and to the rows of calls, where they must be harmless and fit.
inline void check(const ProviderFault& fault) {
  AG_CHECK(!fault.detail.empty() && fault.detail.size() <= wire::kDetailMax);
  for (const char c : fault.detail) {
    AG_CHECK(c >= ' ' && c <= '~');
  }
  AG_CHECK(!fault.retry_after ||
           (fault.retry_after->count() > 0 && *fault.retry_after <= wire::kRetryAfterMax));
}

inline void check(const Audio& audio) {
  AG_CHECK(!audio.bytes.empty());
  AG_CHECK(audio.type != AudioType::kPcmS16Le || (audio.rate > 0 && audio.bytes.size() % 2 == 0));
  AG_CHECK(audio.speed_applied >= kSpeedRange.low && audio.speed_applied <= kSpeedRange.high);
}

// A reader of one answer, with each format it can have asked for by that option.
inline void check_reader(std::string_view text,
                         const ProviderKind& kind,
                         const char* option,
                         std::initializer_list<const char*> formats) {
  const http::ClientResponse answer = answer_of(text);
  for (const char* const format : formats) {
    ProviderEntry with = entry(kind);
    with.options[option] = format;
    const auto result = std::get<DirectFormat>(kind.format).read(with, request(), answer);
    if (result) {
      AG_CHECK(answer.status == 200);
      check(*result);
    } else {
      check(result.error());
    }
  }
}

// A whole talk: it may ask again, but only with our key at the provider, without it elsewhere, and
// not for ever.
inline void check_talk(std::string_view text, const ProviderKind& kind) {
  constexpr int kQuestionsMax = 10'000;
  ProviderRequest asked;
  asked.request = std::make_shared<const GenerationRequest>(request());
  asked.request_key = "aud_fuzz-1";
  const auto dialogue = make_polled_dialogue(std::make_shared<const ProviderEntry>(entry(kind)),
                                             *std::get<const PolledFormat*>(kind.format),
                                             asked);
  Step step = dialogue->begin(std::chrono::seconds(90));
  for (int questions = 0;; ++questions) {
    if (const auto* const audio = std::get_if<Audio>(&step)) {
      check(*audio);
      return;
    }
    if (const auto* const fault = std::get_if<ProviderFault>(&step)) {
      check(*fault);
      return;
    }
    AG_CHECK(questions < kQuestionsMax);
    const Ask& ask = std::get<Ask>(step);
    AG_CHECK(ask.delay.count() >= 0 && ask.delay <= wire::kRetryAfterMax);
    const auto sends_key = [](const http::ClientRequest& one) {
      return std::any_of(one.headers.begin(), one.headers.end(), [](const std::string& line) {
        return line.find(kKey) != std::string::npos;
      });
    };
    AG_CHECK(sends_key(ask.request) ? wire::same_origin(kBase, ask.request.url)
                                    : ask.request.reach == http::Reach::kPublicOnly);
    if (const auto withdrawal = dialogue->withdraw()) {
      AG_CHECK(wire::same_origin(kBase, withdrawal->url));
    }
    const std::string_view next = take(text, kBetween);
    step = next.empty() ? dialogue->heard(http::ClientError{http::ClientFault::kUnknown, "reset"})
                        : dialogue->heard(answer_of(next));
  }
}

}  // namespace audiogen::fuzz
