// The places of a provider's account, shared by workers against a real database.
#include "common/store/provider_accounts.h"

#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"
#include "tests/support/test_database.h"

namespace audiogen::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ProviderAccountsTest : public testing::Test {
 protected:
  // As one process has it.
  struct Worker {
    explicit Worker(ProviderAccountsTest& test)
        : session(test.url_), door(session, WorkerId::make(), test.clocks()) {}
    AccountMove ask(std::uint32_t limit, std::uint32_t wanted, std::uint32_t calls = 0) {
      const AccountAsk one{.account = "shared",
                           .limit = limit,
                           .use = {.may = may, .calls = calls, .demand = {.wanted = wanted}}};
      const auto renewed = door.renew(one);
      EXPECT_TRUE(renewed);
      written = renewed && renewed->written;
      const AccountMove move = renewed ? renewed->move : AccountMove();
      may = move.may;
      return move;
    }
    Session session;
    ProviderAccounts door;
    std::uint32_t may = 0;
    bool written = false;
  };

  LocalClocks clocks() {
    return {.steady = [this] { return std::chrono::steady_clock::time_point(now_.load()); }};
  }
  std::int64_t rows() { return db_.number(Sql("SELECT COUNT(*) FROM provider_account_shares")); }
  std::int64_t places() {
    return db_.number(Sql("SELECT COALESCE(SUM(places),0) FROM provider_account_shares"));
  }

  test::TestDatabase db_;
  const DatabaseUrl url_ = db_.as("worker");
  std::atomic<milliseconds> now_{seconds(1000)};
};

TEST_F(ProviderAccountsTest, AFirstWorkerHasAllAndGivesBackBeforeAnotherTakes) {
  Worker ann(*this), bob(*this);
  EXPECT_EQ(ann.ask(10, 10), (AccountMove{.places = 10, .may = 10}));
  EXPECT_EQ(bob.ask(10, 4), (AccountMove{.places = 0, .may = 0}));
  EXPECT_EQ(ann.ask(10, 10, 3), (AccountMove{.places = 10, .may = 6}));
  EXPECT_EQ(bob.ask(10, 4).may, 0U) << "Ann has not written yet that she uses less";
  EXPECT_EQ(ann.ask(10, 10, 3), (AccountMove{.places = 6, .may = 6}));
  EXPECT_EQ(bob.ask(10, 4), (AccountMove{.places = 4, .may = 4}));
  EXPECT_EQ(places(), 10);
}

// A worker that died every few seconds left next to nothing to the others.
TEST_F(ProviderAccountsTest, WhoIsSilentKeepsItsPlacesAndWantsNoOthers) {
  Worker ann(*this), bob(*this), his_next_life(*this);
  bob.ask(10, 10);
  ann.ask(10, 10);
  bob.ask(10, 10);
  bob.ask(10, 10);
  EXPECT_EQ(ann.ask(10, 10), (AccountMove{.places = 5, .may = 5}));
  now_ = now_.load() + kAccountSilent;
  EXPECT_EQ(his_next_life.ask(10, 10).may, 0U) << "his calls may be under way";
  EXPECT_EQ(ann.ask(10, 10, 5), (AccountMove{.places = 5, .may = 5}));
}

TEST_F(ProviderAccountsTest, WritesOnlyWhatChangesAndNowAndThen) {
  Worker ann(*this);
  ann.ask(10, 2);
  EXPECT_TRUE(ann.written);
  ann.ask(10, 2);
  EXPECT_FALSE(ann.written);
  ann.ask(10, 3);
  EXPECT_TRUE(ann.written);
  now_ = now_.load() + kAccountRenewal;
  ann.ask(10, 3);
  EXPECT_TRUE(ann.written) << "or others take it for gone";
}

TEST_F(ProviderAccountsTest, WhatAKilledWorkerHasLeftIsTakenAfterItsLease) {
  Worker bob(*this);
  {
    Worker ann(*this);
    ann.ask(10, 10);
    bob.ask(10, 10);
  }
  now_ = now_.load() + kAccountLease - seconds(1);
  EXPECT_EQ(bob.ask(10, 10).may, 0U);
  now_ = now_.load() + seconds(1);
  EXPECT_EQ(bob.ask(10, 10).may, 10U);
  EXPECT_EQ(rows(), 1);
}

TEST_F(ProviderAccountsTest, WhateverTheDatabasesClockSaysALivingWorkerKeepsItsPlaces) {
  Worker ann(*this), bob(*this);
  ann.ask(10, 10);
  for (int i = 0; i < 20; ++i) {
    bob.session.execute(Sql("SET timestamp=") << (i % 2 == 0 ? 2'000'000'000 : 1));
    EXPECT_LE(bob.ask(10, 10).may + ann.ask(10, 10, 10).may, 10U);
  }
}

TEST_F(ProviderAccountsTest, WhoeverLeavesGivesBackAtOnce) {
  Worker ann(*this), bob(*this);
  ann.ask(10, 10);
  bob.ask(10, 10);
  ASSERT_TRUE(ann.door.give_back());
  EXPECT_EQ(bob.ask(10, 10).may, 10U);
}

TEST_F(ProviderAccountsTest, WhomOthersTookForGoneBeginsAnew) {
  Worker ann(*this), bob(*this);
  ann.ask(10, 10);
  bob.ask(10, 10);
  now_ = now_.load() + kAccountLease;
  bob.ask(10, 10);
  EXPECT_EQ(ann.ask(10, 10, 2), (AccountMove{.places = 2, .may = 0})) << "two calls go on";
  EXPECT_EQ(bob.ask(10, 10, 5), (AccountMove{.places = 10, .may = 5}));
}

TEST_F(ProviderAccountsTest, AccountsAreApart) {
  Worker ann(*this);
  EXPECT_EQ(ann.door.renew({.account = "b", .limit = 5})->move.may, 5U);
  EXPECT_EQ(ann.door.renew({.account = "a", .limit = 7})->move.may, 7U);
}

// An operator's session, or a worker that is frozen in its transaction.
TEST_F(ProviderAccountsTest, WhoeverHoldsOneAccountHoldsUpNoOther) {
  Worker ann(*this);
  ASSERT_TRUE(ann.door.renew({.account = "a", .limit = 7}));
  const RowHolder holder(db_.url(), Sql("SELECT * FROM provider_accounts WHERE account='a'"));
  Session session(url_, {.lock_wait = seconds(0)});
  ProviderAccounts bob(session, WorkerId::make(), clocks());
  EXPECT_EQ(bob.renew({.account = "a", .limit = 7}).error().code, FaultCode::kLocked);
  EXPECT_EQ(bob.renew({.account = "b", .limit = 5})->move.may, 5U);
}

// An operator has looked at the account in his own session, and went to lunch.
TEST_F(ProviderAccountsTest, WhoeverHoldsAnAccountTakesNobodysPlaces) {
  Session session(url_, {.lock_wait = seconds(0)});
  const WorkerId ann = WorkerId::make();
  ProviderAccounts door(session, ann, clocks());
  AccountAsk ask{.account = "a", .limit = 7, .use = {.demand = {.wanted = 9}}};
  ASSERT_EQ(door.renew(ask)->move.may, 7U);
  ask.use.may = 7;
  ask.use.calls = 6;
  Worker bob(*this);
  ASSERT_EQ(bob.door.renew({.account = "a", .limit = 7})->move.may, 0U);
  const RowHolder holder(db_.url(), Sql("SELECT * FROM provider_accounts WHERE account='a'"));
  const auto written = [&] {
    return db_.number(Sql("SELECT renewed FROM provider_account_shares WHERE worker=") << ann);
  };
  for (int i = 0; i < 20; ++i) {
    now_ = now_.load() + kAccountRenewal;
    const std::int64_t before = written();
    const auto renewed = door.renew(ask);
    ASSERT_TRUE(renewed) << i;
    EXPECT_TRUE(renewed->written);
    EXPECT_EQ(renewed->move, (AccountMove{.places = 7, .may = 7}));
    EXPECT_NE(written(), before) << "others see that she is there";
  }
  ProviderAccounts stranger(session, WorkerId::make(), clocks());
  EXPECT_EQ(stranger.renew(ask).error().code, FaultCode::kLocked) << "there is none that is his";
  const RowHolder all(db_.url(), Sql("SELECT * FROM provider_account_shares WHERE worker=") << ann);
  now_ = now_.load() + kAccountRenewal;
  EXPECT_EQ(door.renew(ask).error().code, FaultCode::kLocked) << "somebody may be taking it";
}

// As many transactions at once as there are workers: what they may is never more than there is.
TEST_F(ProviderAccountsTest, ManyAtOnceNeverHaveMoreThanThereIs) {
  constexpr std::uint32_t kLimit = 7;
  constexpr int kWorkers = 4, kRounds = 60;
  std::atomic<std::uint32_t> in_use{0}, most{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < kWorkers; ++k) {
    threads.emplace_back([&, k] {
      std::mt19937 random(static_cast<unsigned>(k));
      Worker worker(*this);
      std::uint32_t calls = 0;
      for (int i = 0; i < kRounds; ++i) {
        worker.ask(kLimit, static_cast<std::uint32_t>(random() % 9), calls);
        const auto next = static_cast<std::uint32_t>(random() % (worker.may + 1UL));
        // Those that end are over before those that begin.
        if (next < calls) {
          in_use -= calls - next;
          calls = next;
        } else if (calls < worker.may) {
          const std::uint32_t now = in_use += next - calls;
          calls = next;
          std::uint32_t seen = most.load();
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
        }
      }
      in_use -= calls;
      EXPECT_TRUE(worker.door.give_back());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(most.load(), kLimit);
  EXPECT_GT(most.load(), 0U);
  EXPECT_EQ(rows(), 0);
}

}  // namespace
}  // namespace audiogen::store
