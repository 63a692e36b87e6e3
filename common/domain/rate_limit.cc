#include "common/domain/rate_limit.h"

#include <algorithm>

#include "common/base/check.h"

namespace audiogen {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using TimePoint = std::chrono::steady_clock::time_point;

// A policy by what it comes to.
struct Pace {
  nanoseconds interval;
  int burst;
};

Pace pace(const RatePolicy& policy) {
  AG_CHECK(policy.per_minute > 0);
  AG_CHECK(policy.burst > 0);
  return {nanoseconds(std::chrono::minutes(1)) / policy.per_minute, policy.burst};
}

Pace pace(const SlowPolicy& policy) {
  AG_CHECK(policy.interval.count() > 0);
  AG_CHECK(policy.burst > 0);
  return {policy.interval, policy.burst};
}

struct Verdict {
  RateDecision decision;
  TimePoint full_at;
};

// What is left of `policy` at `now` for a bucket that is full again at `full_at`.
Verdict judge(TimePoint full_at, const Pace& policy, TimePoint now, bool count) {
  const nanoseconds interval = policy.interval;
  const nanoseconds window = interval * policy.burst;
  full_at = std::max(full_at, now);
  Verdict out;
  out.decision.allowed = full_at + interval - now <= window;
  if (out.decision.allowed && count) {
    full_at += interval;
  } else if (!out.decision.allowed) {
    out.decision.retry_after = std::chrono::ceil<seconds>(full_at + interval - now - window);
  }
  out.full_at = full_at;
  // Below zero only when the policy of a used key was made smaller.
  const std::int64_t left = std::max<std::int64_t>(0, (window - (full_at - now)) / interval);
  out.decision.remaining = static_cast<int>(left);
  if (left < policy.burst) {
    out.decision.more_after =
        std::chrono::ceil<seconds>(full_at + (left + 1) * interval - now - window);
  }
  out.decision.reset_after = std::chrono::ceil<seconds>(full_at - now);
  return out;
}

RateDecision take_at(RateState& state, const Pace& policy, TimePoint now) {
  const Verdict verdict = judge(state.full_at, policy, now, true);
  if (verdict.decision.allowed) {
    state.full_at = verdict.full_at;
  }
  return verdict.decision;
}

// Of one that was never used, as it was forgotten meanwhile, there is nothing to take back.
void give_back_one(RateState& state, std::chrono::nanoseconds interval) {
  if (state.full_at != TimePoint::min()) {
    state.full_at -= interval;
  }
}

}  // namespace

RateDecision take(RateState& state, const RatePolicy& policy, TimePoint now) {
  return take_at(state, pace(policy), now);
}

RateDecision take(RateState& state, const SlowPolicy& policy, TimePoint now) {
  return take_at(state, pace(policy), now);
}

// A bucket that is full already stays so: full_at in the past counts as now.
void give_back(RateState& state, const RatePolicy& policy) {
  give_back_one(state, pace(policy).interval);
}

void give_back(RateState& state, const SlowPolicy& policy) {
  give_back_one(state, pace(policy).interval);
}

RateDecision take(RateState& state, const AnyPolicy& policy, TimePoint now) {
  return std::visit([&](const auto& one) { return take(state, one, now); }, policy);
}

void give_back(RateState& state, const AnyPolicy& policy) {
  std::visit([&](const auto& one) { give_back(state, one); }, policy);
}

RateDecision peek(const RateState& state, const RatePolicy& policy, TimePoint now) {
  return judge(state.full_at, pace(policy), now, false).decision;
}

RateDecision peek(const RateState& state, const SlowPolicy& policy, TimePoint now) {
  return judge(state.full_at, pace(policy), now, false).decision;
}

}  // namespace audiogen
