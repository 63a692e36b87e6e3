#include "worker/chain/bulkhead.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

prometheus::Counter& calls_of(const std::string& provider, std::string_view outcome) {
  return metrics::counter("provider_requests_total",
                          "Calls to a provider, by what came of them",
                          {{"provider", provider}, {"outcome", std::string(outcome)}});
}

void count_call(const std::string& provider,
                const Result<Audio, ProviderFault>& answer,
                std::chrono::duration<double> took) {
  calls_of(provider, answer ? "audio" : fault_name(answer.error().fault)).Increment();
  metrics::histogram("provider_duration_seconds",
                     "What calls to a provider took, in their turn",
                     {{"provider", provider}})
      .observe(took.count());
}

void count_first_byte(const std::string& provider, const CallFacts& facts) {
  if (facts.sent && facts.first_byte) {
    metrics::histogram("provider_first_byte_seconds",
                       "From a call to a provider to the first byte of what brought its audio",
                       {{"provider", provider}})
        .observe(std::chrono::duration<double>(*facts.first_byte - *facts.sent).count());
  }
}

}  // namespace

struct Bulkhead::State {
  AudioProvider* inner = nullptr;
  std::size_t limit = 1;
  Mutex mutex;
  std::size_t running GUARDED_BY(mutex) = 0;
  std::deque<std::shared_ptr<Call>> waiting GUARDED_BY(mutex);
  UsualTime usual GUARDED_BY(mutex);
  CallsWatch calls GUARDED_BY(mutex);

  // What a ticket asks for is under way already.
  bool in_time(const ProviderRequest& request) const LOCKS_REQUIRED(mutex) {
    return !request.ticket.empty() ||
           usual.fits({.left = duration_cast<milliseconds>(request.deadline - Clock::now()),
                       .whole = request.lifetime});
  }
};

struct Bulkhead::Call final : ProviderCall {
  Call(std::weak_ptr<State> of, ProviderRequest asked, Done reply)
      : state(std::move(of)), request(std::move(asked)), done(std::move(reply)) {}

  void cancel() override { end(&ProviderCall::cancel); }
  void leave() override { end(&ProviderCall::leave); }

  bool waits() const override {
    const auto owner = state.lock();
    if (!owner) {
      return false;
    }
    const MutexLock lock(owner->mutex);
    return std::any_of(owner->waiting.begin(), owner->waiting.end(), [this](const auto& call) {
      return call.get() == this;
    });
  }

  void stop_waiting() override {
    bool dropped = false;
    if (const auto owner = state.lock()) {
      const MutexLock lock(owner->mutex);
      dropped = drop(*owner);
    }
    if (dropped) {
      done(ProviderFault{Fault::kNotCalled, "waited too long for its turn", std::nullopt});
    }
  }

  bool drop(State& owner) LOCKS_REQUIRED(owner.mutex) {
    const auto at = std::find_if(owner.waiting.begin(),
                                 owner.waiting.end(),
                                 [this](const auto& call) { return call.get() == this; });
    if (at == owner.waiting.end()) {
      return false;
    }
    owner.waiting.erase(at);
    return true;
  }

  void end(void (ProviderCall::*how)()) {
    std::shared_ptr<ProviderCall> started;
    bool dropped = false;
    if (const auto owner = state.lock()) {
      const MutexLock lock(owner->mutex);
      dropped = drop(*owner);
      canceled = how;
      started = inner;
    }
    if (started) {
      ((*started).*how)();
    }
    if (dropped) {
      done(ProviderFault{Fault::kCanceled, "canceled before its turn", std::nullopt});
    }
  }

  const std::weak_ptr<State> state;
  ProviderRequest request;
  Done done;
  std::shared_ptr<ProviderCall> inner;  // Guarded by the state's mutex.
  // How it is to be ended. Guarded by the state's mutex.
  void (ProviderCall::*canceled)() = nullptr;
  bool ended = false;  // Guarded by the state's mutex.
};

Bulkhead::Bulkhead(std::unique_ptr<AudioProvider> inner)
    : state_(std::make_shared<State>()), inner_(std::move(inner)) {
  state_->inner = inner_.get();
  state_->limit = static_cast<std::size_t>(std::max(1, inner_->capabilities().max_in_flight));
  // Told from the start, so that the first is seen to be one more: somebody is to be alerted.
  calls_of(name(), fault_name(Fault::kMisconfigured));
}

Bulkhead::~Bulkhead() {
  std::deque<std::shared_ptr<Call>> waiting;
  {
    const MutexLock lock(state_->mutex);
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
    const MutexLock lock(state_->mutex);
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
  const bool fallback = call->request.fallback;
  const auto facts = call->request.facts;
  auto inner = state->inner->start(
      std::move(call->request),
      [state, call, fallback, facts, began = Clock::now()](Result<Audio, ProviderFault> answer) {
        const auto ended = Clock::now();
        const auto time = duration_cast<milliseconds>(ended - began);
        count_call(state->inner->name(), answer, ended - began);
        if (facts) {
          count_first_byte(state->inner->name(), *facts);
        }
        {
          // The call and the provider's call hold each other until
          // now.
          const MutexLock lock(state->mutex);
          call->ended = true;
          call->inner.reset();
          if (answer || answer.error().fault == Fault::kOutOfTime) {
            state->usual.add(time);
          }
          if (answer || answer.error().fault != Fault::kNotCalled) {
            state->calls.ended(
                answer ? std::nullopt : std::optional(fault_name(answer.error().fault)),
                fallback,
                time,
                ended);
          }
        }
        finished(state);
        std::exchange(call->done, nullptr)(std::move(answer));
      });
  void (ProviderCall::*canceled)() = nullptr;
  {
    const MutexLock lock(state->mutex);
    if (call->ended) {
      return;
    }
    call->inner = inner;
    canceled = call->canceled;
  }
  if (canceled != nullptr && inner) {
    ((*inner).*canceled)();
  }
}

void Bulkhead::finished(const std::shared_ptr<State>& state) {
  std::shared_ptr<Call> next;
  std::vector<std::shared_ptr<Call>> late;
  {
    const MutexLock lock(state->mutex);
    while (!next && !state->waiting.empty()) {
      auto first = std::move(state->waiting.front());
      state->waiting.pop_front();
      if (state->in_time(first->request)) {
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

std::size_t Bulkhead::running() const {
  const MutexLock lock(state_->mutex);
  return state_->running;
}

std::size_t Bulkhead::waiting() const {
  const MutexLock lock(state_->mutex);
  return state_->waiting.size();
}

std::optional<milliseconds> Bulkhead::needed() const {
  const MutexLock lock(state_->mutex);
  return state_->usual.needed();
}

bool Bulkhead::fits(TaskTime time) const {
  const MutexLock lock(state_->mutex);
  return state_->usual.fits(time);
}

bool Bulkhead::fits_in_turn(TaskTime time) const {
  const MutexLock lock(state_->mutex);
  if (state_->running >= state_->limit) {
    // Those that run may all have begun just now.
    const auto rounds = static_cast<milliseconds::rep>(state_->waiting.size() / state_->limit + 1);
    time.left -= rounds * state_->usual.usual().value_or(milliseconds(0));
  }
  return state_->usual.fits(time);
}

void Bulkhead::undelivered() const {
  const MutexLock lock(state_->mutex);
  state_->calls.undelivered(Clock::now());
}

ProviderCalls Bulkhead::calls() const {
  const MutexLock lock(state_->mutex);
  return state_->calls.last(Clock::now());
}

}  // namespace audiogen
