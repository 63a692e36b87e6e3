// Which steps of which clock keep what from being decided, and for how long.
#include "common/domain/clock_trust.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Verdict = DeletionTrust::Verdict;

// A look of `took` that began `after` the first one, the clocks set forward by so much.
ClockLook look(microseconds after,
               microseconds database = microseconds(0),
               microseconds local = microseconds(0),
               microseconds took = microseconds(0)) {
  const Instant begin(std::chrono::sys_days(std::chrono::year(2026) / 11 / 20));
  const ClockLook::Steady boot(hours(1000));
  return {.database = begin + after + took / 2 + database,
          .asked = boot + after,
          .answered = boot + after + took,
          .local = begin + after + local};
}

TEST(ClockSteps, AreWhatTheSteadyClockDoesNotExplain) {
  EXPECT_EQ(step_of_database(look(seconds(0)), look(hours(5))), seconds(0));
  EXPECT_EQ(step_of_database(look(seconds(0)), look(seconds(1), seconds(240))), seconds(240));
  EXPECT_EQ(step_of_database(look(seconds(0), seconds(240)), look(seconds(1))), seconds(-240));
  EXPECT_EQ(step_of_local(look(seconds(0)), look(seconds(1), seconds(0), seconds(-7))),
            seconds(-7));
  EXPECT_EQ(step_of_local(look(seconds(0)), look(hours(1), seconds(7))), seconds(0));
}

// The answer of a slow database is old when it comes: that is no step.
TEST(ClockSteps, ASlowLookIsNone) {
  const auto slow = look(seconds(1), seconds(0), seconds(0), seconds(60));
  EXPECT_EQ(step_of_database(look(seconds(0)), slow), seconds(0));
  EXPECT_EQ(step_of_database(slow, look(seconds(62))), seconds(0));
  EXPECT_EQ(ahead_of_local(slow), seconds(0));
  EXPECT_EQ(ahead_of_local(look(seconds(1), seconds(40), seconds(0), seconds(60))), seconds(10));
}

TEST(ClockWatch, SaysHowFarTheClockWasSet) {
  ClockWatch watch;
  EXPECT_FALSE(watch.look(look(seconds(0))));
  EXPECT_FALSE(watch.look(look(seconds(1))));
  EXPECT_EQ(watch.look(look(seconds(2), seconds(-240))), seconds(-240));
  EXPECT_FALSE(watch.look(look(seconds(3), seconds(-240)))) << "once";
  EXPECT_EQ(watch.look(look(seconds(4))), seconds(240));
  EXPECT_FALSE(watch.look(look(seconds(5), kClockStep)));
  EXPECT_FALSE(watch.look(look(seconds(6)))) << "as clocks are kept right";
}

TEST(ClockWatch, SaysForALeaseThatTheDatabaseWasAway) {
  ClockWatch watch;
  const auto at = [](seconds after) { return look(after).asked; };
  watch.look(look(seconds(0)));
  EXPECT_FALSE(watch.was_away(at(seconds(0)))) << "nobody has looked before";
  watch.look(look(kLeaseRenew));
  EXPECT_FALSE(watch.was_away(at(kLeaseRenew))) << "a renewal was possible";
  watch.look(look(seconds(60)));
  EXPECT_TRUE(watch.was_away(at(seconds(60))));
  watch.look(look(seconds(65)));
  EXPECT_TRUE(watch.was_away(at(seconds(60) + kLease - seconds(1))));
  EXPECT_FALSE(watch.was_away(at(seconds(60) + kLease)));
}

// A step forward, and one back by less, look like one step forward to whoever slept through both.
TEST(ClockWatch, SaysWhenTwoStepsMayHaveBeenMissed) {
  ClockWatch watch;
  watch.look(look(seconds(0)));
  EXPECT_TRUE(watch.missed()) << "nobody has looked before";
  watch.look(look(kLeaseRenew));
  EXPECT_FALSE(watch.missed());
  EXPECT_EQ(watch.look(look(seconds(60), hours(1))), hours(1));
  EXPECT_TRUE(watch.missed());
  watch.look(look(seconds(61), hours(1)));
  EXPECT_FALSE(watch.missed()) << "once";
}

TEST(ClockWatch, AfterAStepForwardNothingIsJudgedForALease) {
  ClockWatch watch;
  EXPECT_FALSE(watch.look(look(seconds(0))));
  EXPECT_TRUE(watch.may_judge(look(seconds(0)).asked));
  EXPECT_EQ(watch.look(look(seconds(1), hours(1))), hours(1));
  EXPECT_FALSE(watch.may_judge(look(seconds(1)).asked));
  EXPECT_FALSE(watch.look(look(seconds(2), hours(1))));
  EXPECT_FALSE(watch.may_judge(look(seconds(1) + kLease).asked - microseconds(1)));
  EXPECT_TRUE(watch.may_judge(look(seconds(1) + kLease).asked));
}

// Then leases seem to last longer, and none seems to be over that is not.
TEST(ClockWatch, AfterAStepBackThereIsNothingToWaitFor) {
  ClockWatch watch;
  EXPECT_FALSE(watch.look(look(seconds(0))));
  EXPECT_TRUE(watch.look(look(seconds(1), hours(-1))));
  EXPECT_TRUE(watch.may_judge(look(seconds(1)).answered));
}

// A worker that was just started has nothing else to compare with.
TEST(ClockWatch, TheFirstLookComparesWithThisMachine) {
  ClockWatch fine, wrong;
  EXPECT_FALSE(fine.look(look(seconds(0), kClockStep)));
  EXPECT_EQ(wrong.look(look(seconds(0), hours(1))), hours(1));
  EXPECT_FALSE(wrong.may_judge(look(seconds(29)).asked));
  EXPECT_FALSE(wrong.look(look(seconds(30), hours(1)))) << "it does not jump, it is off";
  EXPECT_TRUE(wrong.may_judge(look(seconds(30)).asked));
}

// It may have been further behind, and have gone forward, when nobody looked.
TEST(ClockWatch, AClockThatIsBehindAtTheFirstLookIsNotBelievedEither) {
  ClockWatch wrong;
  EXPECT_EQ(wrong.look(look(seconds(0), hours(-1))), hours(-1));
  EXPECT_FALSE(wrong.may_judge(look(seconds(29)).asked));
  EXPECT_TRUE(wrong.may_judge(look(seconds(30)).asked));
}

// Forward over the leases that were made while it was behind, and back by as much before.
TEST(ClockWatch, WhoHasNotLookedForLongComparesWithThisMachineToo) {
  ClockWatch frozen, fine;
  EXPECT_TRUE(frozen.look(look(seconds(0), hours(-1))));
  EXPECT_FALSE(frozen.look(look(kLeaseRenew, hours(-1)))) << "it does not jump, it is off";
  EXPECT_EQ(frozen.look(look(seconds(90), hours(-1))), hours(-1));
  EXPECT_FALSE(frozen.may_judge(look(seconds(90)).answered));
  const auto then = look(seconds(90) + kLease).answered;
  EXPECT_TRUE(frozen.may_judge(then));
  EXPECT_TRUE(frozen.was_away(then)) << "what lost its lease meanwhile ended nobody";
  // Always late, because the database is slow: in the end it judges.
  EXPECT_FALSE(frozen.look(look(seconds(105), hours(-1))));
  EXPECT_FALSE(frozen.look(look(seconds(121), hours(-1))));
  EXPECT_TRUE(frozen.may_judge(look(seconds(121)).answered));
  EXPECT_FALSE(fine.look(look(seconds(0))));
  EXPECT_FALSE(fine.look(look(seconds(90))));
  EXPECT_TRUE(fine.may_judge(look(seconds(90)).answered));
}

TEST(ClockWatch, WhatALookMayHideIsNotJudged) {
  const ClockLook quick = look(seconds(0));
  EXPECT_EQ(ClockWatch::judged_by(quick), quick.database);
  const ClockLook slow = look(seconds(0), seconds(0), seconds(0), seconds(40));
  EXPECT_EQ(ClockWatch::judged_by(slow), slow.database - seconds(40));
}

TEST(DeletionTrust, ClocksThatAgreeAreBelieved) {
  DeletionTrust trust;
  EXPECT_EQ(trust.look(look(seconds(0))), Verdict::kTrusted);
  EXPECT_EQ(trust.look(look(minutes(10), minutes(1))), Verdict::kTrusted);
  EXPECT_EQ(trust.look(look(minutes(20))), Verdict::kTrusted);
}

TEST(DeletionTrust, ClocksThatDifferAreNot) {
  for (const auto off : {microseconds(days(40)),
                         -microseconds(days(40)),
                         microseconds(minutes(1)) + microseconds(1)}) {
    DeletionTrust database, local;
    EXPECT_EQ(database.look(look(seconds(0), off)), Verdict::kDisagree);
    EXPECT_EQ(local.look(look(seconds(0), seconds(0), off)), Verdict::kDisagree);
    EXPECT_EQ(database.look(look(minutes(10), off)), Verdict::kDisagree) << "however long";
  }
}

// On one machine both jump together, and agree.
TEST(DeletionTrust, AJumpOfBothIsRememberedForADay) {
  DeletionTrust trust;
  const days off(40);
  EXPECT_EQ(trust.look(look(seconds(0))), Verdict::kTrusted);
  EXPECT_EQ(trust.look(look(minutes(10), off, off)), Verdict::kJumped);
  EXPECT_EQ(trust.look(look(hours(24), off, off)), Verdict::kJumped);
  EXPECT_EQ(trust.look(look(minutes(10) + hours(24), off, off)), Verdict::kTrusted);
}

TEST(DeletionTrust, AndSoIsTheWayBack) {
  DeletionTrust trust;
  EXPECT_EQ(trust.look(look(seconds(0))), Verdict::kTrusted);
  EXPECT_EQ(trust.look(look(minutes(10), days(40))), Verdict::kDisagree);
  EXPECT_EQ(trust.look(look(minutes(20))), Verdict::kJumped) << "who knows which was right";
  EXPECT_EQ(trust.look(look(minutes(30))), Verdict::kJumped);
  EXPECT_EQ(trust.look(look(minutes(20) + hours(24))), Verdict::kTrusted);
}

}  // namespace
}  // namespace audiogen
