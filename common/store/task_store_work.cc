// Working on tasks: claims, leases, provider attempts and how tasks end.
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

template <class Command>
std::vector<TaskId> ids_of(std::span<const Command> commands) {
  std::vector<TaskId> ids;
  ids.reserve(commands.size());
  for (const Command& command : commands) {
    ids.push_back(command.task);
  }
  return ids;
}

// Tasks and the provider each will call; "" for none yet. One statement per provider: they are few.
using ByProvider = std::map<std::string, std::vector<TaskId>>;

// Copies the newest attempts of these tasks, whose place new ones will take.
void archive_attempts(Session& session, std::span<const TaskId> tasks) {
  if (tasks.empty()) {
    return;
  }
  Sql sql(
      "INSERT INTO past_attempts (task_id, n, epoch, provider, state, detail, started_at, "
      "ended_at) SELECT id, attempts, attempt_epoch, attempt_provider, attempt_state, "
      "attempt_detail, attempt_started_at, attempt_ended_at FROM tasks FORCE INDEX (PRIMARY) "
      "WHERE id IN (");
  list(sql, tasks, [&](TaskId id) { sql << id; }) << ")";
  session.execute(sql);
}

// Bytes a row gains: worker and lease; an attempt, beside its provider's name.
constexpr std::size_t kLeaseBytes = 24;
constexpr std::size_t kAttemptBytes = 14;

// Takes what the statement adds to a row from its room (schema/0003), so that it does not grow.
void take_room(Sql& sql, std::size_t bytes) {
  sql << ", room=LEFT(room,LENGTH(room)-" << bytes << ")";
}

// The assignments that begin the next attempt of a task, but for its epoch.
void begin_attempt(Sql& sql, const std::string& provider, Instant now) {
  sql << "attempts=attempts+1, attempt_provider=";
  sql.utf8(provider, kProviderMax)
      << ", attempt_state=" << kAttemptStarted
      << ", attempt_detail=NULL, attempt_started_at=" << now << ", attempt_ended_at=NULL";
}

}  // namespace

Batch<ClaimOutcome> TaskStore::claim(
    std::span<const Hint> hints,
    WorkerId worker,
    const std::function<std::string(const Claim&)>& first_provider) {
  std::optional<Instant> written_lease;  // By the run before, of which we do not know whether it
                                         // was committed.
  const auto body = [&](std::span<const Hint> some, Round round, std::vector<ClaimOutcome>& out) {
    LockedTasks tasks = lock_tasks(session_, ids_of(some), Locking::kWait, Columns::kWithWork);
    const Instant lease = tasks.now + kLease;
    ByProvider claimed;
    std::vector<TaskId> called_before;
    for (std::size_t i = 0; i < some.size(); ++i) {
      TaskRecord* task = tasks.find(some[i].task);
      if (task == nullptr) {
        continue;
      }
      if (round.again && out[i] && task->worker == worker && task->epoch == out[i]->epoch &&
          task->lease_until == written_lease) {
        continue;  // It was.
      }
      out[i].reset();
      if (!may_claim(*task, some[i].epoch, tasks.now)) {
        continue;
      }
      task->state = TaskState::kRunning;  // The same hint twice in one batch is one claim.
      out[i] = Claim{.task = task->id,
                     .user = task->user,
                     .epoch = task->epoch + 1,
                     .claims = task->claims + 1,
                     .attempts = task->attempts,
                     .request = std::move(task->request),
                     .created_at = task->created_at,
                     .deadline_at = task->deadline_at,
                     .until_deadline = task->deadline_at - tasks.now};
      out[i]->provider = first_provider(*out[i]);
      claimed[out[i]->provider].push_back(task->id);
      if (task->attempts != 0 && !out[i]->provider.empty()) {
        called_before.push_back(task->id);
      }
    }
    if (claimed.empty()) {
      return;
    }
    archive_attempts(session_, called_before);
    for (const auto& [provider, ids] : claimed) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET ");
      if (!provider.empty()) {
        begin_attempt(sql, provider, tasks.now);
        sql << ", attempt_epoch=epoch+1, ";  // Before epoch itself: left to right.
      }
      // wake_at stays as it is: it is only when the sweeper looks, and most tasks are done by then.
      sql << "state=" << TaskState::kRunning
          << ", epoch=epoch+1, claims=claims+1, worker=" << worker << ", lease_until=" << lease
          << ", updated_at=" << tasks.now;
      take_room(sql, kLeaseBytes + (provider.empty() ? 0 : kAttemptBytes + provider.size()));
      sql << " WHERE id IN (";
      list(sql, ids, [&](TaskId id) { sql << id; }) << ")";
      session_.execute(sql);
    }
    written_lease = lease;
  };
  return in_batch<Hint, ClaimOutcome>("claim", hints, std::nullopt, body);
}

Batch<bool> TaskStore::renew(std::span<const Lease> leases, WorkerId worker) {
  const auto body = [&](std::span<const Lease> some, Round, std::vector<bool>& out) {
    LockedTasks tasks = lock_tasks(session_, ids_of(some), Locking::kWait);
    std::vector<TaskId> held;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const TaskRecord* task = tasks.find(some[i].task);
      out[i] = task != nullptr && task->state == TaskState::kRunning &&
               task->epoch == some[i].epoch && task->worker == worker &&
               task->deadline_at > tasks.now;
      if (out[i]) {
        held.push_back(task->id);
      }
    }
    if (!held.empty()) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET lease_until=");
      sql << tasks.now + kLease << " WHERE id IN (";
      list(sql, held, [&](TaskId id) { sql << id; }) << ")";
      session_.execute(sql);
    }
  };
  return in_batch<Lease, bool>("renew", leases, false, body);
}

Batch<bool> TaskStore::start_attempts(std::span<const AttemptStart> attempts) {
  const auto body = [&](std::span<const AttemptStart> some, Round, std::vector<bool>& out) {
    LockedTasks tasks = lock_tasks(session_, ids_of(some), Locking::kWait);
    ByProvider started;
    std::vector<TaskId> called_before;
    Sql ended(
        "UPDATE past_attempts a FORCE INDEX (PRIMARY) JOIN (SELECT x'' AS id, 0 AS n, 0 AS state, "
        "NULL AS detail");
    bool any_ended = false;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const AttemptStart& start = some[i];
      const TaskRecord* task = tasks.find(start.task);
      out[i] = task != nullptr && task->state == TaskState::kRunning && task->epoch == start.epoch;
      // Only the holder of the epoch counts attempts: at n already, this is a lost answer's repeat.
      if (!out[i] || task->attempts == start.n) {
        continue;
      }
      if (task->attempts + 1 != start.n) {
        out[i] = false;
        continue;
      }
      started[start.provider].push_back(start.task);
      if (task->attempts != 0) {
        called_before.push_back(start.task);
      }
      if (start.previous != 0) {
        any_ended = true;
        ended << " UNION ALL SELECT " << start.task << "," << start.previous << ","
              << std::uint32_t{start.previous_state} << ",";
        ended.utf8(start.previous_detail, kMessageMax);
      }
    }
    if (started.empty()) {
      return;
    }
    archive_attempts(session_, called_before);  // So whichever ended, it is a past one.
    if (any_ended) {
      session_.execute(ended << ") u ON u.id=a.task_id AND u.n=a.n SET a.state=u.state, "
                                "a.detail=u.detail, a.ended_at="
                             << tasks.now);
    }
    for (const auto& [provider, ids] : started) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET ");
      begin_attempt(sql, provider, tasks.now);
      take_room(sql, kAttemptBytes + provider.size());
      sql << ", attempt_epoch=epoch WHERE id IN (";
      list(sql, ids, [&](TaskId id) { sql << id; }) << ")";
      session_.execute(sql);
    }
  };
  return in_batch<AttemptStart, bool>("start_attempts", attempts, false, body);
}

Batch<SettleOutcome> TaskStore::settle(std::span<const SettleCommand> commands) {
  return in_batch<SettleCommand, SettleOutcome>(
      "settle",
      commands,
      SettleOutcome::kFailed,
      [this](std::span<const SettleCommand> some, Round round, std::vector<SettleOutcome>& out) {
        settle_in(some, round, out);
      });
}

void TaskStore::settle_in(std::span<const SettleCommand> commands,
                          Round round,
                          std::vector<SettleOutcome>& outcomes) {
  std::vector<UserId> users;
  for (const SettleCommand& command : commands) {
    if (command.kind != SettleCommand::Kind::kRelease) {  // All others may move credits.
      users.push_back(command.user);
    }
  }
  Books books(session_, std::move(users), round.balances);
  LockedTasks tasks = lock_tasks(session_, ids_of(commands), Locking::kWait);
  AG_CRASH_POINT("settle.locked");
  std::vector<TaskChange> changes;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const SettleCommand& command = commands[i];
    TaskRecord* task = tasks.find(command.task);
    if (task == nullptr) {
      outcomes[i] = SettleOutcome::kNotOurs;
      continue;
    }
    SettleDecision decision = decide_settle(*task, command, tasks.now);
    outcomes[i] = decision.outcome;
    if (!decision.change) {
      continue;
    }
    const TaskChange& change = *decision.change;
    if (is_final(change.state) && !book_end(books, *task, *change.charged)) {
      outcomes[i] = SettleOutcome::kFailed;
      continue;
    }
    task->state = change.state;  // A repeat in the same batch meets the row as it will be.
    task->epoch = change.epoch;
    task->output_key = command.output_key;
    changes.push_back(std::move(*decision.change));
  }
  write_changes(session_, changes, tasks.now);
  books.write(tasks.now);
  AG_CRASH_POINT("settle.written");
}

Result<CancelOutcome, StoreFault> TaskStore::cancel(TaskId id) {
  return guarded<CancelOutcome>("cancel", [&] {
    std::optional<UserId> user;
    {
      Rows rows = session_.query(Sql("SELECT user_id FROM tasks WHERE id=") << id);
      if (!rows.next()) {
        return CancelOutcome::kNotFound;
      }
      user = rows.id<UserId>(1);
    }
    CancelOutcome outcome = CancelOutcome::kNotFound;
    session_.transact_surely([&](bool again) {
      Books books(session_, {*user}, Locking::kWait);
      LockedTasks tasks = lock_tasks(session_, {id}, Locking::kWait);
      const TaskRecord* task = tasks.find(id);
      AG_CHECK(task != nullptr);
      if (again && task->state == TaskState::kCanceled) {
        outcome = CancelOutcome::kCanceled;  // By the run before.
        return;
      }
      if (!next_state(task->state, TaskEvent::kCancel)) {
        outcome = CancelOutcome::kAlreadyFinal;
        return;
      }
      const TaskChange change = cancel_task(*task);
      if (!book_end(books, *task, *change.charged)) {
        throw DbError(DbFault::kBug, 0, "the balance does not cover the hold");
      }
      write_changes(session_, {&change, 1}, tasks.now);
      books.write(tasks.now);
      outcome = CancelOutcome::kCanceled;
    });
    return outcome;
  });
}

}  // namespace audiogen::store
