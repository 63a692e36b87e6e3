// The door to accounts on a real server: users, plans, credits.
#include "common/store/accounts.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/situations.h"
#include "tests/store/doors_fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::SizeIs;

class AccountsTest : public DoorsTest {};

TEST_F(AccountsTest, UsersAreMadeOnceAndFoundByAddressOrId) {
  const auto made = accounts_.create("Ann.Lee@Example.COM", Plan::kFree);
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ(made->email, "ann.lee@example.com");
  EXPECT_FALSE(made->api_access);
  EXPECT_EQ(made->balance, Balance{});
  EXPECT_EQ(*accounts_.resolve("ANN.lee@example.com"), made->id);
  EXPECT_EQ(*accounts_.resolve(made->id.text()), made->id);
  EXPECT_EQ(accounts_.find(made->id)->email, "ann.lee@example.com");

  const auto again = accounts_.create("ann.lee@example.com", Plan::kPaid);
  EXPECT_EQ(code_of(again), FaultCode::kEmailTaken);
  EXPECT_EQ(again.error().about, "ann.lee@example.com");
  EXPECT_EQ(again.error().user, made->id);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM balances")), 1);
  const auto nobody = accounts_.resolve("Bob@example.com");
  EXPECT_EQ(code_of(nobody), FaultCode::kNoSuchUser);
  EXPECT_EQ(nobody.error().about, "Bob@example.com");
  EXPECT_EQ(code_of(accounts_.resolve("nonsense")), FaultCode::kBadUserName);
  EXPECT_EQ(code_of(accounts_.resolve(UserId::make().text())), FaultCode::kNoSuchUser);
  expect_sound();
}

// An id may name nobody: callers take it from a key, a session or a command.
TEST_F(AccountsTest, AnIdOfNobodyIsAFaultEverywhere) {
  const UserId nobody = UserId::make();
  const ActionNote note(
      {.who = "w", .action = "a", .target = "t", .detail = "", .reason = std::nullopt});
  Accounts noted(session_, &note);
  EXPECT_EQ(code_of(noted.find(nobody)), FaultCode::kNoSuchUser);
  EXPECT_EQ(code_of(noted.set_plan(nobody, Plan::kPaid)), FaultCode::kNoSuchUser);
  EXPECT_EQ(code_of(noted.grant(nobody, credits(1), GrantKind::kBonus, "r")),
            FaultCode::kNoSuchUser);
  EXPECT_EQ(noted.find(nobody).error().about, nobody.text());
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM admin_actions")), 0) << "nothing was done";
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM grants")), 0);
}

TEST_F(AccountsTest, AddressesMustLookLikeOne) {
  const std::string local(64, 'a');
  for (const std::string& good :
       {std::string("a@b"), local + "@example.com", "a@" + std::string(252, 'b')}) {
    EXPECT_TRUE(accounts_.create(good, Plan::kFree)) << good;
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
    EXPECT_EQ(code_of(accounts_.create(bad, Plan::kFree)), FaultCode::kBadEmail) << bad;
  }
}

TEST_F(AccountsTest, TheSameAddressAtOnceMakesOneUser) {
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Session session(db_.url(), kOperatorPatience);
      made += Accounts(session).create("ann@example.com", Plan::kFree) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(made, 1);
  expect_sound();
}

TEST_F(AccountsTest, APaidPlanOrAPurchaseOpensAccess) {
  const UserId user = make_user("a@b");
  EXPECT_TRUE(accounts_.set_plan(user, Plan::kPaid)->api_access);
  EXPECT_TRUE(accounts_.set_plan(user, Plan::kPaid)->api_access);
  EXPECT_FALSE(accounts_.set_plan(user, Plan::kFree)->api_access);
  for (const GrantKind kind : {GrantKind::kPlan, GrantKind::kBonus, GrantKind::kAdjustment}) {
    const auto granted =
        accounts_.grant(user, credits(5), kind, "r" + std::to_string(static_cast<int>(kind)));
    EXPECT_FALSE(granted->user.api_access);
  }
  EXPECT_TRUE(accounts_.grant(user, credits(5), GrantKind::kPurchase, "p")->user.api_access);
  EXPECT_TRUE(accounts_.set_plan(user, Plan::kFree)->api_access);  // For good.
  expect_sound();
}

TEST_F(AccountsTest, GrantsChangeTheBalanceOnce) {
  const UserId user = make_user("a@b");
  const UserId other_user = make_user("c@d");
  const auto first = accounts_.grant(user, Units{18'750}, GrantKind::kPurchase, "inv-1");
  ASSERT_TRUE(first) << first.error().detail;
  EXPECT_FALSE(first->repeated);
  EXPECT_EQ(first->user.balance.available, Units{18'750});
  const auto second = accounts_.grant(user, Units{18'750}, GrantKind::kPurchase, "inv-1");
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->repeated);
  EXPECT_EQ(second->user.balance.available, Units{18'750});

  EXPECT_EQ(code_of(accounts_.grant(user, Units{18'751}, GrantKind::kPurchase, "inv-1")),
            FaultCode::kReferenceReused);
  EXPECT_EQ(code_of(accounts_.grant(user, Units{18'750}, GrantKind::kBonus, "inv-1")),
            FaultCode::kReferenceReused);
  const auto other = accounts_.grant(other_user, Units{18'750}, GrantKind::kPurchase, "inv-1");
  EXPECT_EQ(code_of(other), FaultCode::kReferenceReused);
  EXPECT_EQ(other.error().about, "inv-1");
  // References are compared byte for byte.
  EXPECT_FALSE(accounts_.grant(user, Units{1}, GrantKind::kBonus, "INV-1")->repeated);
  expect_sound();
}

TEST_F(AccountsTest, AdjustmentsTakeBackOnlyWhatIsAvailable) {
  const UserId user = make_user("a@b");
  ASSERT_TRUE(accounts_.grant(user, credits(10), GrantKind::kBonus, "1"));
  EXPECT_EQ(
      accounts_.grant(user, Units{-4'500}, GrantKind::kAdjustment, "2")->user.balance.available,
      Units{5'500});
  const auto too_much = accounts_.grant(user, Units{-5'501}, GrantKind::kAdjustment, "3");
  EXPECT_EQ(code_of(too_much), FaultCode::kWouldOverdraw);
  EXPECT_EQ(too_much.error().available, Units{5'500});
  // What was refused may be repeated and is judged again.
  EXPECT_TRUE(accounts_.grant(user, Units{-5'500}, GrantKind::kAdjustment, "3"));
  EXPECT_EQ(code_of(accounts_.grant(user, Units{-1}, GrantKind::kBonus, "4")),
            FaultCode::kNotAnAdjustment);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger WHERE kind=4")), 2);
  expect_sound();
}

TEST_F(AccountsTest, GrantsHaveLimits) {
  const UserId user = make_user("a@b");
  const auto grant = [&](Units amount, const std::string& reference) {
    return accounts_.grant(user, amount, GrantKind::kAdjustment, reference);
  };
  for (const Units amount :
       {Units{0}, kBalanceMax + Units{1}, Units{} - kBalanceMax - Units{1}, Units{INT64_MIN}}) {
    EXPECT_EQ(code_of(grant(amount, "r")), FaultCode::kBadAmount);
  }
  for (const std::string& reference :
       {std::string(), std::string("a b"), std::string("\xC3\xA4"), std::string(129, 'r')}) {
    EXPECT_EQ(code_of(grant(Units{1}, reference)), FaultCode::kBadReference) << reference;
  }
  EXPECT_TRUE(grant(kBalanceMax, std::string(128, 'r')));
  EXPECT_EQ(code_of(grant(Units{1}, "one-more")), FaultCode::kBalanceTooLarge);
  expect_sound();
}

TEST_F(AccountsTest, OneDeliveryOfManyAtOnceIsBooked) {
  const UserId user = make_user("a@b");
  std::atomic<int> booked{0}, repeated{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      Session session(db_.url(), kOperatorPatience);
      const auto granted = Accounts(session).grant(user, credits(7), GrantKind::kPurchase, "inv-1");
      ASSERT_TRUE(granted) << granted.error().detail;
      ++(granted->repeated ? repeated : booked);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(booked, 1);
  EXPECT_EQ(repeated, 9);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger")), 1);
  EXPECT_EQ(accounts_.find(user)->balance.available, credits(7));
  expect_sound();
}

TEST_F(AccountsTest, OneReferenceForManyUsersAtOnceIsBookedForOne) {
  constexpr int kUsers = 8;
  std::atomic<int> booked{0};
  std::vector<UserId> users;
  for (int i = 0; i < kUsers; ++i) {
    users.push_back(make_user("u" + std::to_string(i) + "@b"));
  }
  std::vector<std::thread> threads;
  for (const UserId user : users) {
    threads.emplace_back([&, user] {
      Session session(db_.url(), kOperatorPatience);
      const auto granted = Accounts(session).grant(user, credits(7), GrantKind::kPurchase, "inv-1");
      if (granted) {
        ++booked;
      } else {
        EXPECT_EQ(granted.error().code, FaultCode::kReferenceReused);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(booked, 1);
  expect_sound();
}

TEST_F(AccountsTest, GrantsAndHoldsAtOnceKeepTheBooks) {
  const UserId user = make_user("a@b", Plan::kPaid);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Session session(db_.url(), kOperatorPatience);
      Accounts accounts(session);
      TaskStore tasks(db_.url());
      for (int n = 0; n < 10; ++n) {
        EXPECT_TRUE(accounts.grant(
            user, credits(160), GrantKind::kBonus, std::to_string(i) + "-" + std::to_string(n)));
        CreateCommand command{.id = TaskId::make(), .user = user, .request = "{}"};
        // The grants of the others hold the balance now and then.
        EXPECT_TRUE(test::eventually(
            10s, [&] { return bool(tasks.create(std::span(&command, 1)).front()); }));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const Balance balance = accounts_.find(user)->balance;
  EXPECT_EQ(balance.available, credits(400));
  EXPECT_EQ(balance.held, credits(6000));
  expect_sound();
}

// The connection dies while COMMIT is under way: before the server has it, and after.
TEST_F(AccountsTest, ALostAnswerToCommitIsFoundOut) {
  const std::string commit = "COMMIT";
  test::TcpProxy proxy(db_.url().port);
  Session session(db_.tcp_url(proxy.port()), kOperatorPatience);
  Accounts accounts(session);
  Keys keys(session);
  session.now();  // Connected: READ COMMITTED has been said.
  int round = 0;
  for (const bool done : {false, true}) {
    const auto lose_next = [&] {
      done ? proxy.drop_reply_after(commit) : proxy.cut_before(commit);
    };
    const std::string email = std::to_string(++round) + "@b";
    lose_next();
    const auto user = accounts.create(email, Plan::kFree);
    ASSERT_TRUE(user) << user.error().detail;
    lose_next();
    EXPECT_EQ(accounts.set_plan(user->id, Plan::kPaid)->plan, Plan::kPaid);
    lose_next();
    const auto granted = accounts.grant(user->id, credits(5), GrantKind::kBonus, email);
    ASSERT_TRUE(granted) << granted.error().detail;
    EXPECT_FALSE(granted->repeated);
    EXPECT_EQ(granted->user.balance.available, credits(5));
    lose_next();
    const auto key = keys.add(user->id, {.name = "k"}, make_api_key("svc"));
    ASSERT_TRUE(key) << key.error().detail;
    EXPECT_THAT(*keys.list(user->id), SizeIs(1));
    lose_next();
    EXPECT_TRUE(keys.remove(key->id)->key.deleted_at);
    EXPECT_EQ(proxy.triggered(), 5 * round);
  }

  // Nobody left to ask: said so, and the same reference may simply be sent again.
  proxy.set_target(1);
  proxy.drop_reply_after(commit);
  const UserId first = *accounts_.resolve("1@b");
  const auto unknown = accounts.grant(first, credits(7), GrantKind::kBonus, "r");
  EXPECT_EQ(code_of(unknown), FaultCode::kUnknownOutcome);
  const auto again = accounts_.grant(first, credits(7), GrantKind::kBonus, "r");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->user.balance.available, credits(12));
  expect_sound();
}

TEST_F(AccountsTest, TheLedgerIsReadBackwards) {
  const UserId user = make_user("a@b");
  ASSERT_TRUE(accounts_.grant(user, credits(500), GrantKind::kPurchase, "order-1"));
  const TaskId task = create_tasks(user, 1).front();
  ASSERT_EQ(*tasks_.cancel(task), CancelOutcome::kCanceled);
  ASSERT_TRUE(accounts_.grant(user, credits(-100), GrantKind::kAdjustment, "back-1"));
  const UserId other = make_user("c@d");
  ASSERT_TRUE(accounts_.grant(other, credits(7), GrantKind::kBonus, "another's"));

  const auto all = accounts_.ledger(user, std::nullopt, 4);
  ASSERT_TRUE(all) << all.error().detail;
  ASSERT_EQ(all->rows.size(), 4U);
  EXPECT_FALSE(all->has_more);
  const std::vector<EntryKind> kinds = {
      EntryKind::kClawback, EntryKind::kResolve, EntryKind::kHold, EntryKind::kGrant};
  for (std::size_t i = 0; i < 4; ++i) {
    const LedgerEntry& row = all->rows[i];
    EXPECT_EQ(row.entry.kind, kinds[i]);
    EXPECT_EQ(row.entry.after.seq, 4 - i);
    EXPECT_EQ(row.entry.d_available + row.entry.d_held + row.entry.d_system, Units{});
    EXPECT_EQ(row.grant.has_value(), i == 0 || i == 3);
    if (!row.grant) {
      EXPECT_EQ(row.source, task.uuid);
    }
  }
  EXPECT_EQ(all->rows[0].grant->reference, "back-1");
  EXPECT_EQ(all->rows[0].grant->kind, GrantKind::kAdjustment);
  EXPECT_EQ(all->rows[0].entry.after.available, credits(400));
  EXPECT_EQ(all->rows[2].entry.after.held, credits(150));
  EXPECT_EQ(all->rows[3].grant->reference, "order-1");

  const auto page = accounts_.ledger(user, 4, 2);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->rows.size(), 2U);
  EXPECT_EQ(page->rows[0].entry.after.seq, 3U);
  EXPECT_TRUE(page->has_more);
  EXPECT_TRUE(accounts_.ledger(user, 1, 2)->rows.empty());
  EXPECT_TRUE(accounts_.ledger(UserId::make(), std::nullopt, 2)->rows.empty());
}

TEST_F(AccountsTest, AnAbsentDatabaseIsAFault) {
  DatabaseUrl nowhere = db_.url();
  nowhere.socket.clear();
  nowhere.host = "127.0.0.1";
  nowhere.port = 1;
  Session away(nowhere);
  TaskStore tasks(nowhere);
  Accounts accounts(away);
  Keys keys(away);
  Operators operators(away);
  for (const FaultCode code : {code_of(accounts.resolve("a@b")),
                               code_of(accounts.create("a@b", Plan::kFree)),
                               code_of(keys.list(UserId::make())),
                               code_of(Situations(away).look()),
                               code_of(operators.cancel_task(tasks, TaskId::make())),
                               code_of(audit(nowhere))}) {
    EXPECT_EQ(code, FaultCode::kUnavailable);
    EXPECT_FALSE(is_refusal(code));
  }

  DatabaseUrl stranger = db_.url();
  stranger.password += "x";
  Session refused(stranger);
  EXPECT_EQ(code_of(Accounts(refused).resolve("a@b")), FaultCode::kAccessDenied);
  const TestDatabase empty(TestDatabase::Tables::kNone);
  Session bare(empty.url());
  EXPECT_EQ(code_of(Accounts(bare).resolve("a@b")), FaultCode::kNoTables);
}

}  // namespace
}  // namespace audiogen::store
