#include "common/store/task_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/domain/clock_trust.h"
#include "common/store/meters.h"

namespace audiogen::store {
namespace {

// What every row that leaves its state assigns, last.
constexpr char kLeftState[] = ", t.worker=NULL, t.lease_until=NULL, t.room='', t.updated_at=";

Sql& text_or_null(Sql& sql, const std::string& text) {
  return text.empty() ? sql << "NULL" : sql.utf8(text, kMessageMax);
}

// How the newest call ends: state and detail, NULL when it stays as it is.
void newest_call_end(Sql& sql, const TaskChange& c) {
  if (!c.call_open) {
    sql << "NULL,NULL";
  } else if (c.command == nullptr || c.command->call != c.calls) {
    sql << std::uint32_t{kCallUnknown} << ",NULL";
  } else {
    sql << std::uint32_t{c.command->call_state} << ",";
    text_or_null(sql, c.command->call_detail);
  }
}

// An UPDATE of tasks t up to its SET, for assignments from `columns` of u; `write` appends the
// values of one row, its task's id first. Rows of a VALUES cost the server 4.7 us each and SELECTs
// 7.6. MySQL has a word of its own before each, which MariaDB takes for a comment.
template <std::size_t N, class Range, class Write>
Sql update_tasks(const char (&columns)[N], const Range& rows, const Write& write) {
  // The first row of the derived table names its columns and matches nothing.
  Sql sql("UPDATE (SELECT x'' AS id, ");
  sql << columns;
  sql << " UNION ALL VALUES ";
  list(sql, rows, [&](const auto& row) {
    sql << "/*!80019 ROW*/(";
    write(sql, row);
    sql << ")";
  });
  sql << ") u STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=u.id SET ";
  return sql;
}

// The columns of an output.
void write_output(Sql& sql, const SettleCommand& command) {
  sql.bytes(command.output_key) << "," << command.output_bytes << ",";
  sql.bytes(command.output_checksum) << "," << command.duration_ms;
}

// Success of the task's only provider call.
bool is_usual_end(const TaskChange& c) {
  return c.state == TaskState::kSucceeded && c.calls == 1 && c.call_open &&
         tells_of_first_call(*c.command);
}

// These are nearly all settlements: only what differs between them is read from u.
template <class Changes>
Sql usual_ends(const Changes& changes, Instant now) {
  Sql sql = update_tasks(
      "x'' AS user_id, 0 AS epoch, 0 AS held, NULL AS charged, NULL AS output_key, NULL AS "
      "output_bytes, NULL AS "
      "output_checksum, "
      "NULL AS duration_ms",
      changes,
      [](Sql& row, const TaskChange* c) {
        row << c->id << "," << c->user << "," << c->epoch << "," << c->held << "," << c->charged
            << ",";
        write_output(row, *c->command);
      });
  sql << "t.charged=u.charged, t.output_key=u.output_key, t.output_bytes=u.output_bytes, "
         "t.output_checksum=u.output_checksum, t.duration_ms=u.duration_ms, t.wake_at=NULL, "
         "t.state="
      << TaskState::kSucceeded << ", t.attempt_state=" << kCallSucceeded
      << ", t.attempt_ended_at=" << now << kLeftState << now;
  return sql;
}

void write_others(Session& session, std::span<const TaskChange* const> changes, Instant now) {
  if (changes.empty()) {
    return;
  }
  Sql sql = update_tasks(
      "0 AS state, 0 AS epoch, 0 AS claims, 0 AS lost_leases, NULL AS next_run_at, NULL AS "
      "wake_at, NULL AS charged, "
      "NULL AS output_key, NULL AS output_bytes, NULL AS output_checksum, NULL AS duration_ms, "
      "NULL AS failure, NULL AS failure_message, NULL AS attempt_state, NULL AS attempt_detail",
      changes,
      [](Sql& row, const TaskChange* c) {
        row << c->id << "," << c->state << "," << c->epoch << "," << c->claims << ","
            << c->lost_leases << "," << c->next_run_at << "," << c->wake_at << "," << c->charged
            << ",";
        if (c->state == TaskState::kSucceeded) {
          write_output(row, *c->command);
        } else {
          row << "NULL,NULL,NULL,NULL";
        }
        row << "," << c->failure << ",";
        text_or_null(row, c->failure_message) << ",";
        newest_call_end(row, *c);
      });
  sql << "t.state=u.state, t.epoch=u.epoch, t.claims=u.claims, t.lost_leases=u.lost_leases, "
         "t.next_run_at=u.next_run_at, "
         "t.wake_at=u.wake_at, t.charged=u.charged, t.output_key=u.output_key, "
         "t.output_bytes=u.output_bytes, t.output_checksum=u.output_checksum, "
         "t.duration_ms=u.duration_ms, t.failure=u.failure, t.failure_message=u.failure_message, "
         "t.attempt_state=COALESCE(u.attempt_state,t.attempt_state), "
         "t.attempt_detail=COALESCE(u.attempt_detail,t.attempt_detail), "
         "t.attempt_ended_at=IF(u.attempt_state IS NULL,t.attempt_ended_at,"
      << now << ")" << kLeftState << now;
  session.later(sql);
}

// Whoever asks for these may be the API, whose database user has no right to any other end: so it
// names the columns of this one alone.
void write_cancels(Session& session, std::span<const TaskChange* const> changes, Instant now) {
  if (changes.empty()) {
    return;
  }
  // One table, so assignments run from left to right: the time before the state that it goes by.
  Sql sql("UPDATE tasks t FORCE INDEX (PRIMARY) SET t.attempt_ended_at=IF(t.attempt_state=");
  sql << kCallStarted << "," << now
      << ",t.attempt_ended_at), t.attempt_state=IF(t.attempt_state=" << kCallStarted << ","
      << kCallUnknown << ",t.attempt_state), t.epoch=t.epoch+1, "
      << "t.charged=0, t.wake_at=NULL, t.state=" << TaskState::kCanceled << kLeftState << now
      << " WHERE t.id IN (";
  list(sql, changes, [&](const TaskChange* c) { sql << c->id; }) << ")";
  session.later(sql);
  Sql past("UPDATE past_attempts FORCE INDEX (PRIMARY) SET state=");
  past << kCallUnknown << ", ended_at=" << now << " WHERE state=" << kCallStarted
       << " AND task_id IN (";
  list(past, changes, [&](const TaskChange* c) { past << c->id; }) << ")";
  session.later(past);
}

// Ends what a hedge left open of the calls before the newest.
void end_past_calls(Session& session, std::span<const TaskChange* const> changes, Instant now) {
  std::vector<TaskId> tasks;
  Sql sql(
      "UPDATE past_attempts a FORCE INDEX (PRIMARY) LEFT JOIN (SELECT x'' AS id, 0 AS n, "
      "0 AS state, NULL AS detail");
  for (const TaskChange* c : changes) {
    if (c->calls <= 1) {
      continue;
    }
    tasks.push_back(c->id);
    if (c->command != nullptr) {
      sql << " UNION ALL SELECT " << c->id << "," << c->command->call << ","
          << std::uint32_t{c->command->call_state} << ",";
      text_or_null(sql, c->command->call_detail);
    }
  }
  if (tasks.empty()) {
    return;
  }
  sql << ") u ON u.id=a.task_id AND u.n=a.n SET a.state=COALESCE(u.state," << kCallUnknown
      << "), a.detail=u.detail, a.ended_at=" << now << " WHERE a.task_id IN (";
  list(sql, tasks, [&](TaskId id) { sql << id; }) << ") AND a.state=" << kCallStarted;
  session.later(sql);
}

// Whoever made these calls may be gone, with all that he knew of them. One that has told, or does
// so later, knows better.
void write_lost_calls(Session& session, std::span<const TaskChange> changes) {
  std::vector<TaskId> tasks;
  for (const TaskChange& c : changes) {
    if (c.command == nullptr && c.calls > 0) {
      tasks.push_back(c.id);
    }
  }
  if (tasks.empty()) {
    return;
  }
  const auto of_these = [&](Sql& sql) { list(sql, tasks, [&](TaskId id) { sql << id; }) << ")"; };
  Sql sql(
      "INSERT IGNORE INTO provider_calls (task_id, n, provider, outcome, sent_at) SELECT id, n, "
      "provider, CASE state");
  sql << " WHEN " << std::uint32_t{kCallFailed} << " THEN " << CallOutcome::kFailed << " WHEN "
      << std::uint32_t{kCallSucceeded} << " THEN " << CallOutcome::kUndelivered << " ELSE "
      << CallOutcome::kLost
      << " END, started_at FROM (SELECT id, attempts AS n, attempt_provider AS provider, "
         "attempt_state AS state, attempt_detail AS detail, attempt_started_at AS started_at FROM "
         "tasks FORCE INDEX (PRIMARY) WHERE id IN (";
  of_these(sql);
  sql << " UNION ALL SELECT task_id, n, provider, state, detail, started_at FROM past_attempts "
         "FORCE INDEX (PRIMARY) WHERE task_id IN (";
  of_these(sql);
  sql << ") a WHERE COALESCE(detail,'')<>";
  sql.utf8(kNotCalled, kMessageMax) << " ORDER BY id, n";
  session.later(sql);
}

// By the database's clock, which says `now`.
Instant sent_at(const CallRecord& call, Instant now) {
  const auto ago = std::chrono::steady_clock::now() - call.sent;
  return now - std::chrono::duration_cast<Instant::duration>(
                   std::max(ago, std::chrono::steady_clock::duration::zero()));
}

ClaimEndedAs end_of(const TaskChange& c) {
  if (c.command == nullptr) {
    return ClaimEndedAs::kTakenAway;
  }
  if (is_final(c.state)) {
    return ClaimEndedAs::kSettled;
  }
  return c.command->kind == SettleCommand::Kind::kRelease ? ClaimEndedAs::kGivenBack
                                                          : ClaimEndedAs::kTriedAgain;
}

// Of those that somebody has in hand. Before their rows forget whose they were. IGNORE: what is
// told of a claim must not keep its task from being settled.
void write_claims(Session& session, std::span<const TaskChange* const> changes, Instant now) {
  std::map<ClaimEndedAs, std::vector<TaskId>> ended;
  for (const TaskChange* c : changes) {
    ended[end_of(*c)].push_back(c->id);
  }
  for (const auto& [as, tasks] : ended) {
    Sql sql(
        "INSERT IGNORE INTO past_claims (task_id, epoch, worker, claimed_at, ended_at, ended_as) "
        "SELECT id, epoch, worker, updated_at, ");
    sql << now << "," << as
        << " FROM tasks FORCE INDEX (PRIMARY) WHERE state=" << TaskState::kRunning
        << " AND id IN (";
    list(sql, tasks, [&](TaskId id) { sql << id; }) << ")";
    session.later(sql);
  }
}

// Of one that ends.
void count_end(Session& session, const TaskChange& change) {
  if (!is_final(change.state)) {
    return;
  }
  session.count(meters::finished(change.state, change.failure));
  if (change.state == TaskState::kSucceeded && change.command != nullptr) {
    constexpr double kMilliseconds = 1000;
    session.count(meters::audio_seconds(),
                  static_cast<double>(change.command->duration_ms) / kMilliseconds);
  }
}

}  // namespace

TaskChange change_of(const TaskRecord& task, TaskMove move, const SettleCommand* command) {
  TaskChange out{std::move(move)};
  out.id = task.id;
  out.user = task.user;
  out.held = task.held;
  out.calls = task.calls;
  out.call_open = task.call_open;
  out.command = command;
  return out;
}

TaskRecord* LockedTasks::find(TaskId id) {
  const auto found = rows.find(id);
  return found == rows.end() ? nullptr : &found->second;
}

// What was due when it was written is due now, what waits waits no longer than it was to wait, and
// no lease lasts longer than a new one. To do it twice changes nothing, and after a further step
// back a task has the time that it had left: created_at stays where the first step put it, so what
// is written here is counted from updated_at, where that is earlier. But not of a row that this has
// not seen, and that was claimed since the step: by more than any task's time, its deadline would
// have to lie before its creation had it been here.
void bring_back(Session& session, std::span<const TaskId> tasks, Instant now) {
  // The longest time that a task can be given.
  constexpr std::chrono::seconds kDeadlineMost = std::chrono::hours(24);
  // One table, so assignments run from left to right: each goes by what those before it made.
  Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET next_run_at=IF(updated_at>TIMESTAMP");
  sql << now << ", TIMESTAMP" << now
      << " + INTERVAL GREATEST(TIMESTAMPDIFF(MICROSECOND, updated_at, next_run_at), 0) "
         "MICROSECOND, "
         "IF(state="
      << TaskState::kRunning << ", LEAST(next_run_at, TIMESTAMP" << now
      << "), next_run_at)), deadline_at=LEAST(deadline_at, TIMESTAMP" << now
      << " + INTERVAL TIMESTAMPDIFF(MICROSECOND, IF(deadline_at>created_at AND "
         "created_at>updated_at + INTERVAL "
      << kDeadlineMost.count()
      << " SECOND, created_at, LEAST(created_at, updated_at)), deadline_at) MICROSECOND), "
         "lease_until=LEAST(lease_until, TIMESTAMP"
      << now + kLease << "), wake_at=LEAST(wake_at, deadline_at, IF(lane=" << Lane::kParked
      << ", deadline_at, COALESCE(lease_until, LEAST(TIMESTAMP" << now + kLookWithin
      << ", GREATEST(next_run_at, TIMESTAMP" << now
      << "))))), updated_at=LEAST(updated_at, TIMESTAMP" << now
      << ") WHERE wake_at IS NOT NULL AND id IN (";
  list(sql, tasks, [&](TaskId id) { sql << id; }) << ")";
  session.later(sql);
}

LockedTasks lock_tasks(Session& session, std::vector<TaskId> ids, Columns columns, Ahead ahead) {
  LockedTasks out;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Sql sql("SELECT UTC_TIMESTAMP(6), t.wake_at IS NOT NULL AND t.updated_at>UTC_TIMESTAMP(6) + ");
  sql << "INTERVAL " << std::chrono::seconds(kClockAgreement).count() << " SECOND, "
      << kRecordColumns;
  if (columns != Columns::kRules) {
    sql << ", t.request_id, t.trace";
  }
  if (columns == Columns::kWithWork) {
    sql << ", t.request, t.created_at";
  }
  sql << " FROM tasks t FORCE INDEX (PRIMARY) WHERE t.id IN (";
  list(sql, ids, [&](TaskId id) { sql << id; }) << ") ORDER BY t.id FOR UPDATE SKIP LOCKED";
  std::vector<TaskId> written_ahead;
  Rows rows = session.query(sql);
  while (rows.next()) {
    if (out.rows.empty()) {
      out.now = rows.time(1);
    }
    constexpr std::uint32_t kFirst = 3, kTrail = kFirst + kRecordColumnCount;
    TaskRecord record = read_record(rows, kFirst);
    if (columns != Columns::kRules) {
      record.trail = read_trail(rows, kTrail);
    }
    if (columns == Columns::kWithWork) {
      record.request = rows.text(kTrail + 2);
      record.created_at = rows.time(kTrail + 3);
    }
    if (rows.i64(2) != 0) {
      written_ahead.push_back(record.id);
    }
    out.rows.emplace(record.id, std::move(record));
  }
  if (ahead == Ahead::kBroughtBack && !written_ahead.empty()) {
    bring_back(session, written_ahead, out.now);
    return lock_tasks(session, std::move(ids), columns, ahead);
  }
  if (out.rows.size() != ids.size()) {
    std::erase_if(ids, [&](TaskId id) { return out.rows.contains(id); });
    Sql missing("SELECT id FROM tasks FORCE INDEX (PRIMARY) WHERE id IN (");
    list(missing, ids, [&](TaskId id) { missing << id; }) << ")";
    Rows there = session.query(missing);  // Without a lock: reads past those of others.
    while (there.next()) {
      out.held.insert(there.id<TaskId>(1));
    }
  }
  return out;
}

TaskRecord read_record(const Rows& rows, std::uint32_t first) {
  const auto time = [&](std::uint32_t column) {
    return rows.is_null(column) ? std::nullopt : std::optional(rows.time(column));
  };
  TaskRecord task;
  task.id = rows.id<TaskId>(first);
  task.user = rows.id<UserId>(first + 1);
  task.state = static_cast<TaskState>(rows.u32(first + 2));
  task.epoch = rows.u32(first + 3);
  task.claims = rows.u32(first + 4);
  task.calls = rows.u32(first + 5);
  task.held = rows.units(first + 6);
  task.lease_until = time(first + 8);
  task.next_run_at = rows.time(first + 9);
  task.deadline_at = rows.time(first + 10);
  task.wake_at = time(first + 11);
  if (!rows.is_null(first + 7)) {
    task.worker = rows.id<WorkerId>(first + 7);
  }
  if (!rows.is_null(first + 12)) {
    task.output_key = rows.text(first + 12);
  }
  task.call_open = !rows.is_null(first + 13) && rows.u32(first + 13) == kCallStarted;
  task.lane = static_cast<Lane>(rows.u32(first + 16));
  task.called = !rows.is_null(first + 14) && rows.u32(first + 14) == task.epoch;
  task.lost_leases = rows.u32(first + 15);
  return task;
}

Trail read_trail(const Rows& rows, std::uint32_t first) {
  Trail out;
  if (!rows.is_null(first)) {
    out.request_id = rows.text(first);
  }
  if (!rows.is_null(first + 1)) {
    out.trace = unpack_trace_span(rows.text(first + 1));
  }
  return out;
}

TaskView read_view(const Rows& rows, std::uint32_t first) {
  TaskView task;
  task.id = rows.id<TaskId>(first);
  task.state = static_cast<TaskState>(rows.u32(first + 1));
  task.claims = rows.u32(first + 2);
  task.created_at = rows.time(first + 3);
  task.updated_at = rows.time(first + 4);
  task.held = rows.units(first + 5);
  task.output_format = static_cast<OutputFormat>(rows.u32(first + 8));
  if (is_final(task.state)) {
    task.charged = rows.units(first + 6);
  }
  if (task.state == TaskState::kSucceeded) {
    task.output_key = rows.text(first + 7);
    task.duration_ms = rows.i64(first + 9);
    if (!rows.is_null(first + 12)) {
      task.output_deleted_at = rows.time(first + 12);
    }
  }
  if (task.state == TaskState::kFailed) {
    task.failure = static_cast<FailureCode>(rows.u32(first + 10));
    task.failure_message = rows.is_null(first + 11) ? "" : rows.text(first + 11);
  }
  task.epoch = rows.u32(first + 13);
  if (!is_final(task.state)) {
    task.next_run_at = rows.time(first + 14);
  }
  // A task whose claim called nobody, yet or when it was put back, waits for its references, if it
  // has any. Of a task of the release before nobody knows.
  const bool refers = !rows.is_null(first + 17) &&
                      has_references(Route{static_cast<std::uint8_t>(rows.u32(first + 17))});
  const bool called = !rows.is_null(first + 15);
  const std::uint32_t called_in = called ? rows.u32(first + 15) : 0;
  if (task.state == TaskState::kRunning) {
    task.waits_for_reference = refers && (!called || called_in != task.epoch);
  } else if (task.state == TaskState::kQueued) {
    // Nobody had it before its second epoch: the first may be that of its release.
    task.waits_for_reference = refers && task.epoch > 1 && (!called || called_in + 1 != task.epoch);
  }
  task.lane = static_cast<Lane>(rows.u32(first + 16));
  return task;
}

std::vector<OwnedView> read_views(Session& session, std::span<const TaskId> ids) {
  Sql sql("SELECT t.user_id, ");
  sql << kViewColumns << " FROM tasks t FORCE INDEX (PRIMARY) WHERE t.id IN (";
  list(sql, ids, [&](TaskId id) { sql << id; }) << ")";
  std::vector<OwnedView> found;
  found.reserve(ids.size());
  Rows rows = session.query(sql);
  while (rows.next()) {
    found.push_back({rows.id<UserId>(1), read_view(rows, 2)});
  }
  return found;
}

bool book_end(Books& books, const TaskRecord& task, Units charged) {
  const Balance* balance = books.find(task.user);
  if (balance == nullptr || balance->held < task.held) {
    log::error("cannot end a hold",
               about(task.id, task.trail),
               {{"user_id", task.user}, {"balance", balance != nullptr}});
    return false;
  }
  books.book(task.user, task.id.uuid, resolve(*balance, task.held, charged));
  end_task(*books.open_tasks(task.user), task.lane);
  return true;
}

void write_changes(Session& session, std::span<const TaskChange> changes, Instant now) {
  std::vector<const TaskChange*> usual, canceled, others;
  for (const TaskChange& c : changes) {
    (is_usual_end(c) ? usual : c.state == TaskState::kCanceled ? canceled : others).push_back(&c);
    count_end(session, c);
  }
  write_lost_calls(session, changes);  // Before it is written how the calls end.
  if (!usual.empty()) {
    session.later(usual_ends(usual, now));
  }
  write_cancels(session, canceled, now);
  write_claims(session, others, now);
  write_others(session, others, now);
  end_past_calls(session, others, now);
}

bool tells_of_first_call(const SettleCommand& command) {
  return command.call == 1 && command.call_state == kCallSucceeded && command.call_detail.empty();
}

bool write_unread_ends(Session& session, std::span<const TaskChange> changes, Instant now) {
  if (changes.empty()) {
    return true;
  }
  std::vector<const TaskChange*> ends;
  for (const TaskChange& c : changes) {
    AG_CHECK(is_usual_end(c));
    ends.push_back(&c);
    count_end(session, c);
  }
  Sql sql = usual_ends(ends, now);
  sql << " WHERE t.state=" << TaskState::kRunning
      << " AND t.user_id=u.user_id AND t.epoch=u.epoch AND t.held=u.held AND t.attempts=1 AND "
         "t.attempt_state="
      << kCallStarted << " AND t.updated_at<=" << now + kClockAgreement;
  session.flush();  // A failure of what waits is not this one's.
  const auto began = std::chrono::steady_clock::now();
  try {
    return session.execute(sql) == ends.size();
  } catch (const DbError& e) {
    // A table that is locked as a whole fails with the same error, after some seconds.
    constexpr std::chrono::seconds kAtOnce{1};
    if (e.fault() == DbFault::kBusy && std::chrono::steady_clock::now() - began < kAtOnce) {
      return false;
    }
    throw;
  }
}

void write_starts(Session& session, std::span<const RecordRow> calls, Instant now) {
  Sql sent("(SELECT x'' AS id, 0 AS n, NULL AS sent");
  bool any = false;
  for (const auto& [call, earned] : calls) {
    if (call->waited) {
      any = true;
      sent << " UNION ALL SELECT " << call->task << "," << call->n << ",CAST("
           << sent_at(*call, now) << " AS DATETIME(6))";
    }
  }
  if (!any) {
    return;
  }
  sent << ") u STRAIGHT_JOIN ";
  Sql newest("UPDATE ");
  newest.append(sent) << "tasks t FORCE INDEX (PRIMARY) ON t.id=u.id AND t.attempts=u.n SET "
                         "t.attempt_started_at=u.sent";
  session.later(newest);
  Sql past("UPDATE ");
  past.append(sent) << "past_attempts a FORCE INDEX (PRIMARY) ON a.task_id=u.id AND a.n=u.n SET "
                       "a.started_at=u.sent";
  session.later(past);
}

void write_calls(Session& session, std::vector<RecordRow> calls, ToldBy told_by, Instant now) {
  if (calls.empty()) {
    return;
  }
  std::sort(calls.begin(), calls.end(), [](const RecordRow& a, const RecordRow& b) {
    return std::pair(a.call->task, a.call->n) < std::pair(b.call->task, b.call->n);
  });
  // A number that is too large for its column must not keep a task from ending.
  const auto milliseconds = [](std::int64_t value) {
    return std::clamp<std::int64_t>(value, 0, UINT32_MAX);
  };
  // Without a price in the providers file, and where no provider says what it bills, nothing is
  // said of any.
  const bool priced = std::any_of(calls.begin(), calls.end(), [](const RecordRow& row) {
    return row.call->price || row.call->quantity();
  });
  Sql sql(
      "INSERT INTO provider_calls (task_id, n, provider, outcome, sent_at, took_ms, first_byte_ms, "
      "audio_ms, earned");
  if (priced) {
    sql << ", price_unit, price, quantity, cost";
  }
  sql << ") VALUES ";
  list(sql, calls, [&](const RecordRow& row) {
    const CallRecord& call = *row.call;
    const auto cost = call.cost();
    sql << "(" << call.task << "," << call.n << ",";
    sql.utf8(call.provider, kProviderMax)
        << "," << call.outcome << "," << sent_at(call, now) << ","
        << milliseconds(call.took.count()) << ","
        << (call.first_byte ? std::optional(milliseconds(call.first_byte->count())) : std::nullopt)
        << ","
        << (call.counted.audio_ms ? std::optional(milliseconds(*call.counted.audio_ms))
                                  : std::nullopt)
        << "," << row.earned;
    if (priced) {
      sql << "," << call.unit() << ","
          << (call.price ? std::optional(call.price->amount.value) : std::nullopt) << ","
          << call.quantity() << "," << (cost ? std::optional(cost->value) : std::nullopt);
    }
    sql << ")";
  });
  if (told_by == ToldBy::kSettlement) {
    sql << " ON DUPLICATE KEY UPDATE outcome=VALUES(outcome), sent_at=VALUES(sent_at), "
           "took_ms=VALUES(took_ms), first_byte_ms=VALUES(first_byte_ms), "
           "audio_ms=VALUES(audio_ms), price_unit=VALUES(price_unit), price=VALUES(price), "
           "quantity=VALUES(quantity), cost=VALUES(cost), earned=VALUES(earned)";
  } else {
    // From left to right: what others wrote who knew nothing has no took_ms, so that comes last.
    sql << " ON DUPLICATE KEY UPDATE outcome=IF(took_ms IS NULL,VALUES(outcome),outcome), "
           "sent_at=IF(took_ms IS NULL,VALUES(sent_at),sent_at), "
           "first_byte_ms=IF(took_ms IS NULL,VALUES(first_byte_ms),first_byte_ms), "
           "audio_ms=IF(took_ms IS NULL,VALUES(audio_ms),audio_ms), "
           "price_unit=IF(took_ms IS NULL,VALUES(price_unit),price_unit), "
           "price=IF(took_ms IS NULL,VALUES(price),price), "
           "quantity=IF(took_ms IS NULL,VALUES(quantity),quantity), "
           "cost=IF(took_ms IS NULL,VALUES(cost),cost), "
           "took_ms=IF(took_ms IS NULL,VALUES(took_ms),took_ms)";
  }
  session.later(sql);
}

void write_looks(Session& session, std::span<const Look> looks, Instant now) {
  if (looks.empty()) {
    return;
  }
  Sql sql = update_tasks("NULL AS wake_at", looks, [](Sql& row, const Look& look) {
    row << look.id << "," << look.wake_at;
  });
  session.later(sql << "t.wake_at=u.wake_at, t.lease_until=LEAST(t.lease_until, TIMESTAMP"
                    << now + kLease << ")");
}

void write_due(Session& session, std::span<const DueAt> tasks, Instant now) {
  if (tasks.empty()) {
    return;
  }
  Sql sql = update_tasks(
      "NULL AS due", tasks, [](Sql& row, const DueAt& due) { row << due.id << "," << due.at; });
  session.later(sql << "t.next_run_at=u.due, t.wake_at=u.due, t.updated_at=" << now);
}

}  // namespace audiogen::store
