#include "common/store/operators.h"

#include <algorithm>
#include <utility>

#include "common/domain/open_task.h"
#include "common/store/accounts.h"
#include "common/store/situations.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr char kOperatorColumns[] =
    "t.user_id, t.epoch, t.attempts, t.worker, t.lease_until, t.wake_at, t.next_run_at, "
    "t.deadline_at, t.output_bytes, t.lost_leases, t.request_id";

constexpr std::string_view kRequestPrefix = "req_";

std::string maybe_text(const Rows& rows, std::uint32_t column) {
  return rows.is_null(column) ? std::string() : rows.text(column);
}

// The columns of kOperatorColumns and kViewColumns.
TaskRow read_task(const Rows& rows) {
  return {.view = read_view(rows, 12),
          .user = rows.id<UserId>(1),
          .epoch = rows.u32(2),
          .calls = rows.u32(3),
          .worker = rows.is_null(4) ? std::nullopt : std::optional(rows.id<WorkerId>(4)),
          .lease_until = rows.maybe_time(5),
          .wake_at = rows.maybe_time(6),
          .next_run_at = rows.time(7),
          .deadline_at = rows.time(8),
          .output_bytes = rows.is_null(9) ? 0 : rows.u64(9),
          .lost_leases = rows.u32(10),
          .request_id = rows.is_null(11) ? std::nullopt : std::optional(rows.text(11))};
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

Result<std::vector<TaskRow>, Fault> Operators::find_tasks(std::string_view what,
                                                          std::size_t limit) {
  return guarded([&]() -> Result<std::vector<TaskRow>, Fault> {
    if (UserId::parse(what) || what.find('@') != std::string_view::npos) {
      const auto user = Accounts(session_).resolve(what);
      if (!user && !is_refusal(user.error().code)) {
        return user.error();
      }
      return user ? list_tasks(*user, std::nullopt, limit) : std::vector<TaskRow>();
    }
    Sql sql("SELECT ");
    sql << kOperatorColumns << ", " << kViewColumns << " FROM ";
    if (const auto task = TaskId::parse(what)) {
      sql << "tasks t WHERE t.id=" << *task;
    } else {
      sql << "(SELECT id FROM tasks FORCE INDEX (PRIMARY)";
      const auto given = what.starts_with(kRequestPrefix)
                             ? decode_base32(what.substr(kRequestPrefix.size()))
                             : std::nullopt;
      if (given) {
        // The same clock made the task's id, once the request was there.
        constexpr std::chrono::seconds kBefore{1}, kAfter{60};
        const Instant at = made_at(*given);
        sql << " WHERE id>=" << TaskId{first_uuid_at(at - kBefore)} << " AND id<"
            << TaskId{first_uuid_at(at + kAfter)} << " ORDER BY id";
      } else {
        sql << " ORDER BY id DESC";
      }
      sql << " LIMIT " << kRequestLooked
          << ") o STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=o.id WHERE t.request_id=";
      sql.bytes(what);
    }
    Rows rows =
        session_.query(sql << " ORDER BY t.id DESC LIMIT " << static_cast<std::uint64_t>(limit));
    std::vector<TaskRow> out;
    while (rows.next()) {
      out.push_back(read_task(rows));
    }
    return out;
  });
}

Result<OldestOpen, Fault> Operators::oldest_open(std::chrono::seconds age, std::size_t limit) {
  return guarded([&]() -> Result<OldestOpen, Fault> {
    // Parked ones come in the order of their deadlines, which is that of their creation.
    OldestOpen out;
    out.at = session_.now();
    const auto most = static_cast<std::uint64_t>(limit);
    const auto read = [&](const Sql& part) {
      // Whole rows only of those that are told.
      Sql sql("SELECT ");
      sql << kOperatorColumns << ", " << kViewColumns
          << " FROM (SELECT id FROM (SELECT id, created_at FROM tasks FORCE INDEX (k_wake) WHERE "
             "wake_at";
      sql.append(part) << ") l WHERE created_at<=" << out.at - age
                       << " ORDER BY created_at, id LIMIT " << most
                       << ") o STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=o.id";
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
    return out;
  });
}

Result<Stuck, Fault> Operators::stuck(std::size_t limit) {
  auto open = oldest_open(kStuckAfter, kStuckCounted);
  if (!open) {
    return open.error();
  }
  Stuck out{.at = open->at, .whole = open->whole, .causes = {}, .tasks = {}};
  for (TaskRow& task : open->tasks) {
    const auto of = cause_of(task.view, task.lease_until, open->at);
    std::string cause(of ? cause_name(*of) : "none");
    ++out.causes[cause];
    if (out.tasks.size() < limit) {
      out.tasks.push_back({.row = std::move(task), .cause = std::move(cause)});
    }
  }
  return out;
}

Result<std::vector<HeavyUser>, Fault> Operators::heaviest_users(std::size_t limit) {
  return guarded([&]() -> Result<std::vector<HeavyUser>, Fault> {
    const auto most = static_cast<std::uint64_t>(limit);
    std::vector<HeavyUser> out;
    const auto read = [&](const Sql& sql) {
      Rows rows = session_.query(sql);
      while (rows.next()) {
        const HeavyUser user{
            .user = rows.id<UserId>(1),
            .mail = std::nullopt,
            .open = rows.u64(2),
            .running = rows.is_null(3) ? std::nullopt : std::optional(rows.u64(3))};
        const bool known = std::any_of(out.begin(), out.end(), [&](const HeavyUser& other) {
          return other.user == user.user;
        });
        if (!known) {
          out.push_back(user);
        }
      }
    };
    // All open tasks of a user are counted beside his balance. That is read of those alone of whom
    // most are looked at, or who are a crowd, ten times as many as are told: a balance for each
    // of thousands of users would cost more than the look at the tasks.
    constexpr std::uint64_t kMargin = 10;
    Sql looked(
        "SELECT u.user_id, b.released+b.parked, u.running FROM (SELECT o.user_id, o.running, "
        "COALESCE(c.n, o.n) AS n FROM (SELECT user_id, COUNT(*) AS n, CAST(SUM(state=");
    read(looked << TaskState::kRunning
                << ") AS UNSIGNED) AS running FROM (SELECT user_id, state FROM tasks FORCE INDEX "
                   "(k_wake) WHERE wake_at<="
                << session_.now() + kReleasedWithin << " ORDER BY wake_at LIMIT " << kOpenLooked
                << ") t GROUP BY user_id) o LEFT JOIN (SELECT user_id, released+parked AS n FROM "
                   "balances FORCE INDEX (k_crowded) WHERE crowded=1 LIMIT "
                << kCrowdsLooked << ") c ON c.user_id=o.user_id ORDER BY n DESC LIMIT "
                << kMargin * most
                << ") u STRAIGHT_JOIN balances b FORCE INDEX (PRIMARY) ON b.user_id=u.user_id "
                   "ORDER BY 2 DESC LIMIT "
                << most);
    Sql crowds(
        "SELECT user_id, n, NULL FROM (SELECT user_id, released+parked AS n FROM balances "
        "FORCE INDEX (k_crowded) WHERE crowded=1 LIMIT ");
    read(crowds << kCrowdsLooked << ") b ORDER BY n DESC LIMIT " << most);
    std::stable_sort(out.begin(), out.end(), [](const HeavyUser& a, const HeavyUser& b) {
      return a.open > b.open;
    });
    out.resize(std::min(out.size(), limit));
    if (out.empty()) {
      return out;
    }
    Sql mails(
        "SELECT id, email FROM users FORCE INDEX (PRIMARY) WHERE deleted_at IS NULL AND id IN (");
    list(mails, out, [&](const HeavyUser& user) { mails << user.user; }) << ")";
    Rows rows = session_.query(mails);
    while (rows.next()) {
      const auto found = std::find_if(out.begin(), out.end(), [&](const HeavyUser& user) {
        return user.user == rows.id<UserId>(1);
      });
      found->mail = rows.text(2);
    }
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
      out.calls.push_back({.n = rows.u32(1),
                           .epoch = rows.u32(2),
                           .provider = rows.text(3),
                           .state = static_cast<std::uint8_t>(rows.u32(4)),
                           .detail = maybe_text(rows, 5),
                           .started_at = rows.time(6),
                           .ended_at = rows.maybe_time(7)});
    }
    rows = session_.query(Sql("SELECT epoch, worker, claimed_at, ended_at, ended_as FROM "
                              "past_claims WHERE task_id=")
                          << id << " ORDER BY epoch");
    while (rows.next()) {
      out.claims.push_back({.epoch = rows.u32(1),
                            .worker = rows.id<WorkerId>(2),
                            .claimed_at = rows.time(3),
                            .ended_at = rows.time(4),
                            .ended_as = static_cast<ClaimEndedAs>(rows.u32(5))});
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
