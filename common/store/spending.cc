#include "common/store/spending.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/domain/ledger.h"
#include "common/store/task_batch.h"

namespace audiogen::store {
namespace {

// One look of the workers takes so many users, and so many rows of each.
constexpr std::uint64_t kUsersSeen = 1'000;
constexpr std::uint64_t kStep = 5'000;

// What rows of the ledger say of the keys of `m`, for a SELECT, after its FROM: `m` has key_id, seq
// and after_seq. A hold that was made before counting began never counts, so its end must not
// either.
Sql& write_counted(Sql& sql, UserId user, std::uint64_t from, std::uint64_t to, const Sql& m) {
  sql << " FROM ledger l FORCE INDEX (PRIMARY) STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON "
         "t.id=l.source_id STRAIGHT_JOIN ";
  sql.append(m);
  sql << " ON m.key_id=t.key_id STRAIGHT_JOIN ledger h FORCE INDEX (u_source) ON "
         "h.source_id=l.source_id AND h.kind="
      << EntryKind::kHold << " WHERE l.user_id=" << user << " AND l.seq>" << from
      << " AND l.seq<=" << to << " AND l.kind IN (" << EntryKind::kHold << ","
      << EntryKind::kResolve << ") AND l.seq>m.seq AND h.seq>m.after_seq";
  return sql;
}

// The sum of what these rows change: a hold is spent, its end gives back what was not charged.
Sql& write_sum(Sql& sql) {
  return sql << "CAST(SUM(IF(l.kind=" << EntryKind::kHold
             << ", t.held, l.d_system-t.held)) AS SIGNED)";
}

// A key as its mark was found.
struct Marked {
  KeyId key;
  std::uint64_t seq = 0, after_seq = 0, last = 0;  // Of the mark, and of the ledger.
  SpendWindow window;
};

// What the ledger says of these keys of a user behind their marks, in their windows.
void write_tail(Sql& sql, UserId user, std::span<const Marked> keys) {
  std::uint64_t from = keys.front().seq, to = keys.front().last;
  Sql marks("(");
  bool first = true;
  for (const Marked& key : keys) {
    from = std::min(from, key.seq);
    to = std::max(to, key.last);
    if (!std::exchange(first, false)) {
      marks << " UNION ALL ";
    }
    marks << "SELECT " << key.key << " AS key_id, " << key.seq << " AS seq, " << key.after_seq
          << " AS after_seq, CAST(" << key.window.from << " AS DATETIME(6)) AS from_at, CAST("
          << key.window.to << " AS DATETIME(6)) AS to_at";
  }
  marks << ") m";
  sql << "SELECT t.key_id, ";
  write_sum(sql);
  write_counted(sql, user, from, to, marks)
      << " AND t.created_at>=m.from_at AND t.created_at<m.to_at GROUP BY t.key_id";
}

}  // namespace

KeySpendings read_spending(Session& session,
                           std::span<const KeyId> keys,
                           Instant now,
                           std::uint64_t tail_max) {
  KeySpendings out;
  if (keys.empty()) {
    return out;
  }
  const SpendWindow day = spend_window(SpendPeriod::kDay, now);
  const SpendWindow month = spend_window(SpendPeriod::kMonth, now);
  // Marks and days in one statement: both are of one moment. What is behind the marks never
  // changes.
  Sql sql(
      "SELECT k.id, k.user_id, k.spend_limit, k.spend_period, m.seq, m.after_seq, b.seq, "
      "COALESCE((SELECT CAST(SUM(s.spent) AS SIGNED) FROM spend_days s FORCE INDEX (PRIMARY) WHERE "
      "s.key_id=k.id AND s.day>=");
  sql << month.from << " AND s.day<" << month.to << " AND (k.spend_period=" << SpendPeriod::kMonth
      << " OR (s.day>=" << day.from << " AND s.day<" << day.to
      << "))), 0) FROM api_keys k FORCE INDEX (PRIMARY) JOIN balances b ON b.user_id=k.user_id "
         "LEFT "
         "JOIN spend_marks m ON m.key_id=k.id WHERE k.spend_limit IS NOT NULL AND k.id IN (";
  list(sql, keys, [&](KeyId key) { sql << key; }) << ")";
  std::map<UserId, std::vector<Marked>> tails;
  {
    Rows rows = session.query(sql);
    while (rows.next()) {
      const auto key = rows.id<KeyId>(1);
      const auto period = static_cast<SpendPeriod>(rows.u32(4));
      KeySpending spending{.limit = {rows.units(3), period},
                           .spent = rows.units(8),
                           .user = rows.id<UserId>(2),
                           .marked = !rows.is_null(5)};
      if (spending.marked) {
        const Marked marked{.key = key,
                            .seq = rows.u64(5),
                            .after_seq = rows.u64(6),
                            .last = rows.u64(7),
                            .window = spend_window(period, now)};
        spending.behind = marked.last - marked.seq;
        if (spending.behind != 0 && spending.behind <= tail_max) {
          tails[spending.user].push_back(marked);
        }
      }
      out.emplace(key, spending);
    }
  }
  if (tails.empty()) {
    return out;
  }
  Sql tail;
  bool first = true;
  for (const auto& [user, marked] : tails) {
    if (!std::exchange(first, false)) {
      tail << " UNION ALL ";
    }
    write_tail(tail, user, marked);
  }
  Rows rows = session.query(tail);
  while (rows.next()) {
    KeySpending& spending = out.at(rows.id<KeyId>(1));
    spending.spent = spending.spent + rows.units(2);
  }
  return out;
}

std::uint64_t roll_up_spending(Session& session, UserId user, std::uint64_t rows_max) {
  std::uint64_t left = 0;
  session.transact([&] {
    left = 0;
    std::uint64_t last = 0;
    {
      // Without a lock: what is committed of a ledger is all of it up to the number in the balance.
      Rows rows = session.query(Sql("SELECT seq FROM balances WHERE user_id=") << user);
      if (!rows.next()) {
        return;
      }
      last = rows.u64(1);
    }
    std::uint64_t from = last;
    std::vector<KeyId> keys;
    {
      Rows rows = session.query(
          Sql("SELECT key_id, seq FROM spend_marks FORCE INDEX (k_user) WHERE user_id=")
          << user << " AND seq<" << last << " ORDER BY key_id FOR UPDATE SKIP LOCKED");
      while (rows.next()) {
        keys.push_back(rows.id<KeyId>(1));
        from = std::min(from, rows.u64(2));
      }
    }
    if (keys.empty()) {
      return;
    }
    const std::uint64_t to = std::min(last, from + rows_max);
    left = last - to;
    const auto write_keys = [&](Sql& sql) {
      list(sql << "(", keys, [&](KeyId key) { sql << key; }) << ")";
    };
    Sql days("INSERT INTO spend_days (key_id, day, spent) SELECT t.key_id, DATE(t.created_at), ");
    write_sum(days);
    write_counted(days, user, from, to, Sql("spend_marks m FORCE INDEX (PRIMARY)"))
        << " AND m.key_id IN ";
    write_keys(days);
    session.later(days << " GROUP BY 1,2 ON DUPLICATE KEY UPDATE "
                          "spent=spend_days.spent+VALUES(spent)");
    Sql marks("UPDATE spend_marks FORCE INDEX (PRIMARY) SET seq=");
    marks << to << " WHERE seq<" << to << " AND key_id IN ";
    write_keys(marks);
    session.later(marks);
  });
  return left;
}

void begin_spending(Session& session, UserId user, KeyId key) {
  session.execute(Sql("INSERT INTO spend_marks (key_id, user_id, after_seq, seq) SELECT ")
                  << key << ", user_id, seq, seq FROM balances WHERE user_id=" << user);
}

void end_spending(Session& session, KeyId key) {
  // Locked first, by what waits for a moment: a roll-up may have it at hand, and adds to the days.
  if (session.query(Sql("SELECT 1 FROM spend_marks WHERE key_id=") << key << " FOR UPDATE")
          .next()) {
    session.execute(Sql("DELETE FROM spend_marks WHERE key_id=") << key);
    session.execute(Sql("DELETE FROM spend_days WHERE key_id=") << key);
  }
}

Result<RolledUp, Fault> Spending::roll_up() {
  return guarded([&]() -> Result<RolledUp, Fault> {
    RolledUp out;
    std::vector<std::pair<UserId, std::uint64_t>> behind;
    {
      Rows rows = session_.query(
          Sql("SELECT m.user_id, MAX(b.seq-m.seq) FROM spend_marks m JOIN balances b ON "
              "b.user_id=m.user_id GROUP BY m.user_id HAVING MAX(b.seq-m.seq)>")
          << kSpendTailUsual << " LIMIT " << kUsersSeen);
      while (rows.next()) {
        behind.emplace_back(rows.id<UserId>(1), rows.u64(2));
      }
    }
    for (const auto& [user, rows] : behind) {
      try {
        const bool more = roll_up_spending(session_, user, kStep) > kSpendTailUsual;
        out.entries += std::min(rows, kStep);
        out.more = out.more || more;
      } catch (const DbError& e) {
        // Whose rows take too long keeps nobody behind him waiting.
        if (!may_be_of_one(e.fault()) && e.fault() != DbFault::kTimeout) {
          throw;
        }
        static Occasionally line;
        if (e.fault() != DbFault::kBusy && line.due()) {
          log::error("what keys of a user spend cannot be rolled up",
                     {{"user_id", user}, {"code", e.code()}, {"error", e.what()}});
        }
      }
    }
    return out;
  });
}

}  // namespace audiogen::store
