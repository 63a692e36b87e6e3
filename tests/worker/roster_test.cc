// Places: who takes one, who waits without, and that none is lost or given twice.
#include "worker/job/roster.h"

#include <gtest/gtest.h>

#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

class RosterTest : public testing::Test {
 protected:
  JobPtr enter(TaskId task = TaskId::make()) {
    EXPECT_EQ(reserve(1), 1U);
    JobPtr one = idle_job(task);
    roster_.enter(one, Lane::kBulk);
    return one;
  }

  // Up to `most` places; the number.
  std::size_t reserve(std::size_t most, std::size_t spoken_for = 0, std::size_t callable = kMany) {
    std::size_t count = 0;
    while (count < most && roster_.reserve(Lane::kBulk, callable, spoken_for)) {
      ++count;
    }
    return count;
  }
  std::size_t free(std::size_t callable = kMany) { return roster_.room(callable).bulk; }

  int freed_ = 0;
  Roster roster_{3, [this] { ++freed_; }};
};

TEST_F(RosterTest, ReservesNoMoreThanThereIs) {
  EXPECT_EQ(reserve(2), 2U);
  EXPECT_EQ(reserve(2), 1U);
  EXPECT_EQ(reserve(1), 0U);
  roster_.unreserve(Lane::kBulk);
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(reserve(5, 1), 0U) << "the free one is spoken for";
  EXPECT_EQ(reserve(5), 1U);
}

TEST_F(RosterTest, AJobHasThePlaceOfItsReservation) {
  const JobPtr one = enter();
  EXPECT_EQ(roster_.size(), 1U);
  EXPECT_EQ(reserve(9), 2U);
  roster_.leave(one);
  EXPECT_EQ(freed_, 1);
  roster_.leave(one);
  EXPECT_EQ(freed_, 1) << "it had left";
  EXPECT_EQ(reserve(9), 1U);
}

TEST_F(RosterTest, NoMoreAreAskedForThanSomebodyCanBeCalledFor) {
  EXPECT_EQ(reserve(9, 0, 0), 0U);
  EXPECT_EQ(reserve(9, 0, 2), 2U);
  EXPECT_EQ(reserve(9, 0, 2), 0U) << "two are asked for";
  const JobPtr one = idle_job();
  roster_.enter(one, Lane::kBulk);
  EXPECT_EQ(free(2), 0U) << "nobody has been called for it";
  roster_.begin(one);
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(free(2), 1U);
  EXPECT_EQ(reserve(1, 1, 2), 0U);
  roster_.begin(one);
  EXPECT_EQ(freed_, 1) << "it had begun";
  roster_.unreserve(Lane::kBulk);
  EXPECT_EQ(free(1), 1U);
  roster_.leave(one);
  EXPECT_EQ(free(1), 1U) << "counted once";
}

// Else whoever dawdles with a file would keep everybody's tasks away.
TEST_F(RosterTest, WhoWaitsForReferencesKeepsNobodyFromBeingCalledFor) {
  EXPECT_EQ(reserve(1, 0, 1), 1U);
  const JobPtr one = idle_job();
  roster_.enter(one, Lane::kBulk);
  EXPECT_EQ(free(1), 0U);
  roster_.go_out(one);
  EXPECT_EQ(free(1), 1U);
  roster_.come_in(one);
  roster_.begin(one);
  EXPECT_EQ(free(1), 1U);
  roster_.leave(one);
  EXPECT_EQ(free(9), 3U);
}

TEST_F(RosterTest, WhoWaitsForReferencesTakesNobodysPlace) {
  const JobPtr one = enter();
  roster_.go_out(one);
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(reserve(9), 3U);
  roster_.come_in(one);
  EXPECT_EQ(roster_.size(), 1U) << "four for three places, for a while";
  roster_.unreserve(Lane::kBulk);
  EXPECT_EQ(reserve(9), 0U);
  roster_.leave(one);
  EXPECT_EQ(reserve(9), 1U);
}

TEST_F(RosterTest, WhoLeavesFromOutsideIsCountedOnce) {
  const JobPtr one = enter();
  roster_.go_out(one);
  roster_.leave(one);
  roster_.come_in(one);
  EXPECT_EQ(reserve(9), 3U);
}

TEST_F(RosterTest, NoMoreStandAsideThanThereArePlaces) {
  std::vector<JobPtr> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(enter());
    roster_.step_aside(jobs.back());
    roster_.step_aside(jobs.back());
  }
  EXPECT_EQ(freed_, 3);
  EXPECT_EQ(reserve(9), 2U) << "the fourth has a place of its own";
  for (const JobPtr& one : jobs) {
    roster_.leave(one);
  }
  EXPECT_EQ(reserve(9), 1U);
}

// Its lease was lost, and it came again before the old job was through.
TEST_F(RosterTest, ATaskMayComeAgainBeforeItsOldJobHasLeft) {
  const TaskId task = TaskId::make();
  const JobPtr old = enter(task);
  roster_.step_aside(old);
  const JobPtr young = enter(task);
  EXPECT_EQ(roster_.size(), 1U);
  roster_.leave(old);
  EXPECT_EQ(roster_.all(), std::vector<JobPtr>{young});
  EXPECT_EQ(reserve(9), 2U);
}

TEST_F(RosterTest, TheExpressLaneHasAnEighthMore) {
  Roster roster(16, [] {});
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(roster.reserve(Lane::kBulk, kMany));
  }
  EXPECT_FALSE(roster.reserve(Lane::kBulk, kMany));
  EXPECT_EQ(roster.room(kMany).bulk, 0U);
  EXPECT_EQ(roster.room(kMany).express, 2U);
  EXPECT_FALSE(roster.reserve(Lane::kExpress, kMany, 2)) << "both are spoken for";
  EXPECT_TRUE(roster.reserve(Lane::kExpress, kMany));
  EXPECT_TRUE(roster.reserve(Lane::kExpress, kMany));
  EXPECT_FALSE(roster.reserve(Lane::kExpress, kMany));
  roster.unreserve(Lane::kExpress);
  EXPECT_FALSE(roster.reserve(Lane::kBulk, kMany)) << "the eighth is not theirs";
  EXPECT_TRUE(roster.reserve(Lane::kExpress, kMany));
}

// Else whatever ends would make room for express jobs alone, for as long as there are any.
TEST_F(RosterTest, HoweverManyGoExpressWhatEndsMakesRoomForBothLanes) {
  Roster roster(16, [] {});
  std::vector<JobPtr> jobs;
  while (roster.reserve(Lane::kExpress, kMany)) {
    jobs.push_back(idle_job());
    roster.enter(jobs.back(), Lane::kExpress);
  }
  EXPECT_EQ(jobs.size(), 18U);
  EXPECT_EQ(roster.room(kMany).bulk, 0U);
  roster.leave(jobs[0]);
  EXPECT_EQ(roster.room(kMany).bulk, 1U);
  EXPECT_EQ(roster.room(kMany).express, 1U);
  EXPECT_TRUE(roster.reserve(Lane::kBulk, kMany));
  EXPECT_FALSE(roster.reserve(Lane::kExpress, kMany));
  roster.go_out(jobs[1]);
  EXPECT_TRUE(roster.reserve(Lane::kBulk, kMany));
  roster.come_in(jobs[1]);
  roster.step_aside(jobs[2]);
  EXPECT_FALSE(roster.reserve(Lane::kBulk, kMany)) << "one more than there are places, for a while";
  roster.leave(jobs[1]);
  EXPECT_TRUE(roster.reserve(Lane::kBulk, kMany));
}

TEST_F(RosterTest, GivesNoPlaceWhileItIsClosed) {
  const JobPtr one = enter();
  EXPECT_EQ(reserve(1), 1U);
  roster_.close();
  EXPECT_EQ(free(), 0U);
  EXPECT_EQ(reserve(9), 0U);
  roster_.enter(idle_job(), Lane::kBulk);
  EXPECT_EQ(roster_.size(), 2U) << "what was asked for comes";
  roster_.open();
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(free(), 1U);
}

TEST_F(RosterTest, TellsWhetherAJobIsAlone) {
  using Company = Roster::Company;
  const JobPtr one = enter();
  EXPECT_EQ(roster_.company_of(one), Company::kAlone);
  EXPECT_EQ(roster_.company_of(idle_job()), Company::kGone);
  EXPECT_EQ(reserve(1), 1U);
  EXPECT_EQ(roster_.company_of(one), Company::kOthers) << "one may be on its way";
  const JobPtr two = idle_job();
  roster_.enter(two, Lane::kBulk);
  roster_.step_aside(two);
  EXPECT_EQ(roster_.company_of(one), Company::kOthers) << "its work would be lost";
  EXPECT_EQ(roster_.company_of(two), Company::kGone) << "its work is done";
  roster_.leave(two);
  EXPECT_EQ(roster_.company_of(one), Company::kAlone);
  roster_.leave(one);
  EXPECT_EQ(roster_.company_of(one), Company::kGone);
}

TEST_F(RosterTest, IsEmptyWithoutJobsAndReservations) {
  EXPECT_TRUE(roster_.wait_empty(0ms));
  const JobPtr one = enter();
  EXPECT_EQ(reserve(1), 1U);
  EXPECT_FALSE(roster_.wait_empty(0ms));
  roster_.leave(one);
  EXPECT_FALSE(roster_.wait_empty(0ms));
  roster_.unreserve(Lane::kBulk);
  EXPECT_TRUE(roster_.wait_empty(0ms));
}

}  // namespace
}  // namespace audiogen::worker
