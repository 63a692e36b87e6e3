// The generic cell rate algorithm (GCRA, ITU-T I.371): an exact token bucket in one number per key.
#pragma once

#include <chrono>
#include <cstdint>
#include <variant>

namespace audiogen {

// `per_minute` requests a minute on average, at most `burst` at once. Both > 0.
struct RatePolicy {
  int per_minute = 60;
  int burst = 1;
};

// For what is rare: `burst` at once, then one each `interval`. So in any day at most `burst` and as
// many as there are intervals in it. Both > 0.
struct SlowPolicy {
  int burst = 1;
  std::chrono::minutes interval{60};
};

using AnyPolicy = std::variant<RatePolicy, SlowPolicy>;

struct RateDecision {
  bool allowed = false;
  int remaining = 0;                    // Requests that would be allowed right now.
  std::chrono::seconds retry_after{0};  // Whole seconds, rounded up; 0 when allowed.
  std::chrono::seconds more_after{0};   // Until one more than `remaining` is allowed, rounded up;
                                        // 0 when no more can be.
  std::chrono::seconds reset_after{0};  // Until the full burst is available again, rounded up.
};

// The state of one key in one class: the theoretical arrival time. A default one has never been
// used.
struct RateState {
  using TimePoint = std::chrono::steady_clock::time_point;
  TimePoint full_at = TimePoint::min();  // When the bucket is full again.
};

// Judges one request at `now` and, when allowed, counts it.
RateDecision take(RateState& state,
                  const RatePolicy& policy,
                  std::chrono::steady_clock::time_point now);
RateDecision take(RateState& state,
                  const SlowPolicy& policy,
                  std::chrono::steady_clock::time_point now);

RateDecision take(RateState& state,
                  const AnyPolicy& policy,
                  std::chrono::steady_clock::time_point now);

// The same without counting: for headers on refused requests of another kind.
RateDecision peek(const RateState& state,
                  const RatePolicy& policy,
                  std::chrono::steady_clock::time_point now);
RateDecision peek(const RateState& state,
                  const SlowPolicy& policy,
                  std::chrono::steady_clock::time_point now);

// Takes back one request that take() has counted.
void give_back(RateState& state, const RatePolicy& policy);
void give_back(RateState& state, const SlowPolicy& policy);
void give_back(RateState& state, const AnyPolicy& policy);

}  // namespace audiogen
