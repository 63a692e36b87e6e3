// What a worker's sweeper asks of those who do the work, and says of them. Without a broker.
#include "worker/upkeep/sweeper.h"

#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using store::settle_command;
using store::Sql;
using testing::Contains;
using testing::IsEmpty;

class SweeperTest : public store::TaskStoreTest {
 protected:
  SweeperTest() {
    config_.database = db_.url();
    config_.amqp = amqp_;
    sweeper_ = std::make_unique<Sweeper>(
        config_,
        worker_,
        publisher_,
        Sweeper::Work{.take = [this](auto hints) { return note(offered_, hints); },
                      .take_tried = [this](auto hints) { return note(tried_, hints); },
                      .queues_seen = [] { return QueuesSeen(); },
                      .has_hint =
                          [this](const Hint& hint) {
                            const std::scoped_lock lock(mutex_);
                            asked_for_.insert(hint.task);
                            return false;
                          },
                      .obey =
                          [this](const WorkerOrders& orders) {
                            const std::scoped_lock lock(mutex_);
                            drains_ = orders.drain;
                          }},
        [this](const Sweeper::Swept& swept) {
          const std::scoped_lock lock(mutex_);
          ended_ = swept.minute;
          return store::WorkerReport{.places = 7};
        });
  }
  ~SweeperTest() override {
    sweeper_->stop();
    publisher_.stop(0ms);
  }
  // All are taken.
  std::vector<Hint> note(std::set<TaskId>& where, std::span<const Hint> hints) {
    const std::scoped_lock lock(mutex_);
    for (const Hint& hint : hints) {
      where.insert(hint.task);
    }
    return {};
  }
  template <class T>
  T seen(const T& what) {
    const std::scoped_lock lock(mutex_);
    return what;
  }
  template <class Condition>
  static bool eventually(const Condition& condition) {
    return test::eventually(30s, condition);
  }

  const AmqpUrl amqp_{.user = "u", .password = "p", .host = "127.0.0.1", .port = 1};
  Config config_;
  queue::Publisher publisher_{amqp_, {}, [](std::span<const Hint>) {}};
  std::mutex mutex_;
  std::set<TaskId> offered_, tried_, asked_for_;
  bool drains_ = false;
  MinuteEnded ended_;
  std::unique_ptr<Sweeper> sweeper_;
};

// Who keeps it has it go on before what nobody has tried.
TEST_F(SweeperTest, WhatWasTriedIsOfferedToThoseWhoKeepIt) {
  const UserId user = db_.add_user();
  const store::Claim claim = claim_many(user, 1).front();
  EXPECT_EQ(settle(settle_command(Settle::kRetry, claim)), store::SettleOutcome::kRequeued);
  make_due(claim.task);
  EXPECT_TRUE(eventually([&] { return seen(tried_).contains(claim.task); }));
  EXPECT_THAT(seen(offered_), IsEmpty());
}

// What waits in a worker need not be hinted by its own sweeper (HintedTest).
TEST_F(SweeperTest, WhatMayWaitHereIsAskedFor) {
  const TaskId task = create(db_.add_user());
  grow_old(500);
  EXPECT_TRUE(eventually([&] { return seen(asked_for_).contains(task); }));
}

TEST_F(SweeperTest, WhatItEndsIsToldWithTheWorker) {
  const TaskId task = create(db_.add_user());
  pass_deadline(task);
  EXPECT_TRUE(eventually([&] { return seen(ended_).all() == 1; }));
  EXPECT_EQ(column(task, "state"), static_cast<std::int64_t>(TaskState::kFailed));
}

TEST_F(SweeperTest, OrdersComeWithTheReportAndItsEndIsTheWorkers) {
  const auto row = [&](const char* what) {
    return db_.number(
        Sql::trusted("SELECT COALESCE(MAX(" + std::string(what) + "),0) FROM workers"));
  };
  EXPECT_TRUE(eventually([&] { return row("places") == 7; }));
  EXPECT_FALSE(seen(drains_));
  db_.execute(Sql("UPDATE workers SET drain_asked_at=UTC_TIMESTAMP(6) WHERE id=") << worker_);
  EXPECT_TRUE(eventually([&] { return seen(drains_); }));
  EXPECT_EQ(row("ended_at IS NOT NULL"), 0);
  sweeper_->stop();
  EXPECT_EQ(row("ended_at IS NOT NULL"), 1);
}

}  // namespace
}  // namespace audiogen::worker
