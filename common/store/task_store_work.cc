// Working on tasks: claims, leases, provider calls and how tasks end.
#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "common/base/jitter.h"
#include "common/store/lanes.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

template <class Entries>
std::vector<TaskId> ids_of(const Entries& entries) {
  std::vector<TaskId> ids;
  ids.reserve(entries.size());
  for (const auto& entry : entries) {
    ids.push_back(entry.command->task);
  }
  return ids;
}

constexpr std::chrono::milliseconds kCancelPause{50};

// Tasks and the provider each will call; "" for none yet. One statement per provider: they are few.
using ByProvider = std::map<std::string, std::vector<TaskId>>;

// Copies the newest calls of these tasks, whose place new ones will take.
void archive_calls(Session& session, std::span<const TaskId> tasks) {
  if (tasks.empty()) {
    return;
  }
  Sql sql(
      "INSERT INTO past_attempts (task_id, n, epoch, provider, state, detail, started_at, "
      "ended_at) SELECT id, attempts, attempt_epoch, attempt_provider, attempt_state, "
      "attempt_detail, attempt_started_at, attempt_ended_at FROM tasks FORCE INDEX (PRIMARY) "
      "WHERE id IN (");
  list(sql, tasks, [&](TaskId id) { sql << id; }) << ")";
  session.later(sql);
}

// Bytes a row gains: worker and lease; a call, beside its provider's name.
constexpr std::size_t kLeaseBytes = 24;
constexpr std::size_t kCallBytes = 14;

// Takes what the statement adds to a row from its room (schema/0003), so that it does not grow.
void take_room(Sql& sql, std::size_t bytes) {
  sql << ", room=LEFT(room,LENGTH(room)-" << bytes << ")";
}

// The assignments that begin the next call of a task, but for its epoch.
void begin_call(Sql& sql, const std::string& provider, Instant now) {
  sql << "attempts=attempts+1, attempt_provider=";
  sql.utf8(provider, kProviderMax)
      << ", attempt_state=" << kCallStarted << ", attempt_detail=NULL, attempt_started_at=" << now
      << ", attempt_ended_at=NULL";
}

// Whether the command says all there is to know of its task, unless its claim is over.
bool may_go_unread(const SettleCommand& command) {
  return command.held && command.kind == SettleCommand::Kind::kSucceed &&
         tells_of_first_call(command);
}

// Its task then.
TaskRecord unread(const SettleCommand& command) {
  TaskRecord task;
  task.id = command.task;
  task.user = command.user;
  task.state = TaskState::kRunning;
  task.epoch = command.epoch;
  task.held = *command.held;
  task.calls = 1;
  task.call_open = true;
  return task;
}

bool is_one_of(std::span<const Instant> some, std::optional<Instant> one) {
  return std::any_of(some.begin(), some.end(), [&](Instant each) { return each == one; });
}

// How a claim ends by which nobody was called, and nothing begun.
SettleCommand nothing_done(const TaskRecord& task) {
  SettleCommand end;
  end.kind = SettleCommand::Kind::kRelease;
  end.epoch = task.epoch;
  end.task = task.id;
  end.user = task.user;
  if (task.call_open) {
    end.call = task.calls;
    end.call_state = kCallFailed;
    end.call_detail = kNotCalled;
  }
  return end;
}

SettleOutcome outcome_of(const SettleDecision& decision) {
  if (!decision.to) {
    return SettleOutcome::kNotOurs;
  }
  return is_final(*decision.to) ? SettleOutcome::kSettled : SettleOutcome::kRequeued;
}

}  // namespace

Batch<ClaimOutcome> TaskStore::claim(std::span<const Hint> hints,
                                     WorkerId worker,
                                     const ClaimJudge& judge,
                                     const Unheard& unheard) {
  claimed_until_.clear();
  const auto body = [&](std::vector<BatchItem<Hint, ClaimOutcome>>& entries, bool again) {
    LockedTasks tasks =
        lock_tasks(session_, ids_of(entries), Columns::kWithWork, Ahead::kBroughtBack);
    const Instant lease = tasks.now + kLease;
    ByProvider claimed;
    std::vector<TaskId> called_before;
    std::vector<DueAt> later;
    std::vector<SettleCommand> ends;  // Those whose changes refer to them.
    std::vector<TaskChange> put_back;
    ends.reserve(entries.size());
    for (auto& [hint, out, held] : entries) {
      TaskRecord* task = tasks.find(hint->task);
      if (task == nullptr) {
        held = tasks.held.contains(hint->task);
        continue;
      }
      if (again && out && task->worker == worker && task->epoch == out->epoch &&
          is_one_of(claimed_until_, task->lease_until)) {
        continue;  // By the run before, of which we did not know whether it was committed.
      }
      out.reset();
      if (unheard && task->worker == worker && is_of(*task, hint->epoch + 1) &&
          unheard(*hint, *task->lease_until)) {
        ends.push_back(nothing_done(*task));
        put_back.push_back(
            change_of(*task, *decide_settle(*task, ends.back(), tasks.now).move, &ends.back()));
        task->state = put_back.back().state;
        task->epoch = put_back.back().epoch;
        continue;
      }
      if (!may_claim(*task, hint->epoch, tasks.now)) {
        continue;
      }
      Claim claim{.task = task->id,
                  .user = task->user,
                  .epoch = task->epoch + 1,
                  .claims = task->claims + 1,
                  .lost_leases = task->lost_leases,
                  .calls = task->calls,
                  .held = task->held,
                  .request = std::move(task->request),
                  .created_at = task->created_at,
                  .deadline_at = task->deadline_at,
                  .until_deadline = task->deadline_at - tasks.now,
                  .due_for = tasks.now - task->next_run_at,
                  .hinted_once = is_hinted_once(*task),
                  .trail = std::move(task->trail)};
      auto verdict = judge(claim);
      if (verdict.kind == ClaimVerdict::Kind::kPutOff) {
        task->next_run_at = put_off(*task, tasks.now, jitter());
        later.push_back({task->id, task->next_run_at});
      }
      if (verdict.kind != ClaimVerdict::Kind::kClaim) {
        continue;
      }
      task->state = TaskState::kRunning;  // The same hint twice in one batch is one claim.
      claim.provider = std::move(verdict.provider);
      claimed[claim.provider].push_back(task->id);
      if (task->calls != 0 && !claim.provider.empty()) {
        called_before.push_back(task->id);
      }
      out = std::move(claim);
    }
    write_due(session_, later, tasks.now);
    write_changes(session_, put_back, tasks.now);
    if (claimed.empty()) {
      return;
    }
    archive_calls(session_, called_before);
    for (const auto& [provider, ids] : claimed) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET ");
      if (!provider.empty()) {
        begin_call(sql, provider, tasks.now);
        sql << ", attempt_epoch=epoch+1, ";  // Before epoch itself: left to right.
      }
      // wake_at stays as it is: it is only when the sweeper looks, and most tasks are done by then.
      // But the sweepers may have gone past one that has come.
      sql << "state=" << TaskState::kRunning
          << ", epoch=epoch+1, claims=claims+1, worker=" << worker << ", lease_until=" << lease
          << ", wake_at=IF(wake_at<=" << tasks.now << ",LEAST(" << lease
          << ",deadline_at),wake_at), updated_at=" << tasks.now;
      take_room(sql, kLeaseBytes + (provider.empty() ? 0 : kCallBytes + provider.size()));
      sql << " WHERE id IN (";
      list(sql, ids, [&](TaskId id) { sql << id; }) << ")";
      session_.later(sql);
    }
    claimed_until_.push_back(lease);
  };
  return in_batch<Hint, ClaimOutcome>("claim", hints, std::nullopt, body);
}

Batch<Renewal> TaskStore::renew(std::span<const Lease> leases, WorkerId worker) {
  const auto body = [&](std::vector<BatchItem<Lease, Renewal>>& entries, bool) {
    LockedTasks tasks = lock_tasks(session_, ids_of(entries), Columns::kRules, Ahead::kBroughtBack);
    std::vector<TaskId> ours;
    for (auto& [lease, out, held] : entries) {
      const TaskRecord* task = tasks.find(lease->task);
      held = tasks.held.contains(lease->task);
      out = task == nullptr || is_final(task->state) ? Renewal::kEnded
            : may_renew(*task, lease->epoch, worker) ? Renewal::kRenewed
                                                     : Renewal::kTaken;
      if (out == Renewal::kRenewed) {
        ours.push_back(task->id);
      }
    }
    if (!ours.empty()) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET lease_until=");
      sql << tasks.now + kLease << " WHERE id IN (";
      list(sql, ours, [&](TaskId id) { sql << id; }) << ")";
      session_.later(sql);
    }
  };
  return in_batch<Lease, Renewal>("renew", leases, Renewal::kTaken, body);
}

Batch<bool> TaskStore::start_calls(std::span<const CallStart> calls) {
  const auto body = [&](std::vector<BatchItem<CallStart, bool>>& entries, bool) {
    LockedTasks tasks = lock_tasks(session_, ids_of(entries), Columns::kRules, Ahead::kBroughtBack);
    ByProvider started;
    std::unordered_set<TaskId> written;
    std::vector<TaskId> called_before;
    Sql ended(
        "UPDATE past_attempts a FORCE INDEX (PRIMARY) JOIN (SELECT x'' AS id, 0 AS n, 0 AS state, "
        "NULL AS detail");
    bool any_ended = false;
    for (auto& [command, out, held] : entries) {
      const CallStart& start = *command;
      const TaskRecord* task = tasks.find(start.task);
      held = tasks.held.contains(start.task);
      out = task != nullptr && is_of(*task, start.epoch);
      // Only the holder of the epoch counts calls: at n already, this is a lost answer's repeat.
      if (!out || task->calls >= start.n) {
        continue;
      }
      // A hedge and what follows it are written by themselves, so they may come together, or the
      // later one first. One at a time: each takes the place of the one before it in the row.
      held = task->calls + 1 != start.n || !written.insert(start.task).second;
      if (held) {
        continue;
      }
      started[start.provider].push_back(start.task);
      if (task->calls != 0) {
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
    archive_calls(session_, called_before);  // So whichever ended, it is a past one.
    if (any_ended) {
      session_.later(ended << ") u ON u.id=a.task_id AND u.n=a.n SET a.state=u.state, "
                              "a.detail=u.detail, a.ended_at="
                           << tasks.now);
    }
    for (const auto& [provider, ids] : started) {
      Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET ");
      begin_call(sql, provider, tasks.now);
      take_room(sql, kCallBytes + provider.size());
      sql << ", attempt_epoch=epoch WHERE id IN (";
      list(sql, ids, [&](TaskId id) { sql << id; }) << ")";
      session_.later(sql);
    }
  };
  return in_batch<CallStart, bool>("start_calls", calls, false, body);
}

Batch<SettleOutcome> TaskStore::settle(std::span<const SettleCommand> commands) {
  const auto all = in_batch<SettleCommand, Settled>(
      "settle", commands, Settled{}, [this](auto& entries, bool again) {
        settle_in(entries, again);
      });
  Batch<SettleOutcome> outcomes;
  for (const auto& settled : all) {
    if (!settled) {
      outcomes.emplace_back(settled.error());
      continue;
    }
    // Not before this is known: whoever claims by a hint that is false locks the row for a moment,
    // and the settlement that comes again would have to leave it parked.
    released_.insert(released_.end(), settled->released.begin(), settled->released.end());
    outcomes.emplace_back(settled->outcome);
  }
  return outcomes;
}

void TaskStore::settle_in(std::vector<BatchItem<SettleCommand, Settled>>& entries, bool look) {
  std::vector<UserId> users;
  for (const auto& entry : entries) {
    if (entry.command->kind != SettleCommand::Kind::kRelease) {  // All others may move credits.
      users.push_back(entry.command->user);
    }
  }
  Books books(session_, seen_window_, std::move(users), Locking::kSkipLocked);
  // Reading a row costs a quarter of what settling it costs the server, and nearly always it says
  // what its claim has said.
  std::unordered_set<TaskId> read;
  for (const auto& entry : entries) {
    const SettleCommand& command = *entry.command;
    if (look || !may_go_unread(command) || books.find(command.user) == nullptr ||
        !session_.never_waits()) {
      read.insert(command.task);
    }
  }
  LockedTasks tasks;
  if (!read.empty()) {
    tasks = lock_tasks(session_, {read.begin(), read.end()}, Columns::kRules, Ahead::kBroughtBack);
  }
  if (tasks.rows.empty() && books.now()) {
    tasks.now = *books.now();
  }
  for (const auto& entry : entries) {
    if (!read.contains(entry.command->task)) {
      tasks.rows.try_emplace(entry.command->task, unread(*entry.command));
    }
  }
  AG_CRASH_POINT("settle.locked");
  const auto look_first = [&] {
    meters::retries(meters::Retry::kUnread).Increment();
    session_.restart();
    for (auto& entry : entries) {
      entry.held = false;
    }
    settle_in(entries, true);
  };
  std::vector<TaskChange> changes, unread_ends;
  std::vector<RecordRow> calls, told_late;
  std::vector<UserId> crowds;
  std::vector<Hint>* hints = nullptr;
  for (auto& [settle_command, settled, held] : entries) {
    auto& [outcome, released] = settled;
    const SettleCommand& command = *settle_command;
    TaskRecord* task = tasks.find(command.task);
    if (task == nullptr) {
      held = tasks.held.contains(command.task);
      outcome = SettleOutcome::kNotOurs;
      continue;
    }
    SettleDecision decision = decide_settle(*task, command, tasks.now);
    outcome = outcome_of(decision);
    if (decision.move || !decision.to) {
      released.clear();  // Else the run before was committed.
    }
    if (!decision.move) {
      // An earlier try has put it back, or a sweeper, who knew nothing of what its calls cost.
      if (outcome == SettleOutcome::kRequeued) {
        for (const CallRecord& call : command.calls) {
          told_late.push_back({.call = &call});
        }
      }
      continue;
    }
    TaskMove& move = *decision.move;
    const bool was_read = read.contains(task->id);
    if (is_final(move.state)) {
      if (!was_read && books.find(task->user)->held < task->held) {
        return look_first();  // Somebody else has ended it, perhaps.
      }
      held = books.is_held(task->user);
      if (held || !book_end(books, *task, *move.charged)) {
        outcome = SettleOutcome::kFailed;
        continue;
      }
      if (books.open_tasks(task->user)->crowded()) {
        crowds.push_back(task->user);
        hints = &released;
      }
    }
    task->state = move.state;  // A repeat in the same batch meets the row as it will be.
    task->epoch = move.epoch;
    task->output_key = command.output_key;
    for (const CallRecord& call : command.calls) {
      calls.push_back(
          {&call, call.outcome == CallOutcome::kDelivered ? move.charged : std::nullopt});
    }
    (was_read ? changes : unread_ends).push_back(change_of(*task, std::move(move), &command));
  }
  if (!write_unread_ends(session_, unread_ends, tasks.now)) {
    return look_first();
  }
  if (hints != nullptr) {
    *hints = release_next(session_, books, crowds, tasks.now).hints;
  }
  write_changes(session_, changes, tasks.now);
  write_starts(session_, calls, tasks.now);
  write_calls(session_, std::move(calls), ToldBy::kSettlement, tasks.now);
  write_calls(session_, std::move(told_late), ToldBy::kWorker, tasks.now);
  books.write(tasks.now);
  AG_CRASH_POINT("settle.written");
}

Batch<bool> TaskStore::record_calls(std::span<const CallRecord> calls) {
  const auto body = [&](std::vector<BatchItem<CallRecord, bool>>& entries, bool) {
    std::vector<RecordRow> rows;
    for (auto& [call, out, held] : entries) {
      rows.push_back({.call = call});
      out = true;
    }
    write_calls(session_, std::move(rows), ToldBy::kWorker, session_.now());
  };
  return in_batch<CallRecord, bool>("record_calls", calls, false, body);
}

std::vector<Hint> TaskStore::released() {
  return std::exchange(released_, {});
}

Batch<Cancellation> TaskStore::cancel(std::span<const CancelCommand> commands) {
  return in_batch<CancelCommand, Cancellation>(
      "cancel", commands, Cancellation{}, [this](auto& entries, bool again) {
        cancel_in(entries, again);
      });
}

Result<CancelOutcome, StoreFault> TaskStore::cancel(TaskId id,
                                                    const std::function<void(Session&)>& also,
                                                    std::chrono::seconds patience) {
  const CancelCommand command{.task = id};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto result =
        in_batch<CancelCommand, Cancellation>("cancel",
                                              {&command, 1},
                                              Cancellation{},
                                              [&](auto& entries, bool again) {
                                                if (cancel_in(entries, again) != 0 && also) {
                                                  also(session_);
                                                }
                                              })
            .front();
    if (result) {
      return result->outcome;
    }
    if (result.error() != StoreFault::kLocked || std::chrono::steady_clock::now() >= until) {
      return result.error();
    }
    std::this_thread::sleep_for(kCancelPause);
  }
}

std::size_t TaskStore::cancel_in(std::vector<BatchItem<CancelCommand, Cancellation>>& entries,
                                 bool again) {
  std::unordered_map<TaskId, OwnedView> seen;
  for (OwnedView& owned : read_views(session_, ids_of(entries))) {
    seen.emplace(owned.view.id, std::move(owned));
  }
  std::vector<UserId> users;
  std::vector<TaskId> open;
  for (auto& [command, out, held] : entries) {
    const auto task = seen.find(command->task);
    if (task == seen.end() || task->second.user != command->user.value_or(task->second.user)) {
      out = {CancelOutcome::kNotFound, {}, {}};
      continue;
    }
    const TaskView& view = task->second.view;
    if (is_final(view.state)) {
      const bool by_the_run_before =
          again && out.outcome == CancelOutcome::kCanceled && view.state == TaskState::kCanceled;
      out = {by_the_run_before ? CancelOutcome::kCanceled : CancelOutcome::kAlreadyFinal, view, {}};
      continue;
    }
    users.push_back(task->second.user);
    open.push_back(command->task);
  }
  if (open.empty()) {
    return 0;
  }
  Books books(session_, seen_window_, std::move(users), Locking::kSkipLocked);
  LockedTasks tasks = lock_tasks(session_, std::move(open), Columns::kWithTrail);
  std::vector<TaskChange> changes;
  for (auto& [command, out, held] : entries) {
    const auto looked = seen.find(command->task);
    if (looked == seen.end() || out.outcome == CancelOutcome::kNotFound ||
        is_final(looked->second.view.state)) {
      continue;
    }
    auto& [user, view] = looked->second;
    TaskRecord* const task = tasks.find(command->task);
    // Final since that look, perhaps by this batch: the next look tells how.
    held = task == nullptr || books.is_held(user) || is_final(task->state);
    if (held) {
      continue;
    }
    if (!book_end(books, *task, Units{})) {
      out = {};
      continue;
    }
    changes.push_back(change_of(*task, cancel_task(*task)));
    task->state = TaskState::kCanceled;
    out = {CancelOutcome::kCanceled, view, task->trail};
    out.task.state = TaskState::kCanceled;
    out.task.claims = task->claims;
    out.task.epoch = task->epoch + 1;
    out.task.charged = Units{};
    out.task.updated_at = tasks.now;
  }
  write_changes(session_, changes, tasks.now);
  books.write(tasks.now);
  return changes.size();
}

}  // namespace audiogen::store
