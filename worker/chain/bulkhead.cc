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

// What every call counts is looked up once; what came of one that failed, when it did.
struct Meters {
  explicit Meters(const std::string& provider)
      : audio(calls_of(provider, "audio")),
        took(metrics::histogram("provider_duration_seconds",
                                "What calls to a provider took, in their turn",
                                {{"provider", provider}})),
        first_byte(metrics::histogram(
            "provider_first_byte_seconds",
            "From a call to a provider to the first byte of what brought its audio",
            {{"provider", provider}})) {
    // Told from the start, so that the first is seen to be one more: somebody is to be alerted.
    calls_of(provider, fault_name(Fault::kMisconfigured));
  }

  prometheus::Counter& audio;
  metrics::Histogram& took;
  metrics::Histogram& first_byte;
};

}  // namespace

struct Bulkhead::State final : Account::User, std::enable_shared_from_this<State> {
  explicit State(AudioProvider& provider)
      : inner(&provider),
        limit(static_cast<std::size_t>(std::max(1, provider.capabilities().max_in_flight))),
        meters(provider.name()) {}

  AudioProvider* const inner;
  const std::size_t limit;  // Of the entry; what the account allows comes and goes.
  const Meters meters;
  std::shared_ptr<Account> account;
  mutable Mutex mutex;
  std::vector<Clock::time_point> begun GUARDED_BY(mutex);  // Of those that run, in any order.
  std::deque<std::shared_ptr<Call>> waiting GUARDED_BY(mutex);
  UsualTime usual GUARDED_BY(mutex);
  CallsWatch calls GUARDED_BY(mutex);

  bool begin_waiting() override { return begin_next(shared_from_this()); }
  std::optional<Clock::time_point> waits_since() const override;
  std::uint32_t wanted() const override {
    const MutexLock lock(mutex);
    return static_cast<std::uint32_t>(std::min(limit, begun.size() + waiting.size()));
  }

  // Takes a slot, and a place of the account.
  bool take_slot(Call& call) LOCKS_REQUIRED(mutex);
  void leave_slot(const Call& call) LOCKS_REQUIRED(mutex);

  std::size_t limit_now() const { return account ? std::min(limit, account->places()) : limit; }
  std::size_t idle() const LOCKS_REQUIRED(mutex) {
    const std::size_t slots = limit - std::min(limit, begun.size());
    return account ? std::min(slots, account->free()) : slots;
  }
  // When a further call has a slot, where none is free: behind those that wait, and `others`, as
  // soon as so many have ended, if they take as long as calls do on the average, and the one whose
  // slot it is no longer than nearly all.
  milliseconds turn_in(Clock::time_point now, std::size_t others) const LOCKS_REQUIRED(mutex);

  void count(const Result<Audio, ProviderFault>& answer,
             Clock::duration time,
             const CallFacts* facts) const {
    const auto seconds = [](Clock::duration of) {
      return std::chrono::duration<double>(of).count();
    };
    (answer ? meters.audio : calls_of(inner->name(), fault_name(answer.error().fault))).Increment();
    meters.took.observe(seconds(time));
    if (facts != nullptr && facts->sent && facts->first_byte) {
      meters.first_byte.observe(seconds(*facts->first_byte - *facts->sent));
    }
  }

  // What a ticket asks for is under way already.
  bool in_time(const ProviderRequest& request) const LOCKS_REQUIRED(mutex) {
    return !request.ticket.empty() ||
           usual.fits({.left = duration_cast<milliseconds>(request.deadline - Clock::now()),
                       .whole = request.lifetime});
  }

  bool outlasts(Clock::time_point until) const LOCKS_REQUIRED(mutex) {
    return Clock::now() + usual.needed().value_or(inner->capabilities().timeout) > until;
  }
  // Would whoever asks have left before its end?
  bool outlasts_asker(const ProviderRequest& request) const LOCKS_REQUIRED(mutex) {
    return request.ticket.empty() && request.leaves_at && outlasts(request.leaves_at->load());
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

  bool is_unread() const override {
    std::shared_ptr<ProviderCall> started;
    if (const auto owner = state.lock()) {
      const MutexLock lock(owner->mutex);
      started = inner;
    }
    return started && started->is_unread();
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
  const Clock::time_point since = Clock::now();
  std::optional<Clock::time_point> begun;  // When it got its slot. Guarded by the state's mutex.
  std::shared_ptr<ProviderCall> inner;     // Guarded by the state's mutex.
  // How it is to be ended. Guarded by the state's mutex.
  void (ProviderCall::*canceled)() = nullptr;
  bool ended = false;  // Guarded by the state's mutex.
};

bool Bulkhead::State::take_slot(Call& call) {
  if (begun.size() >= limit || (account && !account->take())) {
    return false;
  }
  call.begun = Clock::now();
  begun.push_back(*call.begun);
  return true;
}

void Bulkhead::State::leave_slot(const Call& call) {
  const auto at = std::find(begun.begin(), begun.end(), *call.begun);
  *at = begun.back();
  begun.pop_back();
}

milliseconds Bulkhead::State::turn_in(Clock::time_point now, std::size_t others) const {
  const std::size_t line = waiting.size() + others;
  const milliseconds a_call = usual.usual().value_or(milliseconds(0)),
                     a_round = usual.mean().value_or(milliseconds(0));
  const std::size_t at_once = std::max<std::size_t>(limit_now(), 1);
  const auto rounds = static_cast<milliseconds::rep>(line / at_once);
  if (begun.empty()) {
    return rounds * a_round + a_call;  // The places are other entries'.
  }
  // Where the account has fewer places than there were, the first to end leave none.
  const std::size_t before = line % at_once + begun.size() - std::min(begun.size(), at_once);
  std::vector<Clock::time_point> first = begun;
  const auto at = first.begin() + static_cast<std::ptrdiff_t>(std::min(before, first.size() - 1));
  std::nth_element(first.begin(), at, first.end());
  const milliseconds left = a_call - duration_cast<milliseconds>(now - *at);
  return rounds * a_round + std::max(left, milliseconds(0));
}

std::optional<Clock::time_point> Bulkhead::State::waits_since() const {
  const MutexLock lock(mutex);
  return waiting.empty() || begun.size() >= limit ? std::nullopt
                                                  : std::optional(waiting.front()->since);
}

Bulkhead::Bulkhead(std::unique_ptr<AudioProvider> inner, std::shared_ptr<Account> account)
    : state_(std::make_shared<State>(*inner)), inner_(std::move(inner)) {
  if (account) {
    state_->account = std::move(account);
    state_->account->add_user(state_);
  }
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
    if (!state_->waiting.empty() || !state_->take_slot(*call)) {
      // Under the lock: who gives a place looks for those that wait after it has.
      state_->waiting.push_back(call);
      if (state_->account && state_->begun.size() < state_->limit) {
        state_->account->is_short();
      }
      return call;
    }
  }
  run(state_, call);
  return call;
}

void Bulkhead::run(const std::shared_ptr<State>& state, const std::shared_ptr<Call>& call) {
  const bool fallback = call->request.fallback;
  const bool resumed = !call->request.ticket.empty();
  const auto facts = call->request.facts;
  const auto is_ours = call->request.is_ours;
  auto inner = state->inner->start(
      std::move(call->request),
      [state, call, fallback, resumed, facts, is_ours, began = Clock::now()](
          Result<Audio, ProviderFault> answer) {
        const auto ended = Clock::now();
        const auto unread = facts ? facts->unread : Clock::duration::zero();
        const auto time = duration_cast<milliseconds>(ended - began - unread);
        // Else this process may have stood still, and took that time itself.
        const bool timed = !is_ours || is_ours();
        state->count(answer, time, facts.get());
        {
          // The call and the provider's call hold each other until
          // now.
          const MutexLock lock(state->mutex);
          call->ended = true;
          call->inner.reset();
          // What is left of a call says nothing of how long a whole one takes.
          if (!resumed && timed && (answer || answer.error().fault == Fault::kOutOfTime)) {
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
        finished(state, *call);
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

// Those whose turn would come too late, for them or for whoever asks, are ended before it.
bool Bulkhead::begin_next(const std::shared_ptr<State>& state) {
  std::shared_ptr<Call> next;
  std::vector<std::pair<std::shared_ptr<Call>, ProviderFault>> late;
  {
    const MutexLock lock(state->mutex);
    while (!state->waiting.empty()) {
      const ProviderRequest& first = state->waiting.front()->request;
      if (state->outlasts_asker(first)) {
        late.emplace_back(
            std::move(state->waiting.front()),
            ProviderFault{Fault::kCanceled, "whoever asks leaves before its turn", std::nullopt});
      } else if (first.is_ours && !first.is_ours()) {
        late.emplace_back(std::move(state->waiting.front()),
                          ProviderFault{Fault::kNotCalled, "its lease is over", std::nullopt});
      } else if (!state->in_time(first)) {
        late.emplace_back(std::move(state->waiting.front()),
                          ProviderFault{Fault::kNotCalled, "its turn came too late", std::nullopt});
      } else {
        break;
      }
      state->waiting.pop_front();
    }
    if (!state->waiting.empty() && state->take_slot(*state->waiting.front())) {
      next = std::move(state->waiting.front());
      state->waiting.pop_front();
    }
  }
  if (next) {
    // Another chain's call may have brought it here: the job holds its own chain, and may be over
    // before the provider has come back from being asked.
    const auto holds_the_job = next->done;
    run(state, next);
  }
  for (auto& [call, fault] : late) {
    std::exchange(call->done, nullptr)(std::move(fault));
  }
  return next != nullptr;
}

void Bulkhead::finished(const std::shared_ptr<State>& state, const Call& call) {
  {
    const MutexLock lock(state->mutex);
    state->leave_slot(call);
  }
  if (state->account) {
    state->account->give();
  } else {
    begin_next(state);
  }
}

std::size_t Bulkhead::running() const {
  const MutexLock lock(state_->mutex);
  return state_->begun.size();
}

std::size_t Bulkhead::waiting() const {
  const MutexLock lock(state_->mutex);
  return state_->waiting.size();
}

std::size_t Bulkhead::limit() const {
  return state_->limit_now();
}

std::size_t Bulkhead::own_limit() const {
  return state_->limit;
}

std::size_t Bulkhead::idle() const {
  const MutexLock lock(state_->mutex);
  return state_->idle();
}

bool Bulkhead::waits_for_account() const {
  return state_->account && state_->waits_since().has_value();
}

const Account* Bulkhead::account() const {
  return state_->account.get();
}

std::optional<milliseconds> Bulkhead::mean_time() const {
  const MutexLock lock(state_->mutex);
  return state_->usual.mean();
}

std::optional<milliseconds> Bulkhead::needed() const {
  const MutexLock lock(state_->mutex);
  return state_->usual.needed();
}

bool Bulkhead::outlasts(Clock::time_point until) const {
  const MutexLock lock(state_->mutex);
  return state_->outlasts(until);
}

bool Bulkhead::fits(TaskTime time) const {
  const MutexLock lock(state_->mutex);
  return state_->usual.fits(time);
}

bool Bulkhead::fits_in_turn(TaskTime time, std::size_t others) const {
  const MutexLock lock(state_->mutex);
  if (const std::size_t idle = state_->idle(); idle <= others) {
    time.left -= state_->turn_in(Clock::now(), others - idle);
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
