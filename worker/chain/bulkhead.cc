#include "worker/chain/bulkhead.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

}  // namespace

struct Bulkhead::State {
  AudioProvider* inner = nullptr;
  std::size_t limit = 1;
  std::mutex mutex;
  std::size_t running = 0;                    // Guarded by mutex.
  std::deque<std::shared_ptr<Call>> waiting;  // Guarded by mutex.
  UsualTime usual;                            // Guarded by mutex.
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
  auto inner =
      state->inner->start(std::move(call->request),
                          [state, call, began = Clock::now()](Result<Audio, ProviderFault> answer) {
                            const auto time = duration_cast<milliseconds>(Clock::now() - began);
                            {
                              // The call and the provider's call hold each other until
                              // now.
                              const std::scoped_lock lock(state->mutex);
                              call->ended = true;
                              call->inner.reset();
                              if (answer || answer.error().fault == Fault::kOutOfTime) {
                                state->usual.add(time);
                              }
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
  std::vector<std::shared_ptr<Call>> late;
  {
    const std::scoped_lock lock(state->mutex);
    while (!next && !state->waiting.empty()) {
      auto first = std::move(state->waiting.front());
      state->waiting.pop_front();
      if (in_time(*state, first->request)) {
        next = std::move(first);
      } else {
        late.push_back(std::move(first));
      }
    }
    if (!next) {
      --state->running;
    }
  }
  if (next) {
    run(state, next);
  }
  for (const auto& call : late) {
    std::exchange(call->done, nullptr)(
        ProviderFault{Fault::kNotCalled, "its turn came too late", std::nullopt});
  }
}

bool Bulkhead::in_time(const State& state, const ProviderRequest& request) {
  return state.usual.fits({.left = duration_cast<milliseconds>(request.deadline - Clock::now()),
                           .whole = request.lifetime});
}

std::size_t Bulkhead::running() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->running;
}

std::size_t Bulkhead::waiting() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->waiting.size();
}

std::optional<milliseconds> Bulkhead::needed() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->usual.needed();
}

bool Bulkhead::fits(TaskTime time) const {
  const std::scoped_lock lock(state_->mutex);
  return state_->usual.fits(time);
}

bool Bulkhead::fits_in_turn(TaskTime time) const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->running >= state_->limit) {
    // Those that run may all have begun just now.
    const auto rounds = static_cast<milliseconds::rep>(state_->waiting.size() / state_->limit + 1);
    time.left -= rounds * state_->usual.usual().value_or(milliseconds(0));
  }
  return state_->usual.fits(time);
}

}  // namespace audiogen
