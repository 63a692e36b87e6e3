// The sweeper: what became of tasks nobody told us about.
#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

// A task whose user's balance could not be locked is looked at again after this.
constexpr std::chrono::seconds kBusyPause{1};
// One that the database refuses to change, or whose change would have to wait, after this.
constexpr std::chrono::seconds kFaultPause{5};
// Rows read for each that may be changed: reading those that are left as they are costs little.
constexpr std::size_t kLeftPerChanged = 5;

// What all sweepers know. Tasks with a confirmed hint are not written to say so; a pass moves past
// them instead.
using Position = TaskStore::SweepPosition;

struct Pass {
  Position after;
  Instant began;
  bool over = false;   // Time for the next one.
  TaskId unsent_from;  // The first hints of all tasks before it were confirmed.
};
const Position kStart{Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}};

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
void move_pass(Session& session, const Pass& from, const Position& to) {
  Sql sql("UPDATE sweep_pass SET after_wake_at=");
  sql << to.wake_at << ", after_id=" << to.id;
  if (from.over) {
    sql << ", began_at=UTC_TIMESTAMP(6) WHERE began_at=" << from.began;
  } else {
    sql << " WHERE began_at=" << from.began << " AND (after_wake_at<" << to.wake_at
        << " OR (after_wake_at=" << to.wake_at << " AND after_id<" << to.id << "))";
  }
  try {
    session.execute(sql);
  } catch (const DbError& e) {
    if (e.fault() != DbFault::kBusy) {
      throw;
    }
  }
}

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit, bool hints_go_out) {
  return guarded<SweepResult>("sweep", [&] { return sweep_rows(limit, hints_go_out); });
}

SweepResult TaskStore::sweep_rows(std::size_t limit, bool hints_go_out) {
  const Pass pass = read_pass(session_);
  const bool resumed = resume_at_.has_value();
  const Position after = resumed ? *resume_at_ : pass.over ? kStart : pass.after;
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  std::vector<Due> due;                      // In order.
  std::optional<Position> first_left, left;  // Up to here all were seen, and some left.
  Position last = after;
  bool more = false;
  {
    const std::size_t page = limit * kLeftPerChanged;
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) AND t.wake_at>="
        << after.wake_at << " AND (t.wake_at>" << after.wake_at << " OR t.id>" << after.id
        << ") ORDER BY t.wake_at, t.id LIMIT " << page;
    Rows rows = session_.query(sql);
    std::size_t count = 0;
    while (due.size() < limit && rows.next()) {
      ++count;
      const TaskRecord task = read_record(rows, 2);
      SweepDecision decision = decide_sweep(task, rows.time(1), pass.unsent_from);
      if (decision.kind == SweepDecision::Kind::kPublish && !hints_go_out) {
        decision.kind = SweepDecision::Kind::kHinted;  // As little to do, and to write, as then.
      }
      if (task.wake_at) {
        last = Position{*task.wake_at, task.id};
      }
      if (task.wake_at && (left || decision.kind == SweepDecision::Kind::kHinted)) {
        first_left = first_left ? first_left : last;
        left = last;
      }
      if (decision.kind == SweepDecision::Kind::kHinted) {
        continue;
      }
      due.push_back({last, task.user, decision.ends()});
    }
    more = due.size() == limit || count == page;
  }
  SweepResult result;
  std::unordered_set<TaskId> held;
  if (!due.empty()) {
    sweep_due(due, result, held);
  }
  result.more = more;
  // Rows that others hold cannot be moved out of the way: the next look begins behind them, until
  // one has come to the end. Such looks leave the pass alone, and it stops before those rows: it
  // must never have gone past a row that nobody has seen to.
  resume_at_ = more && (resumed || !held.empty()) ? std::optional(last) : std::nullopt;
  if (resumed) {
    return result;
  }
  const auto stuck = std::find_if(
      due.begin(), due.end(), [&](const Due& row) { return held.contains(row.at.id); });
  if (left && stuck != due.end() && stuck->at < *left) {
    left = *first_left < stuck->at ? first_left : std::nullopt;
  }
  if (left) {
    move_pass(session_, pass, *left);
  } else if (pass.over && pass.after.wake_at > kStart.wake_at) {
    move_pass(session_, pass, kStart);
  }
  return result;
}

void TaskStore::sweep_due(std::span<const Due> due,
                          SweepResult& result,
                          std::unordered_set<TaskId>& held) {
  result.looked_at += due.size();
  try {
    SweepResult changed;
    std::unordered_set<TaskId> skipped;
    session_.transact([&] {
      skipped.clear();
      changed = sweep_locked(due, skipped);
    });
    held.merge(skipped);
    result.publish.insert(result.publish.end(), changed.publish.begin(), changed.publish.end());
    result.reaped += changed.reaped;
    result.expired += changed.expired;
    result.exhausted += changed.exhausted;
  } catch (const DbError& e) {
    if (!may_be_of_one(e.fault())) {
      throw;
    }
    log_fault("sweep", e, due.size());
    if (due.size() > 1) {
      sweep_each(due, result, held);
      return;
    }
    // This row alone: it comes again later, and hides no other one until then.
    const TaskId task = due.front().at.id;
    log::error("a task cannot be swept", {{"task", task}, {"code", e.code()}, {"error", e.what()}});
    held.insert(task);
    Sql later("UPDATE tasks FORCE INDEX (PRIMARY) SET wake_at=UTC_TIMESTAMP(6) + INTERVAL ");
    session_.execute(later << kFaultPause.count() << " SECOND WHERE id=" << task
                           << " AND wake_at IS NOT NULL");
  }
}

// One row spoils the look; which one, only looking at each alone tells. What is not done in time is
// there at the next look.
void TaskStore::sweep_each(std::span<const Due> due,
                           SweepResult& result,
                           std::unordered_set<TaskId>& held) {
  result.looked_at -= due.size();
  const auto until = std::chrono::steady_clock::now() + kEachWithin;
  for (std::size_t i = 0; i < due.size() && std::chrono::steady_clock::now() < until; ++i) {
    try {
      sweep_due(due.subspan(i, 1), result, held);
    } catch (const DbError& e) {
      if (!may_be_of_one(e.fault())) {
        throw;
      }
    }
  }
}

SweepResult TaskStore::sweep_locked(std::span<const Due> due, std::unordered_set<TaskId>& held) {
  SweepResult result;
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  for (const Due& row : due) {
    ids.push_back(row.at.id);
    if (row.ends) {
      users.push_back(row.user);
    }
  }
  Books books(session_, std::move(users), Locking::kSkipLocked);
  LockedTasks tasks = lock_tasks(session_, ids);
  held = std::move(tasks.held);
  const Instant now = tasks.now;
  std::vector<TaskChange> changes;
  std::vector<Look> looks;
  const auto end = [&](const TaskRecord& task, const TaskMove& move, std::size_t& count) {
    // Every look moves its row, so that rows nothing can be done about never hide the others.
    if (books.find(task.user) == nullptr || !book_end(books, task, Units{})) {
      looks.push_back({task.id, now + kBusyPause});
      return;
    }
    changes.push_back(change_of(task, move));
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
        changes.push_back(change_of(*task, *decision.move));
        result.publish.push_back({task->id, decision.move->epoch});
        ++result.reaped;
        break;
      case SweepDecision::Kind::kExhaust:
        end(*task, *decision.move, result.exhausted);
        break;
      case SweepDecision::Kind::kExpire:
        end(*task, *decision.move, result.expired);
        break;
    }
  }
  write_looks(session_, looks);
  write_changes(session_, changes, now);
  books.write(now);
  return result;
}

Result<std::vector<Hint>, StoreFault> TaskStore::ready(std::size_t limit,
                                                       std::chrono::seconds age,
                                                       const std::unordered_set<TaskId>& without) {
  return guarded<std::vector<Hint>>("ready", [&] { return ready_rows(limit, age, without); });
}

// New tasks are in the index of wake_at from the start, at their first look: so this reads as far
// ahead as that.
std::vector<Hint> TaskStore::ready_rows(std::size_t limit,
                                        std::chrono::seconds age,
                                        const std::unordered_set<TaskId>& without) {
  constexpr std::size_t kPage = 1000, kReadyRows = 10'000;
  constexpr std::size_t kShare = 4;  // Of so many times as many as asked for, some are taken.
  std::vector<Hint> found;
  Position after = kStart;
  for (std::size_t seen = 0, count = kPage; count == kPage && seen < kReadyRows; seen += count) {
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) + INTERVAL "
        << kFirstLook.count() << " SECOND AND t.wake_at>=" << after.wake_at
        << " AND (t.wake_at>" << after.wake_at << " OR t.id>" << after.id
        << ") ORDER BY t.wake_at, t.id LIMIT " << kPage;
    Rows rows = session_.query(sql);
    for (count = 0; rows.next(); ++count) {
      const TaskRecord task = read_record(rows, 2);
      const Instant now = rows.time(1);
      after = {*task.wake_at, task.id};
      if (may_claim(task, task.epoch, now) && task.next_run_at + age <= now &&
          !without.contains(task.id)) {
        found.push_back({task.id, task.epoch});
      }
    }
    if (found.size() >= limit * kShare) {
      found.resize(limit * kShare);
      break;
    }
  }
  thread_local std::minstd_rand random(std::random_device{}());
  std::vector<Hint> out;
  std::sample(found.begin(), found.end(), std::back_inserter(out), limit, random);
  return out;
}

}  // namespace audiogen::store
