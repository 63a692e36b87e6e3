// Limits of what keys spend, on a real server: never passed by a credit, whoever creates at once,
// and what is given back is there again at once.
#include "common/store/spending.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/audit.h"
#include "common/store/group_commit.h"
#include "common/store/keys.h"
#include "tests/store/task_fixture.h"
#include "tests/support/dates.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using Kind = CreateOutcome::Kind;

constexpr SpendLimit a_day(std::int64_t amount) {
  return {credits(amount), SpendPeriod::kDay};
}

class SpendingTest : public TaskStoreTest {
 protected:
  SpendingTest() { test::wait_out_midnight(); }

  // A key of `user`, or of the usual one, with this limit.
  KeyId limited(SpendLimit limit, std::optional<UserId> user = {}) {
    const auto key =
        keys_.add(user.value_or(user_), {.name = "k", .spend_limit = limit}, make_api_key("svc"));
    EXPECT_TRUE(key) << key.error().detail;
    return key ? key->id : KeyId();
  }
  KeyId unlimited() { return keys_.add(user_, {.name = "k"}, make_api_key("svc"))->id; }

  CreateCommand by(KeyId key, bool limited = true, std::optional<UserId> user = {}) {
    CreateCommand command = create_command(user.value_or(user_));
    command.key = key;
    command.limited = limited;
    return command;
  }
  CreateOutcome ask(KeyId key) { return create(by(key)); }
  TaskId must_create(KeyId key) {
    const CreateOutcome outcome = ask(key);
    EXPECT_EQ(outcome.kind, Kind::kCreated);
    return outcome.task.id;
  }
  void succeed(TaskId task) {  // 75 credits
    EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(task))), SettleOutcome::kSettled);
  }
  void fail(TaskId task) {
    EXPECT_EQ(settle(settle_command(Settle::kFail, *claim(task))), SettleOutcome::kSettled);
  }
  void change(KeyId key, std::optional<SpendLimit> limit) {
    const auto changed = keys_.change(user_, key, {.spend_limit = limit}, {});
    ASSERT_TRUE(changed) << changed.error().detail;
    EXPECT_EQ(changed->spend_limit, limit);
  }

  // As it is shown, and as a creation counts it, before and after the mark has moved.
  Units spent(KeyId key, std::optional<UserId> user = {}) {
    const auto look = [&] {
      const auto page = keys_.page(user.value_or(user_), std::nullopt, 50);
      EXPECT_TRUE(page) << page.error().detail;
      for (const KeyInfo& info : page->keys) {
        if (info.id == key) {
          EXPECT_TRUE(info.spent) << "not counted yet";
          return info.spent.value_or(Units{});
        }
      }
      ADD_FAILURE() << "no such key";
      return Units{};
    };
    const Units before = look();
    EXPECT_EQ(roll_up_spending(session_, user.value_or(user_), 100'000), 0U);
    EXPECT_EQ(look(), before) << "wherever the mark is";
    return before;
  }
  // A task as though it had been created then.
  void move(TaskId task, Instant to) {
    db_.execute(Sql("UPDATE tasks SET created_at=") << to << " WHERE id=" << task);
  }

  Session session_{db_.url()};
  Keys keys_{session_};
  const UserId user_ = db_.add_user(credits(1'000'000));
};

TEST_F(SpendingTest, WhatIsReservedCountsAndWhatIsNotChargedComesBack) {
  const KeyId key = limited(a_day(450));
  const TaskId one = must_create(key), two = must_create(key), three = must_create(key);
  const CreateOutcome refused = ask(key);
  EXPECT_EQ(refused.kind, Kind::kOverLimit);
  EXPECT_EQ(refused.limit, a_day(450));
  EXPECT_EQ(refused.spent, credits(450));
  EXPECT_EQ(db_.balance(user_).held, credits(450)) << "nothing was reserved for it";
  succeed(one);
  EXPECT_EQ(spent(key), credits(375));
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit) << "75 are not 150";
  succeed(two);
  EXPECT_EQ(spent(key), credits(300));
  const TaskId four = must_create(key);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  fail(three);
  EXPECT_EQ(spent(key), credits(300)) << "all of it";
  EXPECT_EQ(*store_.cancel(four), CancelOutcome::kCanceled);
  EXPECT_EQ(spent(key), credits(150));
  const TaskId five = must_create(key);
  must_create(key);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  pass_deadline(five);
  EXPECT_EQ(must(store_.sweep(10)).expired, 1U);
  EXPECT_EQ(spent(key), credits(300)) << "the sweeper's end gives back as well";
  must_create(key);
  EXPECT_EQ(spent(key), credits(450)) << "to the last credit";
}

TEST_F(SpendingTest, ARepeatCountsOnceAndNeedsNoRoom) {
  const KeyId key = limited(a_day(150));
  CreateCommand command = by(key);
  command.idempotency_key = "i";
  ASSERT_EQ(create(command).kind, Kind::kCreated);
  for (int i = 0; i < 3; ++i) {
    CreateCommand again = command;
    again.id = TaskId::make();
    EXPECT_EQ(create(again).kind, Kind::kReplayed);
    again.fingerprint = sha256("another request");
    EXPECT_EQ(create(again).kind, Kind::kConflict);
  }
  EXPECT_EQ(spent(key), credits(150));
  CreateCommand other = by(key);
  other.idempotency_key = "j";
  EXPECT_EQ(create(other).kind, Kind::kOverLimit);
  change(key, a_day(300));
  other.id = TaskId::make();
  EXPECT_EQ(create(other).kind, Kind::kCreated) << "a refusal keeps no key";
}

TEST_F(SpendingTest, CreditsThatAreNotThereComeFirst) {
  const UserId poor = db_.add_user(credits(149));
  const KeyId key = limited(a_day(150), poor);
  EXPECT_EQ(create(by(key, true, poor)).kind, Kind::kInsufficient);
  EXPECT_EQ(spent(key, poor), Units{});
}

// Several processes, each with many at once.
TEST_F(SpendingTest, AHundredAtOnceNeverPassTheLimit) {
  const KeyId key = limited(a_day(150 * 10)), other = limited(a_day(150 * 7));
  const KeyId free = unlimited();
  const UserId neighbour = db_.add_user(credits(150 * 100));
  std::atomic<int> created{0}, refused{0}, others{0}, frees{0}, neighbours{0};
  in_parallel(10, [&](std::size_t) {
    TaskStore store(db_.url());
    std::vector<CreateCommand> commands;
    for (int i = 0; i < 10; ++i) {
      commands.push_back(by(key));
      commands.push_back(by(other));
      commands.push_back(by(free, false));
      commands.push_back(create_command(neighbour));
    }
    const auto outcomes = until_free(std::span<const CreateCommand>(commands),
                                     [&](auto some) { return store.create(some); });
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool done = outcomes[i].kind == Kind::kCreated;
      EXPECT_TRUE(done || outcomes[i].kind == Kind::kOverLimit);
      (i % 4 == 0   ? (done ? created : refused)
       : i % 4 == 1 ? others
       : i % 4 == 2 ? frees
                    : neighbours) += i % 4 == 0 || done ? 1 : 0;
    }
  });
  EXPECT_EQ(created, 10);
  EXPECT_EQ(refused, 90);
  EXPECT_EQ(others, 7);
  EXPECT_EQ(frees, 100);
  EXPECT_EQ(neighbours, 100);
  EXPECT_EQ(spent(key), credits(150 * 10));
  EXPECT_EQ(spent(other), credits(150 * 7));
}

// As the API does: threads that take a row over from each other while the one before commits.
TEST_F(SpendingTest, AGroupNeverPassesTheLimit) {
  const KeyId key = limited(a_day(150 * 20));
  GroupCommit<CreateCommand, CreateOutcome> group(
      db_.url(),
      patient_group(3, 5),
      [](TaskStore& store, std::span<const CreateCommand> commands, const Turn& turn) {
        return store.create(commands, turn);
      });
  std::atomic<int> created{0}, refused{0};
  in_parallel(4, [&](std::size_t) {
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(group.submit(by(key), [&](Result<CreateOutcome, StoreFault> outcome) {
        created += outcome && outcome->kind == Kind::kCreated ? 1 : 0;
        refused += outcome && outcome->kind == Kind::kOverLimit ? 1 : 0;
      }));
    }
  });
  EXPECT_TRUE(test::eventually(60s, [&] { return created + refused == 100; }));
  group.stop();
  EXPECT_EQ(created, 20);
  EXPECT_EQ(refused, 80);
  EXPECT_EQ(spent(key), credits(150 * 20));
}

// While tasks end, marks move, and creations come: at no time is more reserved and charged than the
// limit says, and at the end nothing is lost.
TEST_F(SpendingTest, EndsAndRollUpsAtTheSameTimeLoseNothing) {
  const std::int64_t most = 150 * 6;
  const KeyId key = limited(a_day(most));
  std::atomic<bool> stop{false};
  std::thread rolling([&] {
    Session session(db_.url());
    while (!stop) {
      try {
        roll_up_spending(session, user_, 3);
      } catch (const DbError& e) {
        EXPECT_EQ(e.fault(), DbFault::kBusy) << e.what();
      }
      EXPECT_LE(db_.number(Sql("SELECT SUM(COALESCE(charged, held)) FROM tasks")), most * 1000);
    }
  });
  in_parallel(3, [&](std::size_t thread) {
    TaskStore store(db_.url());
    for (int i = 0; i < 30; ++i) {
      const CreateCommand command = by(key);
      const auto outcome =
          until_free(std::span(&command, 1), [&](auto some) { return store.create(some); });
      if (outcome.front().kind != Kind::kCreated) {
        EXPECT_EQ(outcome.front().kind, Kind::kOverLimit);
        continue;
      }
      // All but one of the first thread's come to nothing, so there is room again.
      if (thread == 0 && i == 0) {
        continue;
      }
      const CancelCommand cancel{.task = command.id, .user = user_};
      const auto canceled =
          until_free(std::span(&cancel, 1), [&](auto some) { return store.cancel(some); });
      EXPECT_EQ(canceled.front().outcome, CancelOutcome::kCanceled);
    }
  });
  stop = true;
  rolling.join();
  const std::int64_t open = db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1"));
  EXPECT_EQ(spent(key), credits(150 * open));
}

TEST_F(SpendingTest, ALostReplyCountsOnce) {
  const KeyId key = limited(a_day(300));
  test::TcpProxy proxy(db_.url().port);
  TaskStore store(db_.tcp_url(proxy.port()));
  store.ping();
  proxy.drop_reply_after("COMMIT", test::TcpProxy::Cut::kReset);
  const CreateCommand command = by(key);
  EXPECT_EQ(only(store.create({&command, 1})).kind, Kind::kCreated);
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_EQ(spent(key), credits(150));
}

// Nobody else's creation asks after spending at all.
TEST_F(SpendingTest, WithoutALimitNothingIsAsked) {
  limited(a_day(150));
  const KeyId free = unlimited();
  test::TcpProxy proxy(db_.url().port);
  TaskStore store(db_.tcp_url(proxy.port()));
  store.ping();
  proxy.drop_reply_after("spend_", test::TcpProxy::Cut::kReset);
  for (int i = 0; i < 3; ++i) {
    const std::vector<CreateCommand> commands = {by(free, false), create_command(user_)};
    for (const CreateOutcome& outcome : must(store.create(commands))) {
      EXPECT_EQ(outcome.kind, Kind::kCreated);
    }
  }
  EXPECT_EQ(proxy.triggered(), 0);
}

// Whatever another session holds of what is counted: a creation reads past it.
TEST_F(SpendingTest, NobodyWaitsForRowsOfALimitedKey) {
  const KeyId key = limited(a_day(150 * 4)), other = limited(a_day(150 * 4));
  const KeyId free = unlimited();
  must_create(key);
  must_create(other);
  EXPECT_EQ(roll_up_spending(session_, user_, 100), 0U);
  const RowHolder keys(db_.url(), Sql("SELECT 1 FROM api_keys WHERE id=") << key);
  const RowHolder marks(db_.url(), Sql("SELECT 1 FROM spend_marks WHERE key_id=") << key);
  const RowHolder days(db_.url(), Sql("SELECT 1 FROM spend_days WHERE key_id=") << key);
  for (int i = 0; i < 3; ++i) {
    const std::vector<CreateCommand> commands = {by(key), by(other), by(free, false)};
    for (const CreateOutcome& outcome : must(store_.create(commands))) {
      EXPECT_EQ(outcome.kind, Kind::kCreated);
    }
  }
  const std::vector<CreateCommand> commands = {by(key), by(other)};
  for (const CreateOutcome& outcome : must(store_.create(commands))) {
    EXPECT_EQ(outcome.kind, Kind::kOverLimit) << "and counts as ever";
  }
  // Its mark is passed by, the others' go on.
  roll_up_spending(session_, user_, 100);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_marks m JOIN balances b ON "
                           "b.user_id=m.user_id WHERE m.seq=b.seq")),
            1);
}

TEST_F(SpendingTest, AGenerationCountsInThePeriodInWhichItWasCreated) {
  const KeyId daily = limited(a_day(300));
  const KeyId monthly = limited({credits(300), SpendPeriod::kMonth});
  const Instant now = session_.now();
  const Instant today = spend_window(SpendPeriod::kDay, now).from;
  const Instant month = spend_window(SpendPeriod::kMonth, now).from;
  for (const KeyId key : {daily, monthly}) {
    const TaskId old = must_create(key), recent = must_create(key);
    EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
    move(old, month - 1us);  // The last moment of a day and of a month.
    move(recent, today);     // The first of this one.
    EXPECT_EQ(spent(key), credits(150));
    const TaskId next = must_create(key);
    EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
    // What comes back goes where it came from.
    fail(old);
    EXPECT_EQ(spent(key), credits(300));
    EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
    fail(recent);
    EXPECT_EQ(spent(key), credits(150));
    fail(next);
    EXPECT_EQ(spent(key), Units{});
  }
}

TEST_F(SpendingTest, ADayOfTheMonthCountsForTheMonthOnly) {
  const KeyId key = limited({credits(300), SpendPeriod::kMonth});
  const Instant now = session_.now();
  const Instant month = spend_window(SpendPeriod::kMonth, now).from;
  const bool first = spend_window(SpendPeriod::kDay, now).from == month;
  move(must_create(key), month);
  move(must_create(key), month);
  EXPECT_EQ(spent(key), credits(300));
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  // By another period the same is counted anew, from the same days.
  change(key, a_day(300));
  EXPECT_EQ(spent(key), first ? credits(300) : Units{});
  change(key, SpendLimit{credits(450), SpendPeriod::kMonth});
  EXPECT_EQ(spent(key), credits(300));
  must_create(key);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
}

TEST_F(SpendingTest, ALimitChangesWhileTasksRun) {
  const KeyId key = limited(a_day(450));
  const TaskId one = must_create(key), two = must_create(key);
  change(key, a_day(150));
  const CreateOutcome refused = ask(key);
  EXPECT_EQ(refused.kind, Kind::kOverLimit);
  EXPECT_EQ(refused.limit, a_day(150));
  EXPECT_EQ(refused.spent, credits(300)) << "more than it may spend now";
  fail(one);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  fail(two);
  must_create(key);
  change(key, a_day(300));
  must_create(key);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  EXPECT_EQ(spent(key), credits(300));
  // Removed: whoever still believes in it is not held to it.
  change(key, std::nullopt);
  EXPECT_EQ(ask(key).kind, Kind::kCreated);
}

// What was created before does not count, and so its end gives nothing back.
TEST_F(SpendingTest, ALimitCountsFromWhenItWasSet) {
  const KeyId key = unlimited();
  const TaskId before = must_create(key), ended = must_create(key);
  fail(ended);
  change(key, a_day(300));
  EXPECT_EQ(spent(key), Units{});
  const TaskId counted = must_create(key);
  fail(before);
  EXPECT_EQ(spent(key), credits(150));
  // By a process that has not heard of it yet: not refused, but counted.
  EXPECT_EQ(create(by(key, false)).kind, Kind::kCreated);
  EXPECT_EQ(create(by(key, false)).kind, Kind::kCreated);
  EXPECT_EQ(spent(key), credits(450));
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  // Set anew, it begins anew.
  change(key, std::nullopt);
  EXPECT_EQ(create(by(key, false)).kind, Kind::kCreated);
  change(key, a_day(300));
  succeed(counted);
  EXPECT_EQ(spent(key), Units{});
  must_create(key);
  EXPECT_EQ(spent(key), credits(150));
}

TEST_F(SpendingTest, AKeyIsDeletedWhileItsTasksRun) {
  const KeyId key = limited(a_day(450));
  const TaskId one = must_create(key), two = must_create(key);
  ASSERT_TRUE(keys_.remove_own(user_, key));
  EXPECT_EQ(ask(key).kind, Kind::kKeyGone) << "by a process that has not heard of it yet";
  EXPECT_EQ(create(by(unlimited(), false)).kind, Kind::kCreated);
  succeed(one);
  fail(two);
  EXPECT_EQ(roll_up_spending(session_, user_, 100), 0U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_days")), 0);
}

// A key that nobody used while others of its user made thousands of rows: it catches up in steps,
// each short, and is exact then.
TEST_F(SpendingTest, AMarkThatIsFarBehindIsBroughtNearerFirst) {
  const KeyId key = limited(a_day(300));
  must_create(key);
  std::vector<CreateCommand> commands;
  for (std::uint64_t i = 0; i < kSpendTailMax * 2; ++i) {
    commands.push_back(create_command(user_));
    if (commands.size() == 100) {
      must(store_.create(commands));
      commands.clear();
    }
  }
  const std::vector<CreateCommand> both = {by(key), create_command(db_.add_user())};
  auto outcomes = store_.create(both);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error(), StoreFault::kLocked) << "as though somebody held it";
  ASSERT_TRUE(outcomes[1]) << "nobody else notices";
  EXPECT_EQ(outcomes[1]->kind, Kind::kCreated);
  int tries = 1;
  for (; !outcomes[0]; ++tries) {
    ASSERT_LE(tries, 4);
    outcomes = store_.create(std::span(both).first(1));
  }
  EXPECT_EQ(outcomes[0]->kind, Kind::kCreated);
  EXPECT_GE(tries, 2);
  EXPECT_EQ(ask(key).kind, Kind::kOverLimit);
  EXPECT_EQ(spent(key), credits(300));
}

TEST_F(SpendingTest, AGroupBringsItNearerByItself) {
  const KeyId key = limited(a_day(150 * 3));
  std::vector<CreateCommand> commands;
  for (std::uint64_t i = 0; i < kSpendTailMax + 100; ++i) {
    commands.push_back(create_command(user_));
  }
  must(store_.create(commands));
  GroupCommit<CreateCommand, CreateOutcome> group(
      db_.url(),
      patient_group(2),
      [](TaskStore& store, std::span<const CreateCommand> some, const Turn& turn) {
        return store.create(some, turn);
      });
  std::atomic<int> created{0}, refused{0}, others{0};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(group.submit(by(key), [&](Result<CreateOutcome, StoreFault> outcome) {
      created += outcome && outcome->kind == Kind::kCreated ? 1 : 0;
      refused += outcome && outcome->kind == Kind::kOverLimit ? 1 : 0;
    }));
    EXPECT_TRUE(group.submit(create_command(user_), [&](Result<CreateOutcome, StoreFault> outcome) {
      others += outcome && outcome->kind == Kind::kCreated ? 1 : 0;
    }));
  }
  EXPECT_TRUE(test::eventually(60s, [&] { return created + refused == 5 && others == 5; }));
  group.stop();
  EXPECT_EQ(created, 3);
  EXPECT_EQ(refused, 2);
}

TEST_F(SpendingTest, WorkersMoveTheMarksOfAllUsers) {
  const UserId other = db_.add_user(credits(1'000'000));
  const KeyId one = limited(a_day(1000)), two = limited(a_day(1000), other);
  std::vector<CreateCommand> commands = {by(one), by(two, true, other)};
  for (std::uint64_t i = 0; i < kSpendTailUsual; ++i) {
    commands.push_back(create_command(user_));
    commands.push_back(create_command(other));
  }
  must(store_.create(commands));
  Spending spending(session_);
  const auto rolled = spending.roll_up();
  ASSERT_TRUE(rolled) << rolled.error().detail;
  EXPECT_EQ(rolled->entries, 2 * (kSpendTailUsual + 1));
  EXPECT_FALSE(rolled->more);
  EXPECT_EQ(spending.roll_up()->entries, 0U) << "the rest is not worth it";
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM spend_days WHERE spent=150000")), 2);
  EXPECT_EQ(spent(one), credits(150));
  EXPECT_EQ(spent(two, other), credits(150));
}

TEST_F(SpendingTest, ManyRollUpsAtOnceCountOnce) {
  const KeyId key = limited(a_day(150'000));
  for (int i = 0; i < 30; ++i) {
    fail(must_create(key));
    must_create(key);
  }
  in_parallel(6, [&](std::size_t) {
    Session session(db_.url());
    while (roll_up_spending(session, user_, 7) > 0) {
    }
  });
  EXPECT_EQ(spent(key), credits(150 * 30));
}

}  // namespace
}  // namespace audiogen::store
