#include "worker/upkeep/account_keeper.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "worker/upkeep/rest.h"

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAccountsEvery{1000};
constexpr milliseconds kLeast{200};  // Between two, however much is asked for.

}  // namespace

AccountKeeper::AccountKeeper(const Config& config, WorkerId worker, Accounts& accounts)
    : worker_(worker),
      accounts_(accounts),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void AccountKeeper::stop() {
  thread_.request_stop();
  accounts_.ask();
  stop_and_join(thread_);
}

bool AccountKeeper::renew(store::ProviderAccounts& store, const Accounts& accounts) {
  const auto all = accounts.all();
  const auto asked_at = Account::Clock::now();
  std::vector<store::AccountAsk> asks;
  for (const auto& account : all) {
    asks.push_back({.account = account->name(), .limit = account->limit(), .use = account->use()});
  }
  const auto renewed = store.renew(asks);
  if (!renewed) {
    static Occasionally line;
    if (line.due()) {
      log::warn("places of provider accounts cannot be renewed",
                {{"reason", renewed.error().detail}});
    }
    return false;
  }
  const auto until = renewed->written ? std::optional(asked_at + kAccountSelfStop) : std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->renew(renewed->moves[i], asks[i].use.demand.wanted, until);
  }
  return true;
}

void AccountKeeper::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::Session session(url);
  store::ProviderAccounts store(session, worker_);
  do {
    renew(store, accounts_);
    accounts_.wait_for_ask(kAccountsEvery);
  } while (!stopped_within(stop, kLeast));
  const auto all = accounts_.all();
  for (const auto& account : all) {
    account->renew({}, 0, Account::Clock::now());
  }
  if (!all.empty()) {
    static_cast<void>(store.give_back());
  }
}

}  // namespace audiogen::worker
