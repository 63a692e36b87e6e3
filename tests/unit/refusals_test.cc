// The window over creations that were answered and refused: a minute, whatever the looks are like.
#include "common/domain/refusals.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;

class RefusalsTest : public testing::Test {
 protected:
  CreationCount look(std::chrono::seconds after, std::uint64_t answered, std::uint64_t refused) {
    return refusals_.look(began_ + after, {.answered = answered, .refused = refused});
  }

 private:
  const Refusals::Clock::time_point began_ = Refusals::Clock::now();
  Refusals refusals_;
};

TEST_F(RefusalsTest, CountsFromTheBeginningUntilAMinuteIsKnown) {
  EXPECT_EQ(look(0s, 5, 1).answered, 5U);
  EXPECT_EQ(look(59s, 9, 3).answered, 9U);
  EXPECT_EQ(look(59s, 9, 3).refused, 3U);
}

TEST_F(RefusalsTest, ForgetsWhatIsOlderThanAMinute) {
  look(0s, 100, 50);
  for (int s = 2; s <= 60; s += 2) {
    look(std::chrono::seconds(s), 100, 50);
  }
  const CreationCount quiet = look(62s, 100, 50);
  EXPECT_EQ(quiet.answered, 0U);
  EXPECT_EQ(quiet.refused_share(), 0);
  const CreationCount again = look(64s, 104, 51);
  EXPECT_EQ(again.answered, 4U);
  EXPECT_EQ(again.refused_share(), 0.25);
}

// A process that was stopped for an hour: its one look before that is what there is.
TEST_F(RefusalsTest, AfterAPauseCountsSinceTheLastLook) {
  look(0s, 10, 0);
  look(2s, 20, 0);
  EXPECT_EQ(look(3600s, 30, 10).answered, 10U);
}

// The counts are read one after the other, and between them another thread refuses.
TEST_F(RefusalsTest, NoMoreWereRefusedThanAnswered) {
  EXPECT_EQ(look(0s, 1, 2).refused_share(), 1);
}

// What an operator has paused is taken off, and is counted a moment before it is answered.
TEST_F(RefusalsTest, ACountThatGoesBackForAMomentIsNone) {
  look(0s, 10, 3);
  look(62s, 10, 3);
  EXPECT_EQ(look(124s, 9, 2).answered, 0U);
  EXPECT_EQ(look(126s, 12, 2).refused, 0U);
}

// However often it is asked, it keeps a minute of looks at most.
TEST_F(RefusalsTest, LooksThatComeTogetherAreOne) {
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    look(0s, i, 0);
  }
  look(61s, 200'000, 0);
  EXPECT_EQ(look(62s, 200'000, 0).answered, 200'000U) << "since the first look, of none";
}

}  // namespace
}  // namespace audiogen
