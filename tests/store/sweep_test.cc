// The sweeper: every branch, rivals, and rows nothing can be done about.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include <gmock/gmock.h>

#include "common/store/task_rows.h"
#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

class SweepTest : public TaskStoreTest {
 protected:
  static std::vector<Hint> first_hints(std::span<const TaskId> tasks) {
    std::vector<Hint> hints;
    for (const TaskId task : tasks) {
      hints.push_back({.task = task, .epoch = 0});
    }
    return hints;
  }
  std::string wake_at(TaskId task) {
    return db_.text(Sql("SELECT wake_at FROM tasks WHERE id=") << task);
  }
  // It is to be looked at so long after a moment between then and now.
  void expect_look(TaskId task, std::chrono::seconds after, Instant then) {
    const std::optional<Instant> at = parse_db_time(wake_at(task));
    ASSERT_TRUE(at);
    EXPECT_GE(*at, then + after);
    EXPECT_LE(*at, db_.session().now() + after);
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
  const Instant then = db_.session().now();
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.looked_at, 1U);
  EXPECT_EQ(result.publish, (std::vector<Hint>{{task, 0}}));
  expect_look(task, 30s, then);
  EXPECT_EQ(must(store_.sweep(10)).looked_at, 0U);
}

TEST_F(SweepTest, ARunningTaskIsLeftInPeace) {
  const TaskId task = create(db_.add_user());
  claim(task);
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  EXPECT_TRUE(must(store_.sweep(10)).publish.empty());
  EXPECT_EQ(column(task, "wake_at=lease_until"), 1);
}

// Without a broker there is nobody to send a hint to: to move the row away would hide it.
TEST_F(SweepTest, WhatNoHintCanBeSentForStaysWhereItIs) {
  const std::vector<TaskId> tasks = {create(db_.add_user()), create(db_.add_user())};
  claim(tasks[1]);
  db_.execute(
      Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6), lease_until=IF(state=2, "
          "UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, NULL)"));
  const std::int64_t before = column(tasks[0], "MICROSECOND(wake_at)");
  const SweepResult result = must(store_.sweep(10, false));
  EXPECT_EQ(result.reaped, 1U) << "what time demands is done all the same";
  EXPECT_EQ(result.publish, (std::vector<Hint>{{tasks[1], 2}}));
  EXPECT_EQ(column(tasks[0], "MICROSECOND(wake_at)"), before);
  EXPECT_THAT(must(store_.ready(10, 0s)),
              testing::UnorderedElementsAre(Hint{tasks[0], 0}, Hint{tasks[1], 2}));
}

TEST_F(SweepTest, ReadyIsWhatAClaimWouldGet) {
  const UserId user = db_.add_user(credits(150 * 6));
  const TaskId fresh = create(user), running = create(user), later = create(user),
               over = create(user), ended = create(user), asked = create(user);
  claim(running);
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) + INTERVAL 600 SECOND, "
                  "wake_at=next_run_at WHERE id=")
              << later);
  pass_deadline(over);
  ASSERT_EQ(only(store_.cancel(std::vector<CancelCommand>{{.task = ended}})).outcome,
            CancelOutcome::kCanceled);
  EXPECT_EQ(must(store_.ready(10, 0s, {asked})), (std::vector<Hint>{{fresh, 0}}));
  EXPECT_TRUE(must(store_.ready(10, 60s)).empty()) << "a hint may still be on its way";
  EXPECT_EQ(must(store_.ready(1, 0s)).size(), 1U);
  EXPECT_TRUE(claim(fresh));
  EXPECT_EQ(must(store_.ready(10, 0s)), (std::vector<Hint>{{asked, 0}}));
}

// Each of several workers gets some of what there is, not all the same.
TEST_F(SweepTest, ReadyIsShared) {
  const UserId user = db_.add_user(credits(150 * 40));
  for (int i = 0; i < 40; ++i) {
    create(user);
  }
  std::set<TaskId> named;
  for (int i = 0; i < 300 && named.size() < 40; ++i) {
    for (const Hint& hint : must(store_.ready(10, 0s))) {
      named.insert(hint.task);
    }
  }
  EXPECT_EQ(named.size(), 40U);
}

TEST_F(SweepTest, AReapedTaskRunsAgain) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  claim(task);
  expire_lease(task);
  const Instant then = db_.session().now();
  const SweepResult result = must(store_.sweep(10));
  EXPECT_EQ(result.reaped, 1U);
  EXPECT_EQ(result.publish, (std::vector<Hint>{{task, 2}}));
  EXPECT_EQ(column(task, "claims"), 1);
  EXPECT_EQ(public_status(find(task, user)->state, find(task, user)->claims), "queued");
  expect_look(task, 15s, then);
  EXPECT_EQ(db_.number(Sql("SELECT state FROM attempts")), kCallUnknown);
}

// Whoever ended its worker, it was not what nobody was called for.
TEST_F(SweepTest, ALostLeaseInWhichNobodyWasCalledUsesUpNoClaim) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  ASSERT_TRUE(claim(task));
  expire_lease(task);
  must(store_.sweep(10));
  EXPECT_EQ(column(task, "claims"), 1);
  EXPECT_EQ(column(task, "lost_leases"), 1);
  for (std::uint32_t i = 1; i < kClaimsMax + 2; ++i) {
    const Hint hint{task, i * 2};
    const auto again = only(store_.claim({&hint, 1}, worker_, no_provider));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->claims, 2U);
    EXPECT_EQ(again->lost_leases, std::min(i, kLostTogether));
    expire_lease(task);
    const SweepResult result = must(store_.sweep(10));
    EXPECT_EQ(result.reaped, 1U);
    EXPECT_EQ(column(task, "claims"), 1) << i;
    EXPECT_EQ(column(task, "lost_leases"), kLostTogether) << i << ": from then on it only waits";
  }
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
  EXPECT_EQ(column(task, "lost_leases"), kClaimsMax);
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
  db_.execute(Sql("UPDATE release_window SET size=") << 2 * kRows);
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
  RowHolder holder(db_.url(), balance_of(stuck));
  EXPECT_EQ(must(store_.sweep(1)).expired, 0U);
  EXPECT_EQ(must(store_.sweep(1)).expired, 1U) << "the other one's turn";
  EXPECT_EQ(find(second, free)->state, TaskState::kFailed);
  holder.release();
  db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at WHERE state=1"));
  EXPECT_EQ(must(store_.sweep(1)).expired, 1U);
}

TEST_F(SweepTest, LockedRowsAreSkipped) {
  const TaskId task = create(db_.add_user());
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  RowHolder holder(db_.url(), row_of_task(task));
  EXPECT_TRUE(must(store_.sweep(10)).publish.empty());
  holder.release();
  EXPECT_EQ(must(store_.sweep(10)).publish.size(), 1U);
}

// As many held rows as a look takes, all of them due before the one that is free.
TEST_F(SweepTest, HeldRowsHideNoOthers) {
  const UserId user = db_.add_user(credits(150 * 30));
  std::vector<TaskId> tasks;
  for (int i = 0; i < 25; ++i) {
    tasks.push_back(create(user));
  }
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR"));
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << tasks.back());
  RowHolder holder(db_.url(), Sql("SELECT id FROM tasks ORDER BY id LIMIT 24"));
  std::vector<Hint> found;
  bool more = true;
  for (int looks = 0; more && looks < 20; ++looks) {
    const SweepResult look = must(store_.sweep(4));
    found.insert(found.end(), look.publish.begin(), look.publish.end());
    more = look.more;
  }
  EXPECT_FALSE(more);
  EXPECT_EQ(found, first_hints(std::span(tasks).last(1)));
  holder.release();
  EXPECT_EQ(must(store_.sweep(100)).publish.size(), 24U) << "the next look begins anew";
}

// A ledger that has the user's next row already: his task's end is refused, the others end.
TEST_F(SweepTest, ARowThatIsRefusedStopsNoOther) {
  const UserId odd = db_.add_user(), fine = db_.add_user();
  const TaskId refused = create(odd);
  std::vector<TaskId> others;
  pass_deadline(refused);
  for (int i = 0; i < 3; ++i) {
    others.push_back(create(fine));
    pass_deadline(others.back());
  }
  db_.execute(Sql("UPDATE balances SET seq=seq-1 WHERE user_id=") << odd);
  const Instant then = db_.session().now();
  EXPECT_EQ(must(store_.sweep(10)).expired, 3U);
  for (const TaskId task : others) {
    EXPECT_EQ(column(task, "state"), 4);
  }
  expect_look(refused, 5s, then);  // Not all the time.
  db_.execute(Sql("UPDATE balances SET seq=seq+1 WHERE user_id=") << odd);
  db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at WHERE id=") << refused);
  EXPECT_EQ(must(store_.sweep(10)).expired, 1U);
}

// What can only be waited for: a gap that another session locks, where the ledger's row goes.
TEST_F(SweepTest, ARowThatWouldHaveToWaitStopsNoOther) {
  const UserId stuck = db_.add_user(), free = db_.add_user();
  const TaskId waits = create(stuck), other = create(free);
  pass_deadline(waits);
  pass_deadline(other);
  Session holder(db_.url(), kHolds);
  holder.execute(Sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"));
  holder.execute(Sql("BEGIN"));
  (void)holder.query(Sql("SELECT seq FROM ledger WHERE user_id=")
                     << stuck << " AND seq>2 LOCK IN SHARE MODE");
  must(store_.sweep(10));
  EXPECT_EQ(column(other, "state"), 4);
  holder.execute(Sql("ROLLBACK"));
  db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at WHERE state=1"));
  must(store_.sweep(10));
  EXPECT_EQ(column(waits, "state"), 4);
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
    // Whose balance another sweeper holds is looked at again a second later.
    EXPECT_TRUE(test::eventually(30s, [&] {
      const SweepResult result = must(store.sweep(16));
      reaped += result.reaped;
      expired += result.expired;
      published += result.publish.size();
      return reaped == kEach && expired == kEach && published == 2 * kEach;
    }));
  });
  EXPECT_EQ(reaped, kEach);
  EXPECT_EQ(expired, kEach);
  EXPECT_EQ(published, 2 * kEach);
}

// Tasks whose first hint was confirmed, as far as the API says so.
class HintedTest : public SweepTest {
 protected:
  // In the order of their ids, and of their first looks, which have come.
  std::vector<TaskId> create_some(std::size_t count) {
    const UserId user = db_.add_user(credits(150 * 100));
    std::vector<TaskId> tasks(count);
    std::generate(tasks.begin(), tasks.end(), [&] { return create(user); });
    db_.execute(
        Sql("UPDATE tasks SET next_run_at=created_at - INTERVAL 16 SECOND, "
            "wake_at=created_at - INTERVAL 1 SECOND"));
    return tasks;
  }
  void let_pass_end() {
    db_.execute(Sql("UPDATE sweep_pass SET began_at=began_at - INTERVAL 61 SECOND"));
  }
  void let_fall_silent(ApiId api, int seconds) {
    db_.execute(Sql("UPDATE api_processes SET seen_at=UTC_TIMESTAMP(6) - INTERVAL ")
                << seconds << " SECOND WHERE id=" << api);
  }
};

TEST_F(HintedTest, TheyAreLeftAsTheyAre) {
  const std::vector<TaskId> tasks = create_some(4);
  must(store_.report_api(ApiId::make(), tasks[2]));
  const std::string look = wake_at(tasks[0]);
  const Instant then = db_.session().now();
  const SweepResult result = must(store_.sweep(10));
  EXPECT_THAT(result.publish, testing::ElementsAreArray(first_hints(std::span(tasks).subspan(2))));
  EXPECT_EQ(result.looked_at, 2U);
  EXPECT_FALSE(result.more);
  EXPECT_EQ(wake_at(tasks[0]), look);
  expect_look(tasks[2], 30s, then);
}

TEST_F(HintedTest, AProcessThatFellSilentCountsForAMinute) {
  const std::vector<TaskId> tasks = create_some(3);
  const ApiId dead = ApiId::make(), alive = ApiId::make();
  const auto next_pass = [&] {
    let_pass_end();
    return must(store_.sweep(1)).publish;
  };
  must(store_.report_api(dead, tasks[1]));
  must(store_.report_api(alive, TaskId::make()));
  let_fall_silent(dead, 50);
  EXPECT_EQ(next_pass(), first_hints(std::span(tasks).subspan(1, 1)));
  let_fall_silent(dead, 61);
  EXPECT_TRUE(next_pass().empty());
  let_fall_silent(alive, 61);
  EXPECT_TRUE(next_pass().empty()) << "the last word of all";
  must(store_.report_api(alive, tasks[2]));
  EXPECT_EQ(next_pass(), first_hints(std::span(tasks).subspan(2)));
}

TEST_F(HintedTest, APassGoesOnBehindThemForAllSweepers) {
  const std::vector<TaskId> tasks = create_some(23);
  must(store_.report_api(ApiId::make(), tasks[20]));
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                  "next_run_at=UTC_TIMESTAMP(6) - INTERVAL 16 SECOND WHERE id<")
              << tasks[20]);  // At the same moment, as those of one transaction.
  TaskStore other(db_.url());
  std::vector<Hint> found;
  std::size_t calls = 0;
  for (bool more = true; more; ++calls) {
    ASSERT_LT(calls, 20U);
    const SweepResult result = must((calls % 2 == 0 ? store_ : other).sweep(2));
    found.insert(found.end(), result.publish.begin(), result.publish.end());
    more = result.more;
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(first_hints(std::span(tasks).subspan(20))));
  EXPECT_LE(calls, 5U) << "ten that are left are seen at once, and only once";
  // One of them runs and its lease is lost. Its claim has put its look there, so this pass sees it.
  claim(tasks[5]);
  EXPECT_EQ(column(tasks[5], "wake_at=lease_until"), 1);
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) WHERE id=")
              << tasks[5]);
  EXPECT_EQ(must(store_.sweep(100)).reaped, 1U);
  // What becomes due while a pass is under way is seen by it.
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << tasks[21]);
  EXPECT_EQ(must(other.sweep(100)).publish, first_hints(std::span(tasks).subspan(21, 1)));
  let_pass_end();
  EXPECT_EQ(must(other.sweep(100)).reaped, 0U);
  EXPECT_EQ(must(store_.sweep(100)).looked_at, 0U);
}

TEST_F(HintedTest, WhatWaitsInTheBrokerIsLeftHoweverLongItWaits) {
  const std::vector<TaskId> tasks = create_some(4);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  grow_old(500);
  const QueuesSeen behind{.bulk = must(store_.now()) - 1000s,
                          .express = must(store_.now()) - 1000s};
  const std::string before = db_.text(Sql("SELECT GROUP_CONCAT(wake_at ORDER BY id) FROM tasks"));
  for (int passes = 0; passes < 3; ++passes) {
    EXPECT_EQ(must(store_.sweep(10, true, behind)).looked_at, 0U);
    let_pass_end();
  }
  EXPECT_EQ(db_.text(Sql("SELECT GROUP_CONCAT(wake_at ORDER BY id) FROM tasks")), before);
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 50 SECOND WHERE id=")
              << tasks[0]);
  const SweepResult late = must(store_.sweep(10, true, behind));
  EXPECT_TRUE(late.publish.empty());
  EXPECT_EQ(column(tasks[0], "wake_at=deadline_at"), 1) << "its end is not missed";
  let_pass_end();
  EXPECT_THAT(must(store_.sweep(10)).publish,
              testing::UnorderedElementsAreArray(first_hints(std::span(tasks).subspan(1))))
      << "nothing comes from the broker: they were lost";
}

// What waits for its provider in a worker was written, and hinted, twice a minute.
TEST_F(HintedTest, WhatWaitsWithWhoSweepsIsLeftHoweverLongItWaits) {
  const std::vector<TaskId> tasks = create_some(4);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  grow_old(500);
  db_.execute(Sql("UPDATE tasks SET epoch=1 WHERE id=") << tasks[2]);
  db_.execute(Sql("UPDATE tasks SET claims=1 WHERE id=") << tasks[3]);
  const std::vector<Hint> all = first_hints(tasks);
  const auto has = [&](const Hint& hint) {
    return hint == all[0] || hint == all[2] || hint == all[3];
  };
  const std::string before = db_.text(Sql("SELECT wake_at FROM tasks WHERE id=") << tasks[0]);
  EXPECT_THAT(must(store_.sweep(10, true, {}, has)).publish,
              testing::UnorderedElementsAre(
                  all[1], Hint{.task = tasks[2], .epoch = 1, .lane = all[2].lane}, all[3]))
      << "it has another hint of the third, and the last one was tried";
  let_pass_end();
  EXPECT_TRUE(must(store_.sweep(10, true, {}, has)).publish.empty());
  EXPECT_EQ(db_.text(Sql("SELECT wake_at FROM tasks WHERE id=") << tasks[0]), before);
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 50 SECOND WHERE id=")
              << tasks[0]);
  let_pass_end();
  EXPECT_THAT(must(store_.sweep(10, true, {}, has)).publish, testing::ElementsAre(all[0]))
      << "its end is not missed";
}

// A retry that was due in 2 s, behind 600,000 tasks that wait, was looked at after 40 s.
TEST_F(HintedTest, WhatHasJustBecomeDueIsSeenBeforeThePassComesToIt) {
  std::vector<TaskId> tasks = create_some(40);
  const TaskId retry = tasks.back();
  tasks.pop_back();
  must(store_.report_api(ApiId::make(), TaskId::make()));
  const auto claimed = claim(retry);
  ASSERT_TRUE(claimed);
  ASSERT_TRUE(must(store_.sweep(1)).more) << "a long way";
  auto back = settle_command(Settle::kRetry, *claimed);
  ASSERT_EQ(settle(back), SettleOutcome::kRequeued);
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6), wake_at=UTC_TIMESTAMP(6) WHERE "
                  "id=")
              << retry);
  const Instant then = db_.session().now();
  const SweepResult look = must(store_.sweep(1));
  EXPECT_EQ(look.publish, (std::vector<Hint>{{retry, 2}}));
  EXPECT_EQ(look.tried, 1U);
  EXPECT_TRUE(look.more) << "the pass is not at its end";
  expect_look(retry, 15s, then);
}

// Between the end of one pass and the first look of the next: beside a million tasks it waited for
// all of that pass.
TEST_F(HintedTest, WhatBecomesDueBetweenTwoPassesIsSeenAtOnce) {
  const std::vector<TaskId> tasks = create_some(41);
  const TaskId retried = tasks.back();
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id=")
              << retried);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  while (must(store_.sweep(1)).more) {
  }
  db_.execute(Sql("UPDATE tasks SET epoch=2, next_run_at=UTC_TIMESTAMP(6), "
                  "wake_at=UTC_TIMESTAMP(6) WHERE id=")
              << retried);
  let_pass_end();
  std::vector<Hint> found;
  for (int look = 0; look < 2; ++look) {
    const SweepResult swept = must(store_.sweep(1));
    EXPECT_TRUE(swept.more) << "the pass is not at its end";
    found.insert(found.end(), swept.publish.begin(), swept.publish.end());
  }
  EXPECT_THAT(found, testing::ElementsAre(Hint{retried, 2}));
}

TEST_F(HintedTest, AProcessThatIsHeldKeepsNoOtherFromSayingThatItIsThere) {
  const ApiId held = ApiId::make(), gone = ApiId::make();
  for (const ApiId id : {held, gone}) {
    must(store_.report_api(id, TaskId::make()));
  }
  const WorkerId worker = WorkerId::make();
  must(store_.report_worker(worker, "h", 1, {}));
  db_.execute(Sql("UPDATE api_processes SET seen_at=seen_at - INTERVAL 2 DAY WHERE id=") << gone);
  RowHolder api_holder(db_.url(), Sql("SELECT 1 FROM api_processes WHERE id=") << held);
  RowHolder worker_holder(db_.url(), Sql("SELECT 1 FROM workers WHERE id=") << worker);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  must(store_.report_worker(WorkerId::make(), "h", 2, {}));
  EXPECT_EQ(must(store_.forget_silent(100)), 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_processes")), 2);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_processes WHERE id=") << gone), 0);
  api_holder.release();
  worker_holder.release();
}

TEST_F(HintedTest, NobodyWaitsForTheSweeperThatMovesThePass) {
  const std::vector<TaskId> tasks = create_some(3);
  must(store_.report_api(ApiId::make(), tasks[2]));
  RowHolder holder(db_.url(), Sql("SELECT * FROM sweep_pass"));
  EXPECT_EQ(must(store_.sweep(10)).publish, first_hints(std::span(tasks).subspan(2)));
  holder.release();
}

// Looks that go on behind a held row leave the pass before it, or nobody would see that row again
// for a whole pass.
TEST_F(HintedTest, ThePassStopsBeforeAHeldRow) {
  const std::vector<TaskId> tasks = create_some(30);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND WHERE id=")
              << tasks[3]);
  RowHolder holder(db_.url(), row_of_task(tasks[3]));
  for (int i = 0; i < 12; ++i) {
    must(store_.sweep(2));
  }
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE after_id>=") << tasks[3]), 0);
  holder.release();
  std::size_t expired = 0;
  for (int i = 0; i < 12; ++i) {
    expired += must(store_.sweep(2)).expired;
  }
  EXPECT_EQ(expired, 1U);
}

TEST_F(HintedTest, APassIsNotWrittenWithoutThem) {
  const std::vector<TaskId> tasks = create_some(3);
  EXPECT_EQ(must(store_.sweep(10)).publish.size(), 3U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE began_at='2000-01-01'")), 1);
  db_.execute(Sql("UPDATE tasks SET wake_at=next_run_at"));
  must(store_.report_api(ApiId::make(), TaskId::make()));
  EXPECT_TRUE(must(store_.sweep(10)).publish.empty());
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE after_id=") << tasks[2]), 1);
  db_.execute(Sql("UPDATE tasks SET wake_at=deadline_at"));
  let_pass_end();
  must(store_.sweep(10));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE after_wake_at='2000-01-01'")), 1);
}

// Rows are moved instead of the server's clock: all that they say lies as much later as the clock
// would be set back, and as much earlier as it would be set forward. Sweepers see it by the clocks
// of this machine, which go the same way.
class JumpTest : public SweepTest {
 protected:
  JumpTest() : store_with_clocks_(db_.url(), clocks()) {}

  LocalClocks clocks() {
    return {.steady = [this] { return std::chrono::steady_clock::now() + ahead_; },
            .wall =
                [this] {
                  return std::chrono::floor<Instant::duration>(std::chrono::system_clock::now()) +
                         ahead_;
                }};
  }
  SweepResult sweep() { return must(store_with_clocks_.sweep(100)); }
  // By the local clocks some time passes, and sweepers look meanwhile; too little for a step at
  // once.
  void pass(std::chrono::seconds time) {
    for (; time > 1s; time -= 1s) {
      ahead_ += 1s;
      sweep();
    }
    ahead_ += time;
  }
  // The database's clock is set forward by `step`, back if that is below zero.
  void set_clock(std::chrono::seconds step) {
    move_rows(step);
    ahead_ -= step;
  }
  void move_rows(std::chrono::seconds step) {
    const auto by = [&](Sql& sql, auto& name) {
      sql << name << "=" << name << " - INTERVAL " << step.count() << " SECOND";
    };
    Sql tasks("UPDATE tasks SET ");
    by(tasks, "created_at");
    by(tasks << ", ", "updated_at");
    by(tasks << ", ", "next_run_at");
    by(tasks << ", ", "deadline_at");
    by(tasks << ", ", "wake_at");
    by(tasks << ", ", "lease_until");
    db_.execute(tasks);
    Sql marks("UPDATE sweep_pass SET ");
    by(marks, "began_at");
    by(marks << ", ", "after_wake_at");
    db_.execute(marks << " WHERE began_at>'2020-01-01'");
  }
  bool renew(const Claim& claim) {
    const Lease lease{claim.task, claim.epoch};
    return only(store_.renew({&lease, 1}, worker_)) == Renewal::kRenewed;
  }
  std::int64_t seconds_until(TaskId task, const char* column) {
    return db_.number(
        Sql("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), ").append(Sql::trusted(column))
        << ") FROM tasks WHERE id=" << task);
  }

  std::chrono::microseconds ahead_{0};
  TaskStore store_with_clocks_;
};

// Nobody could renew meanwhile: what lost its lease then has not ended any worker.
TEST_F(JumpTest, WhenTheDatabaseWasAwayNoTaskIsSuspected) {
  const TaskId task = create(db_.add_user());
  ASSERT_TRUE(claim(task));
  sweep();
  ahead_ += kLeaseRenew + 1s;
  expire_lease(task);
  EXPECT_EQ(sweep().reaped, 1U);
  EXPECT_EQ(column(task, "claims"), 1);
  EXPECT_EQ(column(task, "lost_leases"), 0);
  pass(kLease + 1s);
  ASSERT_TRUE(claim(task, 2));
  expire_lease(task);
  EXPECT_EQ(sweep().reaped, 1U);
  EXPECT_EQ(column(task, "lost_leases"), 1);
}

TEST_F(JumpTest, AStepForwardReapsNoLeaseThatIsRenewed) {
  const UserId user = db_.add_user();
  std::vector<Claim> claims = claim_many(user, 3);
  const TaskId waiting = create(user);
  sweep();
  set_clock(1h);
  SweepResult jumped = sweep();
  EXPECT_EQ(jumped.reaped + jumped.expired, 0U);
  EXPECT_EQ(jumped.kept, 4U);
  EXPECT_TRUE(renew(claims[0])) << "its deadline seems to have passed";
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, claims[1])), SettleOutcome::kSettled);
  pass(kLease - 2s);
  EXPECT_EQ(sweep().kept, 3U);
  set_clock(-1h);  // It was a mistake.
  pass(3s);
  EXPECT_TRUE(renew(claims[2]));
  SweepResult back = sweep();
  EXPECT_EQ(back.reaped + back.expired + back.kept, 0U);
  EXPECT_EQ(column(claims[0].task, "state"), 2);
  EXPECT_EQ(column(waiting, "state"), 1);
}

// A worker believes in its lease for 25 s, and a second until it looks: as far as it knows.
TEST_F(JumpTest, AStepOfSecondsTakesNothingFromAWorkerThatBelievesToHaveIt) {
  const Claim claimed = *claim(create(db_.add_user()));
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) + INTERVAL 4 SECOND"));
  sweep();
  set_clock(5s);
  db_.execute(Sql("UPDATE tasks SET wake_at=lease_until"));
  SweepResult jumped = sweep();
  EXPECT_EQ(jumped.reaped, 0U);
  EXPECT_EQ(jumped.kept, 1U);
  EXPECT_TRUE(renew(claimed));
}

TEST_F(JumpTest, WhoDoesNotRenewAfterAStepForwardIsReapedALeaseLater) {
  const std::vector<Claim> claims = claim_many(db_.add_user(), 2);
  sweep();
  set_clock(2min);
  EXPECT_EQ(sweep().kept, 2U);
  EXPECT_TRUE(renew(claims[0]));
  pass(kLease);
  EXPECT_EQ(sweep().reaped, 1U);
  EXPECT_EQ(column(claims[0].task, "state"), 2);
  EXPECT_EQ(column(claims[1].task, "state"), 1);
}

// What is not judged hides nothing that is.
TEST_F(JumpTest, WhatIsNotJudgedKeepsNothingElse) {
  const UserId user = db_.add_user();
  claim_many(user, 30);
  sweep();
  set_clock(2min);
  const TaskId due = create(user);
  make_due(due);
  std::vector<Hint> found;
  for (bool more = true; more;) {
    const SweepResult swept = must(store_with_clocks_.sweep(2));
    found.insert(found.end(), swept.publish.begin(), swept.publish.end());
    more = swept.more;
  }
  EXPECT_THAT(found, testing::ElementsAre(Hint{due, 0}));
}

// A worker that has just been started compares with its own machine.
TEST_F(JumpTest, AFirstLookWithAClockThatIsAheadReapsNothing) {
  const std::vector<Claim> claims = claim_many(db_.add_user(), 1);
  set_clock(1h);
  EXPECT_EQ(sweep().kept, 1U);
  EXPECT_TRUE(renew(claims[0]));
  pass(kLease + 1s);
  EXPECT_EQ(sweep().kept, 0U);
}

TEST_F(JumpTest, AStepBackBlindsNobody) {
  const UserId user = db_.add_user();
  const TaskId hinted = create(user), retried = create(user), lost = create(user),
               later = create(user);
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << hinted);
  must(store_.report_api(ApiId::make(), TaskId::make()));
  sweep();
  ASSERT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE after_id=") << hinted), 1);
  for (const auto& [task, after] : {std::pair(retried, 2s), std::pair(later, 500s)}) {
    SettleCommand retry = settle_command(Settle::kRetry, *claim(task));
    retry.retry_after = after;
    settle(retry);
  }
  claim(lost);
  set_clock(-240s);
  sweep();
  EXPECT_LE(seconds_until(retried, "next_run_at"), 2);
  EXPECT_LE(seconds_until(retried, "wake_at"), 2);
  EXPECT_LE(seconds_until(lost, "lease_until"), 30);
  EXPECT_LE(seconds_until(lost, "wake_at"), 30);
  EXPECT_GT(seconds_until(later, "next_run_at"), 490);
  EXPECT_LE(seconds_until(later, "wake_at"), kLookWithin / 1s) << "or nobody counts it";
  for (const TaskId task : {hinted, retried, lost, later}) {
    EXPECT_LE(seconds_until(task, "deadline_at"), 900);
  }
  // Time goes on: a retry is sent, a lease is taken back, in the pass that began after the step.
  db_.execute(
      Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6), wake_at=UTC_TIMESTAMP(6) WHERE id=")
      << retried);
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                  "wake_at=lease_until WHERE id=")
              << lost);
  const SweepResult after = sweep();
  EXPECT_THAT(after.publish, testing::Contains(Hint{retried, 2}));
  EXPECT_EQ(after.reaped, 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sweep_pass WHERE began_at>UTC_TIMESTAMP(6) OR "
                           "after_wake_at>UTC_TIMESTAMP(6)")),
            0);
}

// Before any sweeper has looked: what is written by the new clock tells nothing of the old one.
TEST_F(JumpTest, WhoWritesFirstAfterAStepBackBringsTheTaskBack) {
  const UserId user = db_.add_user();
  const Claim retried = *claim(create(user)), renewed = *claim(create(user));
  const TaskId waits = create(user);
  set_clock(-1h);
  SettleCommand retry = settle_command(Settle::kRetry, retried);
  retry.retry_after = 2s;
  EXPECT_EQ(settle(retry), SettleOutcome::kRequeued);
  EXPECT_TRUE(renew(renewed));
  const Claim claimed = *claim(waits);
  EXPECT_LE(claimed.until_deadline, 900s);
  sweep();
  for (const TaskId task : {retried.task, renewed.task, waits}) {
    EXPECT_LE(seconds_until(task, "deadline_at"), 900);
    EXPECT_GT(seconds_until(task, "deadline_at"), 800);
  }
  EXPECT_LE(seconds_until(retried.task, "next_run_at"), 2);
  EXPECT_LE(seconds_until(renewed.task, "lease_until"), 30);
}

// While the database took its time, its clock may have been set by as much.
TEST_F(JumpTest, ALookJudgesNothingThatItsOwnLengthMayExplain) {
  const TaskId task = create(db_.add_user());
  claim(task);
  LocalClocks slow = clocks();
  slow.steady = [took = 0s]() mutable {
    took += 20s;
    return std::chrono::steady_clock::now() + took;
  };
  const auto reaped_when_over_for = [&](std::chrono::seconds time) {
    db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL ")
                << time.count() << " SECOND, wake_at=lease_until");
    TaskStore starting(db_.url(), slow);
    return must(starting.sweep(10)).reaped;
  };
  EXPECT_EQ(reaped_when_over_for(15s), 0U);
  EXPECT_EQ(reaped_when_over_for(25s), 1U);
}

// Nobody was there when it happened: the marks tell.
TEST_F(JumpTest, APassWhoseMarksLieAheadIsOver) {
  const TaskId due = create(db_.add_user());
  make_due(due);
  db_.execute(
      Sql("UPDATE sweep_pass SET began_at=UTC_TIMESTAMP(6) + INTERVAL 240 SECOND, "
          "after_wake_at=UTC_TIMESTAMP(6) + INTERVAL 240 SECOND"));
  EXPECT_EQ(must(store_.sweep(10)).publish.size(), 1U);
}

// Made while the clock was 40 days ahead: nobody would look at it for as long.
TEST_F(JumpTest, WhatWasMadeFarInTheFutureIsBroughtBack) {
  const UserId user = db_.add_user();
  std::vector<TaskId> tasks(700);  // More than one transaction takes.
  std::generate(tasks.begin(), tasks.end(), [&] { return create(user); });
  claim(tasks[0]);
  move_rows(-std::chrono::days(40));
  EXPECT_TRUE(claim(tasks[1])) << "its hint is good";
  SweepResult swept;
  do {
    swept = must(store_.sweep(10));
  } while (swept.more);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE wake_at>UTC_TIMESTAMP(6) + INTERVAL "
                           "31 SECOND OR deadline_at>UTC_TIMESTAMP(6) + INTERVAL 901 SECOND OR "
                           "next_run_at>UTC_TIMESTAMP(6) + INTERVAL 1 SECOND")),
            0);
}

// A sweeper that has just been started searches all that lies ahead: beside a million parked tasks
// what was due waited for most of a second.
TEST_F(JumpTest, ASearchForWhatLiesAheadIsSharedOutOverLooks) {
  constexpr std::int64_t kParked = 10'000;
  const UserId user = db_.add_user();
  const TaskId late = create(user);
  move_rows(-1h);
  db_.execute(Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, "
                  "next_run_at, deadline_at, wake_at, created_at, updated_at, lane) SELECT "
                  "UNHEX(LPAD(HEX(n+1000000), 32, '0')), ")
              << user
              << ", 1, '', 1, 0, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 10 HOUR, "
                 "UTC_TIMESTAMP(6) + INTERVAL 10 HOUR, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), "
              << Lane::kParked
              << " FROM (WITH RECURSIVE s AS (SELECT 0 AS i UNION ALL SELECT i+1 FROM s WHERE "
                 "i<99) SELECT a.i*100+b.i AS n FROM s a JOIN s b) p");
  db_.rows_read("tasks");  // Counts from here on.
  const auto before = db_.rows_read("tasks");
  EXPECT_TRUE(must(store_.sweep(10)).more);
  EXPECT_LT(db_.rows_read("tasks") - before, kParked);
  EXPECT_GT(seconds_until(late, "wake_at"), 3000);
  while (must(store_.sweep(10)).more) {
  }
  EXPECT_LE(seconds_until(late, "wake_at"), 30);
  db_.execute(Sql("DELETE FROM tasks WHERE id<>") << late);
}

// By two sweepers that look at the same time, or because the clock is set back again.
TEST_F(JumpTest, WhatIsBroughtBackTwiceKeepsItsTime) {
  const UserId user = db_.add_user();
  const TaskId waiting = create(user), running = create(user);
  claim(running);
  for (int i = 0; i < 3; ++i) {
    set_clock(-10min);
    EXPECT_EQ(sweep().expired, 0U);
    for (const TaskId task : {waiting, running}) {
      EXPECT_GT(seconds_until(task, "deadline_at"), 900 - 300);
      EXPECT_LE(seconds_until(task, "deadline_at"), 900);
    }
  }
}

// A frozen transaction, or somebody's console, has it at that moment.
TEST_F(JumpTest, WhatIsHeldIsBroughtBackByALaterLook) {
  const UserId user = db_.add_user();
  const TaskId held = create(user), other = create(user);
  sweep();
  set_clock(-1h);
  RowHolder holder(db_.url(), row_of_task(held));
  EXPECT_FALSE(sweep().more) << "not at once: it may be held for long";
  EXPECT_LE(seconds_until(other, "wake_at"), 30);
  EXPECT_GT(seconds_until(held, "wake_at"), 3000);
  holder.release();
  sweep();
  EXPECT_LE(seconds_until(held, "wake_at"), 30);
  EXPECT_LE(seconds_until(held, "deadline_at"), 900);
}

// By the rights that a worker has.
TEST_F(JumpTest, AWorkerMayBringThemBack) {
  const TaskId task = create(db_.add_user());
  move_rows(-1h);
  TaskStore worker(db_.as("worker"));
  must(worker.sweep(10));
  EXPECT_LE(seconds_until(task, "deadline_at"), 900);
  EXPECT_LE(seconds_until(task, "wake_at"), 30);
}

// What is as it should be is not touched.
TEST_F(JumpTest, WithoutAJumpNothingIsMoved) {
  const UserId user = db_.add_user();
  const std::vector<TaskId> tasks = {create(user), create(user), create(user)};
  const Claim claimed = *claim(tasks[1]);
  SettleCommand retry = settle_command(Settle::kRetry, *claim(tasks[2]));
  retry.retry_after = 90s;
  settle(retry);
  const Sql rows(
      "SELECT GROUP_CONCAT(CONCAT_WS(' ', next_run_at, wake_at, deadline_at, lease_until, "
      "updated_at) ORDER BY id) FROM tasks");
  const std::string before = db_.text(rows);
  EXPECT_EQ(sweep().looked_at, 0U);
  EXPECT_EQ(db_.text(rows), before);
}

TEST_F(HintedTest, ReportsAreForgottenAfterADay) {
  const ApiId old = ApiId::make();
  must(store_.report_api(old, TaskId{}));
  must(store_.report_api(old, TaskId{}));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_processes")), 1);
  let_fall_silent(old, 25 * 3600);
  must(store_.report_api(ApiId::make(), TaskId{}));
  EXPECT_EQ(must(store_.forget_silent(100)), 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_processes")), 1);
}

// Else all new tasks of the other processes would be looked at for a minute.
TEST_F(HintedTest, AProcessThatEndedCountsNoMore) {
  const std::vector<TaskId> tasks = create_some(3);
  const ApiId ended = ApiId::make(), alive = ApiId::make();
  must(store_.report_api(ended, tasks[0]));
  must(store_.report_api(alive, tasks[2]));
  must(store_.report_api_ended(ended));
  EXPECT_EQ(must(store_.sweep(10)).publish, first_hints(std::span(tasks).subspan(2)));
}

// The clock was set back: whoever lives tells again.
TEST_F(HintedTest, AProcessThatWasLastSeenInTheFutureCountsNoMore) {
  const std::vector<TaskId> tasks = create_some(3);
  const ApiId gone = ApiId::make(), alive = ApiId::make();
  must(store_.report_api(gone, tasks[0]));
  must(store_.report_api(alive, tasks[2]));
  let_fall_silent(gone, -3600);
  EXPECT_EQ(must(store_.sweep(10)).publish, first_hints(std::span(tasks).subspan(2)));
}

TEST_F(HintedTest, TheLastWordOfTheLastProcessCounts) {
  const std::vector<TaskId> tasks = create_some(3);
  const ApiId last = ApiId::make();
  must(store_.report_api(last, tasks[2]));
  must(store_.report_api_ended(last));
  EXPECT_EQ(must(store_.sweep(10)).publish, first_hints(std::span(tasks).subspan(2)));
}

// MySQL has one limit for all that is idle, a second. What a sweeper measures between two looks
// would be lost with its turn.
TEST_F(SweepTest, ATurnIsKeptBetweenTwoLooks) {
  using Chore = TaskStore::Chore;
  TaskStore keeper(db_.url(), {}, std::chrono::seconds(30));
  EXPECT_TRUE(must(keeper.take_turn(Chore::kCrowds)));
  must(keeper.look_after_crowds(10));
  const auto holder = [] { return Sql("IS_USED_LOCK(").append(lock_name("chore5")) << ")"; };
  Sql idle("SELECT ");
  idle.append(holder()) << " IS NULL OR EXISTS(SELECT 1 FROM information_schema.processlist WHERE "
                           "time>=2 AND id=";
  idle.append(holder()) << ")";
  ASSERT_TRUE(test::eventually(30s, [&] { return db_.number(idle) == 1; }));
  EXPECT_FALSE(must(store_.take_turn(Chore::kCrowds)));
  EXPECT_TRUE(must(keeper.take_turn(Chore::kCrowds)));
}

}  // namespace
}  // namespace audiogen::store
