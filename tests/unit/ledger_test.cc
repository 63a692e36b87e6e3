// The rules of credits, told as ledgers. A line is an operation in whole credits and the balance it
// must leave:
//
//   grant   U 200     | available 200 held   0
//   hold    U A 150   | available  50 held 150
//   resolve U A 18.75 | …                          charge 18.75, the rest returns
//   hold    U B 150 refused | …                    nothing may change
#include "common/domain/ledger.h"

#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

Units units(const std::string& credits_text) {
  return {std::llround(std::stod(credits_text) * 1000)};
}

// Every row must sum to zero, follow the one before, and change the balance by what it says.
void check_entry(const Balance& before, const Entry& entry, EntryKind kind) {
  EXPECT_EQ(entry.kind, kind);
  EXPECT_EQ((entry.d_available + entry.d_held + entry.d_system).value, 0);
  EXPECT_EQ(entry.after.available, before.available + entry.d_available);
  EXPECT_EQ(entry.after.held, before.held + entry.d_held);
  EXPECT_EQ(entry.after.seq, before.seq + 1);
  EXPECT_GE(entry.after.available, Units{});
  EXPECT_GE(entry.after.held, Units{});
}

void check_ledger(const std::string& text) {
  struct User {
    Balance balance;
    Units system;
    std::map<std::string, Units> holds;
  };
  std::map<std::string, User> users;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(' ') == std::string::npos) {
      continue;
    }
    SCOPED_TRACE(line);
    std::istringstream words(line);
    std::string operation, name, hold_name, amount, next;
    words >> operation >> name;
    if (operation != "grant") {
      words >> hold_name;
    }
    words >> amount >> next;
    const bool refused = next == "refused";
    if (refused) {
      words >> next;
    }
    ASSERT_EQ(next, "|");
    User& user = users[name];
    std::optional<Entry> entry;
    EntryKind kind{};
    if (operation == "grant") {
      kind = units(amount) > Units{} ? EntryKind::kGrant : EntryKind::kClawback;
      entry = grant(user.balance, units(amount));
    } else if (operation == "hold") {
      kind = EntryKind::kHold;
      entry = hold(user.balance, units(amount));
      if (entry) {
        user.holds[hold_name] = units(amount);
      }
    } else {
      ASSERT_EQ(operation, "resolve");
      ASSERT_EQ(user.holds.count(hold_name), 1U);
      kind = EntryKind::kResolve;
      entry = resolve(user.balance, user.holds[hold_name], units(amount));
      user.holds.erase(hold_name);
    }
    EXPECT_EQ(!entry, refused);
    if (entry) {
      check_entry(user.balance, *entry, kind);
      user.balance = entry->after;
      user.system = user.system + entry->d_system;
    }
    std::string label_available, available, label_held, held;
    words >> label_available >> available >> label_held >> held;
    ASSERT_EQ(label_available + label_held, "availableheld");
    EXPECT_EQ(user.balance.available, units(available));
    EXPECT_EQ(user.balance.held, units(held));
    EXPECT_EQ((user.balance.available + user.balance.held + user.system).value, 0);
  }
}

TEST(Ledger, ResolvingInPartReturnsTheRest) {
  check_ledger(R"(
    grant   U   200             | available 200    held   0
    hold    U A 150             | available  50    held 150
    resolve U A 18.75           | available 181.25 held   0
  )");
}

TEST(Ledger, ResolvingWithNothingReturnsEverything) {
  check_ledger(R"(
    grant   U   150             | available 150    held   0
    hold    U A 150             | available   0    held 150
    resolve U A 0               | available 150    held   0
  )");
}

TEST(Ledger, ResolvingWithAllOfItReturnsNothing) {
  check_ledger(R"(
    grant   U   150.001         | available 150.001 held   0
    hold    U A 150             | available   0.001 held 150
    resolve U A 150             | available   0.001 held   0
  )");
}

TEST(Ledger, AHoldNeedsAllOfItsAmount) {
  check_ledger(R"(
    hold    U A 150     refused | available   0    held   0
    grant   U   149.999         | available 149.999 held 0
    hold    U A 150     refused | available 149.999 held 0
    grant   U   0.001           | available 150    held   0
    hold    U A 150             | available   0    held 150
    hold    U B 150     refused | available   0    held 150
    resolve U A 10              | available 140    held   0
    hold    U B 150     refused | available 140    held   0
  )");
}

TEST(Ledger, HoldsResolveInAnyOrder) {
  check_ledger(R"(
    grant   U   450             | available 450    held   0
    hold    U A 150             | available 300    held 150
    hold    U B 150             | available 150    held 300
    hold    U C 150             | available   0    held 450
    resolve U B 75              | available  75    held 300
    resolve U C 0               | available 225    held 150
    resolve U A 150             | available 225    held   0
  )");
}

TEST(Ledger, UsersShareNothing) {
  check_ledger(R"(
    grant   U   150             | available 150    held   0
    grant   V   150             | available 150    held   0
    hold    U A 150             | available   0    held 150
    hold    V A 150             | available   0    held 150
    resolve U A 20              | available 130    held   0
    resolve V A 0               | available 150    held   0
  )");
}

TEST(Ledger, TakingBackStopsAtWhatIsAvailable) {
  check_ledger(R"(
    grant   U   200             | available 200    held   0
    hold    U A 150             | available  50    held 150
    grant   U  -50.001  refused | available  50    held 150
    grant   U  -50              | available   0    held 150
    grant   U  -1       refused | available   0    held 150
    resolve U A 0               | available 150    held   0
    grant   U  -150             | available   0    held   0
  )");
}

TEST(Ledger, NobodyOwnsMoreThanAnExactNumber) {
  check_ledger(R"(
    grant   U   1000000000001  refused | available 0             held   0
    grant   U   1000000000000          | available 1000000000000 held   0
    grant   U   0.001          refused | available 1000000000000 held   0
    hold    U A 150                    | available  999999999850 held 150
    grant   U   0.001          refused | available  999999999850 held 150
    resolve U A 10                     | available  999999999990 held   0
    grant   U   10                     | available 1000000000000 held   0
  )");
}

TEST(LedgerDeathTest, WhatOnlyABugCanAskForAborts) {
  const Balance balance{.available = credits(100), .held = credits(150), .seq = 2};
  EXPECT_DEATH(resolve(balance, credits(150), Units{150'001}), "charge <= held");
  EXPECT_DEATH(resolve(balance, credits(150), Units{-1}), "charge >= ");
  EXPECT_DEATH(resolve(balance, credits(151), credits(10)), "held <= before.held");
  EXPECT_DEATH(resolve(balance, Units{}, Units{}), "held > ");
  EXPECT_DEATH(static_cast<void>(hold(balance, Units{})), "amount > ");
  EXPECT_DEATH(static_cast<void>(hold(balance, Units{-1})), "amount > ");
  EXPECT_DEATH(static_cast<void>(grant(balance, Units{})), "amount != ");
}

// Random operations against a plain list of open holds: the balance must always be what the list
// and the sums of the rows say.
TEST(Ledger, AgreesWithASimpleModel) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
    };
    Balance balance;
    Units granted, charged, system;
    std::vector<Units> open;
    for (std::uint64_t step = 0; step < 200; ++step) {
      std::optional<Entry> entry;
      EntryKind kind{};
      if (const auto choice = below(10); choice < 2) {
        const Units amount{below(400'000) - 100'000};
        if (amount == Units{}) {
          continue;
        }
        kind = amount > Units{} ? EntryKind::kGrant : EntryKind::kClawback;
        entry = grant(balance, amount);
        ASSERT_EQ(entry.has_value(), balance.available + amount >= Units{});
        granted = entry ? granted + amount : granted;
      } else if (choice < 6) {
        kind = EntryKind::kHold;
        entry = hold(balance, kHoldAmount);
        ASSERT_EQ(entry.has_value(), balance.available >= kHoldAmount);
        if (entry) {
          open.push_back(kHoldAmount);
        }
      } else if (!open.empty()) {
        const auto which = below(static_cast<std::int64_t>(open.size()));
        const Units charge{below(2) == 0 ? 0 : below(kHoldAmount.value + 1)};
        kind = EntryKind::kResolve;
        entry = resolve(balance, open[static_cast<std::size_t>(which)], charge);
        open.erase(open.begin() + which);
        charged = charged + charge;
      }
      if (entry) {
        check_entry(balance, *entry, kind);
        balance = entry->after;
        system = system + entry->d_system;
      }
      Units held;
      for (const Units amount : open) {
        held = held + amount;
      }
      ASSERT_EQ(balance.held, held);
      ASSERT_EQ(balance.available, granted - charged - held);
      ASSERT_EQ((balance.available + balance.held + system).value, 0);
    }
  }
}

}  // namespace
}  // namespace audiogen
