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

CallEntry read_call(const Rows& rows, std::uint32_t first) {
  using End = CallEntry::End;
  CallEntry out{.n = rows.u32(first),
                .started_at = rows.time(first + 3),
                .ended_at = rows.maybe_time(first + 4)};
  const std::string detail = rows.is_null(first + 2) ? "" : rows.text(first + 2);
  switch (rows.u32(first + 1)) {
    case kCallStarted:
      break;
    case kCallSucceeded:  // With a detail: it brought audio that came to nothing.
      out.end = detail.empty() ? End::kSucceeded : End::kFailed;
      out.why = call_failure(detail);
      break;
    case kCallFailed:
      out.end = detail == kNotCalled ? End::kNotBegun : End::kFailed;
      out.why = call_failure(detail);
      break;
    default:
      out.end = End::kInterrupted;
      break;
  }
  return out;
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

Result<std::optional<TaskDetails>, Fault> History::details(UserId user, TaskId task) {
  return guarded([&]() -> Result<std::optional<TaskDetails>, Fault> {
    Rows rows = session_.query(
        Sql("SELECT t.user_id, t.request, t.key_id, t.deadline_at, t.deleted_at, t.attempts, "
            "t.attempt_state, t.attempt_detail, t.attempt_started_at, t.attempt_ended_at, ")
        << kViewColumns << " FROM tasks t FORCE INDEX (PRIMARY) WHERE t.id=" << task);
    if (!rows.next() || rows.id<UserId>(1) != user) {
      return std::optional<TaskDetails>();
    }
    TaskDetails out{.view = read_view(rows, 11),
                    .request = rows.text(2),
                    .key = rows.is_null(3) ? std::nullopt : std::optional(rows.id<KeyId>(3)),
                    .deadline_at = rows.time(4),
                    .deleted_at = rows.maybe_time(5),
                    .calls = rows.u32(6)};
    std::optional<CallEntry> newest;
    if (out.calls > 0) {
      newest = read_call(rows, 6);  // Its number is how many there are.
    }
    if (out.calls > 1) {
      const std::uint32_t from = out.calls > kCallsShown ? out.calls - kCallsShown + 1 : 1;
      rows =
          session_.query(Sql("SELECT n, state, detail, started_at, ended_at FROM past_attempts "
                             "FORCE INDEX (PRIMARY) WHERE task_id=")
                         << task << " AND n>=" << from << " AND n<" << out.calls << " ORDER BY n");
      while (rows.next()) {
        out.timeline.push_back(read_call(rows, 1));
      }
    }
    if (newest) {
      out.timeline.push_back(*newest);
    }
    // A settlement that came after the task was read is not told: the task is open here.
    const auto last = is_final(out.view.state) ? EntryKind::kResolve : EntryKind::kHold;
    rows = session_.query(Sql("SELECT seq, kind, d_available, d_held, d_system, available_after, "
                              "held_after, created_at FROM ledger FORCE INDEX (u_source) "
                              "WHERE source_id=")
                          << task << " AND kind IN (" << EntryKind::kHold << "," << last
                          << ") ORDER BY kind");
    while (rows.next()) {
      out.ledger.push_back({.entry = {.kind = static_cast<EntryKind>(rows.u32(2)),
                                      .d_available = rows.units(3),
                                      .d_held = rows.units(4),
                                      .d_system = rows.units(5),
                                      .after = {.available = rows.units(6),
                                                .held = rows.units(7),
                                                .seq = rows.u64(1)}},
                            .source = task.uuid,
                            .grant = {},
                            .created_at = rows.time(8)});
    }
    return std::optional(std::move(out));
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
      wipe(std::span(&task, 1), locked.time(1));
    });
    return Erasure::kErased;
  });
}

Result<std::size_t, Fault> History::erase_all(std::span<const TaskId> tasks) {
  return guarded([&]() -> Result<std::size_t, Fault> {
    std::vector<TaskId> free;
    session_.transact([&] {
      free.clear();
      std::optional<Instant> now;
      Sql sql("SELECT id, UTC_TIMESTAMP(6) FROM tasks FORCE INDEX (PRIMARY) WHERE id IN (");
      store::list(sql, tasks, [&](TaskId task) { sql << task; })
          << ") AND deleted_at IS NULL AND charged IS NOT NULL ORDER BY id FOR UPDATE SKIP LOCKED";
      Rows rows = session_.query(sql);
      while (rows.next()) {
        free.push_back(rows.id<TaskId>(1));
        now = rows.time(2);
      }
      if (now) {
        wipe(free, *now);
      }
    });
    return free.size();
  });
}

void History::wipe(std::span<const TaskId> tasks, Instant now) {
  // The voice is nothing of the client's own, and the usage of this hour may still want it.
  // Assignments are made in their order.
  Sql erase("UPDATE tasks FORCE INDEX (PRIMARY) SET voice=");
  erase << kVoiceOfRequest << ", request='', deleted_at=" << now
        << ", output_deleted_at=IF(output_key IS NULL, NULL, COALESCE(output_deleted_at, " << now
        << ")) WHERE id IN (";
  session_.later(store::list(erase, tasks, [&](TaskId task) { erase << task; }) << ")");
  // One may be noted already, as a file past its retention that could not be removed.
  Sql notes("INSERT IGNORE INTO deletions (task_id, deleted_at) VALUES ");
  session_.later(
      store::list(notes, tasks, [&](TaskId task) { notes << "(" << task << "," << now << ")"; }));
}

}  // namespace audiogen::store
