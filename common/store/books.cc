#include "common/store/books.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"

namespace audiogen::store {

Books::Books(Session& session,
             std::vector<UserId> users,
             Locking locking,
             std::span<const Uuid> follows)
    : session_(session) {
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  const auto rest = std::stable_partition(users.begin(), users.end(), [&](UserId user) {
    return std::find(follows.begin(), follows.end(), user.uuid) != follows.end();
  });
  if (rest != users.begin()) {
    try {
      lock({users.begin(), rest}, Locking::kFollow);
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kBusy && e.fault() != DbFault::kTimeout) {
        throw;
      }
      // Its COMMIT has not come: the transaction may be run again, and take what is free.
      throw DbError(DbFault::kConflict, e.code(), e.what());
    }
  }
  std::erase_if(users, [this](UserId user) { return balances_.contains(user); });
  if (users.empty()) {
    return;
  }
  const std::size_t before = balances_.size();
  lock(users, locking);
  if (locking == Locking::kSkipLocked && balances_.size() - before != users.size()) {
    std::erase_if(users, [this](UserId user) { return balances_.contains(user); });
    Sql missing("SELECT user_id FROM balances FORCE INDEX (PRIMARY) WHERE user_id IN (");
    list(missing, users, [&](UserId user) { missing << user; }) << ")";
    Rows there = session_.query(missing);  // Without a lock: reads past those of others.
    while (there.next()) {
      held_.insert(there.id<UserId>(1));
    }
  }
}

void Books::lock(std::span<const UserId> users, Locking locking) {
  Sql sql(locking == Locking::kFollow
              ? Sql("/*M!100301 SET STATEMENT max_statement_time=0.1 FOR */ ")
              : Sql(""));
  sql << "SELECT user_id, available, held, seq, UTC_TIMESTAMP(6) FROM balances "
         "FORCE INDEX (PRIMARY) WHERE user_id IN (";
  list(sql, users, [&](UserId user) { sql << user; }) << ") ORDER BY user_id FOR UPDATE";
  if (locking == Locking::kSkipLocked) {
    sql << " SKIP LOCKED";
  }
  Rows rows = session_.query(sql);
  while (rows.next()) {
    balances_[rows.id<UserId>(1)] = {
        .available = rows.units(2), .held = rows.units(3), .seq = rows.u64(4)};
    now_ = rows.time(5);
  }
}

std::vector<Uuid> Books::locked() const {
  std::vector<Uuid> out;
  out.reserve(balances_.size());
  for (const auto& [user, balance] : balances_) {
    out.push_back(user.uuid);
  }
  return out;
}

const Balance* Books::find(UserId user) const {
  const auto found = balances_.find(user);
  return found == balances_.end() ? nullptr : &found->second;
}

void Books::book(UserId user, Uuid source, const Entry& entry) {
  Balance& balance = balances_.at(user);
  AG_CHECK(entry.after.seq == balance.seq + 1);
  balance = entry.after;
  bookings_.push_back({user, source, entry});
}

void Books::write(Instant now) {
  if (bookings_.empty()) {
    return;
  }
  Sql ledger(
      "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, d_system, "
      "available_after, held_after, created_at) VALUES ");
  std::set<UserId> touched;
  list(ledger, bookings_, [&](const Booking& b) {
    ledger << "(" << b.user << "," << b.entry.after.seq << "," << b.entry.kind << "," << b.source
           << "," << b.entry.d_available << "," << b.entry.d_held << "," << b.entry.d_system << ","
           << b.entry.after.available << "," << b.entry.after.held << "," << now << ")";
    touched.insert(b.user);
  });
  session_.later(ledger);

  // The rows exist and are locked: the one statement that sets many rows to different values at
  // once, and cheaply, never inserts here.
  Sql balances("INSERT INTO balances (user_id, available, held, seq) VALUES ");
  list(balances, touched, [&](UserId user) {
    const Balance& b = balances_.at(user);
    balances << "(" << user << "," << b.available << "," << b.held << "," << b.seq << ")";
  }) << " ON DUPLICATE KEY UPDATE available=VALUES(available), held=VALUES(held), seq=VALUES(seq)";
  session_.later(balances);
  bookings_.clear();
}

}  // namespace audiogen::store
