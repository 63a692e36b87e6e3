// The locked balances of one transaction: every change of a user's credits goes through here.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/ledger.h"
#include "common/store/session.h"

namespace audiogen::store {

enum class Locking {
  kWait,        // For rows another transaction holds, up to kLockWait.
  kSkipLocked,  // Leave those out.
};

class Books {
 public:
  // Locks the balances of `users` in order. Balances come before every other lock of a transaction,
  // so that transactions never wait for each other in a circle.
  Books(Session& session, std::vector<UserId> users, Locking locking);

  // The balance as the entries booked so far leave it. Null: there is none, or it was skipped.
  const Balance* find(UserId user) const;

  // Notes `entry`, made from find(user), for `source`.
  void book(UserId user, Uuid source, const Entry& entry);

  // Writes the ledger rows and the balances.
  void write(Instant now);

  // The database's clock when the locks were asked for. Nullopt when no balance was found.
  std::optional<Instant> now() const { return now_; }

 private:
  struct Booking {
    UserId user;
    Uuid source;
    Entry entry;
  };

  Session& session_;
  std::unordered_map<UserId, Balance> balances_;
  std::vector<Booking> bookings_;
  std::optional<Instant> now_;
};

}  // namespace audiogen::store
