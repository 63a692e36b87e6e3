// How many calls each worker may have under way at a provider's account whose limit holds for all
// of them together (README.md, "An account's places").
//
// A worker has a row, renewed now and then, that says how many places it takes of the account's; a
// call takes one. The rows are changed by one worker at a time. Nobody judges by a clock that
// somebody may set: a worker is gone when its row, looked at by another, was not renewed for
// kAccountLease of that one's steady clock, and itself stops before that by its own.
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"

namespace audiogen {

// Of a worker that does not renew: how long its row counts once somebody has seen it, and for how
// long, from before it asked, it begins calls.
inline constexpr std::chrono::seconds kAccountLease{30};
inline constexpr std::chrono::seconds kAccountSelfStop{25};
// Whose row has not changed for so long, which is two renewals, has its places, but wants no
// others: where a worker dies again and again, what its lives have wanted would leave little to the
// living.
inline constexpr std::chrono::seconds kAccountSilent{12};

// What a worker would do with places.
struct AccountDemand {
  std::uint32_t wanted = 0;            // Calls under way, and those that wait for a place.
  std::chrono::milliseconds waits{0};  // For how long the first of those has.
  friend bool operator==(const AccountDemand&, const AccountDemand&) = default;
};

// A worker's row.
struct AccountHolder {
  WorkerId worker;
  std::uint32_t places = 0;
  AccountDemand demand{};
  std::uint64_t renewed = 0;  // Another number each time.
};

// How many places each of them should have: what it wants as far as there are places, equally many
// for those that want more than there are for each, and what is left over equally for all, so that
// whoever gets something to do need not wait for them. Where there are fewer places than workers
// that want one, those have them whose calls have waited longest. In sum `limit`, if there is
// anybody.
std::vector<std::uint32_t> account_shares(std::uint32_t limit,
                                          std::span<const AccountHolder> holders);

// A worker as it asks.
struct AccountUse {
  std::uint32_t may = 0;    // It begins calls as long as fewer are under way.
  std::uint32_t calls = 0;  // Under way when that was so; may be more, where it has been less.
  AccountDemand demand{};
};
struct AccountMove {
  std::uint32_t places = 0;  // What its row says from now on, and
  std::uint32_t may = 0;     // what it may once that is committed.
  friend bool operator==(const AccountMove&, const AccountMove&) = default;
};

// What an asking worker gets, while nobody else's row can change. `own` is its row (nullopt: it has
// none, or others took it for gone); `others` are those of all that are not gone. What it may is
// never more than its row says, nor are all rows together more than `limit`, but for calls that are
// under way: so what it is to give back it first stops using, and its row says so the next time.
AccountMove renew_account_share(std::uint32_t limit,
                                WorkerId worker,
                                const AccountUse& use,
                                const std::optional<AccountHolder>& own,
                                std::span<const AccountHolder> others);

// Whoever renews looks at the rows of all others; this remembers for how long they have been as
// they are.
class AccountWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Look {
    std::vector<WorkerId> gone, silent;
  };
  // All rows of the account, read before `now`.
  Look look(std::span<const AccountHolder> holders, Time now);

 private:
  struct Seen {
    std::uint64_t renewed;
    Time since;
  };
  std::map<WorkerId, Seen> seen_;
};

}  // namespace audiogen
