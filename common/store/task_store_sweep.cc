// The sweeper: what became of tasks nobody told us about.
#include <optional>
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

// What all sweepers know. Tasks with a confirmed hint are not written to say so; a pass moves past
// them instead.
struct Pass {
  struct Position {
    Instant wake_at;
    TaskId id;
  };
  Position after;
  Instant began;
  bool over = false;   // Time for the next one.
  TaskId unsent_from;  // The first hints of all tasks before it were confirmed.
};
const Pass::Position kStart{Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}};

Pass read_pass(Session& session) {
  Pass pass;
  // An API process that has gone silent counts for a minute more: by then all of its tasks have
  // been looked at. Without any other the last word counts.
  Sql sql("SELECT after_wake_at, after_id, began_at, began_at<UTC_TIMESTAMP(6) - INTERVAL ");
  Rows rows = session.query(
      sql << kWholePass.count()
          << " SECOND, (SELECT COALESCE(MIN(IF(seen_at>UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, "
             "unsent_from, NULL)), MAX(unsent_from)) FROM api_processes) FROM sweep_pass");
  if (!rows.next()) {
    return {.after = kStart, .began = {}, .over = true, .unsent_from = {}};
  }
  pass.after = {rows.time(1), rows.id<TaskId>(2)};
  pass.began = rows.time(3);
  pass.over = rows.i64(4) != 0;
  if (!rows.is_null(5)) {
    pass.unsent_from = rows.id<TaskId>(5);
  }
  return pass;
}

// Never back, but to begin anew. Whoever comes first does it; nobody waits for another one to.
void move_pass(Session& session, const Pass& from, const Pass::Position& to) {
  Sql sql("UPDATE sweep_pass SET after_wake_at=");
  sql << to.wake_at << ", after_id=" << to.id;
  if (from.over) {
    sql << ", began_at=UTC_TIMESTAMP(6) WHERE began_at=" << from.began;
  } else {
    sql << " WHERE began_at=" << from.began << " AND (after_wake_at<" << to.wake_at
        << " OR (after_wake_at=" << to.wake_at << " AND after_id<" << to.id << "))";
  }
  session.transact([&] {
    const bool mine = session.query(Sql("SELECT id FROM sweep_pass FOR UPDATE SKIP LOCKED")).next();
    if (mine) {
      session.execute(sql);
    }
  });
}

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit) {
  return guarded<SweepResult>("sweep", [&] { return sweep_rows(limit); });
}

SweepResult TaskStore::sweep_rows(std::size_t limit) {
  const Pass pass = read_pass(session_);
  const Pass::Position after = pass.over ? kStart : pass.after;
  std::optional<Pass::Position> left;  // Up to here all were seen, and some left as they are.
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  bool more = false;
  {
    const std::size_t page = limit * kLeftPerChanged;
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) AND t.wake_at>="
        << after.wake_at << " AND (t.wake_at>" << after.wake_at << " OR t.id>" << after.id
        << ") ORDER BY t.wake_at, t.id LIMIT " << page;
    Rows rows = session_.query(sql);
    std::size_t seen = 0;
    while (ids.size() < limit && rows.next()) {
      ++seen;
      const TaskRecord task = read_record(rows, 2);
      const SweepDecision decision = decide_sweep(task, rows.time(1), pass.unsent_from);
      if (task.wake_at && (left || decision.kind == SweepDecision::Kind::kHinted)) {
        left = Pass::Position{*task.wake_at, task.id};
      }
      if (decision.kind == SweepDecision::Kind::kHinted) {
        continue;
      }
      ids.push_back(task.id);
      if (decision.ends()) {
        users.push_back(task.user);
      }
    }
    more = ids.size() == limit || seen == page;
  }
  SweepResult result;
  if (!ids.empty()) {
    result = change_rows(ids, users);
  }
  result.more = more;
  if (left) {
    move_pass(session_, pass, *left);
  } else if (pass.over && pass.after.wake_at > kStart.wake_at) {
    move_pass(session_, pass, kStart);
  }
  return result;
}

SweepResult TaskStore::change_rows(const std::vector<TaskId>& ids,
                                   const std::vector<UserId>& users) {
  SweepResult result;
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
