// The sweeper: what became of tasks nobody told us about.
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

// A task whose user's balance could not be locked is looked at again after this.
constexpr std::chrono::seconds kBusyPause{1};
// Rows read for each that may be changed: reading those that are left as they are costs little.
constexpr std::size_t kLeftPerChanged = 5;

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit, SweepPass& pass) {
  return guarded<SweepResult>("sweep", [&] { return sweep_rows(limit, pass); });
}

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit) {
  SweepPass pass;
  return sweep(limit, pass);
}

SweepResult TaskStore::sweep_rows(std::size_t limit, SweepPass& pass) {
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  SweepResult result;
  SweepPass next = pass;
  {
    // A process that has gone silent counts for a minute more: by then the sweeper has looked at
    // all of its tasks. Without any other the last word counts.
    Sql sql(
        "SELECT UTC_TIMESTAMP(6), (SELECT COALESCE(MIN(IF(seen_at>UTC_TIMESTAMP(6) - INTERVAL 60 "
        "SECOND, unsent_from, NULL)), MAX(unsent_from)) FROM api_processes), ");
    sql << kRecordColumns << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6)";
    if (pass.after) {
      sql << " AND t.wake_at>=" << pass.after->wake_at << " AND (t.wake_at>" << pass.after->wake_at
          << " OR t.id>" << pass.after->id << ")";
    }
    const std::size_t page = limit * kLeftPerChanged;
    Rows rows = session_.query(sql << " ORDER BY t.wake_at, t.id LIMIT " << page);
    bool left_any = pass.after.has_value();
    std::size_t seen = 0;
    while (ids.size() < limit && rows.next()) {
      ++seen;
      const TaskRecord task = read_record(rows, 3);
      const TaskId unsent_from = rows.is_null(2) ? TaskId{} : rows.id<TaskId>(2);
      const SweepDecision decision = decide_sweep(task, rows.time(1), unsent_from);
      left_any = left_any || decision.kind == SweepDecision::Kind::kHinted;
      if (left_any && task.wake_at) {
        next.after = {*task.wake_at, task.id};
      }
      if (decision.kind == SweepDecision::Kind::kHinted) {
        continue;
      }
      ids.push_back(task.id);
      if (decision.ends()) {
        users.push_back(task.user);
      }
    }
    result.more = ids.size() == limit || seen == page;
  }
  if (ids.empty()) {
    pass = next;
    return result;
  }
  const auto run = [&](Locking balances) {
    const bool more = result.more;
    session_.transact([&] { result = sweep_locked(ids, users, balances); });
    result.more = more;
  };
  try {
    run(Locking::kWait);
  } catch (const DbError& e) {
    if (e.fault() != DbFault::kBusy) {
      throw;
    }
    run(Locking::kSkipLocked);  // One user's balance is stuck; the other users' tasks go on.
  }
  pass = next;
  return result;
}

SweepResult TaskStore::sweep_locked(const std::vector<TaskId>& ids,
                                    const std::vector<UserId>& users,
                                    Locking balances) {
  SweepResult result{.looked_at = ids.size()};
  Books books(session_, users, balances);
  LockedTasks tasks = lock_tasks(session_, ids, Locking::kSkipLocked);
  const Instant now = tasks.now;
  std::vector<TaskChange> changes;
  std::vector<Look> looks;
  const auto end = [&](const TaskRecord& task, FailureCode failure, std::size_t& count) {
    // Every look moves its row, so that rows nothing can be done about never hide the others.
    if (books.find(task.user) == nullptr || !book_end(books, task, Units{})) {
      looks.push_back({task.id, now + kBusyPause});
      return;
    }
    changes.push_back(fail_task(task, failure));
    ++count;
  };
  for (const TaskId id : ids) {
    const TaskRecord* task = tasks.find(id);
    if (task == nullptr) {
      continue;
    }
    const SweepDecision decision = decide_sweep(*task, now);
    switch (decision.kind) {
      case SweepDecision::Kind::kNothing:
      case SweepDecision::Kind::kHinted:
        break;
      case SweepDecision::Kind::kPublish:
        result.publish.push_back({task->id, task->epoch});
        [[fallthrough]];
      case SweepDecision::Kind::kLook:
        looks.push_back({task->id, decision.wake_at});
        break;
      case SweepDecision::Kind::kReap:
        AG_CHECK(next_state(task->state, TaskEvent::kReap));
        changes.push_back(requeue(*task, task->claims, now, now + kLookAgain));
        result.publish.push_back({task->id, task->epoch + 1});
        ++result.reaped;
        break;
      case SweepDecision::Kind::kExhaust:
        end(*task, FailureCode::kInternalError, result.exhausted);
        break;
      case SweepDecision::Kind::kExpire:
        end(*task, FailureCode::kDeadlineExceeded, result.expired);
        break;
    }
  }
  write_looks(session_, looks);
  write_changes(session_, changes, now);
  books.write(now);
  return result;
}

}  // namespace audiogen::store
