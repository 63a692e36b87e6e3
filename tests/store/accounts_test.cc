// Users, credits and keys on a real server.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/account_store.h"
#include "common/store/task_store.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_database.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class Accounts : public testing::Test {
 protected:
  // Adds tasks of `user`, in order; every one is queued.
  std::vector<TaskId> create_tasks(UserId user, std::size_t count) {
    std::vector<TaskId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      CreateCommand command{.id = TaskId::make(), .user = user, .request = "{}"};
      const auto outcome = tasks_.create(std::span(&command, 1));
      EXPECT_TRUE(outcome && (*outcome)[0].kind == CreateOutcome::Kind::kCreated);
      ids.push_back(command.id);
    }
    return ids;
  }

  void expect_sound() {
    const auto checks = store_.audit();
    ASSERT_TRUE(checks) << checks.error().message;
    for (const Check& check : *checks) {
      EXPECT_EQ(check.bad, 0U) << check.name;
    }
  }

  TestDatabase db_;
  AccountStore store_{db_.url()};
  TaskStore tasks_{db_.url()};
};

TEST_F(Accounts, UsersAreMadeOnceAndFoundByAddressOrId) {
  const auto made = store_.create_user("Ann.Lee@Example.COM", Plan::kFree);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->email, "ann.lee@example.com");
  EXPECT_FALSE(made->api_access);
  EXPECT_EQ(made->balance, Balance{});
  EXPECT_EQ(store_.find_user("ANN.lee@example.com")->id, made->id);
  EXPECT_EQ(store_.find_user(made->id.text())->email, "ann.lee@example.com");

  const auto again = store_.create_user("ann.lee@example.com", Plan::kPaid);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("has an account already (" + made->id.text() + ")"));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM balances")), 1);
  EXPECT_THAT(store_.find_user("bob@example.com").error().message, HasSubstr("there is no user"));
  EXPECT_THAT(store_.find_user("nonsense").error().message, StartsWith("--user must be"));
  expect_sound();
}

TEST_F(Accounts, AddressesMustLookLikeOne) {
  const std::string local(64, 'a');
  for (const std::string& good :
       {std::string("a@b"), local + "@example.com", "a@" + std::string(252, 'b')}) {
    EXPECT_TRUE(store_.create_user(good, Plan::kFree)) << good;
  }
  for (const std::string& bad : {std::string(),
                                 std::string("a"),
                                 std::string("@b"),
                                 std::string("a@"),
                                 std::string("a@b@c"),
                                 std::string("a b@c"),
                                 std::string("a@b\n"),
                                 std::string("a\0@b", 4),
                                 std::string("\xC3\xA4@b"),
                                 local + "a@b",
                                 "a@" + std::string(253, 'b')}) {
    const auto refused = store_.create_user(bad, Plan::kFree);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message, StartsWith("--email must be"));
  }
}

TEST_F(Accounts, TheSameAddressAtOnceMakesOneUser) {
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      AccountStore store(db_.url());
      made += store.create_user("ann@example.com", Plan::kFree) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(made, 1);
  expect_sound();
}

TEST_F(Accounts, APaidPlanOrAPurchaseOpensAccess) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kFree));
  EXPECT_TRUE(store_.set_plan("a@b", Plan::kPaid)->api_access);
  EXPECT_TRUE(store_.set_plan("a@b", Plan::kPaid)->api_access);
  EXPECT_FALSE(store_.set_plan("a@b", Plan::kFree)->api_access);
  for (const GrantKind kind : {GrantKind::kPlan, GrantKind::kBonus, GrantKind::kAdjustment}) {
    const auto granted =
        store_.grant("a@b", credits(5), kind, "r" + std::to_string(static_cast<int>(kind)));
    EXPECT_FALSE(granted->user.api_access);
  }
  EXPECT_TRUE(store_.grant("a@b", credits(5), GrantKind::kPurchase, "p")->user.api_access);
  EXPECT_TRUE(store_.set_plan("a@b", Plan::kFree)->api_access);  // For good.
  expect_sound();
}

TEST_F(Accounts, GrantsChangeTheBalanceOnce) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kFree));
  ASSERT_TRUE(store_.create_user("c@d", Plan::kFree));
  const auto first = store_.grant("a@b", Units{18'750}, GrantKind::kPurchase, "inv-1");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->repeated);
  EXPECT_EQ(first->user.balance.available, Units{18'750});
  const auto second = store_.grant("a@b", Units{18'750}, GrantKind::kPurchase, "inv-1");
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->repeated);
  EXPECT_EQ(second->user.balance.available, Units{18'750});

  EXPECT_FALSE(store_.grant("a@b", Units{18'751}, GrantKind::kPurchase, "inv-1"));
  EXPECT_FALSE(store_.grant("a@b", Units{18'750}, GrantKind::kBonus, "inv-1"));
  const auto other = store_.grant("c@d", Units{18'750}, GrantKind::kPurchase, "inv-1");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("was booked already with another user"));
  // References are compared byte for byte.
  EXPECT_FALSE(store_.grant("a@b", Units{1}, GrantKind::kBonus, "INV-1")->repeated);
  expect_sound();
}

TEST_F(Accounts, AdjustmentsTakeBackOnlyWhatIsAvailable) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kFree));
  ASSERT_TRUE(store_.grant("a@b", credits(10), GrantKind::kBonus, "1"));
  EXPECT_EQ(store_.grant("a@b", Units{-4'500}, GrantKind::kAdjustment, "2")->user.balance.available,
            Units{5'500});
  const auto too_much = store_.grant("a@b", Units{-5'501}, GrantKind::kAdjustment, "3");
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().message,
            "--credits takes more than the 5.5 credits that are available");
  // What was refused may be repeated and is judged again.
  EXPECT_TRUE(store_.grant("a@b", Units{-5'500}, GrantKind::kAdjustment, "3"));
  EXPECT_THAT(store_.grant("a@b", Units{-1}, GrantKind::kBonus, "4").error().message,
              HasSubstr("only --kind adjustment"));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger WHERE kind=4")), 2);
  expect_sound();
}

TEST_F(Accounts, GrantsHaveLimits) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kFree));
  const auto grant = [&](Units amount, const std::string& reference) {
    return store_.grant("a@b", amount, GrantKind::kAdjustment, reference);
  };
  EXPECT_FALSE(grant(Units{0}, "r"));
  EXPECT_FALSE(grant(kBalanceMax + Units{1}, "r"));
  EXPECT_FALSE(grant(Units{} - kBalanceMax - Units{1}, "r"));
  EXPECT_FALSE(grant(Units{INT64_MIN}, "r"));
  EXPECT_FALSE(grant(Units{1}, ""));
  EXPECT_FALSE(grant(Units{1}, "a b"));
  EXPECT_FALSE(grant(Units{1}, "\xC3\xA4"));
  EXPECT_FALSE(grant(Units{1}, std::string(129, 'r')));
  EXPECT_TRUE(grant(kBalanceMax, std::string(128, 'r')));
  EXPECT_THAT(grant(Units{1}, "one-more").error().message, HasSubstr("would give the user more"));
  EXPECT_FALSE(store_.grant("nobody@b", Units{1}, GrantKind::kBonus, "r"));
  expect_sound();
}

TEST_F(Accounts, OneDeliveryOfManyAtOnceIsBooked) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kFree));
  std::atomic<int> booked{0}, repeated{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      AccountStore store(db_.url());
      const auto granted = store.grant("a@b", credits(7), GrantKind::kPurchase, "inv-1");
      ASSERT_TRUE(granted) << granted.error().message;
      ++(granted->repeated ? repeated : booked);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(booked, 1);
  EXPECT_EQ(repeated, 9);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger")), 1);
  EXPECT_EQ(store_.find_user("a@b")->balance.available, credits(7));
  expect_sound();
}

TEST_F(Accounts, OneReferenceForManyUsersAtOnceIsBookedForOne) {
  constexpr int kUsers = 8;
  for (int i = 0; i < kUsers; ++i) {
    ASSERT_TRUE(store_.create_user("u" + std::to_string(i) + "@b", Plan::kFree));
  }
  std::atomic<int> booked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kUsers; ++i) {
    threads.emplace_back([&, i] {
      AccountStore store(db_.url());
      const auto granted =
          store.grant("u" + std::to_string(i) + "@b", credits(7), GrantKind::kPurchase, "inv-1");
      if (granted) {
        ++booked;
      } else {
        EXPECT_THAT(granted.error().message, HasSubstr("another user"));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(booked, 1);
  expect_sound();
}

TEST_F(Accounts, GrantsAndHoldsAtOnceKeepTheBooks) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kPaid));
  const UserId user = store_.find_user("a@b")->id;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      AccountStore store(db_.url());
      TaskStore tasks(db_.url());
      for (int n = 0; n < 10; ++n) {
        EXPECT_TRUE(store.grant(
            "a@b", credits(160), GrantKind::kBonus, std::to_string(i) + "-" + std::to_string(n)));
        CreateCommand command{.id = TaskId::make(), .user = user, .request = "{}"};
        EXPECT_TRUE(tasks.create(std::span(&command, 1)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const Balance balance = store_.find_user("a@b")->balance;
  EXPECT_EQ(balance.available, credits(400));
  EXPECT_EQ(balance.held, credits(6000));
  expect_sound();
}

TEST_F(Accounts, KeysAreStoredAsHashesOnly) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kPaid));
  const NewApiKey key = make_api_key("svc");
  const auto added = store_.add_key("a@b", "lap\xC3\xA4top", key);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(added->prefix, key.prefix);
  EXPECT_EQ(added->name, "lap\xC3\xA4top");
  EXPECT_FALSE(added->deleted_at);
  const std::string secret = key.text.substr(key.prefix.size());
  Sql search("SELECT COUNT(*) FROM api_keys WHERE INSTR(CONCAT_WS('|', HEX(id), name, prefix, ");
  search << "CAST(key_hash AS CHAR CHARACTER SET latin1)), ";
  search.bytes(secret) << ") > 0";
  EXPECT_EQ(db_.number(search), 0);

  const auto found = tasks_.find_keys(std::span(&key.hash, 1));
  ASSERT_TRUE(found && (*found)[0]);
  EXPECT_EQ((*found)[0]->id, added->id);
  EXPECT_TRUE((*found)[0]->api_access);
}

TEST_F(Accounts, KeysAreListedAndDeleted) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kPaid));
  ASSERT_TRUE(store_.create_user("c@d", Plan::kPaid));
  const NewApiKey key = make_api_key("svc");
  const auto one = store_.add_key("a@b", "one", key);
  ASSERT_TRUE(store_.add_key("a@b", "two", make_api_key("svc")));
  ASSERT_TRUE(store_.add_key("c@d", "other", make_api_key("svc")));
  const auto listed = store_.list_keys("a@b");
  ASSERT_THAT(*listed, SizeIs(2));
  EXPECT_EQ((*listed)[0].name, "one");
  EXPECT_EQ((*listed)[1].name, "two");

  const auto deleted = store_.delete_key(one->id);
  ASSERT_TRUE(deleted);
  EXPECT_FALSE(deleted->repeated);
  ASSERT_TRUE(deleted->key.deleted_at);
  const auto again = store_.delete_key(one->id);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->key.deleted_at, deleted->key.deleted_at);
  EXPECT_FALSE((*tasks_.find_keys(std::span(&key.hash, 1)))[0]);
  EXPECT_THAT(*store_.list_keys("a@b"), SizeIs(2));
  EXPECT_THAT(store_.delete_key(KeyId::make()).error().message, HasSubstr("there is no key"));
}

TEST_F(Accounts, KeyNamesHaveLimits) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kPaid));
  std::string wide;
  for (int i = 0; i < 100; ++i) {
    wide += "\xF0\x9F\x8E\xB5";
  }
  EXPECT_TRUE(store_.add_key("a@b", wide, make_api_key("svc")));
  for (const std::string& bad : {std::string(),
                                 wide + "x",
                                 std::string("a\nb"),
                                 std::string("\xFF"),
                                 std::string("a\x7F")}) {
    const auto refused = store_.add_key("a@b", bad, make_api_key("svc"));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, StartsWith("--name must be"));
  }
}

TEST_F(Accounts, TasksAreListedNewestFirst) {
  ASSERT_TRUE(store_.create_user("a@b", Plan::kPaid));
  ASSERT_TRUE(store_.grant("a@b", credits(10'000), GrantKind::kPurchase, "p"));
  const UserId mine = store_.find_user("a@b")->id;
  const UserId other = db_.add_user();
  const auto ids = create_tasks(mine, 5);
  const auto others = create_tasks(other, 2);
  ASSERT_TRUE(tasks_.cancel(ids[1]));

  const auto names = [](const Result<std::vector<TaskRow>>& rows) {
    std::vector<TaskId> out;
    EXPECT_TRUE(rows);
    for (const TaskRow& row : *rows) {
      out.push_back(row.view.id);
    }
    return out;
  };
  using Ids = std::vector<TaskId>;
  EXPECT_EQ(names(store_.list_tasks("a@b", std::nullopt, 3)), (Ids{ids[4], ids[3], ids[2]}));
  EXPECT_EQ(names(store_.list_tasks("a@b", TaskState::kCanceled, 9)), (Ids{ids[1]}));
  EXPECT_EQ(names(store_.list_tasks("a@b", TaskState::kQueued, 2)), (Ids{ids[4], ids[3]}));
  EXPECT_EQ(names(store_.list_tasks("", std::nullopt, 3)), (Ids{others[1], others[0], ids[4]}));
  EXPECT_EQ(names(store_.list_tasks("", TaskState::kQueued, 4)),
            (Ids{others[1], others[0], ids[4], ids[3]}));
  EXPECT_EQ(names(store_.list_tasks("", TaskState::kCanceled, 9)), (Ids{ids[1]}));
  EXPECT_THAT(names(store_.list_tasks("", TaskState::kFailed, 9)), IsEmpty());
  EXPECT_FALSE(store_.list_tasks("nobody@b", std::nullopt, 3));
}

TEST_F(Accounts, ATaskIsShownWithItsHistory) {
  const UserId user = db_.add_user();
  const TaskId id = create_tasks(user, 1)[0];
  const WorkerId worker = WorkerId::make();
  const Hint hint{.task = id, .epoch = 0};
  const auto claimed =
      tasks_.claim(std::span(&hint, 1), worker, [](const Claim&) { return std::string("local"); });
  ASSERT_TRUE(claimed && (*claimed)[0]);
  auto shown = store_.show_task(id);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(shown->task.worker, worker);
  EXPECT_TRUE(shown->task.lease_until);
  ASSERT_THAT(shown->attempts, SizeIs(1));
  EXPECT_EQ(shown->attempts[0].provider, "local");
  EXPECT_FALSE(shown->attempts[0].ended_at);
  EXPECT_THAT(shown->ledger, SizeIs(1));

  SettleCommand settle{.kind = SettleCommand::Kind::kSucceed,
                       .task = id,
                       .user = user,
                       .epoch = (*claimed)[0]->epoch,
                       .output_key = "k",
                       .output_bytes = 5,
                       .duration_ms = 12'000,
                       .attempt = 1,
                       .attempt_state = 2};
  const auto settled = tasks_.settle(std::span(&settle, 1));
  ASSERT_TRUE(settled && (*settled)[0] == SettleOutcome::kSettled);
  shown = store_.show_task(id);
  EXPECT_EQ(shown->task.view.state, TaskState::kSucceeded);
  EXPECT_EQ(shown->task.output_bytes, 5U);
  EXPECT_EQ(shown->attempts[0].state, 2);
  ASSERT_THAT(shown->ledger, SizeIs(2));
  EXPECT_EQ(shown->ledger[0].d_held, kHoldAmount);
  EXPECT_EQ(shown->ledger[1].d_system, Units{15'000});
  EXPECT_EQ(shown->ledger[1].after.held, Units{});
  EXPECT_THAT(store_.show_task(TaskId::make()).error().message, HasSubstr("there is no task"));
}

TEST_F(Accounts, TheQueueIsCounted) {
  const UserId user = db_.add_user();
  const auto ids = create_tasks(user, 6);
  ASSERT_TRUE(tasks_.cancel(ids[0]));
  const Hint hint{.task = ids[1], .epoch = 0};
  ASSERT_TRUE((*tasks_.claim(
      std::span(&hint, 1), WorkerId::make(), [](const Claim&) { return std::string(); }))[0]);
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id=")
              << ids[2]);
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 100 SECOND WHERE id=")
              << ids[3]);
  ASSERT_TRUE(tasks_.report_worker(WorkerId::make(), "here", 12, 3, "{}"));
  const WorkerId gone = WorkerId::make();
  ASSERT_TRUE(tasks_.report_worker(gone, "there", 13, 0, "{}"));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 31 SECOND WHERE id=") << gone);

  const auto view = store_.queue();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->ready, 3U);
  EXPECT_EQ(view->in_flight, 1U);
  EXPECT_EQ(view->waiting_retry, 1U);
  EXPECT_GE(view->oldest_seconds, 100U);
  EXPECT_LT(view->oldest_seconds, 160U);
  ASSERT_THAT(view->workers, SizeIs(2));
  EXPECT_TRUE(view->workers[0].alive);
  EXPECT_EQ(view->workers[0].host, "here");
  EXPECT_FALSE(view->workers[1].alive);
}

TEST_F(Accounts, AnEmptyQueueIsZero) {
  const auto view = store_.queue();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->ready + view->in_flight + view->waiting_retry + view->oldest_seconds, 0U);
}

// Operators' looks must stay cheap beside millions of final tasks: they read an index range, never
// the whole table.
TEST_F(Accounts, QueueAndListsReadNoFinalTasks) {
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
  AccountStore fresh(db_.url());
  ASSERT_TRUE(fresh.queue());
  const auto before = rows_read();
  ASSERT_TRUE(fresh.queue());
  ASSERT_TRUE(fresh.list_tasks("", TaskState::kRunning, 50));
  ASSERT_TRUE(fresh.list_tasks("", std::nullopt, 10));
  EXPECT_LT(rows_read() - before, 60);
}

// The connection dies while COMMIT is under way: before the server has it, and after.
TEST_F(Accounts, ALostAnswerToCommitIsFoundOut) {
  const std::string commit =
      "\x03"
      "COMMIT";  // The command COM_QUERY.
  test::TcpProxy proxy(db_.url().port);
  AccountStore store(db_.tcp_url(proxy.port()));
  int round = 0;
  for (const bool done : {false, true}) {
    const auto lose_next = [&] {
      done ? proxy.drop_reply_after(commit) : proxy.cut_before(commit);
    };
    const std::string email = std::to_string(++round) + "@b";
    lose_next();
    const auto user = store.create_user(email, Plan::kFree);
    ASSERT_TRUE(user) << user.error().message;
    lose_next();
    EXPECT_EQ(store.set_plan(email, Plan::kPaid)->plan, Plan::kPaid);
    lose_next();
    const auto granted = store.grant(email, credits(5), GrantKind::kBonus, email);
    ASSERT_TRUE(granted) << granted.error().message;
    EXPECT_FALSE(granted->repeated);
    EXPECT_EQ(granted->user.balance.available, credits(5));
    lose_next();
    const auto key = store.add_key(email, "k", make_api_key("svc"));
    ASSERT_TRUE(key) << key.error().message;
    EXPECT_THAT(*store.list_keys(email), SizeIs(1));
    lose_next();
    EXPECT_TRUE(store.delete_key(key->id)->key.deleted_at);
    EXPECT_EQ(proxy.triggered(), 5 * round);
  }

  // Nobody left to ask: said so, and the same reference may simply be sent again.
  proxy.set_target(1);
  proxy.drop_reply_after(commit);
  const auto unknown = store.grant("1@b", credits(7), GrantKind::kBonus, "r");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("may have been done or not"));
  const auto again = store_.grant("1@b", credits(7), GrantKind::kBonus, "r");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->user.balance.available, credits(12));
  expect_sound();
}

TEST_F(Accounts, AnAbsentDatabaseIsOneClearSentence) {
  DatabaseUrl nowhere = db_.url();
  nowhere.socket.clear();
  nowhere.host = "127.0.0.1";
  nowhere.port = 1;
  AccountStore store(nowhere);
  EXPECT_THAT(store.find_user("a@b").error().message, StartsWith("the database is away"));
  EXPECT_FALSE(store.create_user("a@b", Plan::kFree));
  EXPECT_FALSE(store.queue());
  EXPECT_FALSE(store.audit());

  DatabaseUrl stranger = db_.url();
  stranger.password += "x";
  EXPECT_THAT(AccountStore(stranger).find_user("a@b").error().message,
              HasSubstr("refused the user or the password"));
  const TestDatabase empty(TestDatabase::Tables::kNone);
  EXPECT_THAT(AccountStore(empty.url()).find_user("a@b").error().message,
              HasSubstr("run audio-api migrate"));
}

}  // namespace
}  // namespace audiogen::store
