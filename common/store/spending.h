// What keys with a spend limit have spent: read from the ledger, never from a counter that every
// creation and settlement would have to change (README.md, "Spent is read from the ledger").
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/spend_limit.h"
#include "common/store/door.h"
#include "common/store/session.h"
#include "common/store/usage.h"

namespace audiogen::store {

// Rows of the ledger that a mark may be behind: with more it is worth moving; with more than the
// second no creation reads them, and with more than the third (a second's work) nobody
// does.
inline constexpr std::uint64_t kSpendTailUsual = 256;
inline constexpr std::uint64_t kSpendTailMax = 1'000;
inline constexpr std::uint64_t kSpendTailShown = 100'000;

// What a key with a limit has spent in its period, what it reserves included.
struct KeySpending {
  SpendLimit limit;
  Units spent;
  UserId user{};
  std::uint64_t behind = 0;  // Its mark. Above what was asked for: `spent` is not known.
  bool marked = true;        // False: the key was deleted, and counts no more.
};

// Of those of `keys` that have a limit now, in the period of each that `now` lies in; where the
// mark is no more than `tail_max` behind. Two reads without locks; under the lock of the user's
// balance they are the whole truth.
using KeySpendings = std::unordered_map<KeyId, KeySpending>;
KeySpendings read_spending(Session& session,
                           std::span<const KeyId> keys,
                           Instant now,
                           std::uint64_t tail_max);

// Moves the marks of a user's keys past up to `rows_max` rows of his ledger, in a transaction of
// its own that waits for nobody; those that another session has at hand are passed by. How far they
// are behind then.
std::uint64_t roll_up_spending(Session& session, UserId user, std::uint64_t rows_max);

// Inside a transaction: what the key spends counts from now on, or counts no more.
void begin_spending(Session& session, UserId user, KeyId key);
void end_spending(Session& session, KeyId key);

// For workers. See Door for threads, blocking and failures. Waits for nobody.
class Spending : private Door {
 public:
  explicit Spending(Session& session) : Door(session) {}

  // Moves the marks that are behind, of all users, by one step each: so that a key which nobody
  // used for long need not read what others of its user did meanwhile. Any number of processes may
  // do this at once. `next` is never set.
  Result<RolledUp, Fault> roll_up();
};

}  // namespace audiogen::store
