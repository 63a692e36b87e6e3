// The locked balances of one transaction: every change of a user's credits, and of how many of his
// tasks are open, goes through here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/ledger.h"
#include "common/domain/shares.h"
#include "common/store/session.h"

namespace audiogen::store {

enum class Locking {
  kWait,        // For rows another transaction holds, as long as the session does.
  kSkipLocked,  // Leave those out.
  kFollow,      // For 100 ms (MySQL: as long as the session does).
};

// The release window as it was read last. One row says it for everybody and changes about once a
// second, and to read it takes the server a second table, a snapshot and 26 us, two thirds of a
// creation; so a thread that commits hundreds of transactions a second may use what it has read for
// up to `age`. Zero: it is read each time. From one thread at a time.
class SeenWindow {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SeenWindow(std::chrono::milliseconds age = {}) : age_(age) {}

  bool is_due() const { return !read_at_ || Clock::now() - *read_at_ >= age_; }
  void see(const ReleaseWindow& written, std::optional<Instant> looked_at);
  // What of it is still true now, by the database's clock.
  ReleaseWindow at(Instant now) const { return known_at(written_, looked_at_, now); }

 private:
  std::chrono::milliseconds age_;
  std::optional<Clock::time_point> read_at_;
  ReleaseWindow written_;
  std::optional<Instant> looked_at_;  // When whoever wrote it looked.
};

class Books {
 public:
  // Locks the balances of `users` in order. Balances come before every other lock of a transaction,
  // so that transactions that wait never wait for each other in a circle. Those of `follows` (see
  // Turn) are waited for, and they come first, when this transaction has nothing that others miss;
  // kConflict when they do not come.
  Books(Session& session,
        SeenWindow& seen,
        std::vector<UserId> users,
        Locking locking,
        std::span<const Uuid> follows = {});

  // The balance as the entries booked so far leave it. Null: there is none, or it was skipped.
  const Balance* find(UserId user) const;
  // Whether it was skipped: another transaction holds it.
  bool is_held(UserId user) const { return held_.contains(user); }

  // Whose balances are locked, in no order.
  std::vector<Uuid> locked() const;

  // How many of his tasks are open, to be changed: touch() says that it was. Null as for find().
  OpenTasks* open_tasks(UserId user);
  // As of the locks, or as `seen` before them. Of no meaning without any.
  const ReleaseWindow& window() const { return window_; }

  // Notes `entry`, made from find(user), for `source`. Touches the user.
  void book(UserId user, Uuid source, const Entry& entry);
  // His row is to be written.
  void touch(UserId user) { touched_.insert(user); }

  // Writes the ledger rows and the balances, together with what the session sends next.
  void write(Instant now);

  // The database's clock when the locks were asked for. Nullopt when no balance was found.
  std::optional<Instant> now() const { return now_; }

 private:
  struct Account {
    Balance balance;
    OpenTasks open;
    OpenTasks read;  // As it was when it was locked.
  };
  struct Booking {
    UserId user;
    Uuid source;
    Entry entry;
  };

  void lock(std::span<const UserId> users, Locking locking);
  void write_ledger(Instant now);

  Session& session_;
  SeenWindow& seen_;
  std::unordered_map<UserId, Account> accounts_;
  std::unordered_set<UserId> held_;
  std::vector<Booking> bookings_;
  std::set<UserId> touched_;
  std::optional<Instant> now_;
  ReleaseWindow window_;
};

}  // namespace audiogen::store
