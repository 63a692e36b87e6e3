#include "worker/upkeep/account_keeper.h"

#include <chrono>
#include <memory>
#include <optional>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/base/rest.h"

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

void AccountKeeper::renew(store::ProviderAccounts& store, const Accounts& accounts) {
  for (const auto& account : accounts.all()) {
    const auto asked_at = Account::Clock::now();
    const AccountUse use = account->use();
    const auto renewed =
        store.renew({.account = account->name(), .limit = account->limit(), .use = use});
    if (renewed) {
      const auto until =
          renewed->written ? std::optional(asked_at + kAccountSelfStop) : std::nullopt;
      account->renew(renewed->move, use.demand.wanted, until);
      continue;
    }
    static Occasionally line;
    if (line.due()) {
      log::warn("places of a provider account cannot be renewed",
                {{"account", account->name()}, {"reason", renewed.error().detail}});
    }
    if (renewed.error().code == store::FaultCode::kUnavailable) {
      return;  // The others would wait for nothing.
    }
  }
}

void AccountKeeper::run(const std::stop_token& stop, const DatabaseUrl& url) {
  // Whoever holds the rows of an account holds up the others by no more than this.
  store::Session session(url, {.lock_wait = std::chrono::seconds(1)});
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
