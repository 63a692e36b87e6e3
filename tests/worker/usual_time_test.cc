#include "worker/chain/usual_time.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;

UsualTime after(int count, std::chrono::milliseconds time) {
  UsualTime out;
  for (int i = 0; i < count; ++i) {
    out.add(time);
  }
  return out;
}

// Where few are called each may be paid and cut off before five are known.
TEST(UsualTime, TheFirstCallTellsWhatTheNextOneNeeds) {
  EXPECT_EQ(UsualTime().needed(), std::nullopt);
  EXPECT_TRUE(UsualTime().fits({.left = 1ms, .whole = 900s}));
  UsualTime usual = after(1, 10s);
  EXPECT_EQ(usual.usual(), 10s);
  EXPECT_FALSE(usual.fits({.left = 10s, .whole = 30s}));
  usual.add(4s);
  EXPECT_EQ(usual.usual(), 10s) << "of so few the longest";
}

TEST(UsualTime, TheMeanIsOfTheCallsThatAreKept) {
  EXPECT_EQ(UsualTime().mean(), std::nullopt);
  UsualTime usual = after(1, 10s);
  EXPECT_EQ(usual.mean(), 10s);
  usual.add(2s);
  EXPECT_EQ(usual.mean(), 6s);
  for (int i = 0; i < 64; ++i) {
    usual.add(3s);
  }
  EXPECT_EQ(usual.mean(), 3s);
}

TEST(UsualTime, ACallNeedsAQuarterMoreAndWhatFollowsIt) {
  EXPECT_EQ(after(5, 4s).needed(), 6s);
  EXPECT_EQ(after(1000, 4s).needed(), 6s);
}

TEST(UsualTime, OneInTwentyMayTakeLonger) {
  UsualTime usual = after(60, 4s);
  usual.add(100s);
  usual.add(100s);
  usual.add(100s);
  EXPECT_EQ(usual.usual(), 4s);
  usual.add(50s);
  EXPECT_EQ(usual.usual(), 50s);
}

TEST(UsualTime, OldCallsAreForgotten) {
  UsualTime usual = after(64, 60s);
  for (int i = 0; i < 60; ++i) {
    usual.add(2s);
  }
  EXPECT_EQ(usual.usual(), 60s);
  usual.add(2s);
  EXPECT_EQ(usual.usual(), 2s);
}

TEST(UsualTime, FitsIntoWhatIsLeft) {
  const UsualTime usual = after(10, 4s);
  EXPECT_TRUE(usual.fits({.left = 6s, .whole = 60s}));
  EXPECT_FALSE(usual.fits({.left = 5999ms, .whole = 60s}));
  EXPECT_FALSE(usual.fits({.left = 0s, .whole = 60s}));
  EXPECT_FALSE(UsualTime().fits({.left = 0s, .whole = 60s}));
  EXPECT_FALSE(UsualTime().fits({.left = -1s, .whole = 60s}));
}

// A provider that was slow for a while must be asked again some time, or nobody learns better.
TEST(UsualTime, NothingKeepsATaskAwayThatHasHalfOfItsTime) {
  const UsualTime usual = after(64, 100s);
  EXPECT_TRUE(usual.fits({.left = 30s, .whole = 60s}));
  EXPECT_FALSE(usual.fits({.left = 29s, .whole = 60s}));
}

// Cut off after all that a task had left, the next ones are given more, until one succeeds.
TEST(UsualTime, AProviderThatHasBecomeSlowerIsGivenMoreTime) {
  constexpr auto kNow = 20s;
  UsualTime usual = after(64, 5s);
  int cuts = 0;
  for (auto left = *usual.needed(); left < kNow; left = *usual.needed(), ++cuts) {
    usual.add(left);
    ASSERT_LT(cuts, 30);
  }
  EXPECT_TRUE(usual.fits({.left = 60s, .whole = 900s}));
}

}  // namespace
}  // namespace audiogen
