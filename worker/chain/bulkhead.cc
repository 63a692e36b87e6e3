#include "worker/chain/bulkhead.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

namespace audiogen {

struct Bulkhead::State {
  AudioProvider* inner = nullptr;
  std::size_t limit = 1;
  std::mutex mutex;
  std::size_t running = 0;                    // Guarded by mutex.
  std::deque<std::shared_ptr<Call>> waiting;  // Guarded by mutex.
};

struct Bulkhead::Call final : ProviderCall {
  Call(std::weak_ptr<State> of, ProviderRequest asked, Done reply)
      : state(std::move(of)), request(std::move(asked)), done(std::move(reply)) {}

  void cancel() override {
    std::shared_ptr<ProviderCall> started;
    bool dropped = false;
    if (const auto owner = state.lock()) {
      const std::scoped_lock lock(owner->mutex);
      const auto at = std::find_if(owner->waiting.begin(),
                                   owner->waiting.end(),
                                   [this](const auto& call) { return call.get() == this; });
      if (at != owner->waiting.end()) {
        owner->waiting.erase(at);
        dropped = true;
      }
      canceled = true;
      started = inner;
    }
    if (started) {
      started->cancel();
    }
    if (dropped) {
      done(ProviderFault{Fault::kCanceled, "canceled before its turn", std::nullopt});
    }
  }

  const std::weak_ptr<State> state;
  ProviderRequest request;
  Done done;
  std::shared_ptr<ProviderCall> inner;  // Guarded by the state's mutex.
  bool canceled = false;                // Guarded by the state's mutex.
  bool ended = false;                   // Guarded by the state's mutex.
};

Bulkhead::Bulkhead(std::unique_ptr<AudioProvider> inner)
    : state_(std::make_shared<State>()), inner_(std::move(inner)) {
  state_->inner = inner_.get();
  state_->limit = static_cast<std::size_t>(std::max(1, inner_->capabilities().max_in_flight));
}

Bulkhead::~Bulkhead() {
  std::deque<std::shared_ptr<Call>> waiting;
  {
    const std::scoped_lock lock(state_->mutex);
    waiting.swap(state_->waiting);
  }
  for (const auto& call : waiting) {
    call->done(ProviderFault{Fault::kCanceled, "the provider is closed", std::nullopt});
  }
  inner_.reset();
}

std::shared_ptr<ProviderCall> Bulkhead::start(ProviderRequest request, Done done) {
  auto call = std::make_shared<Call>(state_, std::move(request), std::move(done));
  {
    const std::scoped_lock lock(state_->mutex);
    if (state_->running >= state_->limit) {
      state_->waiting.push_back(call);
      return call;
    }
    ++state_->running;
  }
  run(state_, call);
  return call;
}

void Bulkhead::run(const std::shared_ptr<State>& state, const std::shared_ptr<Call>& call) {
  auto inner = state->inner->start(std::move(call->request),
                                   [state, call](Result<Audio, ProviderFault> answer) {
                                     {
                                       // The call and the provider's call hold each other until
                                       // now.
                                       const std::scoped_lock lock(state->mutex);
                                       call->ended = true;
                                       call->inner.reset();
                                     }
                                     finished(state);
                                     std::exchange(call->done, nullptr)(std::move(answer));
                                   });
  bool canceled = false;
  {
    const std::scoped_lock lock(state->mutex);
    if (call->ended) {
      return;
    }
    call->inner = inner;
    canceled = call->canceled;
  }
  if (canceled && inner) {
    inner->cancel();
  }
}

void Bulkhead::finished(const std::shared_ptr<State>& state) {
  std::shared_ptr<Call> next;
  {
    const std::scoped_lock lock(state->mutex);
    if (state->waiting.empty()) {
      --state->running;
      return;
    }
    next = std::move(state->waiting.front());
    state->waiting.pop_front();
  }
  run(state, next);
}

std::size_t Bulkhead::running() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->running;
}

std::size_t Bulkhead::waiting() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->waiting.size();
}

}  // namespace audiogen
