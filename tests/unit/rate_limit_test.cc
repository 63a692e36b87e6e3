// The rate limit, in a time of its own.
#include "common/domain/rate_limit.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr TimePoint kStart{1000h};
constexpr RatePolicy kPolicy{.per_minute = 60, .burst = 3};  // One a second, three at once.

TEST(RateLimit, ANewKeyHasItsBurst) {
  RateState state;
  for (int left = 2; left >= 0; --left) {
    const auto decision = take(state, kPolicy, kStart);
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.remaining, left);
    EXPECT_EQ(decision.retry_after, 0s);
    EXPECT_EQ(decision.reset_after, std::chrono::seconds(3 - left));
  }
  const auto refused = take(state, kPolicy, kStart);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(refused.retry_after, 1s);
  EXPECT_EQ(refused.reset_after, 3s);
}

TEST(RateLimit, TheBoundaryIsExact) {
  RateState state;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(take(state, kPolicy, kStart).allowed);
  }
  EXPECT_FALSE(take(state, kPolicy, kStart + 1s - 1ns).allowed);
  EXPECT_TRUE(take(state, kPolicy, kStart + 1s).allowed);
  EXPECT_FALSE(take(state, kPolicy, kStart + 1s).allowed);
}

TEST(RateLimit, RetryAfterIsInWholeSecondsAndEnough) {
  const RatePolicy slow{.per_minute = 7, .burst = 1};  // One in 8.571 s.
  RateState state;
  ASSERT_TRUE(take(state, slow, kStart).allowed);
  for (const auto waited : {0ms, 1ms, 570ms, 571ms, 572ms, 4000ms, 8571ms}) {
    const auto refused = take(state, slow, kStart + waited);
    ASSERT_FALSE(refused.allowed);
    EXPECT_GE(refused.retry_after, 1s);
    RateState copy = state;
    EXPECT_TRUE(take(copy, slow, kStart + waited + refused.retry_after).allowed);
    EXPECT_FALSE(peek(state, slow, kStart + waited + refused.retry_after - 1s).allowed);
  }
}

TEST(RateLimit, ARefusedRequestCostsNothing) {
  RateState state;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(take(state, kPolicy, kStart).allowed);
  }
  const RateState before = state;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(take(state, kPolicy, kStart + 500ms).allowed);
  }
  EXPECT_EQ(state.full_at, before.full_at);
}

TEST(RateLimit, TheBucketRefillsToTheBurstAndNoFurther) {
  RateState state;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(take(state, kPolicy, kStart).allowed);
  }
  EXPECT_EQ(peek(state, kPolicy, kStart + 1999ms).remaining, 1);
  EXPECT_EQ(peek(state, kPolicy, kStart + 2s).remaining, 2);
  // A year of silence still gives three, whatever the clock did meanwhile.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(take(state, kPolicy, kStart + 8760h).allowed);
  }
  EXPECT_FALSE(take(state, kPolicy, kStart + 8760h).allowed);
}

// Not until all of it is back: at one a second a client with none left need not wait for a hundred.
TEST(RateLimit, MoreIsThereBeforeAllOfIt) {
  const RatePolicy policy{.per_minute = 30, .burst = 3};  // One in two seconds.
  RateState state;
  EXPECT_EQ(peek(state, policy, kStart).more_after, 0s) << "there cannot be more than the burst";
  const auto first = take(state, policy, kStart);
  EXPECT_EQ(first.more_after, 2s);
  EXPECT_EQ(first.reset_after, 2s);
  ASSERT_TRUE(take(state, policy, kStart).allowed);
  const auto third = take(state, policy, kStart + 500ms);
  EXPECT_EQ(third.remaining, 0);
  EXPECT_EQ(third.more_after, 2s) << "1.5 s, rounded up";
  EXPECT_EQ(third.reset_after, 6s);
  const auto refused = take(state, policy, kStart + 1s);
  ASSERT_FALSE(refused.allowed);
  EXPECT_EQ(refused.more_after, 1s);
  EXPECT_EQ(refused.more_after, refused.retry_after);
  // What it says is so, at every moment.
  for (auto now = kStart + 1s; now < kStart + 7s; now += 100ms) {
    const auto before = peek(state, policy, now);
    const int more = peek(state, policy, now + before.more_after).remaining;
    EXPECT_EQ(more > before.remaining, before.remaining < policy.burst);
  }
}

TEST(RateLimit, PeekingDoesNotCount) {
  RateState state;
  for (int i = 0; i < 10; ++i) {
    const auto decision = peek(state, kPolicy, kStart);
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.remaining, 3);
    EXPECT_EQ(decision.reset_after, 0s);
  }
}

TEST(RateLimit, TheAverageHolds) {
  const RatePolicy create{.per_minute = 600, .burst = 100};
  RateState state;
  int allowed = 0;
  for (auto now = kStart; now < kStart + 10min; now += 7ms) {
    allowed += take(state, create, now).allowed ? 1 : 0;
  }
  // Ten minutes' worth and the burst once.
  EXPECT_GE(allowed, 6099);
  EXPECT_LE(allowed, 6100);
}

TEST(RateLimit, WhatIsSlowIsSoInAnyDay) {
  constexpr SlowPolicy policy{.burst = 3, .interval = 12h};
  RateState state;
  std::vector<TimePoint> taken;
  for (auto now = kStart; now < kStart + 10 * 24h; now += 10min) {
    if (take(state, policy, now).allowed) {
      taken.push_back(now);
    }
  }
  EXPECT_EQ(taken.size(), 3U + 19U);
  for (const TimePoint from : taken) {
    EXPECT_LE(std::count_if(taken.begin(),
                            taken.end(),
                            [&](TimePoint at) { return at >= from && at < from + 24h; }),
              5);
  }
  RateState other;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(take(other, policy, kStart).allowed);
  }
  EXPECT_FALSE(peek(other, policy, kStart).allowed);
  EXPECT_EQ(take(other, policy, kStart).retry_after, 12h);
  give_back(other, policy);
  EXPECT_TRUE(peek(other, policy, kStart).allowed);
  EXPECT_TRUE(take(other, policy, kStart).allowed);
  EXPECT_FALSE(take(other, policy, kStart).allowed) << "peeking counts nothing";
}

// It was forgotten between the two: the name would be refused for ever.
TEST(RateLimit, OfOneThatWasNeverUsedNothingIsTakenBack) {
  constexpr RatePolicy kTwo{.per_minute = 1, .burst = 2};
  RateState state;
  give_back(state, kTwo);
  give_back(state, SlowPolicy{});
  EXPECT_TRUE(take(state, kTwo, kStart).allowed);
  EXPECT_TRUE(take(state, kTwo, kStart).allowed);
  EXPECT_FALSE(take(state, kTwo, kStart).allowed);
}

TEST(RateLimit, TheLargestPoliciesDoNotOverflow) {
  RateState state;
  const RatePolicy slow{.per_minute = 1, .burst = 10'000'000};
  EXPECT_EQ(take(state, slow, kStart).remaining, 9'999'999);
  RateState other;
  const RatePolicy fast{.per_minute = 10'000'000, .burst = 10'000'000};
  EXPECT_EQ(take(other, fast, kStart).remaining, 9'999'999);
}

TEST(RateLimit, ASmallerPolicyNeverShowsLessThanNothing) {
  RateState state;
  const RatePolicy large{.per_minute = 60, .burst = 10};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(take(state, large, kStart).allowed);
  }
  EXPECT_EQ(peek(state, kPolicy, kStart).remaining, 0);
  EXPECT_EQ(peek(state, kPolicy, kStart).retry_after, 8s);
}

}  // namespace
}  // namespace audiogen
