// The sweeper: what became of tasks nobody told us about.
#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "common/domain/clock_trust.h"
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
// Rows of one transaction of pull_back().
constexpr std::size_t kPulledAtOnce = 500;

// An API process that has gone silent counts for so long: by then all of its tasks have been looked
// at.
constexpr std::chrono::seconds kApiCounts{60};

// What all sweepers know. Tasks with a confirmed hint are not written to say so; a pass moves past
// them instead.
using Position = TaskStore::SweepPosition;

struct Pass {
  Instant now;  // The database's clock, of all that this look decides and writes.
  Position after;
  Instant began;
  bool over = false;   // Time for the next one.
  bool ahead = false;  // Its marks lie in the future: somebody has set the clock back since.
  TaskId unsent_from;  // The first hints of all tasks before it were confirmed.
};
const Position kStart{Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}};

Pass read_pass(Session& session) {
  Pass pass;
  // Without any other the last word of those that have gone silent counts.
  Sql sql(
      "SELECT UTC_TIMESTAMP(6), after_wake_at, after_id, began_at, (SELECT "
      "COALESCE(MIN(IF(seen_at>UTC_TIMESTAMP(6) - INTERVAL ");
  Rows rows =
      session.query(sql << kApiCounts.count()
                        << " SECOND, unsent_from, NULL)), MAX(unsent_from)) FROM api_processes) "
                           "FROM sweep_pass");
  if (!rows.next()) {
    return {.now = session.now(),
            .after = kStart,
            .began = kStart.wake_at,
            .over = true,
            .ahead = false,
            .unsent_from = {}};
  }
  pass.now = rows.time(1);
  pass.after = {rows.time(2), rows.id<TaskId>(3)};
  pass.began = rows.time(4);
  const Instant newest = std::max(pass.began, pass.after.wake_at);
  pass.ahead = newest > pass.now + kClockStep;
  // With marks in the future nobody would see what is due before them.
  pass.over = pass.began < pass.now - kWholePass || pass.ahead;
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
    sql << ", began_at=" << from.now << " WHERE began_at=" << from.began;
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

// What was due when it was written is due now, what waits waits no longer than it was to wait, and
// no lease lasts longer than a new one.
void write_pulled_back(Session& session, const LockedTasks& tasks, Instant now) {
  // One table, so assignments run from left to right: each goes by what those before it made.
  Sql sql("UPDATE tasks FORCE INDEX (PRIMARY) SET next_run_at=IF(updated_at>TIMESTAMP");
  sql << now << ", TIMESTAMP" << now
      << " + INTERVAL GREATEST(TIMESTAMPDIFF(MICROSECOND, updated_at, next_run_at), 0) "
         "MICROSECOND, "
         "IF(state="
      << TaskState::kRunning << ", LEAST(next_run_at, TIMESTAMP" << now
      << "), next_run_at)), deadline_at=LEAST(deadline_at, TIMESTAMP" << now
      << " + INTERVAL TIMESTAMPDIFF(MICROSECOND, created_at, deadline_at) MICROSECOND), "
         "lease_until=LEAST(lease_until, TIMESTAMP"
      << now + kLease
      << "), wake_at=LEAST(wake_at, deadline_at, COALESCE(lease_until, GREATEST(next_run_at, "
         "TIMESTAMP"
      << now << "))), updated_at=LEAST(updated_at, TIMESTAMP" << now
      << ") WHERE wake_at IS NOT NULL AND id IN (";
  list(sql, tasks.rows, [&](const auto& row) { sql << row.first; }) << ")";
  session.later(sql);
}

// Whether `kind` follows from nothing but that some time has passed.
bool is_of_time(SweepDecision::Kind kind) {
  using Kind = SweepDecision::Kind;
  return kind == Kind::kReap || kind == Kind::kExhaust || kind == Kind::kExpire;
}

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit, bool hints_go_out) {
  return guarded<SweepResult>("sweep", [&] { return sweep_rows(limit, hints_go_out); });
}

void TaskStore::watch_clock(const ClockLook& look, bool marks_ahead) {
  const auto step = watch_.look(look);
  if (step) {
    log::warn("the database's clock was set",
              {{"seconds", std::chrono::duration_cast<std::chrono::seconds>(*step).count()},
               {"leases_judged_again_in",
                watch_.may_judge(look.answered) ? std::int64_t{0} : kLease.count()}});
  }
  // At this store's first look, too: nobody may have been there when it happened.
  pulling_back_ = pulling_back_ || marks_ahead || (step && step->count() < 0);
}

// What was written before the clock went back lies in its future: claims, retries and looks would
// come late by as much. True: there is more of it.
bool TaskStore::pull_back(Instant now) {
  std::vector<TaskId> found;
  {
    Sql sql("SELECT id FROM tasks FORCE INDEX (k_wake) WHERE wake_at>");
    Rows rows =
        session_.query(sql << now << " AND (updated_at>" << now + kClockStep << " OR lease_until>"
                           << now + kLease + kClockStep << " OR (wake_at>" << now + kLookAgain
                           << " AND (next_run_at<=" << now << " OR state=" << TaskState::kRunning
                           << "))) ORDER BY wake_at DESC LIMIT " << kPulledAtOnce);
    while (rows.next()) {
      found.push_back(rows.id<TaskId>(1));
    }
  }
  std::size_t pulled = 0;
  if (!found.empty()) {
    session_.transact([&] {
      const LockedTasks tasks = lock_tasks(session_, found);
      pulled = tasks.rows.size();
      if (pulled != 0) {
        write_pulled_back(session_, tasks, now);
      }
    });
  }
  if (pulled != 0) {
    log::warn("tasks that a clock had put into the future were brought back", {{"count", pulled}});
  }
  return found.size() == kPulledAtOnce && pulled != 0;
}

SweepResult TaskStore::sweep_rows(std::size_t limit, bool hints_go_out) {
  ClockLook look;
  look.local = clocks_.wall();
  look.asked = clocks_.steady();
  const Pass pass = read_pass(session_);
  look.answered = clocks_.steady();
  // The reading that is watched is the one that decides: else a jump between two would go unseen.
  const Instant now = look.database = pass.now;
  watch_clock(look, pass.ahead);
  if (pulling_back_) {
    pulling_back_ = try_pull_back(now);
  }
  const bool may_judge = watch_.may_judge(look.asked);
  const bool resumed = resume_at_.has_value();
  const Position after = resumed ? *resume_at_ : pass.over ? kStart : pass.after;
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  std::vector<Due> due;                      // In order.
  std::optional<Position> first_left, left;  // Up to here all were seen, and some left.
  std::optional<Position> stuck;             // The first that nobody may see to now.
  SweepResult result;
  Position last = after;
  bool more = false;
  {
    const std::size_t page = limit * kLeftPerChanged;
    Sql sql("SELECT ");
    sql << kRecordColumns << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=" << now
        << " AND t.wake_at>=" << after.wake_at << " AND (t.wake_at>" << after.wake_at << " OR t.id>"
        << after.id << ") ORDER BY t.wake_at, t.id LIMIT " << page;
    Rows rows = session_.query(sql);
    std::size_t count = 0;
    while (due.size() < limit && rows.next()) {
      ++count;
      const TaskRecord task = read_record(rows, 1);
      SweepDecision decision = decide_sweep(task, now, pass.unsent_from);
      // As little to do, and to write, as for one that was hinted, and no more: its end must not be
      // missed.
      if (decision.kind == SweepDecision::Kind::kPublish && !hints_go_out &&
          now < task.deadline_at - kWholePass) {
        decision.kind = SweepDecision::Kind::kHinted;
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
      if (!may_judge && is_of_time(decision.kind)) {
        ++result.kept;
        stuck = stuck ? stuck : last;
        continue;
      }
      due.push_back({last, task.user, decision.ends()});
    }
    more = due.size() == limit || count == page;
  }
  std::unordered_set<TaskId> held;
  if (!due.empty()) {
    sweep_due(due, now, result, held);
  }
  result.more = more || pulling_back_;
  const auto first_held = std::find_if(
      due.begin(), due.end(), [&](const Due& row) { return held.contains(row.at.id); });
  if (first_held != due.end() && (!stuck || first_held->at < *stuck)) {
    stuck = first_held->at;
  }
  // Rows that others hold, or that are not to be judged, cannot be moved out of the way: the next
  // look begins behind them, until one has come to the end. Such looks leave the pass alone, and it
  // stops before those rows: it must never have gone past a row that nobody has seen to.
  resume_at_ = more && (resumed || stuck) ? std::optional(last) : std::nullopt;
  if (resumed) {
    return result;
  }
  if (left && stuck && *stuck < *left) {
    left = *first_left < *stuck ? first_left : std::nullopt;
  }
  if (left) {
    move_pass(session_, pass, *left);
  } else if (pass.over && (pass.after.wake_at > kStart.wake_at || pass.ahead)) {
    move_pass(session_, pass, kStart);
  }
  return result;
}

// Late rows are no reason not to look at the others.
bool TaskStore::try_pull_back(Instant now) {
  try {
    return pull_back(now);
  } catch (const DbError& e) {
    log_fault("pull_back", e, 1);
    return e.fault() == DbFault::kUnavailable || e.fault() == DbFault::kBusy;
  }
}

void TaskStore::sweep_due(std::span<const Due> due,
                          Instant now,
                          SweepResult& result,
                          std::unordered_set<TaskId>& held) {
  result.looked_at += due.size();
  try {
    SweepResult changed;
    std::unordered_set<TaskId> skipped;
    session_.transact([&] {
      skipped.clear();
      changed = sweep_locked(due, now, skipped);
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
      sweep_each(due, now, result, held);
      return;
    }
    // This row alone: it comes again later, and hides no other one until then.
    const TaskId task = due.front().at.id;
    log::error("a task cannot be swept", {{"task", task}, {"code", e.code()}, {"error", e.what()}});
    held.insert(task);
    Sql later("UPDATE tasks FORCE INDEX (PRIMARY) SET wake_at=");
    session_.execute(later << now + kFaultPause << " WHERE id=" << task
                           << " AND wake_at IS NOT NULL");
  }
}

// One row spoils the look; which one, only looking at each alone tells. What is not done in time is
// there at the next look.
void TaskStore::sweep_each(std::span<const Due> due,
                           Instant now,
                           SweepResult& result,
                           std::unordered_set<TaskId>& held) {
  result.looked_at -= due.size();
  const auto until = std::chrono::steady_clock::now() + kEachWithin;
  for (std::size_t i = 0; i < due.size() && std::chrono::steady_clock::now() < until; ++i) {
    try {
      sweep_due(due.subspan(i, 1), now, result, held);
    } catch (const DbError& e) {
      if (!may_be_of_one(e.fault())) {
        throw;
      }
    }
  }
}

SweepResult TaskStore::sweep_locked(std::span<const Due> due,
                                    Instant now,
                                    std::unordered_set<TaskId>& held) {
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
  write_looks(session_, looks, now);
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
  constexpr std::size_t kPageLeast = 100, kPageMost = 1000, kReadyRows = 5'000;
  constexpr std::size_t kShare = 4;  // Of so many times as many as asked for, some are taken.
  const std::size_t page = std::clamp(limit * kShare + without.size(), kPageLeast, kPageMost);
  std::vector<Hint> found;
  Position after = kStart;
  for (std::size_t seen = 0, count = page;
       count == page && seen < kReadyRows && found.size() < limit;
       seen += count) {
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) + INTERVAL "
        << kFirstLook.count() << " SECOND AND t.wake_at>=" << after.wake_at << " AND (t.wake_at>"
        << after.wake_at << " OR t.id>" << after.id << ") ORDER BY t.wake_at, t.id LIMIT " << page;
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
  }
  thread_local std::minstd_rand random(std::random_device{}());
  std::vector<Hint> out;
  std::sample(found.begin(), found.end(), std::back_inserter(out), limit, random);
  return out;
}

}  // namespace audiogen::store
