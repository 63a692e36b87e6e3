// What a race of two calls leaves of the ticket that one of them goes on with.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/mutex.h"
#include "tests/store/task_fixture.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"
#include "tests/worker/fake_provider.h"
#include "worker/job/calls.h"
#include "worker/job/leases.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using test::eventually;

class CallRaces : public testing::Test {
 protected:
  CallRaces() {
    Capabilities able;
    able.gives_tickets = true;
    able.hedge_after = 1ms;
    auto queue = std::make_unique<FakeProvider>("queue", able);
    auto beside = std::make_unique<FakeProvider>("beside");
    queue_ = queue.get();
    beside_ = beside.get();
    std::vector<std::unique_ptr<AudioProvider>> providers;
    providers.push_back(std::move(queue));
    providers.push_back(std::move(beside));
    job_ = claimed(std::make_shared<const Chain>(std::move(providers)));
    job_->ticket = "of an earlier call";
    calls_.write_and_call(job_, {});
  }
  ~CallRaces() override {
    scheduler_.stop();
    calls_.stop();
    tickets_.stop();
  }

  // A task of the database's, whose calls have no row yet.
  JobPtr claimed(std::shared_ptr<const Chain> chain) {
    store::TaskStore tasks(db_.url());
    const store::CreateCommand command = store::create_command(db_.add_user());
    store::must(tasks.create({&command, 1}));
    const Hint hint{command.id, 0};
    store::ClaimOutcome claim =
        store::only(tasks.claim({&hint, 1}, WorkerId::make(), store::no_provider));
    const auto now = Job::Clock::now();
    return std::make_shared<Job>(
        Claimed{std::move(claim.value()), std::make_shared<const GenerationRequest>()},
        std::move(chain),
        now,
        now);
  }

  bool both_are_asked() {
    return eventually(60s, [&] { return queue_->started == 1 && beside_->started == 1; });
  }
  static void fail(FakeProvider& provider, Fault fault) {
    provider.calls.front()->answer(ProviderFault{fault, "", std::nullopt});
  }
  bool has_tickets(std::int64_t many) {
    return eventually(
        60s, [&] { return db_.number(store::Sql("SELECT COUNT(*) FROM tickets")) == many; });
  }
  // What the job was answered, once it was.
  std::vector<Fault> answers() const {
    const MutexLock lock(mutex_);
    return answers_;
  }

  test::TestDatabase db_;
  Scheduler scheduler_;
  Roster roster_{10, [] {}};
  Tickets tickets_{db_.url(), scheduler_};
  CallRecords records_{db_.url(), scheduler_};
  mutable Mutex mutex_;
  std::vector<Fault> answers_ GUARDED_BY(mutex_);
  Calls calls_{db_.url(),
               roster_,
               scheduler_,
               tickets_,
               records_,
               [this](const JobPtr&, const Calls::Answer& answer) {
                 const MutexLock lock(mutex_);
                 answers_.push_back(answer ? Fault::kCanceled : answer.error().fault);
               }};
  FakeProvider* queue_ = nullptr;
  FakeProvider* beside_ = nullptr;
  JobPtr job_;
};

// It was told of the other's failure alone, and found the same ticket in each claim.
TEST_F(CallRaces, WhatIsGoneIsForgottenThoughAnotherGoesOn) {
  ASSERT_TRUE(both_are_asked());
  ASSERT_TRUE(has_tickets(1));
  fail(*queue_, Fault::kNotCalled);
  EXPECT_TRUE(has_tickets(0));
  EXPECT_TRUE(answers().empty());
  fail(*beside_, Fault::kTryNext);
  EXPECT_EQ(answers(), std::vector{Fault::kNotCalled}) << "whoever gave it is asked anew";
  EXPECT_NE(job_->ticket, "") << "by that it is known";
}

TEST_F(CallRaces, WhatFailsLastIsForgotten) {
  ASSERT_TRUE(both_are_asked());
  ASSERT_TRUE(has_tickets(1));
  fail(*beside_, Fault::kTryNext);
  EXPECT_TRUE(answers().empty());
  fail(*queue_, Fault::kTryNext);
  EXPECT_EQ(answers(), std::vector{Fault::kTryNext});
  EXPECT_TRUE(has_tickets(0)) << "it would be gone on with, and fail again";
}

// The worker has stood still: another may have the task, and ask for what was made.
TEST_F(CallRaces, WhatAnotherMayGoOnWithIsNotForgotten) {
  ASSERT_TRUE(both_are_asked());
  ASSERT_TRUE(has_tickets(1));
  job_->renewal_ended(Job::Clock::now() - kLeaseSelfStop - 1s);
  fail(*queue_, Fault::kNotCalled);
  fail(*beside_, Fault::kTryNext);
  // Written behind whatever was to be forgotten.
  const JobPtr other = claimed(job_->chain);
  ASSERT_TRUE(tickets_.keep(other, 1, "queue", "its own"));
  EXPECT_TRUE(has_tickets(2));
}

// Nobody was asked beside it after all: so that one comes next.
TEST_F(CallRaces, WhereWhatWasResumedHasFailedTheChainGoesOnBehindIt) {
  ASSERT_TRUE(both_are_asked());
  fail(*queue_, Fault::kTryNext);
  EXPECT_TRUE(answers().empty());
  fail(*beside_, Fault::kNotCalled);
  EXPECT_EQ(answers(), std::vector{Fault::kTryNext});
  EXPECT_EQ(job_->provider, 0U);
  EXPECT_FALSE(job_->was_raced(1));
}

TEST_F(CallRaces, WhatIsGoneAndAnswersLastIsAskedForAnew) {
  ASSERT_TRUE(both_are_asked());
  ASSERT_TRUE(has_tickets(1));
  fail(*beside_, Fault::kTryNext);
  fail(*queue_, Fault::kNotCalled);
  EXPECT_EQ(answers(), std::vector{Fault::kNotCalled});
  EXPECT_NE(job_->ticket, "") << "by that it is known";
  EXPECT_TRUE(has_tickets(0));
}

// The row of the second call waited for longer than the lease lasted. It was still made: handed
// over, and withdrawn.
TEST_F(CallRaces, WhoseLeaseIsOverAsksNobodyElse) {
  ASSERT_TRUE(both_are_asked());
  fail(*queue_, Fault::kTryNext);
  fail(*beside_, Fault::kTryNext);
  const JobPtr late = claimed(job_->chain);
  late->ticket = "of another call";
  std::unique_ptr<store::RowHolder> holder;
  queue_->on_start = [&] {
    holder = std::make_unique<store::RowHolder>(db_.url(), store::row_of_task(late->claim.task));
  };
  calls_.write_and_call(late, {});
  ASSERT_TRUE(eventually(60s, [&] { return queue_->started == 2; }));
  ASSERT_TRUE(eventually(60s, [&] { return !late->command(ClaimEnd{}).held; }))
      << "its only call is still the first one";
  lose(*late, "for the test");
  queue_->calls.back()->answer(ProviderFault{Fault::kCanceled, "", std::nullopt});
  holder->release();
  ASSERT_TRUE(eventually(60s, [&] { return answers().size() == 2 || beside_->started == 2; }));
  EXPECT_EQ(beside_->started, 1U);
}

}  // namespace
}  // namespace audiogen::worker
