// A provider that answers when the test says so.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "worker/chain/provider.h"

namespace audiogen::worker {

class FakeProvider final : public AudioProvider {
 public:
  struct Started final : ProviderCall {
    void cancel() override { ++cancels; }
    bool is_unread() const override { return unread; }
    void answer(Result<Audio, ProviderFault> with) {
      taken = nullptr;
      std::exchange(done, nullptr)(std::move(with));
    }
    Done done;
    std::function<bool(const std::string& ticket)> taken;  // Until it is answered.
    int cancels = 0;
    std::atomic<bool> unread{false};
  };

  explicit FakeProvider(std::string name, Capabilities capabilities = {})
      : name_(std::move(name)), capabilities_(std::move(capabilities)) {}

  ~FakeProvider() override {
    for (const auto& call : calls) {
      if (call->done) {
        call->answer(ProviderFault{Fault::kCanceled, "closed", std::nullopt});
      }
    }
  }
  FakeProvider(const FakeProvider&) = delete;
  FakeProvider& operator=(const FakeProvider&) = delete;

  const std::string& name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::shared_ptr<ProviderCall> start(ProviderRequest request, Done done) override {
    if (request.facts) {
      request.facts->sent = CallFacts::Clock::now();
    }
    facts.push_back(request.facts);
    auto call = std::make_shared<Started>();
    call->done = std::move(done);
    call->taken = std::move(request.on_ticket);
    calls.push_back(call);
    if (on_start) {
      on_start();
    }
    ++started;
    return call;
  }

  std::function<void()> on_start;  // What happens meanwhile; may be empty.

  std::deque<std::shared_ptr<Started>> calls;
  std::deque<std::shared_ptr<CallFacts>> facts;  // Of each of them.
  std::atomic<std::size_t> started{0};           // So many of them may be looked at.

 private:
  std::string name_;
  Capabilities capabilities_;
};

}  // namespace audiogen::worker
