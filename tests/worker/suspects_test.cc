// Suspects: one at a time, with nothing beside it, and never for more than half of the time.
#include "worker/job/suspects.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/wait.h"
#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using Company = Roster::Company;
using Next = Isolation::Next;

constexpr double kStays = 0.99, kGoesOn = 0.0;  // What is drawn, where the worker has other jobs.

class IsolationTest : public testing::Test {
 protected:
  bool offer(TaskId task, bool busy = false, double chance = kStays) {
    return isolation_.offer(task, busy, chance, now_);
  }
  // One that has come.
  TaskId come(bool busy = false) {
    const TaskId task = TaskId::make();
    EXPECT_TRUE(offer(task, busy));
    EXPECT_TRUE(isolation_.granted(task));
    return task;
  }
  Next look(Company company) { return isolation_.look(company, now_); }
  // Seconds until the one that has come is given back, as others do not end.
  std::int64_t patience() {
    const auto from = now_;
    while (look(Company::kOthers) == Next::kWait) {
      now_ += 1s;
    }
    isolation_.end(now_);
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now_ - from);
    now_ += waited;
    return waited.count();
  }

  Isolation::Clock::time_point now_ = Isolation::Clock::now();
  Isolation isolation_;
};

TEST_F(IsolationTest, OneAtATime) {
  const TaskId one = TaskId::make(), two = TaskId::make();
  EXPECT_TRUE(offer(one));
  EXPECT_TRUE(offer(one)) << "the transaction runs again";
  EXPECT_FALSE(offer(two));
  EXPECT_FALSE(isolation_.waits());
  EXPECT_TRUE(isolation_.granted(one));
  EXPECT_TRUE(isolation_.waits());
  EXPECT_FALSE(offer(two));
  EXPECT_FALSE(offer(one)) << "it is here already";
  EXPECT_TRUE(isolation_.granted(std::nullopt)) << "of later claims";
  EXPECT_TRUE(isolation_.waits());
  EXPECT_EQ(look(Company::kAlone), Next::kBegin);
  EXPECT_FALSE(isolation_.waits());
  EXPECT_EQ(look(Company::kAlone), Next::kWait) << "it runs";
  EXPECT_FALSE(offer(two));
  EXPECT_EQ(look(Company::kGone), Next::kOver);
  isolation_.end(now_);
  EXPECT_TRUE(offer(two));
}

TEST_F(IsolationTest, WhatWasNotClaimedKeepsNobodyWaiting) {
  const TaskId one = TaskId::make();
  EXPECT_TRUE(offer(one));
  EXPECT_FALSE(isolation_.granted(std::nullopt));
  EXPECT_TRUE(offer(TaskId::make()));
}

TEST_F(IsolationTest, NobodyIsCalledBeforeTheOthersHaveLeft) {
  come(true);
  EXPECT_EQ(look(Company::kOthers), Next::kWait);
  now_ += Isolation::kPatience - 1s;
  EXPECT_EQ(look(Company::kOthers), Next::kWait);
  EXPECT_EQ(look(Company::kAlone), Next::kBegin);
}

// An idle worker may be the next one that it comes to.
TEST_F(IsolationTest, ABusyWorkerLetsHalfOfThemGoOn) {
  EXPECT_FALSE(offer(TaskId::make(), true, kGoesOn));
  EXPECT_TRUE(offer(TaskId::make(), true, Isolation::kGoOn));
}

TEST_F(IsolationTest, AnIdleWorkerTakesEach) {
  EXPECT_TRUE(offer(TaskId::make(), false, kGoesOn));
}

// Calls may take minutes, and a worker may be the only one.
TEST_F(IsolationTest, PatienceGrowsUntilOneHasRun) {
  for (const std::int64_t seconds : {20, 60, 180, 300, 300}) {
    come(true);
    EXPECT_EQ(patience(), seconds);
  }
  come(true);
  EXPECT_EQ(look(Company::kAlone), Next::kBegin);
  isolation_.end(now_);
  come(true);
  EXPECT_EQ(patience(), 20);
}

TEST_F(IsolationTest, OthersGetAsMuchTime) {
  come(true);
  now_ += 7s;
  EXPECT_EQ(look(Company::kAlone), Next::kBegin);
  now_ += 5s;
  EXPECT_EQ(look(Company::kGone), Next::kOver);
  isolation_.end(now_);
  now_ += 12s - 1ms;
  EXPECT_FALSE(offer(TaskId::make(), true));
  now_ += 1ms;
  EXPECT_TRUE(offer(TaskId::make(), true));
}

// Else many that were lost together, and that are all there is, would not end before their
// deadlines.
TEST_F(IsolationTest, IfAnyCome) {
  come();
  EXPECT_EQ(look(Company::kAlone), Next::kBegin);
  now_ += 60s;
  isolation_.end(now_);
  now_ += Isolation::kRestAlone - 1ms;
  EXPECT_FALSE(offer(TaskId::make()));
  now_ += 1ms;
  EXPECT_FALSE(offer(TaskId::make(), true));
  EXPECT_TRUE(offer(TaskId::make()));
}

// With the roster and the jobs that they are about.
class SuspectsTest : public testing::Test {
 protected:
  SuspectsTest() {
    EXPECT_TRUE(roster_.reserve(Lane::kBulk,
                                kMany));  // A call: nothing here must begin before it has ended.
    other_ = job();
    roster_.enter(other_, Lane::kBulk);
  }
  ~SuspectsTest() override { scheduler_.stop(); }

  static JobPtr job() { return idle_job(TaskId::make(), kLostTogether); }
  // A suspect that was claimed: a busy worker lets some go on.
  JobPtr come() {
    const JobPtr suspect = job();
    EXPECT_TRUE(roster_.reserve(Lane::kBulk, kMany));
    while (!suspects_.offer(suspect->claim.task)) {
    }
    suspects_.granted(suspect->claim.task);
    roster_.enter(suspect, Lane::kBulk);
    suspects_.came(suspect);
    return suspect;
  }

  Scheduler scheduler_;
  Roster roster_{10, [this] { suspects_.look(); }};
  std::vector<JobPtr> begun_, given_back_;
  Suspects suspects_{
      roster_,
      scheduler_,
      [this](const JobPtr& job) { begun_.push_back(job); },
      [this](const JobPtr& job, std::chrono::milliseconds) { given_back_.push_back(job); }};
  JobPtr other_;
};

TEST_F(SuspectsTest, RunAloneAndNothingComesMeanwhile) {
  const JobPtr suspect = come();
  EXPECT_EQ(roster_.room(kMany).bulk, 0U);
  EXPECT_TRUE(begun_.empty());
  roster_.leave(other_);
  EXPECT_EQ(begun_, std::vector<JobPtr>{suspect});
  EXPECT_EQ(roster_.room(kMany).bulk, 0U);
  roster_.leave(suspect);
  EXPECT_EQ(roster_.room(kMany).bulk, 10U);
  EXPECT_EQ(begun_.size(), 1U);
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(SuspectsTest, TheWorkerGoesOnWhenItIsNotClaimed) {
  while (!suspects_.offer(TaskId::make())) {
  }
  EXPECT_EQ(roster_.room(kMany).bulk, 0U);
  suspects_.granted(std::nullopt);
  EXPECT_EQ(roster_.room(kMany).bulk, 9U);
}

TEST_F(SuspectsTest, OneThatWaitsAndIsLostLeaves) {
  const JobPtr suspect = come();
  ASSERT_TRUE(suspect->lose(false));
  EXPECT_TRUE(test::eventually(60s, [&] { return roster_.room(kMany).bulk == 9; }));
  EXPECT_EQ(roster_.all(), std::vector<JobPtr>{other_});
  scheduler_.stop();
  EXPECT_TRUE(begun_.empty());
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(SuspectsTest, AWorkerThatStopsGivesBackWhatHasNotBegun) {
  const JobPtr suspect = come();
  suspects_.stop();
  EXPECT_EQ(given_back_, std::vector<JobPtr>{suspect});
  EXPECT_FALSE(suspects_.offer(TaskId::make()));
  roster_.leave(other_);
  EXPECT_TRUE(begun_.empty());
}

TEST_F(SuspectsTest, AWorkerThatStopsLetsTheOneThatRunsEnd) {
  const JobPtr suspect = come();
  roster_.leave(other_);
  suspects_.stop();
  EXPECT_EQ(begun_, std::vector<JobPtr>{suspect});
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(SuspectsTest, OneWhoseClaimWasUnderWayWhenTheWorkerStoppedIsGivenBack) {
  const JobPtr suspect = job();
  EXPECT_TRUE(roster_.reserve(Lane::kBulk, kMany));
  while (!suspects_.offer(suspect->claim.task)) {
  }
  suspects_.stop();
  suspects_.granted(suspect->claim.task);
  roster_.enter(suspect, Lane::kBulk);
  suspects_.came(suspect);
  EXPECT_EQ(given_back_, std::vector<JobPtr>{suspect});
  EXPECT_TRUE(begun_.empty());
}

}  // namespace
}  // namespace audiogen::worker
