// Places: who takes one, who waits without, and that none is lost or given twice.
#include "worker/job/roster.h"

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

JobPtr job(TaskId task = TaskId::make()) {
  store::Claim claim;
  claim.task = task;
  const auto now = Job::Clock::now();
  return std::make_shared<Job>(
      Claimed{std::move(claim), nullptr},
      std::make_shared<const Chain>(std::vector<std::unique_ptr<AudioProvider>>()),
      now,
      now);
}

class RosterTest : public testing::Test {
 protected:
  JobPtr enter(TaskId task = TaskId::make()) {
    EXPECT_EQ(roster_.reserve(1), 1U);
    JobPtr one = job(task);
    roster_.enter(one);
    return one;
  }

  int freed_ = 0;
  Roster roster_{3, [this] { ++freed_; }};
};

TEST_F(RosterTest, ReservesNoMoreThanThereIs) {
  EXPECT_EQ(roster_.reserve(2), 2U);
  EXPECT_EQ(roster_.reserve(2), 1U);
  EXPECT_EQ(roster_.reserve(1), 0U);
  roster_.unreserve();
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(roster_.reserve(5, 1), 0U) << "the free one is spoken for";
  EXPECT_EQ(roster_.reserve(5), 1U);
}

TEST_F(RosterTest, AJobHasThePlaceOfItsReservation) {
  const JobPtr one = enter();
  EXPECT_EQ(roster_.size(), 1U);
  EXPECT_EQ(roster_.reserve(9), 2U);
  roster_.leave(one);
  EXPECT_EQ(freed_, 1);
  roster_.leave(one);
  EXPECT_EQ(freed_, 1) << "it had left";
  EXPECT_EQ(roster_.reserve(9), 1U);
}

TEST_F(RosterTest, WhoWaitsForReferencesTakesNobodysPlace) {
  const JobPtr one = enter();
  roster_.go_out(one);
  EXPECT_EQ(freed_, 1);
  EXPECT_EQ(roster_.reserve(9), 3U);
  roster_.come_in(one);
  EXPECT_EQ(roster_.size(), 1U) << "four for three places, for a while";
  roster_.unreserve();
  EXPECT_EQ(roster_.reserve(9), 0U);
  roster_.leave(one);
  EXPECT_EQ(roster_.reserve(9), 1U);
}

TEST_F(RosterTest, WhoLeavesFromOutsideIsCountedOnce) {
  const JobPtr one = enter();
  roster_.go_out(one);
  roster_.leave(one);
  roster_.come_in(one);
  EXPECT_EQ(roster_.reserve(9), 3U);
}

TEST_F(RosterTest, NoMoreStandAsideThanThereArePlaces) {
  std::vector<JobPtr> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(enter());
    roster_.step_aside(jobs.back());
    roster_.step_aside(jobs.back());
  }
  EXPECT_EQ(freed_, 3);
  EXPECT_EQ(roster_.reserve(9), 2U) << "the fourth has a place of its own";
  for (const JobPtr& one : jobs) {
    roster_.leave(one);
  }
  EXPECT_EQ(roster_.reserve(9), 1U);
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
  EXPECT_EQ(roster_.reserve(9), 2U);
}

TEST_F(RosterTest, IsEmptyWithoutJobsAndReservations) {
  EXPECT_TRUE(roster_.wait_empty(0ms));
  const JobPtr one = enter();
  EXPECT_EQ(roster_.reserve(1), 1U);
  EXPECT_FALSE(roster_.wait_empty(0ms));
  roster_.leave(one);
  EXPECT_FALSE(roster_.wait_empty(0ms));
  roster_.unreserve();
  EXPECT_TRUE(roster_.wait_empty(0ms));
}

}  // namespace
}  // namespace audiogen::worker
