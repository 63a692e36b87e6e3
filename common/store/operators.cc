#include "common/store/operators.h"

#include <algorithm>
#include <utility>

#include "common/store/situations.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr char kOperatorColumns[] =
    "t.user_id, t.epoch, t.attempts, t.worker, t.lease_until, t.wake_at, t.next_run_at, "
    "t.deadline_at, t.output_bytes, t.lost_leases";

std::string maybe_text(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::string() : rows.text(column);
}

// The columns of kOperatorColumns and kViewColumns.
TaskRow read_task(const Rows& rows) {
  return {.view = read_view(rows, 11),
          .user = rows.id<UserId>(1),
          .epoch = rows.u32(2),
          .attempts = rows.u32(3),
          .worker = rows.is_null(4) ? std::nullopt : std::optional(rows.id<WorkerId>(4)),
          .lease_until = rows.maybe_time(5),
          .wake_at = rows.maybe_time(6),
          .next_run_at = rows.time(7),
          .deadline_at = rows.time(8),
          .output_bytes = rows.is_null(9) ? 0 : rows.u64(9),
          .lost_leases = rows.u32(10)};
}

}  // namespace

Result<std::vector<TaskRow>, Fault> Operators::list_tasks(std::optional<UserId> user,
                                                          std::optional<TaskState> state,
                                                          std::size_t limit) {
  return guarded([&]() -> Result<std::vector<TaskRow>, Fault> {
    Sql sql("SELECT STRAIGHT_JOIN ");
    sql << kOperatorColumns << ", " << kViewColumns;
    if (user) {
      // The ledger is the index of a user's tasks: each has one hold there.
      sql << " FROM ledger l JOIN tasks t ON t.id=l.source_id WHERE l.user_id=" << *user
          << " AND l.kind=1";
    } else if (state && !is_final(*state)) {
      // Open tasks are few among millions of final ones, and exactly those with a wake_at.
      sql << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at IS NOT NULL";
    } else {
      sql << " FROM tasks t WHERE TRUE";
    }
    if (state) {
      sql << " AND t.state=" << *state;
    }
    sql << " ORDER BY ";
    if (user) {
      sql << "l.seq";
    } else {
      sql << "t.id";
    }
    sql << " DESC LIMIT " << static_cast<std::uint64_t>(limit);
    Rows rows = session_.query(sql);
    std::vector<TaskRow> out;
    while (rows.next()) {
      out.push_back(read_task(rows));
    }
    return out;
  });
}

Result<OldestOpen, Fault> Operators::oldest_open(std::chrono::seconds age, std::size_t limit) {
  return guarded([&]() -> Result<OldestOpen, Fault> {
    // What is released wakes sooner than that, what is parked at its deadline: those come in the
    // order of their creation.
    constexpr std::chrono::seconds kReleasedWithin{120};
    OldestOpen out;
    out.at = session_.now();
    const auto most = static_cast<std::uint64_t>(limit);
    const auto read = [&](const Sql& part) {
      Sql sql("SELECT ");
      sql << kOperatorColumns << ", " << kViewColumns
          << " FROM (SELECT id FROM tasks FORCE INDEX (k_wake) WHERE wake_at";
      sql.append(part) << ") o STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=o.id WHERE "
                          "t.created_at<="
                       << out.at - age << " ORDER BY t.created_at, t.id LIMIT " << most;
      Rows rows = session_.query(sql);
      std::size_t count = 0;
      for (; rows.next(); ++count) {
        out.tasks.push_back(read_task(rows));
      }
      out.whole = out.whole && count < limit;
    };
    read(Sql("<=") << out.at + kReleasedWithin << " ORDER BY wake_at LIMIT " << kOpenLooked);
    read(Sql(">") << out.at + kReleasedWithin << " ORDER BY wake_at LIMIT " << most);
    std::sort(out.tasks.begin(), out.tasks.end(), [](const TaskRow& a, const TaskRow& b) {
      return std::pair(a.view.created_at, a.view.id) < std::pair(b.view.created_at, b.view.id);
    });
    out.tasks.resize(std::min(out.tasks.size(), limit));
    std::vector<TaskView*> views;
    for (TaskRow& task : out.tasks) {
      views.push_back(&task.view);
    }
    find_references(session_, views);
    return out;
  });
}

Result<TaskDetail, Fault> Operators::show_task(TaskId id) {
  return guarded([&]() -> Result<TaskDetail, Fault> {
    Rows rows = session_.query(Sql("SELECT ") << kOperatorColumns << ", " << kViewColumns
                                              << " FROM tasks t WHERE t.id=" << id);
    if (!rows.next()) {
      return Fault{.code = FaultCode::kNoSuchTask, .about = id.text()};
    }
    TaskDetail out;
    out.task = read_task(rows);
    rows = session_.query(Sql("SELECT n, epoch, provider, state, detail, started_at, ended_at "
                              "FROM attempts WHERE task_id=")
                          << id << " ORDER BY n");
    while (rows.next()) {
      out.attempts.push_back({.n = rows.u32(1),
                              .epoch = rows.u32(2),
                              .provider = rows.text(3),
                              .state = static_cast<std::uint8_t>(rows.u32(4)),
                              .detail = maybe_text(rows, 5),
                              .started_at = rows.time(6),
                              .ended_at = rows.maybe_time(7)});
    }
    rows = session_.query(Sql("SELECT seq, kind, d_available, d_held, d_system, available_after, "
                              "held_after, created_at FROM ledger WHERE source_id=")
                          << id << " AND kind IN (1, 2) ORDER BY kind");
    while (rows.next()) {
      out.ledger.push_back(
          {.seq = rows.u64(1),
           .kind = static_cast<EntryKind>(rows.u32(2)),
           .d_available = rows.units(3),
           .d_held = rows.units(4),
           .d_system = rows.units(5),
           .after = {.available = rows.units(6), .held = rows.units(7), .seq = rows.u64(1)},
           .created_at = rows.time(8)});
    }
    return out;
  });
}

Result<Done, Fault> Operators::cancel_task(TaskStore& tasks, TaskId id) {
  const auto outcome = tasks.cancel(id, [this](Session& session) {
    if (note_ != nullptr) {
      note_->write(session, ActionResult::kDone);
    }
  });
  if (!outcome) {
    return to_fault(outcome.error());
  }
  switch (*outcome) {
    case CancelOutcome::kCanceled:
      return Done{};
    case CancelOutcome::kAlreadyFinal:
      return Fault{.code = FaultCode::kAlreadyFinal, .about = id.text()};
    case CancelOutcome::kNotFound:
      return Fault{.code = FaultCode::kNoSuchTask, .about = id.text()};
    case CancelOutcome::kFailed:
      break;
  }
  return Fault{.code = FaultCode::kUnexpected};
}

Result<std::vector<ActionRow>, Fault> Operators::list_actions(std::size_t limit) {
  return guarded([&]() -> Result<std::vector<ActionRow>, Fault> {
    Rows rows = session_.query(Sql("SELECT done_at, who, action, target, detail, reason, result, "
                                   "message FROM admin_actions ORDER BY id DESC LIMIT ")
                               << static_cast<std::uint64_t>(limit));
    std::vector<ActionRow> out;
    while (rows.next()) {
      out.push_back(
          {.done_at = rows.time(1),
           .action = {.who = rows.text(2),
                      .action = rows.text(3),
                      .target = rows.text(4),
                      .detail = rows.text(5),
                      .reason = rows.is_null(6) ? std::nullopt : std::optional(rows.text(6))},
           .result = static_cast<ActionResult>(rows.u32(7)),
           .message = maybe_text(rows, 8)});
    }
    return out;
  });
}

Result<Done, Fault> Operators::note_result(ActionResult result, std::string_view message) {
  return guarded([&]() -> Result<Done, Fault> {
    if (note_ != nullptr) {
      note_->write(session_, result, message);
    }
    return Done{};
  });
}

}  // namespace audiogen::store
