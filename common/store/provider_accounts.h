// The door to what workers take of the places of providers' accounts
// (common/domain/account_share.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/local_clocks.h"
#include "common/domain/account_share.h"
#include "common/store/commands.h"
#include "common/store/door.h"

namespace audiogen::store {

struct AccountAsk {
  std::string account;
  std::uint32_t limit = 0;  // All workers together.
  AccountUse use{};
};

// Of one worker, which has one for all of its life: it remembers what it has seen of the others.
class ProviderAccounts : private Door {
 public:
  ProviderAccounts(Session& session, WorkerId worker, LocalClocks clocks = {})
      : Door(session), worker_(worker), clocks_(std::move(clocks)) {}

  struct Renewed {
    AccountMove move{};
    bool written = false;  // Else there was nothing to change, and the last that was still counts.
  };
  // Asks for places of an account, and renews what this worker has. Writes only where something
  // changes, or was not written for kAccountRenewal. Each account in a transaction of its own:
  // whoever holds the rows of one holds up no other.
  Result<Renewed, Fault> renew(const AccountAsk& ask);

  // It has no calls any more, and begins none.
  Result<Done, Fault> give_back();

 private:
  struct Account {
    std::uint64_t renewals = 0;
    std::vector<AccountHolder> holders{};
  };

  Result<Renewed, Fault> renew_share(const AccountAsk& ask);
  // Somebody holds the account's row: this worker's share as it is, for as long again. Nullopt: it
  // has none any more, or that is not known.
  std::optional<Renewed> keep(const AccountAsk& ask);
  Account read(const std::string& account);
  // What renew() would write anew, and nothing of it has changed.
  std::optional<AccountMove> still_good(const AccountAsk& ask, const Account& account);
  AccountMove move(const AccountAsk& ask, const Account& account, std::vector<WorkerId>& gone);

  const WorkerId worker_;
  const LocalClocks clocks_;
  std::map<std::string, AccountWatch> watches_;
  std::map<std::string, std::chrono::steady_clock::time_point> written_at_;  // By account.
};

inline constexpr std::chrono::seconds kAccountRenewal{5};
static_assert(3 * kAccountRenewal < kAccountSelfStop, "two may get lost");

}  // namespace audiogen::store
