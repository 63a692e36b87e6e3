#include "common/store/history.h"

#include <algorithm>
#include <array>

#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

// Rows are in the order of their times but for this much: a clock may have been set back.
constexpr std::chrono::minutes kClockSlack{5};

// "(t.state=… OR …)": what public_status() calls `status`.
void write_status(Sql& sql, std::string_view status) {
  sql << "(FALSE";
  for (int i = static_cast<int>(TaskState::kQueued); i <= static_cast<int>(TaskState::kCanceled);
       ++i) {
    const auto state = static_cast<TaskState>(i);
    const bool unclaimed = public_status(state, 0) == status;
    const bool claimed = public_status(state, 1) == status;
    if (!unclaimed && !claimed) {
      continue;
    }
    sql << " OR (t.state=" << state;
    if (!claimed) {
      sql << " AND t.claims=0";
    } else if (!unclaimed) {
      sql << " AND t.claims>0";
    }
    sql << ")";
  }
  sql << ")";
}

}  // namespace

std::uint64_t History::first_since(UserId user, std::uint64_t last, Instant at) {
  std::uint64_t low = 1, high = last + 1;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    Rows rows = session_.query(Sql("SELECT created_at FROM ledger WHERE user_id=")
                               << user << " AND seq=" << middle);
    if (rows.next() && rows.time(1) < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

Result<HistoryPage, Fault> History::list(UserId user,
                                         const HistoryFilter& filter,
                                         std::optional<std::uint64_t> before,
                                         std::size_t limit) {
  return guarded([&]() -> Result<HistoryPage, Fault> {
    HistoryPage page;
    Rows rows = session_.query(Sql("SELECT seq FROM balances WHERE user_id=") << user);
    const std::uint64_t last = rows.next() ? rows.u64(1) : 0;
    // Rows [from, to) of the ledger; below `oldest` there is nothing that passes.
    std::uint64_t to = std::min(before.value_or(last + 1), last + 1), oldest = 1;
    if (filter.created_before) {
      to = std::min(to, first_since(user, last, *filter.created_before + kClockSlack));
    }
    if (filter.created_after) {
      oldest = first_since(user, last, *filter.created_after - kClockSlack);
    }
    if (to <= oldest) {
      return page;
    }
    const std::uint64_t from = to - oldest > kHistoryRowsMax ? to - kHistoryRowsMax : oldest;
    Sql sql("SELECT l.seq, t.request, t.key_id, ");
    sql << kViewColumns
        << " FROM ledger l FORCE INDEX (PRIMARY) STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) "
           "ON t.id=l.source_id WHERE l.user_id="
        << user << " AND l.seq>=" << from << " AND l.seq<" << to
        << " AND l.kind=" << EntryKind::kHold;
    // The hold and the task are written with one time.
    if (filter.created_after) {
      sql << " AND l.created_at>=" << *filter.created_after;
    }
    if (filter.created_before) {
      sql << " AND l.created_at<" << *filter.created_before;
    }
    if (filter.status) {
      sql << " AND ";
      write_status(sql, *filter.status);
    }
    if (filter.key) {
      sql << " AND t.key_id=" << *filter.key;
    }
    sql << " ORDER BY l.seq DESC LIMIT " << static_cast<std::uint64_t>(limit + 1);
    if (from > oldest) {
      page.next = from;
    }
    std::uint64_t reached = to;
    std::size_t bytes = 0;
    rows = session_.query(sql);
    while (rows.next()) {
      if (page.items.size() == limit || bytes >= kHistoryBytesMax) {
        page.next = reached;
        break;
      }
      reached = rows.u64(1);
      page.items.push_back(
          {.view = read_view(rows, 4),
           .request = rows.text(2),
           .key = rows.is_null(3) ? std::nullopt : std::optional(rows.id<KeyId>(3))});
      bytes += page.items.back().request.size();
    }
    return page;
  });
}

Result<Erasure, Fault> History::erase(UserId user, TaskId task) {
  return guarded([&]() -> Result<Erasure, Fault> {
    // Neither whose a task is nor that it is final ever changes.
    Rows rows =
        session_.query(Sql("SELECT user_id, state, deleted_at FROM tasks WHERE id=") << task);
    if (!rows.next() || rows.id<UserId>(1) != user) {
      return Erasure::kNotFound;
    }
    if (!is_final(static_cast<TaskState>(rows.u32(2)))) {
      return Erasure::kNotFinal;
    }
    if (!rows.is_null(3)) {
      return Erasure::kErased;
    }
    session_.transact([&] {
      Rows locked = session_.query(
          Sql("SELECT UTC_TIMESTAMP(6), deleted_at FROM tasks FORCE INDEX (PRIMARY) WHERE id=")
          << task << " FOR UPDATE SKIP LOCKED");
      if (!locked.next()) {
        throw DbError(DbFault::kBusy, 0, "another session holds the task");
      }
      if (!locked.is_null(2)) {
        return;
      }
      const Instant now = locked.time(1);
      // The voice is nothing of the client's own, and the usage of this hour may still want it.
      // Assignments are made in their order.
      Sql erase("UPDATE tasks FORCE INDEX (PRIMARY) SET voice=");
      erase << kVoiceOfRequest << ", request='', deleted_at=";
      session_.later(erase << now << ", output_deleted_at=IF(output_key IS NULL, NULL, "
                           << "COALESCE(output_deleted_at, " << now << ")) WHERE id=" << task);
      Sql note("INSERT INTO deletions (task_id, deleted_at) VALUES (");
      session_.later(note << task << "," << now << ")");
    });
    return Erasure::kErased;
  });
}

}  // namespace audiogen::store
