// Keeps this worker's part of the places of providers' accounts: says what it would do with more,
// gives back what others want more, and renews the rest (common/domain/README.md, "An account's
// places").
#pragma once

#include <stop_token>
#include <thread>

#include "common/base/config.h"
#include "common/store/provider_accounts.h"
#include "worker/chain/account.h"

namespace audiogen::worker {

class AccountKeeper {
 public:
  // `accounts` must outlive it.
  AccountKeeper(const Config& config, WorkerId worker, Accounts& accounts);
  ~AccountKeeper() { stop(); }
  AccountKeeper(const AccountKeeper&) = delete;
  AccountKeeper& operator=(const AccountKeeper&) = delete;

  // Gives everything back: stop it when no call is under way any more.
  void stop();

  // One renewal. Of an account that the database did not renew, what there was holds to its end.
  static void renew(store::ProviderAccounts& store, const Accounts& accounts);

 private:
  void run(const std::stop_token& stop, const DatabaseUrl& url);

  const WorkerId worker_;
  Accounts& accounts_;
  std::jthread thread_;
};

}  // namespace audiogen::worker
