// The door of usage: what users' generations came to, by hour, key and voice. It is rolled up from
// the ledger by the workers, in passing: nothing is written for it when a task is created or ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/usage.h"
#include "common/store/door.h"

namespace audiogen::store {

struct UsageRow {
  Instant start;  // Of its bucket.
  // By what it was grouped; nullopt also for what is not known, or a key that was deleted.
  std::optional<KeyId> key{};
  std::optional<std::string> voice{};
  UsageCounts counts{};
};

struct UsageReport {
  std::vector<UsageRow> rows;  // By bucket, then by group. None for buckets in which nothing was.
  UsageCounts totals;
  // Everything before this is in `rows`, as far as it lies in their span; some of what is later may
  // be, too.
  Instant complete_to;
};

// What one look of the roll-up did.
struct RolledUp {
  std::size_t entries = 0;       // Ledger rows that it took in.
  bool more = false;             // Some user that it saw has more of them.
  std::optional<UserId> next{};  // Where the next look begins. Nullopt: that was the last user.
};

// Users that one look sees, and ledger rows that it takes in: of one user, and, but for the last
// user's, of a transaction. So one with a long history keeps no other waiting. Of a user whose rows
// took longer than the session waits for a statement, fewer from then on, until they come in
// quickly again.
inline constexpr std::uint64_t kUsageUsersSeen = 1'000;
inline constexpr std::uint64_t kUsageOfUser = 5'000;
inline constexpr std::uint64_t kUsageOfTransaction = 5'000;

// A ledger row has the time when its transaction began to ask for the balance. This long after it,
// it is committed or never will be: the server ends what waits, works or idles longer.
inline constexpr std::chrono::seconds kLateEntry{60};

// See Door for threads, blocking and failures. Nothing here waits for what others have locked.
class Usage : private Door {
 public:
  explicit Usage(Session& session) : Door(session) {}

  // What `user` used in `span`.
  Result<UsageReport, Fault> read(UserId user, const UsageSpan& span, UsageGroup group);

  // Whether it is this session's turn to roll up, which one at a time has until its connection
  // ends; taken where nobody has it. A frozen process has it no longer than its session may idle.
  // What it spares is work: roll_up() is right without it.
  Result<bool, Fault> take_turn();

  // Adds to the hours of some users after `after` (nullopt: from the first on) what their ledgers
  // have that is not in there yet: each row exactly once, whatever crashes, because the mark moves
  // in the same transaction. Any number of processes may do this at once: users that another one
  // has at hand are passed by.
  Result<RolledUp, Fault> roll_up(std::optional<UserId> after);

 private:
  // A user whose ledger is longer than his mark says.
  struct Behind {
    UserId user;
    std::uint64_t mark = 0, last = 0;  // Rows of the ledger.
    bool marked = true;                // There is a row for the mark.
  };

  void add(std::span<const Behind> users, RolledUp& out);
  void add_each(std::span<const Behind> users, RolledUp& out);
  // Inside a transaction.
  RolledUp add_locked(std::span<const Behind> users);
  // How many rows of a user a transaction takes in.
  std::uint64_t step_of(UserId user) const;
  void went_well(UserId user);
  // Whether the next step will be smaller.
  bool took_too_long(UserId user);

  std::unordered_map<UserId, std::uint64_t> slow_;  // step_of() those who have not the usual one.
};

}  // namespace audiogen::store
