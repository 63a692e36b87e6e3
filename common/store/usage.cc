#include "common/store/usage.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr std::uint64_t kUsersOfTransaction = 64;
// By which a step that took too long gets smaller; each that does not doubles it.
constexpr std::uint64_t kSmaller = 8;

const Uuid kUnknownKey{};  // As usage_hours has it.

constexpr char kSums[] =
    "CAST(SUM(u.generations) AS UNSIGNED), CAST(SUM(u.succeeded) AS UNSIGNED), "
    "CAST(SUM(u.failed) AS UNSIGNED), CAST(SUM(u.canceled) AS UNSIGNED), "
    "CAST(SUM(u.audio_ms) AS SIGNED), CAST(SUM(u.charged) AS SIGNED)";

UsageCounts read_counts(const Rows& rows, std::uint32_t first) {
  return {.generations = rows.u64(first),
          .succeeded = rows.u64(first + 1),
          .failed = rows.u64(first + 2),
          .canceled = rows.u64(first + 3),
          .audio_ms = rows.i64(first + 4),
          .charged = rows.units(first + 5)};
}

// Rows `from` + 1 to `to` of a user's ledger.
struct Range {
  UserId user;
  std::uint64_t from = 0, to = 0;
};

// Adds to usage_hours what the ledger has in `ranges`. A statement that reads and writes: nothing
// of it comes here. It locks no row of the ledger or of tasks (READ COMMITTED).
void add_ranges(Session& session, std::span<const Range> ranges) {
  Sql sql(
      "INSERT INTO usage_hours (user_id, starts_at, key_id, voice, generations, succeeded, failed, "
      "canceled, audio_ms, charged) SELECT l.user_id, "
      "DATE_FORMAT(l.created_at, '%Y-%m-%d %H:00:00'), COALESCE(t.key_id, ");
  sql << kUnknownKey << "), COALESCE(t.voice, " << kVoiceOfRequest << ", '')";
  const auto sum_of_ends = [&](TaskState state) {
    sql << ", COALESCE(SUM(l.kind=" << EntryKind::kResolve << " AND t.state=" << state << "), 0)";
  };
  sql << ", SUM(l.kind=" << EntryKind::kHold << ")";
  sum_of_ends(TaskState::kSucceeded);
  sum_of_ends(TaskState::kFailed);
  sum_of_ends(TaskState::kCanceled);
  sql << ", COALESCE(SUM(IF(l.kind=" << EntryKind::kResolve << ", t.duration_ms, NULL)), 0)"
      << ", SUM(IF(l.kind=" << EntryKind::kResolve << ", l.d_system, 0))"
      << " FROM ledger l FORCE INDEX (PRIMARY) LEFT JOIN tasks t FORCE INDEX (PRIMARY) ON "
         "t.id=l.source_id WHERE l.kind IN ("
      << EntryKind::kHold << "," << EntryKind::kResolve << ") AND (";
  bool first = true;
  for (const Range& range : ranges) {
    if (!std::exchange(first, false)) {
      sql << " OR ";
    }
    sql << "(l.user_id=" << range.user << " AND l.seq>" << range.from << " AND l.seq<=" << range.to
        << ")";
  }
  session.later(sql << ") GROUP BY 1,2,3,4 ON DUPLICATE KEY UPDATE "
                       "generations=usage_hours.generations+VALUES(generations), "
                       "succeeded=usage_hours.succeeded+VALUES(succeeded), "
                       "failed=usage_hours.failed+VALUES(failed), "
                       "canceled=usage_hours.canceled+VALUES(canceled), "
                       "audio_ms=usage_hours.audio_ms+VALUES(audio_ms), "
                       "charged=usage_hours.charged+VALUES(charged)");
}

// The rows are there and locked: this never inserts.
void move_marks(Session& session, std::span<const Range> ranges) {
  Sql sql("INSERT INTO usage_marks (user_id, seq) VALUES ");
  list(sql, ranges, [&](const Range& range) { sql << "(" << range.user << "," << range.to << ")"; })
      << " ON DUPLICATE KEY UPDATE seq=VALUES(seq)";
  session.later(sql);
}

}  // namespace

Result<UsageReport, Fault> Usage::read(UserId user, const UsageSpan& span, UsageGroup group) {
  return guarded([&]() -> Result<UsageReport, Fault> {
    UsageReport out;
    // Before the hours are read: they may have more by then, and never less.
    Rows rows = session_.query(
        Sql("SELECT UTC_TIMESTAMP(6), l.created_at FROM (SELECT ")
        << user
        << " AS user_id) b LEFT JOIN usage_marks m ON m.user_id=b.user_id LEFT JOIN ledger l ON "
           "l.user_id=b.user_id AND l.seq=COALESCE(m.seq,0)+1");
    AG_CHECK(rows.next());
    out.complete_to =
        std::min(rows.time(1), rows.maybe_time(2).value_or(rows.time(1))) - kLateEntry;

    Sql sql("SELECT ");
    if (span.bucket == UsageBucket::kDay) {
      sql << "CAST(DATE(u.starts_at) AS DATETIME)";
    } else {
      sql << "u.starts_at";
    }
    switch (group) {
      case UsageGroup::kNone:
        sql << ", NULL";
        break;
      case UsageGroup::kKey:
        sql << ", k.id";
        break;
      case UsageGroup::kVoice:
        sql << ", NULLIF(u.voice, '')";
        break;
    }
    sql << ", " << kSums << " FROM usage_hours u FORCE INDEX (PRIMARY)";
    if (group == UsageGroup::kKey) {
      sql << " LEFT JOIN api_keys k FORCE INDEX (PRIMARY) ON k.id=u.key_id AND "
             "k.user_id=u.user_id AND k.deleted_at IS NULL";
    }
    sql << " WHERE u.user_id=" << user << " AND u.starts_at>=" << span.from << " AND u.starts_at<"
        << span.to << " GROUP BY 1,2 ORDER BY 1,2";
    rows = session_.query(sql);
    while (rows.next()) {
      UsageRow row{.start = rows.time(1), .counts = read_counts(rows, 3)};
      if (!rows.is_null(2) && group == UsageGroup::kKey) {
        row.key = rows.id<KeyId>(2);
      } else if (!rows.is_null(2) && group == UsageGroup::kVoice) {
        row.voice = rows.text(2);
      }
      out.totals += row.counts;
      out.rows.push_back(std::move(row));
    }
    return out;
  });
}

Result<bool, Fault> Usage::take_turn() {
  return guarded([&]() -> Result<bool, Fault> {
    // A lock of the server's and no row: it ends with its holder's connection, and nobody has to
    // judge by a clock whether he is still there. Asked each time, so that no new connection takes
    // itself for the one before.
    Rows rows = session_.query(
        Sql("SELECT COALESCE(IS_USED_LOCK(n)=CONNECTION_ID(), GET_LOCK(n,0), 0) FROM (SELECT ")
            .append(lock_name("usage"))
        << " AS n) l");
    AG_CHECK(rows.next());
    return rows.i64(1) == 1;
  });
}

Result<RolledUp, Fault> Usage::roll_up(std::optional<UserId> after) {
  return guarded([&]() -> Result<RolledUp, Fault> {
    RolledUp out;
    // What is committed of a ledger is all of it up to the number in the balance, so this look
    // without locks can only see too little.
    Sql sql(
        "SELECT b.user_id, b.seq, COALESCE(m.seq,0), m.seq IS NOT NULL FROM balances b "
        "FORCE INDEX (PRIMARY) LEFT JOIN usage_marks m FORCE INDEX (PRIMARY) ON "
        "m.user_id=b.user_id");
    if (after) {
      sql << " WHERE b.user_id>" << *after;
    }
    std::vector<Behind> behind;
    std::uint64_t seen = 0;
    UserId last;
    {
      Rows rows = session_.query(sql << " ORDER BY b.user_id LIMIT " << kUsageUsersSeen);
      for (; rows.next(); ++seen) {
        last = rows.id<UserId>(1);
        const Behind user{
            .user = last, .mark = rows.u64(3), .last = rows.u64(2), .marked = rows.i64(4) != 0};
        if (user.last > user.mark) {
          behind.push_back(user);
        }
      }
    }
    if (seen == kUsageUsersSeen) {
      out.next = last;
    }
    for (std::size_t from = 0; from < behind.size();) {
      std::size_t to = from;
      for (std::uint64_t entries = 0;
           to < behind.size() && to - from < kUsersOfTransaction && entries < kUsageOfTransaction;
           ++to) {
        entries += std::min(behind[to].last - behind[to].mark, step_of(behind[to].user));
      }
      add(std::span(behind).subspan(from, to - from), out);
      from = to;
    }
    return out;
  });
}

void Usage::add(std::span<const Behind> users, RolledUp& out) {
  try {
    // Apart from the transaction, which would hold a new row as long as it lasts.
    Sql marks("INSERT IGNORE INTO usage_marks (user_id, seq) VALUES ");
    bool any = false;
    for (const Behind& user : users) {
      if (user.marked) {
        continue;
      }
      if (std::exchange(any, true)) {
        marks << ",";
      }
      marks << "(" << user.user << ",0)";
    }
    if (any) {
      session_.execute(marks);
    }
    RolledUp added;
    session_.transact([&] { added = add_locked(users); }, "usage");
    out.entries += added.entries;
    out.more = out.more || added.more;
    for (const Behind& user : added.entries > 0 ? users : std::span<const Behind>()) {
      went_well(user.user);
    }
  } catch (const DbError& e) {
    if (e.fault() == DbFault::kUnavailable || e.fault() == DbFault::kUnknownOutcome) {
      // Perhaps because it took too long: where the server ends no such statement (MySQL), we give
      // the connection up, and whose rows they were cannot be asked then.
      for (const Behind& user : users) {
        took_too_long(user.user);
      }
    }
    const bool too_long = e.fault() == DbFault::kTimeout;
    if (!too_long && !may_be_of_one(e.fault())) {
      throw;
    }
    if (users.size() > 1) {
      add_each(users, out);
      return;
    }
    if (too_long && took_too_long(users.front().user)) {
      out.more = true;
    }
    static Occasionally line;
    if (e.fault() != DbFault::kBusy && line.due()) {
      log::error("usage of a user cannot be rolled up",
                 {{"user_id", users.front().user}, {"code", e.code()}, {"error", e.what()}});
    }
  }
}

std::uint64_t Usage::step_of(UserId user) const {
  const auto slow = slow_.find(user);
  return slow == slow_.end() ? kUsageOfUser : slow->second;
}

void Usage::went_well(UserId user) {
  if (const auto slow = slow_.find(user); slow != slow_.end()) {
    slow->second *= 2;
    if (slow->second >= kUsageOfUser) {
      slow_.erase(slow);
    }
  }
}

bool Usage::took_too_long(UserId user) {
  const std::uint64_t before = step_of(user);
  const std::uint64_t now = std::max<std::uint64_t>(1, before / kSmaller);
  slow_[user] = now;
  return now < before;
}

// One user's rows spoil the transaction; whose, only adding each alone tells.
void Usage::add_each(std::span<const Behind> users, RolledUp& out) {
  for (std::size_t i = 0; i < users.size(); ++i) {
    add(users.subspan(i, 1), out);
  }
}

RolledUp Usage::add_locked(std::span<const Behind> users) {
  RolledUp out;
  std::unordered_map<UserId, std::uint64_t> marks;
  {
    Sql sql("SELECT user_id, seq FROM usage_marks FORCE INDEX (PRIMARY) WHERE user_id IN (");
    list(sql, users, [&](const Behind& user) { sql << user.user; })
        << ") ORDER BY user_id FOR UPDATE SKIP LOCKED";
    Rows rows = session_.query(sql);
    while (rows.next()) {
      marks.emplace(rows.id<UserId>(1), rows.u64(2));
    }
  }
  AG_CRASH_POINT("usage.locked");
  std::vector<Range> ranges;
  for (const Behind& user : users) {
    const auto mark = marks.find(user.user);
    // Another process has it at hand, or has done it since that look.
    if (mark == marks.end() || mark->second >= user.last) {
      continue;
    }
    const std::uint64_t to = std::min(user.last, mark->second + step_of(user.user));
    ranges.push_back({user.user, mark->second, to});
    out.entries += to - mark->second;
    out.more = out.more || to < user.last;
  }
  if (!ranges.empty()) {
    add_ranges(session_, ranges);
    move_marks(session_, ranges);
  }
  return out;
}

}  // namespace audiogen::store
