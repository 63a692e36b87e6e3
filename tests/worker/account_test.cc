// Providers that share the places of an account.
#include "worker/chain/account.h"

#include <gtest/gtest.h>

#include "tests/worker/fake_provider.h"
#include "worker/chain/chain.h"

namespace audiogen::worker {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

class AccountTest : public testing::Test {
 protected:
  AccountTest() {
    std::vector<std::unique_ptr<AudioProvider>> providers;
    for (const char* name : {"first", "second"}) {
      Capabilities able;
      able.max_in_flight = 3;
      able.account = "shared";
      able.account_max_in_flight = 8;
      able.scenes = std::string_view(name) == "second";  // Each serves something of its own.
      auto fake = std::make_unique<FakeProvider>(name, able);
      fakes_.push_back(fake.get());
      providers.push_back(std::move(fake));
    }
    chain_ = std::make_unique<Chain>(std::move(providers), &accounts_);
    account_ = accounts_.get("shared", 8);
  }
  void may(std::uint32_t places, seconds lease = kAccountSelfStop) {
    account_->renew({.places = places, .may = places}, 0, Clock::now() + lease);
  }
  std::shared_ptr<ProviderCall> start(std::size_t at) {
    return chain_->at(at).start({.request = nullptr,
                                 .request_key = {},
                                 .deadline = Clock::now() + hours(1),
                                 .lifetime = hours(1)},
                                [](const Result<Audio, ProviderFault>&) {});
  }
  std::size_t called(std::size_t at) const { return fakes_[at]->calls.size(); }
  void answer(std::size_t at, std::size_t call) { fakes_[at]->calls[call]->answer(Audio{}); }

  Accounts accounts_;
  std::vector<FakeProvider*> fakes_;
  std::shared_ptr<Account> account_;
  std::unique_ptr<Chain> chain_;
};

TEST_F(AccountTest, WithoutAPlaceACallWaits) {
  start(0);
  EXPECT_EQ(called(0), 0U);
  EXPECT_EQ(chain_->at(0).waiting(), 1U);
  may(1);
  EXPECT_EQ(called(0), 1U) << "it began when there was one";
  start(1);
  EXPECT_EQ(called(1), 0U) << "the other's call has it";
  answer(0, 0);
  EXPECT_EQ(called(1), 1U) << "and left it to this one";
}

TEST_F(AccountTest, WhoHasWaitedLongestIsNext) {
  may(1);
  for (int i = 0; i < 3; ++i) {
    start(0);
    start(1);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    answer(0, i);
    ASSERT_EQ(called(1), i + 1);
    answer(1, i);
  }
  EXPECT_EQ(called(0), 3U);
}

TEST_F(AccountTest, KeepsToTheEntrysOwnLimitAsWell) {
  may(8);
  for (int i = 0; i < 5; ++i) {
    start(0);
  }
  EXPECT_EQ(called(0), 3U);
  EXPECT_EQ(account_->use().demand, (AccountDemand{.wanted = 3})) << "more would be of no use";
  EXPECT_EQ(account_->free(), 5U);
  answer(0, 0);
  EXPECT_EQ(called(0), 4U);
}

TEST_F(AccountTest, BeginsNothingWhenTheLeaseIsOver) {
  may(8, seconds(0));
  start(0);
  EXPECT_EQ(called(0), 0U);
  EXPECT_EQ(account_->use().may, 0U);
  may(8);
  EXPECT_EQ(called(0), 1U);
}

TEST_F(AccountTest, WhatIsToBeGivenBackIsNotUsedAgain) {
  may(3);
  for (int i = 0; i < 3; ++i) {
    start(0);
  }
  start(1);
  account_->renew({.places = 3, .may = 1}, 4, Clock::now() + kAccountSelfStop);
  answer(0, 0);
  answer(0, 1);
  EXPECT_EQ(called(1), 0U);
  const AccountUse use = account_->use();
  EXPECT_EQ(use.may, 1U);
  EXPECT_EQ(use.calls, 1U);
  answer(0, 2);
  EXPECT_EQ(called(1), 1U);
}

TEST_F(AccountTest, AsksAtOnceWhenThereIsMoreToDoOrToGiveBack) {
  const auto asked = [this] { return accounts_.wait_for_ask(milliseconds(0)); };
  EXPECT_TRUE(asked()) << "there is an account";
  EXPECT_FALSE(asked());
  start(0);
  EXPECT_TRUE(asked());
  account_->renew({.places = 2, .may = 2}, 3, Clock::now() + kAccountSelfStop);
  EXPECT_FALSE(asked());
  start(0);
  start(0);
  EXPECT_FALSE(asked()) << "as was told";
  start(1);
  EXPECT_TRUE(asked());
  account_->renew({.places = 2, .may = 1}, 4, Clock::now() + kAccountSelfStop);
  EXPECT_FALSE(asked()) << "both are in use";
  answer(0, 0);
  EXPECT_TRUE(asked());
  account_->renew({.places = 5, .may = 3}, 4, Clock::now() + kAccountSelfStop);
  EXPECT_TRUE(asked()) << "two are to be given back";
}

TEST_F(AccountTest, TellsWhatItWouldDoWithMore) {
  may(1);
  start(0);
  start(0);
  start(1);
  const AccountUse use = account_->use();
  EXPECT_EQ(use.calls, 1U);
  EXPECT_EQ(use.demand.wanted, 3U);
  EXPECT_GE(use.demand.waits, milliseconds(0));
  EXPECT_TRUE(chain_->status()[1].waits_for_account);
  may(8);
  EXPECT_FALSE(chain_->status()[1].waits_for_account);
  start(0);
  start(0);
  EXPECT_EQ(chain_->status()[0].waiting, 1U);
  EXPECT_FALSE(chain_->status()[0].waits_for_account) << "for a slot of the entry";
}

TEST_F(AccountTest, ItsPlacesAreCountedOnce) {
  may(4);
  EXPECT_EQ(chain_->capacity(), 4U) << "three and three, of four";
  EXPECT_EQ(chain_->room(), 4U + 2U) << "and a few that wait";
  start(0);
  EXPECT_EQ(chain_->room(), 3U + 2U);
  EXPECT_EQ(chain_->status()[0].limit, 3U);
  may(0);
  EXPECT_EQ(chain_->room(), 1U) << "else nobody would ever say that he wants one";
  EXPECT_EQ(chain_->choose_free({}, 0, {.left = hours(1), .whole = hours(1)}), std::nullopt);
}

TEST_F(AccountTest, AChainThatIsReadAgainSharesItToo) {
  may(1);
  start(0);
  std::vector<std::unique_ptr<AudioProvider>> providers;
  Capabilities able;
  able.account = "shared";
  able.account_max_in_flight = 2;
  auto fake = std::make_unique<FakeProvider>("first", able);
  FakeProvider& again = *fake;
  providers.push_back(std::move(fake));
  const Chain next(std::move(providers), &accounts_);
  EXPECT_EQ(account_->limit(), 2U);
  next.at(0).start({.request = nullptr,
                    .request_key = {},
                    .deadline = Clock::now() + hours(1),
                    .lifetime = hours(1)},
                   [](const Result<Audio, ProviderFault>&) {});
  EXPECT_TRUE(again.calls.empty());
  answer(0, 0);
  EXPECT_EQ(again.calls.size(), 1U);
}

}  // namespace
}  // namespace audiogen::worker
