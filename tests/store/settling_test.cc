// Where jobs end: what is written of them, how long it is tried, and what becomes of what comes too
// late.
#include "worker/job/settling.h"

#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"
#include "worker/job/leases.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using store::RowHolder;
using store::settle_command;
using store::SettleCommand;
using testing::ElementsAre;

// Notes what is to be removed.
class NotingStore final : public BlobStore {
 public:
  std::vector<PutResult> put(std::span<const NewBlob> blobs) override {
    return std::vector<PutResult>(blobs.size(), PutFault{"nothing is put here"});
  }
  PutShape put_shape() const override { return {}; }
  Result<Removal> remove(std::string_view key, const std::stop_token& /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    removed_.emplace(key);
    return Removal::kGone;
  }
  Result<Done> flush_removed(std::span<const std::string> /*keys*/) override { return Done{}; }
  std::set<std::string> removed() {
    const std::scoped_lock lock(mutex_);
    return removed_;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> removed_;
};

class SettlingTest : public store::TaskStoreTest {
 protected:
  ~SettlingTest() override {
    scheduler_.stop();
    settling_.stop();
    records_.stop();
  }
  // A job of this worker, with its place.
  JobPtr begin(const store::Claim& claim) {
    EXPECT_TRUE(roster_.reserve(Lane::kBulk, 1'000));
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::make_unique<FakeProvider>("primary"));
    const auto now = Job::Clock::now();
    auto job = std::make_shared<Job>(
        Claimed{claim, nullptr}, std::make_shared<const Chain>(std::move(providers)), now, now);
    roster_.enter(job, Lane::kBulk);
    return job;
  }
  bool left(std::size_t jobs = 0) {
    return test::eventually(30s, [&] { return roster_.size() == jobs; });
  }
  TaskState state(TaskId task) { return find(task, user_)->state; }
  // The task, which somebody else has, stays as it is; the file that was made for it goes.
  void expect_output_goes(const JobPtr& job, const SettleCommand& success) {
    settling_.settle(job, success);
    ASSERT_TRUE(left());
    EXPECT_TRUE(test::eventually(30s, [&] { return !blobs_.removed().empty(); }));
    EXPECT_THAT(blobs_.removed(), ElementsAre(success.output_key));
    EXPECT_EQ(state(success.task), TaskState::kRunning);
    EXPECT_EQ(settling_.ended(), 0U);
  }

  UserId user_ = db_.add_user();
  NotingStore blobs_;
  Roster roster_{10, [] {}};
  Scheduler scheduler_;
  CallRecords records_{db_.url(), scheduler_};
  Settling settling_{
      db_.url(), blobs_, roster_, scheduler_, records_, [](std::span<const Hint>) {}};
};

TEST_F(SettlingTest, AJobLeavesOnceItsTaskIsWritten) {
  const store::Claim claim = claim_many(user_, 1).front();
  settling_.settle(begin(claim), settle_command(Settle::kSucceed, claim));
  ASSERT_TRUE(left());
  EXPECT_EQ(state(claim.task), TaskState::kSucceeded);
  EXPECT_EQ(settling_.ended(), 1U);
  EXPECT_EQ(settling_.ended_in_last_minute().all(), 1U);
  EXPECT_TRUE(blobs_.removed().empty());
}

// With more than can be done many of those end at once, which says nothing of how much can.
TEST_F(SettlingTest, WhatEndsForWantOfTimeIsNoPace) {
  const store::Claim claim = claim_many(user_, 1).front();
  SettleCommand late = settle_command(Settle::kFail, claim);
  late.failure = FailureCode::kDeadlineExceeded;
  settling_.settle(begin(claim), late);
  ASSERT_TRUE(left());
  EXPECT_EQ(state(claim.task), TaskState::kFailed);
  EXPECT_EQ(settling_.ended(), 0U);
  EXPECT_EQ(settling_.ended_in_last_minute().all(), 1U) << "but it did end";
}

TEST_F(SettlingTest, WhatIsHeldStepsAsideAndIsWrittenOnceItIsFree) {
  const store::Claim claim = claim_many(user_, 1).front();
  const JobPtr job = begin(claim);
  RowHolder holder(db_.url(), store::balance_of(user_));
  settling_.settle(job, settle_command(Settle::kSucceed, claim));
  EXPECT_TRUE(
      test::eventually(30s, [&] { return roster_.company_of(job) == Roster::Company::kGone; }));
  EXPECT_EQ(roster_.size(), 1U);
  holder.release();
  ASSERT_TRUE(left());
  EXPECT_EQ(state(claim.task), TaskState::kSucceeded);
}

// Nothing was sent, so the file is nobody's.
TEST_F(SettlingTest, AJobThatIsLostWritesNothingAndItsOutputGoes) {
  const store::Claim claim = claim_many(user_, 1).front();
  const JobPtr job = begin(claim);
  const SettleCommand success = settle_command(Settle::kSucceed, claim);
  lose(*job, "a test");
  expect_output_goes(job, success);
}

// Nothing of a try that met a held row is done, so that file is nobody's either.
TEST_F(SettlingTest, AJobThatIsLostWhileItsRowIsHeldLeavesNoFile) {
  const store::Claim claim = claim_many(user_, 1).front();
  const JobPtr job = begin(claim);
  RowHolder holder(db_.url(), store::balance_of(user_));
  const SettleCommand success = settle_command(Settle::kSucceed, claim);
  settling_.settle(job, success);
  ASSERT_TRUE(
      test::eventually(30s, [&] { return roster_.company_of(job) == Roster::Company::kGone; }));
  lose(*job, "a test");
  ASSERT_TRUE(left());
  EXPECT_TRUE(test::eventually(30s, [&] { return !blobs_.removed().empty(); }));
  EXPECT_THAT(blobs_.removed(), ElementsAre(success.output_key));
  holder.release();
  EXPECT_EQ(state(claim.task), TaskState::kRunning);
}

TEST_F(SettlingTest, WhatSomebodyElseHasByNowIsLeftToHim) {
  const store::Claim claim = claim_many(user_, 1).front();
  const JobPtr job = begin(claim);
  const SettleCommand success = settle_command(Settle::kSucceed, claim);
  expire_lease(claim.task);
  store::must(store_.sweep(100));
  make_due(claim.task);
  ASSERT_TRUE(this->claim(claim.task, 2));
  expect_output_goes(job, success);
}

}  // namespace
}  // namespace audiogen::worker
