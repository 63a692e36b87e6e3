#include "common/domain/account_share.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Shares = std::vector<std::uint32_t>;

// From 0 to `most`.
std::uint32_t any(std::mt19937& random, std::uint32_t most) {
  return static_cast<std::uint32_t>(random() % (most + 1UL));
}

std::vector<AccountHolder> wanting(const std::vector<AccountDemand>& demands) {
  std::vector<AccountHolder> out;
  for (const AccountDemand& demand : demands) {
    AccountHolder holder{.worker = {}, .demand = demand};
    holder.worker.uuid.bytes[0] = static_cast<std::uint8_t>(out.size());
    out.push_back(holder);
  }
  return out;
}

Shares shares(std::uint32_t limit, const std::vector<std::uint32_t>& wanted) {
  std::vector<AccountDemand> demands;
  for (const std::uint32_t one : wanted) {
    demands.push_back({.wanted = one});
  }
  return account_shares(limit, wanting(demands));
}

TEST(AccountShares, WhatIsWantedAndEquallyManyWhereThatIsTooMuch) {
  EXPECT_EQ(shares(10, {}), Shares());
  EXPECT_EQ(shares(10, {0}), Shares{10}) << "nobody else is there";
  EXPECT_EQ(shares(10, {0, 0}), (Shares{5, 5})) << "at hand for what comes";
  EXPECT_EQ(shares(10, {100, 0}), (Shares{10, 0})) << "whoever has work gets them all";
  EXPECT_EQ(shares(10, {7, 0}), (Shares{9, 1})) << "and what is left over is for all";
  EXPECT_EQ(shares(10, {100, 2}), (Shares{8, 2}));
  EXPECT_EQ(shares(10, {100, 100, 100}), (Shares{4, 3, 3}));
  EXPECT_EQ(shares(10, {100, 1, 100}), (Shares{5, 1, 4}));
  EXPECT_EQ(shares(0, {3, 3}), (Shares{0, 0}));
}

TEST(AccountShares, WhereThereAreFewerThanWorkersTheLongestWaitHasOne) {
  const auto holders = wanting({{.wanted = 2, .waits = seconds(1)},
                                {.wanted = 1, .waits = seconds(9)},
                                {.wanted = 0},
                                {.wanted = 5, .waits = seconds(3)}});
  EXPECT_EQ(account_shares(2, holders), (Shares{0, 1, 0, 1}));
}

TEST(AccountShares, AreAllThereIs) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint32_t> wanted(any(random, 8) + 1);
    for (auto& one : wanted) {
      one = any(random, 2) == 0 ? 0 : any(random, 39);
    }
    const std::uint32_t limit = any(random, 99);
    const Shares got = shares(limit, wanted);
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), 0U), limit);
    const std::uint32_t all = std::accumulate(wanted.begin(), wanted.end(), 0U);
    for (std::size_t k = 0; all <= limit && k < wanted.size(); ++k) {
      EXPECT_GE(got[k], wanted[k]) << "there is enough for everybody";
    }
  }
}

TEST(AccountShare, IsGivenBackBeforeAnotherTakesIt) {
  const auto workers = wanting({{}, {}});
  const WorkerId ann = workers[0].worker, bob = workers[1].worker;
  AccountHolder of_ann{.worker = ann, .places = 10, .demand = {.wanted = 10}};
  AccountHolder of_bob{.worker = bob, .places = 0, .demand = {.wanted = 4}};
  // Bob comes: there is nothing.
  EXPECT_EQ(renew_account_share(10, bob, {.demand = {.wanted = 4}}, of_bob, {{of_ann}}),
            (AccountMove{.places = 0, .may = 0}));
  // Ann hears of him. Her calls go on, and until she asks again she might begin what she may now.
  const AccountMove less = renew_account_share(
      10, ann, {.may = 10, .calls = 8, .demand = of_ann.demand}, of_ann, {{of_bob}});
  EXPECT_EQ(less, (AccountMove{.places = 10, .may = 6}));
  EXPECT_EQ(renew_account_share(
                10, ann, {.may = 6, .calls = 8, .demand = of_ann.demand}, of_ann, {{of_bob}}),
            (AccountMove{.places = 8, .may = 6}));
  of_ann.places = 8;
  EXPECT_EQ(renew_account_share(10, bob, {.demand = {.wanted = 4}}, of_bob, {{of_ann}}),
            (AccountMove{.places = 2, .may = 2}));
  // Whom others took for gone has nothing, but for calls that are under way.
  EXPECT_EQ(renew_account_share(10, bob, {.may = 4, .calls = 3}, std::nullopt, {{of_ann}}),
            (AccountMove{.places = 3, .may = 0}));
}

TEST(AccountWatch, AWorkerIsGoneWhenItsRowHasLongBeenAsItIs) {
  auto rows = wanting({{}, {}});
  AccountWatch watch;
  AccountWatch::Time now{seconds(0)};
  EXPECT_TRUE(watch.look(rows, now).gone.empty());
  rows[0].renewed = 1;
  now += kAccountLease - seconds(1);
  EXPECT_TRUE(watch.look(rows, now).gone.empty());
  now += seconds(1);
  EXPECT_EQ(watch.look(rows, now).gone, std::vector<WorkerId>{rows[1].worker});
  rows[1].renewed = 7;
  EXPECT_TRUE(watch.look(rows, now).gone.empty()) << "it came back";
}

// Where a worker died every few seconds, what its lives had wanted left little to the living.
TEST(AccountWatch, AWorkerThatIsSilentWantsNothingMore) {
  auto rows = wanting({{5}, {5}});
  AccountWatch watch;
  AccountWatch::Time now{seconds(0)};
  watch.look(rows, now);
  now += kAccountSilent - seconds(1);
  EXPECT_TRUE(watch.look(rows, now).silent.empty());
  rows[0].renewed = 1;
  now += seconds(1);
  const auto look = watch.look(rows, now);
  EXPECT_EQ(look.silent, std::vector<WorkerId>{rows[1].worker});
  EXPECT_TRUE(look.gone.empty()) << "but its calls may be under way";
}

// Workers that renew, begin and end calls, are killed, stand still, and do not hear what became of
// what they asked for, in any order. Nobody's clock but each one's own is asked, so no step of the
// database's matters.
class Crowd {
 public:
  explicit Crowd(unsigned seed) : random_(seed), limit_(any(random_, 11) + 1) {
    while (workers_.size() < 4) {
      add();
    }
  }

  void step() {
    Worker& worker = workers_[any(random_, 3)];
    switch (any(random_, 11)) {
      case 0:
      case 1:
        now_ += milliseconds(any(random_, 1999));
        break;
      case 2:
        // All of them, or whoever does nothing meanwhile, stand still.
        now_ += seconds(any(random_, 7) == 0 ? any(random_, 69) : 0);
        break;
      case 3:
        if (any(random_, 19) == 0) {
          worker = Worker{.row = {.worker = next_id()}};  // Killed, and another one begins.
        }
        break;
      case 4:
        worker.calls -= worker.calls > 0 ? 1U : 0U;
        break;
      case 5:
      case 6:
        worker.calls += worker.calls < may(worker) ? 1U : 0U;
        break;
      case 7:
        worker.wants = any(random_, 2) == 0 ? 0 : any(random_, 19);
        break;
      case 8:
      case 9:
        if (!worker.asks) {
          worker.asks = AccountUse{.may = may(worker),
                                   .calls = worker.calls,
                                   .demand = {.wanted = worker.wants + worker.calls}};
          worker.asked_at = now_;
        }
        break;
      default:
        if (worker.asks) {
          commit(worker);
        }
    }
    for (Worker& one : workers_) {
      // The leases of its tasks have ended with it.
      one.calls = now_ < one.until ? one.calls : 0;
    }
  }

  void everybody_renews() {
    for (Worker& worker : workers_) {
      worker.asks = AccountUse{.may = may(worker),
                               .calls = worker.calls,
                               .demand = {.wanted = worker.wants + worker.calls}};
      worker.asked_at = now_;
      commit(worker, false);
    }
  }

  std::uint32_t in_use() const {
    std::uint32_t out = 0;
    for (const Worker& worker : workers_) {
      out += std::max(worker.calls, may(worker));
    }
    return out;
  }
  std::uint32_t limit() const { return limit_; }
  void pass(seconds time) { now_ += time; }

 private:
  struct Worker {
    AccountHolder row{};  // As it is told apart.
    std::uint32_t may = 0, calls = 0, wants = 0;
    AccountWatch::Time until{seconds(0)}, asked_at{seconds(0)};
    std::optional<AccountUse> asks{};
    AccountWatch watch{};
  };

  WorkerId next_id() {
    WorkerId out{};
    ++ids_;
    out.uuid.bytes[14] = static_cast<std::uint8_t>(ids_ >> 8U);
    out.uuid.bytes[15] = static_cast<std::uint8_t>(ids_);
    return out;
  }
  void add() { workers_.push_back({.row = {.worker = next_id()}}); }
  std::uint32_t may(const Worker& worker) const { return now_ < worker.until ? worker.may : 0; }

  void commit(Worker& worker, bool may_be_lost = true) {
    const AccountUse use = *std::exchange(worker.asks, std::nullopt);
    const auto gone = worker.watch.look(rows_, now_).gone;
    std::optional<AccountHolder> own;
    std::vector<AccountHolder> others;
    std::erase_if(rows_, [&](const AccountHolder& row) {
      if (row.worker == worker.row.worker) {
        own = row;
        return true;
      }
      const bool over = std::find(gone.begin(), gone.end(), row.worker) != gone.end();
      if (!over) {
        others.push_back(row);
      }
      return over;
    });
    const AccountMove move = renew_account_share(limit_, worker.row.worker, use, own, others);
    rows_.push_back({.worker = worker.row.worker,
                     .places = move.places,
                     .demand = use.demand,
                     .renewed = ++renewals_});
    if (!may_be_lost || any(random_, 7) != 0) {
      worker.may = move.may;
      worker.until = worker.asked_at + kAccountSelfStop;
    }
  }

  std::mt19937 random_;
  const std::uint32_t limit_;
  std::uint32_t ids_ = 0;
  std::uint64_t renewals_ = 0;
  AccountWatch::Time now_{seconds(1000)};
  std::vector<AccountHolder> rows_;
  std::vector<Worker> workers_;
};

TEST(AccountShare, IsNeverMoreThanTheLimitWhateverHappens) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Crowd crowd(seed);
    for (int i = 0; i < 2000; ++i) {
      crowd.step();
      ASSERT_LE(crowd.in_use(), crowd.limit()) << "seed " << seed << ", step " << i;
    }
  }
}

TEST(AccountShare, AllPlacesAreSomebodysInTheEnd) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Crowd crowd(seed);
    for (int i = 0; i < 500; ++i) {
      crowd.step();
    }
    // What the killed have left is found, and what changes hands has time for it.
    for (int i = 0; i < 45; ++i) {
      crowd.everybody_renews();
      crowd.pass(seconds(1));
    }
    EXPECT_EQ(crowd.in_use(), crowd.limit()) << seed;
  }
}

}  // namespace
}  // namespace audiogen
