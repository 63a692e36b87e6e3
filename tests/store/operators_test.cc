// The door of operators on a real server: tasks, what they end, what they did.
#include "common/store/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/doors_fixture.h"

namespace audiogen::store {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class OperatorsTest : public DoorsTest {};

TEST_F(OperatorsTest, TasksAreListedNewestFirst) {
  const UserId mine = db_.add_user();
  const UserId other = db_.add_user();
  const auto ids = create_tasks(mine, 5);
  const auto others = create_tasks(other, 2);
  ASSERT_TRUE(tasks_.cancel(ids[1]));

  const auto names = [](const Result<std::vector<TaskRow>, Fault>& rows) {
    std::vector<TaskId> out;
    EXPECT_TRUE(rows);
    for (const TaskRow& row : *rows) {
      out.push_back(row.view.id);
    }
    return out;
  };
  using Ids = std::vector<TaskId>;
  EXPECT_EQ(names(operators_.list_tasks(mine, std::nullopt, 3)), (Ids{ids[4], ids[3], ids[2]}));
  EXPECT_EQ(names(operators_.list_tasks(mine, TaskState::kCanceled, 9)), (Ids{ids[1]}));
  EXPECT_EQ(names(operators_.list_tasks(mine, TaskState::kQueued, 2)), (Ids{ids[4], ids[3]}));
  EXPECT_EQ(names(operators_.list_tasks(std::nullopt, std::nullopt, 3)),
            (Ids{others[1], others[0], ids[4]}));
  EXPECT_EQ(names(operators_.list_tasks(std::nullopt, TaskState::kQueued, 4)),
            (Ids{others[1], others[0], ids[4], ids[3]}));
  EXPECT_EQ(names(operators_.list_tasks(std::nullopt, TaskState::kCanceled, 9)), (Ids{ids[1]}));
  EXPECT_THAT(names(operators_.list_tasks(std::nullopt, TaskState::kFailed, 9)), IsEmpty());
  EXPECT_THAT(names(operators_.list_tasks(UserId::make(), std::nullopt, 3)), IsEmpty());
}

TEST_F(OperatorsTest, ATaskIsShownWithItsHistory) {
  const UserId user = db_.add_user();
  const TaskId id = create_tasks(user, 1)[0];
  const WorkerId worker = WorkerId::make();
  const Hint hint{.task = id, .epoch = 0};
  const auto claimed =
      tasks_.claim(std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); })
          .front();
  ASSERT_TRUE(claimed && *claimed);
  auto shown = operators_.show_task(id);
  ASSERT_TRUE(shown) << shown.error().detail;
  EXPECT_EQ(shown->task.worker, worker);
  EXPECT_TRUE(shown->task.lease_until);
  ASSERT_THAT(shown->attempts, SizeIs(1));
  EXPECT_EQ(shown->attempts[0].provider, "local");
  EXPECT_FALSE(shown->attempts[0].ended_at);
  EXPECT_THAT(shown->ledger, SizeIs(1));

  SettleCommand settle{{.kind = ClaimEnd::Kind::kSucceed,
                        .epoch = (*claimed)->epoch,
                        .output_key = "k",
                        .duration_ms = 12'000}};
  settle.task = id;
  settle.user = user;
  settle.output_bytes = 5;
  settle.attempt = 1;
  settle.attempt_state = 2;
  const auto settled = tasks_.settle(std::span(&settle, 1)).front();
  ASSERT_TRUE(settled && *settled == SettleOutcome::kSettled);
  shown = operators_.show_task(id);
  EXPECT_EQ(shown->task.view.state, TaskState::kSucceeded);
  EXPECT_EQ(shown->task.output_bytes, 5U);
  EXPECT_EQ(shown->attempts[0].state, 2);
  ASSERT_THAT(shown->ledger, SizeIs(2));
  EXPECT_EQ(shown->ledger[0].d_held, kHoldAmount);
  EXPECT_EQ(shown->ledger[1].d_system, Units{15'000});
  EXPECT_EQ(shown->ledger[1].after.held, Units{});
  EXPECT_EQ(code_of(operators_.show_task(TaskId::make())), FaultCode::kNoSuchTask);
}

TEST_F(OperatorsTest, TheOldestOpenTasksComeFirst) {
  const UserId user = db_.add_user();
  db_.execute(Sql("UPDATE release_window SET size=3"));
  const auto ids = create_tasks(user, 6);  // Three of them parked.
  ASSERT_TRUE(tasks_.cancel(ids[0]));
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 300 SECOND WHERE id=")
              << ids[2]);
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 200 SECOND WHERE id=")
              << ids[3]);
  const auto names = [&](std::chrono::seconds age, std::size_t limit, bool whole) {
    const auto open = operators_.oldest_open(age, limit);
    EXPECT_TRUE(open) << open.error().detail;
    EXPECT_EQ(open->whole, whole);
    std::vector<TaskId> out;
    for (const TaskRow& task : open->tasks) {
      out.push_back(task.view.id);
    }
    return out;
  };
  using Ids = std::vector<TaskId>;
  EXPECT_EQ(names(std::chrono::seconds(0), 9, true), (Ids{ids[2], ids[3], ids[1], ids[4], ids[5]}));
  EXPECT_EQ(names(std::chrono::seconds(0), 2, false), (Ids{ids[2], ids[3]}));
  EXPECT_EQ(names(std::chrono::seconds(250), 9, true), (Ids{ids[2]}));
  EXPECT_THAT(names(std::chrono::seconds(400), 9, true), IsEmpty());
}

// Operators' looks must stay cheap beside millions of final tasks: they read an index range, never
// the whole table.
TEST_F(OperatorsTest, ListsReadNoFinalTasks) {
  const UserId user = db_.add_user();
  create_tasks(user, 3);
  db_.execute(
      Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, charged, failure, "
          "next_run_at, deadline_at, created_at, updated_at) SELECT UNHEX(LPAD(HEX(s.seq), 32, "
          "'0')), ")
      << user
      << ", 4, '', 1, 1, 0, 7, NOW(6), NOW(6), NOW(6), NOW(6) FROM (WITH RECURSIVE s AS (SELECT 1 "
         "AS seq UNION ALL SELECT seq+1 FROM s WHERE seq<900) SELECT seq FROM s) s");
  const auto rows_read = [&] {
    return db_.number(
        Sql("SELECT SUM(ROWS_READ) FROM information_schema.TABLE_STATISTICS WHERE "
            "TABLE_NAME='tasks' AND TABLE_SCHEMA=DATABASE()"));
  };
  db_.execute(Sql("SET GLOBAL userstat=1"));
  Session session(db_.url(), kOperatorPatience);
  Operators fresh(session);
  const auto before = rows_read();
  ASSERT_TRUE(fresh.list_tasks(std::nullopt, TaskState::kRunning, 50));
  ASSERT_TRUE(fresh.list_tasks(std::nullopt, std::nullopt, 10));
  EXPECT_LT(rows_read() - before, 60);
}

TEST_F(OperatorsTest, AnOpenTaskIsCanceledOnce) {
  const TaskId task = create_tasks(db_.add_user(), 1).front();
  EXPECT_TRUE(operators_.cancel_task(tasks_, task));
  const auto again = operators_.cancel_task(tasks_, task);
  EXPECT_EQ(code_of(again), FaultCode::kAlreadyFinal);
  EXPECT_EQ(again.error().about, task.text());
  EXPECT_EQ(code_of(operators_.cancel_task(tasks_, TaskId::make())), FaultCode::kNoSuchTask);
  expect_sound();
}

// The ledger refuses its row; that must not be mistaken for a note that is there already.
TEST_F(OperatorsTest, WhatTheLedgerRefusesIsNotDoneWithANoteEither) {
  const UserId user = db_.add_user();
  const TaskId task = create_tasks(user, 1).front();
  const ActionNote note(
      {.who = "w", .action = "a", .target = "t", .detail = "d", .reason = std::nullopt});
  Operators noted(session_, &note);
  const Balance before = db_.balance(user);
  db_.execute(Sql("UPDATE balances SET seq=seq-1 WHERE user_id=") << user);
  EXPECT_FALSE(is_refusal(code_of(noted.cancel_task(tasks_, task))));
  EXPECT_FALSE(is_refusal(
      code_of(Accounts(session_, &note).grant(user, credits(5), GrantKind::kBonus, "r"))));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1")), 1);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM grants WHERE reference='r'")), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM admin_actions")), 0);
  db_.execute(Sql("UPDATE balances SET seq=seq+1 WHERE user_id=") << user);
  EXPECT_EQ(db_.balance(user), before);
  EXPECT_TRUE(noted.cancel_task(tasks_, task));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM admin_actions")), 1);
}

}  // namespace
}  // namespace audiogen::store
