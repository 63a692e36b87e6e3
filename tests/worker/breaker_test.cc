#include "worker/chain/breaker.h"

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using std::chrono::seconds;

class BreakerTest : public testing::Test {
 protected:
  void record(int count, bool success) {
    for (int i = 0; i < count; ++i) {
      breaker_.record(success, now_);
    }
  }

  Breaker breaker_{
      {.window = seconds(30), .calls_min = 10, .failures_max = 0.5, .open_for = seconds(15)}};
  Breaker::Time now_{seconds(1'000'000)};
};

TEST_F(BreakerTest, OpensAfterThreeInARowWhereFewCallsAreMade) {
  record(2, false);
  record(1, true);
  record(2, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  // One a minute, so that the window never holds more than one.
  now_ += seconds(60);
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
  EXPECT_FALSE(breaker_.allow(now_));
}

TEST_F(BreakerTest, AFewInARowAmongManyAreChance) {
  record(10, true);
  record(4, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

// Failures are known at once, good audio takes its time: they come first of what began together.
TEST_F(BreakerTest, TheFirstAnswersOfABurstAreNotAllThereIs) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
  }
  record(5, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  record(7, true);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

// Their ends were counted, and their beginnings were not: many calls under way looked like few.
TEST_F(BreakerTest, CallsThatAreResumedAreUnderWayToo) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
  }
  for (int i = 0; i < 12; ++i) {
    breaker_.resume();
    breaker_.said_nothing(now_);
  }
  record(3, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

// Each call of many times out after minutes, one now and one then: the window never holds enough of
// them for a share, and there are never few under way.
TEST_F(BreakerTest, OpensWhereManySlowCallsAllFail) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
  }
  for (int i = 0; i < 9; ++i) {
    now_ += seconds(25);
    record(1, false);
    ASSERT_EQ(breaker_.state(now_), Breaker::State::kClosed) << i;
    ASSERT_TRUE(breaker_.allow(now_));
  }
  now_ += seconds(25);
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

TEST_F(BreakerTest, ManySlowCallsOfWhichOneSucceedsKeepItClosed) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
  }
  for (int i = 0; i < 18; ++i) {
    now_ += seconds(25);
    record(1, i == 9);
    ASSERT_EQ(breaker_.state(now_), Breaker::State::kClosed) << i;
    ASSERT_TRUE(breaker_.allow(now_));
  }
}

TEST_F(BreakerTest, OneThatIsBusyForAMomentIsNotLeftAlone) {
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kPassing, now_);
  }
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

TEST_F(BreakerTest, OneThatThrottlesUsIsLeftAloneWhenItLetsNobodyThrough) {
  const auto refuse = [this](std::uint64_t task) {
    ASSERT_TRUE(breaker_.allow(now_));
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kThrottled, now_, task);
    now_ += seconds(10);  // So that they are few in any window.
  };
  for (std::uint64_t task = 0; task < 9; ++task) {
    refuse(task);
    ASSERT_EQ(breaker_.state(now_), Breaker::State::kClosed) << task;
  }
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(true, now_);
  for (std::uint64_t task = 0; task < 9; ++task) {
    refuse(task);
    ASSERT_EQ(breaker_.state(now_), Breaker::State::kClosed) << task;
  }
  refuse(9);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

// An account that has room for five turned away what came beside them, and was left by all.
TEST_F(BreakerTest, ThrottlesAreNoFailuresAmongMany) {
  for (std::uint64_t task = 0; task < 40; ++task) {
    ASSERT_TRUE(breaker_.allow(now_)) << task;
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kThrottled, now_, task);
    if (task % 9 == 8) {
      ASSERT_TRUE(breaker_.allow(now_)) << task;
      breaker_.record(true, now_);
    }
  }
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  record(8, true);
  for (std::uint64_t task = 50; task < 60; ++task) {
    ASSERT_TRUE(breaker_.allow(now_)) << task;
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kThrottled, now_, task);
  }
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen)
      << "ten in a row, after many that went well";
}

// It has answered, so it works; whoever else calls it may just have its places.
TEST_F(BreakerTest, AProbeThatIsThrottledIsMadeAgainSoon) {
  record(3, false);
  now_ += seconds(15);
  for (std::uint64_t task = 0; task < 3; ++task) {
    ASSERT_TRUE(breaker_.allow(now_)) << task;
    EXPECT_FALSE(breaker_.allow(now_)) << "one at a time";
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kThrottled, now_, task);
    EXPECT_EQ(breaker_.state(now_), Breaker::State::kHalfOpen);
    EXPECT_FALSE(breaker_.allow(now_)) << "all that wait would ask";
    now_ += seconds(2);
  }
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(true, now_);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

// Each that waited for it asked once, one after the other.
TEST_F(BreakerTest, AProbeThatComesAgainLaterKeepsTheOthersBackUntilThen) {
  record(3, false);
  now_ += seconds(15);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.said_later(now_);
  EXPECT_FALSE(breaker_.allow(now_));
  now_ += seconds(2);
  EXPECT_TRUE(breaker_.allow(now_));
  breaker_.record(true, now_);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.said_later(now_);
  EXPECT_TRUE(breaker_.allow(now_)) << "it is trusted, so it may say so";
}

// Its retries were taken for as many failures of the provider, and others were kept from it.
TEST_F(BreakerTest, OneTaskThatFailsAgainAndAgainIsOneFailure) {
  const auto fail = [this](std::uint64_t task, Breaker::Failure how = Breaker::Failure::kUsual) {
    ASSERT_TRUE(breaker_.allow(now_));
    breaker_.answered(now_);
    breaker_.proved(how, now_, task);
  };
  for (int i = 0; i < 30; ++i) {
    fail(7);
    fail(7, Breaker::Failure::kPassing);
    fail(8);
    EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed) << i;
  }
  fail(9);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen) << "the third in a row";
}

// What had failed elsewhere first counted no more when it came here first.
TEST_F(BreakerTest, WhatFailedInPassingCountsInARowWhenItDoes) {
  const auto fail = [this](std::uint64_t task, Breaker::Failure how) {
    ASSERT_TRUE(breaker_.allow(now_));
    breaker_.answered(now_);
    breaker_.proved(how, now_, task);
  };
  for (const std::uint64_t task : {7U, 8U, 9U}) {
    fail(task, Breaker::Failure::kPassing);
  }
  for (const std::uint64_t task : {7U, 8U, 7U, 8U}) {
    fail(task, Breaker::Failure::kUsual);
    EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  }
  fail(9, Breaker::Failure::kUsual);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

TEST_F(BreakerTest, WhatHasFailedBeforeASuccessCountsAgain) {
  const auto fail = [this](std::uint64_t task) {
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kUsual, now_, task);
  };
  fail(7);
  fail(8);
  record(1, true);
  fail(7);
  fail(8);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  fail(9);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

TEST_F(BreakerTest, WhatOnlyAPersonCanMendHasNothingToDoWithTheTask) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(breaker_.allow(now_));
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kLasting, now_, 7);
  }
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

// A key that was refused is refused again in 15 s.
TEST_F(BreakerTest, StaysOpenForLongWhenOnlyAPersonCanMendIt) {
  for (int i = 0; i < 3; ++i) {
    breaker_.answered(now_);
    breaker_.proved(Breaker::Failure::kLasting, now_);
  }
  now_ += seconds(299);
  EXPECT_FALSE(breaker_.allow(now_));
  now_ += seconds(1);
  EXPECT_TRUE(breaker_.allow(now_));
  breaker_.answered(now_);
  breaker_.proved(Breaker::Failure::kUsual, now_);
  now_ += seconds(15);
  EXPECT_TRUE(breaker_.allow(now_)) << "it is of another kind now";
}

TEST_F(BreakerTest, OpensWhenMoreThanTheShareFails) {
  record(10, true);
  record(10, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
  EXPECT_FALSE(breaker_.allow(now_));
}

TEST_F(BreakerTest, ForgetsWhatIsOlderThanTheWindow) {
  for (int i = 0; i < 3; ++i) {  // Never three in a row.
    record(2, false);
    record(1, true);
  }
  now_ += seconds(31);
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

TEST_F(BreakerTest, LetsOneProbeThroughAndClosesWhenItSucceeds) {
  record(10, false);
  now_ += seconds(14);
  EXPECT_FALSE(breaker_.allow(now_));
  now_ += seconds(1);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kHalfOpen);
  EXPECT_TRUE(breaker_.allow(now_));
  EXPECT_FALSE(breaker_.allow(now_)) << "one probe at a time";
  breaker_.record(true, now_);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  EXPECT_TRUE(breaker_.allow(now_));
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed) << "the past is forgotten";
}

TEST_F(BreakerTest, AFailedProbeOpensItAgain) {
  record(10, false);
  now_ += seconds(15);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(false, now_);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
  now_ += seconds(14);
  EXPECT_FALSE(breaker_.allow(now_));
  now_ += seconds(1);
  EXPECT_TRUE(breaker_.allow(now_));
}

TEST_F(BreakerTest, TellsSinceWhenItIsInTrouble) {
  EXPECT_FALSE(breaker_.troubled_since());
  record(10, false);
  const auto since = now_;
  EXPECT_EQ(breaker_.troubled_since(), since);
  now_ += seconds(20);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(false, now_);
  EXPECT_EQ(breaker_.troubled_since(), since) << "it has not been closed meanwhile";
  now_ += seconds(20);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(true, now_);
  EXPECT_FALSE(breaker_.troubled_since());
}

TEST_F(BreakerTest, TellsHowLongItLetsNothingThrough) {
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(0));
  record(10, false);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(15));
  now_ += seconds(14);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(1));
  now_ += seconds(2);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(0)) << "for the probe";
  ASSERT_TRUE(breaker_.allow(now_));
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(15)) << "it is under way";
  now_ += seconds(16);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(0)) << "another";
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.record(true, now_);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(0));
}

TEST_F(BreakerTest, AProbeThatSaysNothingIsRepeatedAtOnceAndClosesNothing) {
  record(10, false);
  breaker_.said_nothing(now_);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
  now_ += seconds(15);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.said_nothing(now_);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kHalfOpen);
  EXPECT_TRUE(breaker_.allow(now_));
  EXPECT_FALSE(breaker_.allow(now_)) << "one probe at a time";
}

TEST_F(BreakerTest, AProbeWithoutAnAnswerIsRepeatedLater) {
  record(10, false);
  now_ += seconds(15);
  ASSERT_TRUE(breaker_.allow(now_));
  now_ += seconds(15);
  EXPECT_TRUE(breaker_.allow(now_));
}

TEST_F(BreakerTest, LateFailuresOfOldCallsDoNotProlongIt) {
  record(10, false);
  now_ += seconds(10);
  record(5, false);
  now_ += seconds(5);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kHalfOpen);
}

// A burst on a busy worker: failures are known at once, good audio only when it has been through
// the codecs.
TEST_F(BreakerTest, AnswersCountBeforeTheyAreProved) {
  for (int i = 0; i < 30; ++i) {
    breaker_.answered(now_);
  }
  record(15, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  for (int i = 0; i < 30; ++i) {
    breaker_.proved(Breaker::Failure::kNone, now_);
  }
  record(15, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed) << "no call counts twice";
  record(1, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

TEST_F(BreakerTest, AnswersThatProveBadOpenItEvenLate) {
  for (int i = 0; i < 10; ++i) {
    breaker_.answered(now_);
  }
  now_ += seconds(31);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
    breaker_.proved(Breaker::Failure::kUsual, now_);
  }
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
}

TEST_F(BreakerTest, AnAnswerAloneClosesNothing) {
  record(10, false);
  now_ += seconds(15);
  ASSERT_TRUE(breaker_.allow(now_));
  breaker_.answered(now_);
  EXPECT_FALSE(breaker_.allow(now_));
  breaker_.proved(Breaker::Failure::kNone, now_);
  EXPECT_TRUE(breaker_.allow(now_));
}

TEST_F(BreakerTest, HeldOpenItLetsNobodyThroughUntilItsEnd) {
  breaker_.set_override(Breaker::Override{.open = true, .until = now_ + seconds(40)});
  EXPECT_FALSE(breaker_.allow(now_));
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen);
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(15)) << "looked at again: it may be let go";
  now_ += seconds(39);
  record(10, true);  // Of calls from before.
  EXPECT_FALSE(breaker_.allow(now_));
  EXPECT_EQ(breaker_.closed_to_calls(now_), seconds(1));
  now_ += seconds(1);
  EXPECT_TRUE(breaker_.allow(now_));
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
}

TEST_F(BreakerTest, HeldClosedItLetsAllThroughAndGoesOnCounting) {
  breaker_.set_override(Breaker::Override{.open = false, .until = now_ + seconds(40)});
  record(50, false);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(breaker_.allow(now_)) << "and none of them is a probe";
  }
  breaker_.set_override(std::nullopt);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kOpen) << "as it would have been";
  EXPECT_FALSE(breaker_.allow(now_));
}

TEST_F(BreakerTest, OneThatWasOpenIsHeldClosed) {
  record(10, false);
  EXPECT_FALSE(breaker_.allow(now_));
  breaker_.set_override(Breaker::Override{.open = false, .until = now_ + seconds(40)});
  EXPECT_TRUE(breaker_.allow(now_));
  now_ += seconds(16);
  breaker_.record(true, now_);
  breaker_.set_override(std::nullopt);
  EXPECT_EQ(breaker_.state(now_), Breaker::State::kClosed) << "it works again";
}

}  // namespace
}  // namespace audiogen::worker
