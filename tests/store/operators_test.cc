// The door of operators on a real server: tasks, what they end, what they did.
#include "common/store/operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/doors_fixture.h"

namespace audiogen::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
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

// Who had a task and called nobody was forgotten, and so was whoever lost it.
TEST_F(OperatorsTest, ATaskIsShownWithThoseWhoHadItBefore) {
  const UserId user = db_.add_user();
  const TaskId id = create_tasks(user, 1)[0];
  std::uint32_t epoch = 0;
  std::vector<WorkerId> workers;
  const auto claim = [&](const char* provider) {
    workers.push_back(WorkerId::make());
    db_.execute(Sql("UPDATE tasks SET next_run_at=created_at, wake_at=created_at"));
    const Hint hint{.task = id, .epoch = epoch};
    const auto claimed =
        tasks_.claim(std::span(&hint, 1), workers.back(), [&](const Claim&) { return provider; })
            .front();
    EXPECT_TRUE(claimed && *claimed);
    epoch = (*claimed)->epoch + 1;
    return **claimed;
  };
  const auto settle = [&](ClaimEnd::Kind kind, const Claim& mine) {
    SettleCommand command{{.kind = kind, .epoch = mine.epoch}};
    command.task = id;
    command.user = user;
    command.call = mine.calls + 1;
    command.call_state = kCallFailed;
    command.failure = FailureCode::kProviderUnavailable;
    EXPECT_TRUE(tasks_.settle(std::span(&command, 1)).front());
  };
  settle(ClaimEnd::Kind::kRelease, claim(""));
  (void)claim("");
  db_.execute(
      Sql("UPDATE tasks SET lease_until=created_at - INTERVAL 1 SECOND, "
          "wake_at=created_at - INTERVAL 1 SECOND"));
  ASSERT_TRUE(tasks_.sweep(10));
  settle(ClaimEnd::Kind::kRetry, claim("local"));
  settle(ClaimEnd::Kind::kFail, claim("local"));

  const auto shown = operators_.show_task(id);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->task.view.state, TaskState::kFailed);
  ASSERT_THAT(shown->claims, SizeIs(4));
  const ClaimEndedAs ends[] = {ClaimEndedAs::kGivenBack,
                               ClaimEndedAs::kTakenAway,
                               ClaimEndedAs::kTriedAgain,
                               ClaimEndedAs::kSettled};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(shown->claims[i].epoch, 2 * i + 1);
    EXPECT_EQ(shown->claims[i].worker, workers[i]);
    EXPECT_EQ(shown->claims[i].ended_as, ends[i]) << i;
    EXPECT_LE(shown->task.view.created_at, shown->claims[i].claimed_at);
    EXPECT_LE(shown->claims[i].claimed_at, shown->claims[i].ended_at);
  }
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
  ASSERT_THAT(shown->calls, SizeIs(1));
  EXPECT_EQ(shown->calls[0].provider, "local");
  EXPECT_FALSE(shown->calls[0].ended_at);
  EXPECT_THAT(shown->ledger, SizeIs(1));

  SettleCommand settle{{.kind = ClaimEnd::Kind::kSucceed,
                        .epoch = (*claimed)->epoch,
                        .output_key = "k",
                        .duration_ms = 12'000}};
  settle.task = id;
  settle.user = user;
  settle.output_bytes = 5;
  settle.call = 1;
  settle.call_state = 2;
  const auto settled = tasks_.settle(std::span(&settle, 1)).front();
  ASSERT_TRUE(settled && *settled == SettleOutcome::kSettled);
  shown = operators_.show_task(id);
  EXPECT_EQ(shown->task.view.state, TaskState::kSucceeded);
  EXPECT_EQ(shown->task.output_bytes, 5U);
  EXPECT_THAT(shown->claims, IsEmpty()) << "the usual way costs no row";
  EXPECT_EQ(shown->calls[0].state, 2);
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

TEST_F(OperatorsTest, TasksAreFoundByWhatPeopleHave) {
  const User user = *accounts_.create("Ann@Example.com", Plan::kPaid);
  const UserId other = db_.add_user();
  ASSERT_TRUE(accounts_.grant(user.id, credits(10'000), GrantKind::kPurchase, "found"));
  const std::string ours = "req_" + encode_base32(new_uuid()), given = "client-7.a";
  std::vector<TaskId> ids;
  for (const auto& [owner, request] : {std::pair(user.id, ours), std::pair(user.id, given)}) {
    CreateCommand command{.id = TaskId::make(), .user = owner, .request = "{}"};
    command.trail.request_id = request;
    ASSERT_TRUE(tasks_.create(std::span(&command, 1)).front());
    ids.push_back(command.id);
  }
  create_tasks(other, 1);
  const auto found = [&](const std::string& what) {
    const auto tasks = operators_.find_tasks(what, 9);
    EXPECT_TRUE(tasks) << what << ": " << tasks.error().detail;
    std::vector<TaskId> out;
    for (const TaskRow& task : *tasks) {
      out.push_back(task.view.id);
    }
    return out;
  };
  using Ids = std::vector<TaskId>;
  EXPECT_EQ(found(ids[0].text()), Ids{ids[0]});
  EXPECT_EQ(found(ours), Ids{ids[0]});
  EXPECT_EQ(found(given), Ids{ids[1]});
  EXPECT_EQ(found("ann@EXAMPLE.com"), (Ids{ids[1], ids[0]})) << "newest first";
  EXPECT_EQ(found(user.id.text()), (Ids{ids[1], ids[0]}));
  EXPECT_THAT(found(TaskId::make().text()), IsEmpty());
  EXPECT_THAT(found("req_" + encode_base32(new_uuid())), IsEmpty());
  EXPECT_THAT(found("nobody@example.com"), IsEmpty());
  EXPECT_THAT(found("@"), IsEmpty());
  EXPECT_THAT(found("' OR 1=1"), IsEmpty());
  EXPECT_THAT(*operators_.find_tasks("ann@example.com", 1), SizeIs(1));
}

TEST_F(OperatorsTest, WhatIsStuckIsCountedByItsCause) {
  const UserId user = db_.add_user();
  const auto ids = create_tasks(user, 4);
  EXPECT_THAT(operators_.stuck(9)->tasks, IsEmpty());
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 200 SECOND, "
                  "next_run_at=next_run_at - INTERVAL 200 SECOND WHERE id<>")
              << ids[3]);
  db_.execute(Sql("UPDATE tasks SET lane=2, created_at=created_at - INTERVAL 100 SECOND WHERE id=")
              << ids[1]);
  const auto stuck = operators_.stuck(2);
  ASSERT_TRUE(stuck);
  EXPECT_THAT(stuck->causes, ElementsAre(Pair("no_worker", 2U), Pair("own_tasks", 1U)));
  EXPECT_TRUE(stuck->whole);
  ASSERT_THAT(stuck->tasks, SizeIs(2)) << "of those that are counted";
  EXPECT_EQ(stuck->tasks[0].row.view.id, ids[1]) << "the oldest";
  EXPECT_EQ(stuck->tasks[0].cause, "own_tasks");
}

TEST_F(OperatorsTest, TheHeaviestUsersAreThoseWithMostOpenTasks) {
  const UserId few = db_.add_user(), many = db_.add_user(), crowd = db_.add_user(),
               none = db_.add_user();
  create_tasks(few, 1);
  const auto ids = create_tasks(many, 3);
  db_.execute(Sql("UPDATE tasks SET state=2, lease_until=UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                  "WHERE id IN (")
              << ids[0] << "," << ids[1] << ")");
  // Of whom none is among those that are looked at.
  db_.execute(Sql("UPDATE balances SET parked=7, released=2, crowded=1 WHERE user_id=") << crowd);
  db_.execute(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6) WHERE id=") << few);
  const auto users = operators_.heaviest_users(9);
  ASSERT_TRUE(users) << users.error().detail;
  ASSERT_THAT(*users, SizeIs(3));
  EXPECT_EQ((*users)[0].user, crowd);
  EXPECT_EQ((*users)[0].open, 9U);
  EXPECT_EQ((*users)[0].running, std::nullopt) << "not known";
  EXPECT_EQ((*users)[1].user, many);
  EXPECT_EQ((*users)[1].open, 3U);
  EXPECT_EQ((*users)[1].running, 2U);
  EXPECT_TRUE((*users)[1].mail);
  EXPECT_EQ((*users)[2].user, few);
  EXPECT_FALSE((*users)[2].mail) << "his account has ended";
  EXPECT_THAT(*operators_.heaviest_users(1), SizeIs(1));
  static_cast<void>(none);
}

// A crowd has few tasks among those that are looked at. It is the heaviest all the same, and what
// it has running is told.
TEST_F(OperatorsTest, ACrowdIsHeavierThanWhoHasMoreToBeLookedAt) {
  const UserId some = db_.add_user(), crowd = db_.add_user(), more = db_.add_user();
  create_tasks(some, 3);
  const auto ids = create_tasks(crowd, 1);
  create_tasks(more, 4);
  db_.execute(Sql("UPDATE tasks SET state=2, lease_until=UTC_TIMESTAMP(6) + INTERVAL 30 SECOND "
                  "WHERE id=")
              << ids[0]);
  db_.execute(Sql("UPDATE balances SET parked=70, crowded=1 WHERE user_id=") << crowd);
  // Of his, most are not looked at.
  db_.execute(Sql("UPDATE balances SET released=50 WHERE user_id=") << some);
  const auto users = operators_.heaviest_users(1);
  ASSERT_TRUE(users) << users.error().detail;
  ASSERT_THAT(*users, SizeIs(1));
  EXPECT_EQ((*users)[0].user, crowd);
  EXPECT_EQ((*users)[0].running, 1U);
  const auto two = operators_.heaviest_users(2);
  ASSERT_THAT(*two, SizeIs(2));
  EXPECT_EQ((*two)[1].user, some);
  EXPECT_EQ((*two)[1].open, 50U);
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
  const auto rows_read = [&] { return db_.rows_read("tasks"); };
  rows_read();  // Counts from here on.
  Session session(db_.url(), kOperatorPatience);
  Operators fresh(session);
  const auto before = rows_read();
  ASSERT_TRUE(fresh.list_tasks(std::nullopt, TaskState::kRunning, 50));
  ASSERT_TRUE(fresh.list_tasks(std::nullopt, std::nullopt, 10));
  EXPECT_LT(rows_read() - before, 60);
  const auto before_page = rows_read();
  ASSERT_TRUE(fresh.stuck(50));
  ASSERT_TRUE(fresh.heaviest_users(10));
  EXPECT_LT(rows_read() - before_page, 60);
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
