#include "worker/job/job.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"

namespace audiogen::worker {
namespace {

store::Claim without_text(store::Claim claim) {
  std::string().swap(claim.request);  // An assignment would keep its memory.
  return claim;
}

void cancel(const std::vector<std::shared_ptr<ProviderCall>>& calls) {
  for (const auto& call : calls) {
    call->cancel();
  }
}

void leave(const std::vector<std::shared_ptr<ProviderCall>>& calls) {
  for (const auto& call : calls) {
    call->leave();
  }
}

// Of two that have failed the one counts that weighs more, else the later.
int weight(const Job::FailedCall& failed) {
  if (failed.fault.fault == Fault::kRejected) {
    return 3;  // What is refused is not shopped around.
  }
  if (failed.fault.fault == Fault::kNotCalled) {
    return failed.call.ticket.empty() ? 0 : 2;  // A ticket that leads nowhere: as without one.
  }
  return 1;
}

}  // namespace

bool needs_references(const GenerationRequest& request) {
  return !request.audio_references.empty() || request.image_url;
}

TaskTime time_of(const store::Claim& claim) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  return {.left = duration_cast<milliseconds>(claim.until_deadline),
          .whole = duration_cast<milliseconds>(claim.deadline_at - claim.created_at)};
}

Job::Job(Claimed claimed,
         std::shared_ptr<const Chain> in_force,
         Clock::time_point asked_at,
         Clock::time_point now)
    : claim(without_text(std::move(claimed.claim))),
      request(std::move(claimed.request)),
      chain(std::move(in_force)),
      first(claimed.first),
      began_at(now),
      deadline(now + claim.until_deadline),
      call_written(chain->find(claim.provider).has_value()),
      provider(chain->find(claim.provider).value_or(0)),
      row(claim.calls + (claim.provider.empty() ? 0U : 1U)),
      lease_{.from = asked_at},
      rows_(row) {}

TaskTime Job::time(Clock::time_point now) const {
  return {.left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now),
          .whole = time_of(claim).whole};
}

std::array<log::Field, 3> about(const Job& job) {
  return audiogen::about(job.claim.task, job.claim.trail);
}

Failing Job::failing(std::size_t position, Fault fault, bool comes_again) const {
  const std::uint64_t what = std::hash<TaskId>()(claim.task);
  return comes_again ? Failing{.what = what, .comes_again = true}
                     : chain->failing(what, position, fault);
}

store::SettleCommand Job::command(ClaimEnd claim_end) const {
  store::SettleCommand out{std::move(claim_end)};
  out.task = claim.task;
  out.user = claim.user;
  out.trail = claim.trail;
  out.epoch = claim.epoch;
  const MutexLock lock(mutex_);
  if (rows_ == 1) {  // The rows of a hedge and of what it was raced with are written as well.
    out.held = claim.held;
  }
  return out;
}

bool Job::is_lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

bool Job::is_given_back() const {
  const MutexLock lock(mutex_);
  return giving_back_;
}

bool Job::lease_is_over(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return is_over(now);
}

bool Job::is_over(Clock::time_point now) const {
  return lost_ || now - lease_.from > kLeaseSelfStop;
}

Job::Clock::duration Job::renewal_lag(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return lost_ ? Clock::duration::zero() : now - lease_.from - kLeaseRenew;
}

Job::LeaseIs Job::look_at_lease(Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (lost_) {
    return LeaseIs::kGood;
  }
  if (now - lease_.from > kLeaseSelfStop) {
    return LeaseIs::kOver;
  }
  if (lease_.renewing || now - lease_.from <= kLeaseRenew) {
    return LeaseIs::kGood;
  }
  lease_.renewing = true;
  return LeaseIs::kDue;
}

void Job::renewal_ended(std::optional<Clock::time_point> renewed_from) {
  const MutexLock lock(mutex_);
  lease_.renewing = false;
  if (renewed_from) {
    lease_.from = *renewed_from;
  }
}

bool Job::lose(bool withdraw) {
  OpenCalls calls;
  {
    const MutexLock lock(mutex_);
    if (lost_) {
      return false;
    }
    lost_ = true;
    calls = calls_;
  }
  withdraw ? cancel(calls) : leave(calls);
  return true;
}

void Job::give_back() {
  OpenCalls calls;
  {
    const MutexLock lock(mutex_);
    giving_back_ = true;
    calls = calls_;
  }
  leave(calls);
}

std::uint32_t Job::next_row() {
  const MutexLock lock(mutex_);
  return ++rows_;
}

std::uint64_t Job::begin_step() {
  const MutexLock lock(mutex_);
  calls_.clear();
  failed_.clear();
  awaited_ = 1;
  reached_ = provider;
  return ++step_;
}

std::optional<Call> Job::hedge(const Call& slow, std::size_t second) {
  const MutexLock lock(mutex_);
  if (step_ != slow.step || awaited_ == 0 || lost_ || giving_back_) {
    return std::nullopt;
  }
  ++awaited_;
  reached_ = second;
  return Call{.step = slow.step, .provider = second, .row = ++rows_};
}

bool Job::awaits(std::uint64_t of) const {
  const MutexLock lock(mutex_);
  return of == step_ && awaited_ > 0;
}

void Job::hold(std::uint64_t of, std::shared_ptr<ProviderCall> call) {
  bool late = false, leaves = false;
  {
    const MutexLock lock(mutex_);
    late = of != step_ || awaited_ == 0;
    leaves = late ? is_over(Clock::now()) : lost_ || giving_back_;
    if (!late) {
      calls_.push_back(call);
    }
  }
  if (leaves) {
    call->leave();
  } else if (late) {
    call->cancel();
  }
}

Job::Race Job::answered(std::uint64_t of, bool audio) {
  return ended(of, audio, std::nullopt);
}

Job::Race Job::failed(FailedCall failed) {
  const std::uint64_t of = failed.call.step;
  return ended(of, false, std::move(failed));
}

Job::Race Job::ended(std::uint64_t of, bool audio, std::optional<FailedCall> failed) {
  OpenCalls losers;
  bool leaves = false;
  {
    const MutexLock lock(mutex_);
    leaves = is_over(Clock::now());
    if (of != step_ || awaited_ == 0) {
      return Race::kOver;
    }
    if (failed) {
      failed_.push_back(*std::move(failed));
    }
    --awaited_;
    if (!audio && awaited_ > 0) {
      return Race::kGoesOn;
    }
    awaited_ = 0;
    if (reached_ != provider) {  // Else it is the one that answered.
      losers = std::move(calls_);
    }
    calls_.clear();
  }
  leaves ? leave(losers) : cancel(losers);
  return Race::kEnds;
}

void Job::note(std::size_t position, const ProviderFault& fault) {
  if (fault.fault == Fault::kUnsupportedInput) {
    unable.push_back(position);
  } else if (fault.fault == Fault::kThrottled || fault.retry_after) {
    std::erase_if(later, [position](const SaidLater& one) { return one.position == position; });
    later.push_back({.position = position,
                     .until = fault.retry_after ? std::optional(Clock::now() + *fault.retry_after)
                                                : std::nullopt});
  }
}

Job::FailedCall Job::end_without_audio() {
  const MutexLock lock(mutex_);
  const auto failed = std::exchange(failed_, {});
  AG_CHECK(!failed.empty());
  const FailedCall* counts = &failed.front();
  for (const FailedCall& one : failed) {
    counts = weight(one) >= weight(*counts) ? &one : counts;
  }
  for (const FailedCall& one : failed) {
    if (&one != counts) {
      note(one.call.provider, one.fault);
    }
    if (one.call.provider != provider) {
      raced_from = raced_from.value_or(provider);
      if (one.fault.fault != Fault::kNotCalled) {
        raced_.push_back(one.call.provider);
      }
    }
  }
  provider = counts->call.provider;
  return *counts;
}

bool Job::was_raced(std::size_t position) const {
  const MutexLock lock(mutex_);
  return std::find(raced_.begin(), raced_.end(), position) != raced_.end();
}

std::optional<std::size_t> Job::choose_unraced(Choose choose, std::size_t from, TaskTime at) const {
  auto out = ((*chain).*choose)(*request, from, at);
  while (out && was_raced(*out)) {
    out = ((*chain).*choose)(*request, *out + 1, at);
  }
  return out;
}

bool Job::keep(store::CallRecord ended) {
  const MutexLock lock(mutex_);
  if (!ended_taken_) {
    ended_.push_back(std::move(ended));
  }
  return !ended_taken_;
}

void Job::goes_on(std::uint32_t ended_row) {
  const MutexLock lock(mutex_);
  for (store::CallRecord& call : ended_) {
    call.counted.goes_on = call.counted.goes_on || call.n == ended_row;
  }
}

std::vector<store::CallRecord> Job::take_calls() {
  const MutexLock lock(mutex_);
  ended_taken_ = true;
  return std::exchange(ended_, {});
}

}  // namespace audiogen::worker
