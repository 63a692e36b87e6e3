#include "common/store/books.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"

namespace audiogen::store {

Books::Books(Session& session, std::vector<UserId> users, Locking locking) : session_(session) {
  std::sort(users.begin(), users.end());
  users.erase(std::unique(users.begin(), users.end()), users.end());
  if (users.empty()) {
    return;
  }
  Sql sql(
      "SELECT user_id, available, held, seq, UTC_TIMESTAMP(6) FROM balances FORCE INDEX (PRIMARY) "
      "WHERE user_id IN (");
  list(sql, users, [&](UserId user) { sql << user; }) << ") ORDER BY user_id FOR UPDATE";
  if (locking == Locking::kSkipLocked) {
    sql << " SKIP LOCKED";
  }
  Rows rows = session_.query(sql);
  while (rows.next()) {
    balances_[rows.id<UserId>(1)] = {
        .available = rows.units(2), .held = rows.units(3), .seq = rows.u64(4)};
    if (!now_) {
      now_ = rows.time(5);
    }
  }
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
  session_.execute(ledger);

  // The rows exist and are locked: the one statement that sets many rows to different values at
  // once, and cheaply, never inserts here.
  Sql balances("INSERT INTO balances (user_id, available, held, seq) VALUES ");
  list(balances, touched, [&](UserId user) {
    const Balance& b = balances_.at(user);
    balances << "(" << user << "," << b.available << "," << b.held << "," << b.seq << ")";
  }) << " ON DUPLICATE KEY UPDATE available=VALUES(available), held=VALUES(held), seq=VALUES(seq)";
  session_.execute(balances);
  bookings_.clear();
}

}  // namespace audiogen::store
