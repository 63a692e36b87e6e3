// The sweeper: every branch, rivals, and rows nothing can be done about.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "common/store/task_rows.h"
#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

using Kind = SweepDecision::Kind;

TaskRecord record(TaskState state) {
  TaskRecord task;
  task.id = TaskId::make();
  task.state = state;
  task.epoch = 3;
  task.claims = 1;
  task.held = kHoldAmount;
  task.next_run_at = Instant(0s);
  task.deadline_at = Instant(900s);
  task.wake_at = Instant(100s);
  if (state == TaskState::kRunning) {
    task.lease_until = Instant(130s);
  }
  return task;
}

TEST(SweepRules, NothingBeforeItsTime) {
  TaskRecord task = record(TaskState::kQueued);
  EXPECT_EQ(decide_sweep(task, Instant(100s) - 1us).kind, Kind::kNothing);
  EXPECT_EQ(decide_sweep(task, Instant(100s)).kind, Kind::kPublish);
  task.wake_at.reset();
  EXPECT_EQ(decide_sweep(task, Instant(5000s)).kind, Kind::kNothing);
}

TEST(SweepRules, Queued) {
  TaskRecord task = record(TaskState::kQueued);
  EXPECT_EQ(decide_sweep(task, Instant(100s)).wake_at, Instant(130s));
  EXPECT_EQ(decide_sweep(task, Instant(880s)).wake_at, Instant(900s)) << "no later than the end";
  task.next_run_at = Instant(200s);
  EXPECT_EQ(decide_sweep(task, Instant(150s)).kind, Kind::kLook);
  EXPECT_EQ(decide_sweep(task, Instant(150s)).wake_at, Instant(200s));
  EXPECT_EQ(decide_sweep(task, Instant(200s)).kind, Kind::kPublish);
  EXPECT_EQ(decide_sweep(task, Instant(900s) - 1us).kind, Kind::kPublish);
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, Kind::kExpire);
}

TEST(SweepRules, Running) {
  TaskRecord task = record(TaskState::kRunning);
  EXPECT_EQ(decide_sweep(task, Instant(130s) - 1us).kind, Kind::kLook);
  EXPECT_EQ(decide_sweep(task, Instant(110s)).wake_at, Instant(130s));
  EXPECT_EQ(decide_sweep(task, Instant(130s)).kind, Kind::kReap);
  task.claims = kClaimsMax;
  EXPECT_EQ(decide_sweep(task, Instant(130s)).kind, Kind::kExhaust);
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, Kind::kExpire);
  task.lease_until = Instant(950s);
  EXPECT_EQ(decide_sweep(task, Instant(880s)).wake_at, Instant(900s));
  EXPECT_EQ(decide_sweep(task, Instant(900s)).kind, Kind::kExpire) << "with a live lease";
}

TEST(SweepRules, Final) {
  const SweepDecision decision = decide_sweep(record(TaskState::kFailed), Instant(100s));
  EXPECT_EQ(decision.kind, Kind::kLook);
  EXPECT_FALSE(decision.wake_at);
}

class SweepTest : public TaskStoreTest {
 protected:
  std::int64_t seconds_to_look(TaskId task) {
    return column(task, "ROUND(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), wake_at)/1e6)");
  }
};

TEST_F(SweepTest, NothingToDo) {
  create(db_.add_user());
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.looked_at, 0U);
  EXPECT_TRUE(result.publish.empty());
}

TEST_F(SweepTest, ATaskNobodyPublished) {
  const TaskId task = create(db_.add_user());
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.looked_at, 1U);
  EXPECT_EQ(result.publish, (std::vector<Hint>{{task, 0}}));
  EXPECT_NEAR(static_cast<double>(seconds_to_look(task)), 30, 1);
  EXPECT_EQ(must(store_.sweep(10)).looked_at, 0U);
}

TEST_F(SweepTest, ARunningTaskIsLeftInPeace) {
  const TaskId task = create(db_.add_user());
  claim(task);
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(must(store_.sweep(10)).publish.empty());
  EXPECT_EQ(column(task, "wake_at=lease_until"), 1);
}

TEST_F(SweepTest, AReapedTaskRunsAgain) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  claim(task);
  expire_lease(task);
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.reaped, 1U);
  EXPECT_EQ(result.publish, (std::vector<Hint>{{task, 2}}));
  EXPECT_EQ(column(task, "claims"), 1);
  EXPECT_EQ(public_status(find(task, user)->state, find(task, user)->claims), "queued");
  EXPECT_NEAR(static_cast<double>(seconds_to_look(task)), 30, 1);
  EXPECT_EQ(db_.number(Sql("SELECT state FROM attempts")), kAttemptUnknown);
}

TEST_F(SweepTest, TheLastLostLeaseEndsTheTask) {
  const UserId user = db_.add_user(credits(150));
  const TaskId task = create(user);
  for (std::uint32_t i = 0; i < kClaimsMax; ++i) {
    ASSERT_TRUE(claim(task, i * 2));
    expire_lease(task);
    const SweepResult result = must(store_.sweep(10));
    EXPECT_EQ(result.exhausted, i + 1 == kClaimsMax ? 1U : 0U);
  }
  EXPECT_EQ(find(task, user)->state, TaskState::kFailed);
  EXPECT_EQ(find(task, user)->failure, FailureCode::kInternalError);
  EXPECT_EQ(db_.balance(user).available, credits(150));
}

TEST_F(SweepTest, DeadlinesEndQueuedAndRunning) {
  const UserId user = db_.add_user(credits(300));
  const TaskId queued = create(user), running = create(user);
  const Claim mine = *claim(running);
  pass_deadline(queued);
  pass_deadline(running);
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.expired, 2U);
  EXPECT_TRUE(result.publish.empty());
  for (const TaskId task : {queued, running}) {
    EXPECT_EQ(find(task, user)->failure, FailureCode::kDeadlineExceeded);
  }
  EXPECT_EQ(db_.balance(user).available, credits(300));
  EXPECT_EQ(settle(settle_command(Settle::kFail, mine)), SettleOutcome::kNotOurs) << "fenced";
}

TEST_F(SweepTest, RowsNothingCanBeDoneAboutHideNoOther) {
  constexpr std::size_t kRows = 10'000;
  const UserId user = db_.add_user(credits(150 * 10'001));
  std::vector<CreateCommand> commands;
  for (std::size_t i = 0; i < kRows; ++i) {
    commands.push_back(create_command(user));
  }
  for (std::size_t i = 0; i < kRows; i += 500) {
    must(store_.create(std::span(commands).subspan(i, 500)));
  }
  // Claimed with leases that live, yet to be looked at now; behind them, one expired.
  db_.execute(Sql("UPDATE tasks SET state=2, worker=")
              << worker_
              << ", epoch=1, claims=1, lease_until=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, "
                 "deadline_at=UTC_TIMESTAMP(6) + INTERVAL 2 HOUR, "
                 "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR");
  const TaskId expired = create(user);
  claim(expired);
  expire_lease(expired);
  std::size_t sweeps = 0, reaped = 0;
  while (reaped == 0 && sweeps < 60) {
    reaped += must(store_.sweep(200)).reaped;
    ++sweeps;
  }
  EXPECT_EQ(reaped, 1U);
  EXPECT_EQ(sweeps, 51U);
}

TEST_F(SweepTest, ABusyBalanceHidesNoOther) {
  const UserId stuck = db_.add_user(), free = db_.add_user();
  const TaskId first = create(stuck), second = create(free);
  pass_deadline(first);
  pass_deadline(second);
  db_.execute(Sql("UPDATE tasks SET wake_at=wake_at - INTERVAL 1 HOUR, "
                  "deadline_at=deadline_at - INTERVAL 1 HOUR WHERE id=")
              << first);
  Session holder(db_.url());
  holder.execute(Sql("BEGIN"));
  (void)holder.query(Sql("SELECT seq FROM balances WHERE user_id=") << stuck << " FOR UPDATE");
  EXPECT_EQ(must(store_.sweep(1)).expired, 0U);
  EXPECT_EQ(must(store_.sweep(1)).expired, 1U) << "the other one's turn";
  EXPECT_EQ(find(second, free)->state, TaskState::kFailed);
  holder.execute(Sql("ROLLBACK"));
  db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at WHERE state=1"));
  EXPECT_EQ(must(store_.sweep(1)).expired, 1U);
}

TEST_F(SweepTest, LockedRowsAreSkipped) {
  const TaskId task = create(db_.add_user());
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  Session holder(db_.url());
  holder.execute(Sql("BEGIN"));
  (void)holder.query(Sql("SELECT epoch FROM tasks WHERE id=") << task << " FOR UPDATE");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(must(store_.sweep(10)).publish.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - began, kLockWait) << "it does not wait";
  holder.execute(Sql("ROLLBACK"));
  EXPECT_EQ(must(store_.sweep(10)).publish.size(), 1U);
}

TEST_F(SweepTest, ManySweepersDoEachThingOnce) {
  constexpr std::size_t kEach = 40;
  const UserId user = db_.add_user(), other = db_.add_user();
  for (std::size_t i = 0; i < kEach; ++i) {
    const TaskId reaped = create(i % 2 == 0 ? user : other);
    claim(reaped);
    expire_lease(reaped);
    pass_deadline(create(i % 3 == 0 ? user : other));
    make_due(create(user));
  }
  std::atomic<std::size_t> reaped{0}, expired{0}, published{0};
  in_parallel(4, [&](std::size_t) {
    TaskStore store(db_.url());
    for (int i = 0; i < 40; ++i) {
      const SweepResult result = must(store.sweep(16));
      reaped += result.reaped;
      expired += result.expired;
      published += result.publish.size();
    }
  });
  EXPECT_EQ(reaped, kEach);
  EXPECT_EQ(expired, kEach);
  EXPECT_EQ(published, 2 * kEach);
}

TEST_F(SweepTest, ConfirmedHintsAreLookedAtLater) {
  const UserId user = db_.add_user();
  const TaskId queued = create(user), running = create(user), waiting = create(user);
  claim(running);
  settle(settle_command(Settle::kRetry, *claim(waiting)));
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) + INTERVAL 20 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) + INTERVAL 20 SECOND WHERE id=")
              << waiting);
  const std::vector<TaskId> all = {queued, running, waiting, TaskId::make()};
  must(store_.mark_published(all, 120s));
  EXPECT_NEAR(static_cast<double>(seconds_to_look(queued)), 120, 2);
  EXPECT_NEAR(static_cast<double>(seconds_to_look(running)), 15, 2);
  EXPECT_NEAR(static_cast<double>(seconds_to_look(waiting)), 20, 2);
  must(store_.mark_published(all, 7200s));
  EXPECT_EQ(column(queued, "wake_at=deadline_at"), 1);
  must(store_.mark_published({}, 120s));
}

}  // namespace
}  // namespace audiogen::store
