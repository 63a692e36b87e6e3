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

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit) {
  return guarded<SweepResult>("sweep", [&] { return sweep_rows(limit); });
}

SweepResult TaskStore::sweep_rows(std::size_t limit) {
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  {
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) "
           "ORDER BY t.wake_at LIMIT "
        << limit;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      const TaskRecord task = read_record(rows, 2);
      ids.push_back(task.id);
      if (decide_sweep(task, rows.time(1)).ends()) {
        users.push_back(task.user);
      }
    }
  }
  SweepResult result;
  if (ids.empty()) {
    return result;
  }
  const auto run = [&](Locking balances) {
    session_.transact([&] { result = sweep_locked(ids, users, balances); });
  };
  try {
    run(Locking::kWait);
  } catch (const DbError& e) {
    if (e.fault() != DbFault::kBusy) {
      throw;
    }
    run(Locking::kSkipLocked);  // One user's balance is stuck; the other users' tasks go on.
  }
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
