#include "common/store/books.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/store/meters.h"

namespace audiogen::store {
namespace {

// What lock() asks the row of `release_window` for: numbers, the waits of routes
// and, if the window was looked at, when. One text that was none of it has been seen, in a day of
// faults at a load of 17. So much is sure: nothing was written by it, and the transaction may be
// run again.
void read_window(const std::string& all, SeenWindow& seen) {
  std::string_view text = all;
  ReleaseWindow window;
  const auto take = [&](auto& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) {
      static Occasionally line;
      if (line.due()) {
        log::warn("the row of release_window cannot be read", {{"text", all}});
      }
      throw DbError(DbFault::kConflict, 0, "the row of release_window reads as '" + all + "'");
    }
    text.remove_prefix(std::min(static_cast<std::size_t>(end - text.data()) + 1, text.size()));
  };
  take(window.size);
  take(window.crowds);
  take(window.tasks);
  take(window.pace);
  take(window.bulk_share);
  take(window.takes);
  take(window.express_wait);
  take(window.bulk_wait);
  take(window.needs);
  const std::size_t routes = std::min(text.find(' '), text.size());
  window.routes = parse_waits(text.substr(0, routes));
  text.remove_prefix(std::min(routes + 1, text.size()));
  seen.see(window, parse_db_time(text));
}

}  // namespace

void SeenWindow::see(const ReleaseWindow& written, std::optional<Instant> looked_at) {
  written_ = written;
  looked_at_ = looked_at;
  read_at_ = Clock::now();
}

Books::Books(Session& session,
             SeenWindow& seen,
             std::vector<UserId> users,
             Locking locking,
             std::span<const Uuid> follows)
    : session_(session), seen_(seen) {
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
  std::erase_if(users, [this](UserId user) { return accounts_.contains(user); });
  if (users.empty()) {
    return;
  }
  const std::size_t before = accounts_.size();
  lock(users, locking);
  if (locking == Locking::kSkipLocked && accounts_.size() - before != users.size()) {
    std::erase_if(users, [this](UserId user) { return accounts_.contains(user); });
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
  sql << "SELECT user_id, available, held, seq, released, parked, parked_after, released_max, "
         "UTC_TIMESTAMP(6)";
  // A subquery is read without a lock: a join would lock the one row that everybody reads. One for
  // all of its columns, in one text: the server opens a table anew for each.
  const bool with_window = seen_.is_due();
  if (with_window) {
    sql << ", (SELECT CONCAT_WS(' ', size, crowds, tasks, pace, bulk_share, takes, express_wait, "
           "bulk_wait, needs, IF(routes_at=looked_at,routes,''), looked_at) FROM release_window "
           "WHERE id=1)";
  }
  sql << " FROM balances FORCE INDEX (PRIMARY) WHERE user_id IN (";
  list(sql, users, [&](UserId user) { sql << user; }) << ") ORDER BY user_id FOR UPDATE";
  if (locking == Locking::kSkipLocked) {
    sql << " SKIP LOCKED";
  }
  Rows rows = session_.query(sql);
  bool first = true;
  while (rows.next()) {
    const OpenTasks open{.released = rows.u32(5),
                         .parked = rows.u32(6),
                         .parked_after = rows.u64(7),
                         .released_max = rows.u32(8)};
    accounts_[rows.id<UserId>(1)] = {
        .balance = {.available = rows.units(2), .held = rows.units(3), .seq = rows.u64(4)},
        .open = open,
        .read = open};
    if (std::exchange(first, false)) {  // These are the same in every row.
      now_ = rows.time(9);
      if (with_window) {
        read_window(rows.text(10), seen_);
      }
      window_ = seen_.at(*now_);
    }
  }
}

std::vector<Uuid> Books::locked() const {
  std::vector<Uuid> out;
  out.reserve(accounts_.size());
  for (const auto& [user, account] : accounts_) {
    out.push_back(user.uuid);
  }
  return out;
}

const Balance* Books::find(UserId user) const {
  const auto found = accounts_.find(user);
  return found == accounts_.end() ? nullptr : &found->second.balance;
}

OpenTasks* Books::open_tasks(UserId user) {
  const auto found = accounts_.find(user);
  return found == accounts_.end() ? nullptr : &found->second.open;
}

void Books::book(UserId user, Uuid source, const Entry& entry) {
  Balance& balance = accounts_.at(user).balance;
  AG_CHECK(entry.after.seq == balance.seq + 1);
  balance = entry.after;
  bookings_.push_back({user, source, entry});
  touch(user);
}

void Books::write(Instant now) {
  if (!bookings_.empty()) {
    write_ledger(now);
  }
  if (touched_.empty()) {
    return;
  }
  // Most creations and settlements change nothing of the open tasks but how many are released.
  const bool more_than_released = std::any_of(touched_.begin(), touched_.end(), [&](UserId user) {
    const auto& [balance, open, read] = accounts_.at(user);
    OpenTasks as_read = read;
    as_read.released = open.released;
    return !(as_read == open);
  });
  // The rows exist and are locked: the one statement that sets many rows to different values at
  // once, and cheaply, never inserts here.
  Sql sql("INSERT INTO balances (user_id, available, held, seq, released");
  if (more_than_released) {
    sql << ", parked, parked_after, released_max, crowded";
  }
  sql << ") VALUES ";
  list(sql, touched_, [&](UserId user) {
    const auto& [balance, open, read] = accounts_.at(user);
    sql << "(" << user << "," << balance.available << "," << balance.held << "," << balance.seq
        << "," << open.released;
    if (more_than_released) {
      sql << "," << open.parked << "," << open.parked_after << "," << open.released_max << ","
          << std::uint32_t{open.crowded()};
    }
    sql << ")";
  });
  sql << " ON DUPLICATE KEY UPDATE available=VALUES(available), held=VALUES(held), "
         "seq=VALUES(seq), released=VALUES(released)";
  if (more_than_released) {
    sql << ", parked=VALUES(parked), parked_after=VALUES(parked_after), "
           "released_max=VALUES(released_max), crowded=VALUES(crowded)";
  }
  session_.later(sql);
  touched_.clear();
}

void Books::write_ledger(Instant now) {
  Sql sql(
      "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, d_system, "
      "available_after, held_after, created_at) VALUES ");
  list(sql, bookings_, [&](const Booking& b) {
    meters::count_credits(session_, b.entry);
    sql << "(" << b.user << "," << b.entry.after.seq << "," << b.entry.kind << "," << b.source
        << "," << b.entry.d_available << "," << b.entry.d_held << "," << b.entry.d_system << ","
        << b.entry.after.available << "," << b.entry.after.held << "," << now << ")";
  });
  session_.later(sql);
  bookings_.clear();
}

}  // namespace audiogen::store
