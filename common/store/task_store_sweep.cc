// The sweeper: what became of tasks nobody told us about.
#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "common/domain/clock_trust.h"
#include "common/domain/shares.h"
#include "common/store/lanes.h"
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
// A pass through very many rows may take so long; then the next one begins all the same.
constexpr std::chrono::minutes kPassMost{10};
// What one look of pull_back() reads, which is all the time it takes where a million wait, and what
// it changes in one transaction.
constexpr std::size_t kPullPage = 2'000, kPulledAtOnce = 500;

// A count of what waits reads so many tasks, of so many parts at most: the values of a byte.
constexpr std::uint64_t kCountedMost = 10'000;
constexpr std::uint32_t kCountedParts = 256;

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

// The rows after a position in the order of k_wake, and those before it, as ranges of that index.
// `wake_at<=x AND (wake_at<x OR id<y)` says the same, but of many rows with one wake_at MariaDB
// 10.11 then reads all that were passed again for each page on the way down. (On the way up it does
// not.)
Sql rows_after(const Position& at) {
  Sql sql("(wake_at>");
  sql << at.wake_at << " OR (wake_at=" << at.wake_at << " AND id>" << at.id << "))";
  return sql;
}
Sql rows_before(const Position& at) {
  Sql sql("(wake_at<");
  sql << at.wake_at << " OR (wake_at=" << at.wake_at << " AND id<" << at.id << "))";
  return sql;
}

Pass read_pass(Session& session) {
  Pass pass;
  // Without any other the last word of those that have gone silent counts.
  Sql sql(
      "SELECT UTC_TIMESTAMP(6), after_wake_at, after_id, began_at, (SELECT "
      "COALESCE(MIN(IF(seen_at<UTC_TIMESTAMP(6) + INTERVAL 2 SECOND AND seen_at>UTC_TIMESTAMP(6) - "
      "INTERVAL ");
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
  session.transact([&] {
    if (session.query(Sql("SELECT 1 FROM sweep_pass FOR UPDATE SKIP LOCKED")).next()) {
      session.later(sql);
    }
  });
}

// Whether `kind` follows from nothing but that some time has passed.
bool is_of_time(SweepDecision::Kind kind) {
  using Kind = SweepDecision::Kind;
  return kind == Kind::kReap || kind == Kind::kExhaust || kind == Kind::kExpire;
}

}  // namespace

Result<SweepResult, StoreFault> TaskStore::sweep(std::size_t limit,
                                                 bool hints_go_out,
                                                 const QueuesSeen& queues,
                                                 const HasHint& has_hint) {
  return guarded<SweepResult>("sweep",
                              [&] { return sweep_rows(limit, hints_go_out, queues, has_hint); });
}

void TaskStore::watch_clock(const ClockLook& look, bool marks_ahead) {
  const auto step = watch_.look(look);
  if (step) {
    log::warn("the database's clock was set",
              {{"seconds", std::chrono::duration_cast<std::chrono::seconds>(*step).count()},
               {"leases_judged_again_in",
                watch_.may_judge(look.answered) ? std::int64_t{0} : kLease.count()}});
  }
  // And where nobody may have been there when it happened.
  const bool back = watch_.missed() || (step && step->count() < 0);
  pulling_back_ = pulling_back_ || marks_ahead || back;
  // What was passed may be late now.
  pull_again_ = pull_again_ || (back && pulled_to_);
}

// What was written before the clock went back lies in its future: claims, retries and looks would
// come late by as much. From the farthest down to now, a page at a look, so that what is due waits
// for no more than that. True: there is more of it, to be done at once. What others hold is left
// for the next time.
bool TaskStore::pull_back(Instant now) {
  Sql sql("SELECT wake_at, id, updated_at>");
  sql << now + kClockStep << " OR lease_until>" << now + kLease + kClockStep << " OR (wake_at>"
      << now + kLookAgain << " AND lane<>" << Lane::kParked << " AND (next_run_at<=" << now
      << " OR state=" << TaskState::kRunning << ")) FROM tasks FORCE INDEX (k_wake) WHERE wake_at>"
      << now;
  if (pulled_to_) {
    (sql << " AND ").append(rows_before(*pulled_to_));
  } else {
    pull_again_ = false;
  }
  sql << " ORDER BY wake_at DESC, id DESC LIMIT " << kPullPage;
  std::vector<TaskId> late;
  std::optional<Position> last;
  std::size_t count = 0;
  {
    Rows rows = session_.query(sql);
    for (; late.size() < kPulledAtOnce && rows.next(); ++count) {
      last = Position{rows.time(1), rows.id<TaskId>(2)};
      if (!rows.is_null(3) && rows.i64(3) != 0) {
        late.push_back(last->id);
      }
    }
  }
  std::size_t pulled = 0;
  if (!late.empty()) {
    session_.transact([&] {
      const LockedTasks tasks = lock_tasks(session_, late);
      pulled = tasks.rows.size();
      if (pulled != 0) {
        // By the clock of the locks: this process may have been frozen since it looked, and what
        // was written meanwhile is not of the future.
        std::vector<TaskId> ids;
        std::transform(
            tasks.rows.begin(), tasks.rows.end(), std::back_inserter(ids), [](const auto& row) {
              return row.first;
            });
        bring_back(session_, ids, tasks.now);
      }
    });
  }
  if (pulled != 0) {
    log::warn("tasks that a clock had put into the future were brought back", {{"count", pulled}});
  }
  pull_again_ = pull_again_ || pulled != late.size();
  const bool more = count == kPullPage || late.size() == kPulledAtOnce;
  pulled_to_ = more ? last : std::nullopt;
  pulling_back_ = more || pull_again_;
  return more;
}

SweepResult TaskStore::sweep_rows(std::size_t limit,
                                  bool hints_go_out,
                                  const QueuesSeen& queues,
                                  const HasHint& has_hint) {
  ClockLook look;
  look.local = clocks_.wall();
  look.asked = clocks_.steady();
  Pass pass = read_pass(session_);
  look.answered = clocks_.steady();
  // The reading that is watched is the one that decides: else a jump between two would go unseen.
  const Instant now = look.database = pass.now;
  watch_clock(look, pass.ahead);
  const bool more_late = pulling_back_ && try_pull_back(now);
  const bool may_judge = watch_.may_judge(look.asked);
  const Instant judged_by = ClockWatch::judged_by(look);
  const auto may_be_over = [&](TaskRecord task) {
    // That it is to be looked at is no judgement.
    task.wake_at = std::min(*task.wake_at, judged_by);
    return may_judge &&
           is_of_time(decide_sweep(task, judged_by, pass.unsent_from, false, queues).kind);
  };
  // Balances are locked before tasks, so a look without locks says first whose will be needed.
  struct Page {
    std::vector<Due> due{};                        // In order.
    std::optional<Position> first_left{}, left{};  // Up to here all were seen, and some left.
    std::optional<Position> stuck{};               // The first that nobody may see to now.
    Position last;
    std::size_t kept = 0;
    bool more = false;
  };
  const auto read_page = [&](const Position& after) {
    Page out{.last = after};
    auto& [due, first_left, left, stuck, last, kept, more] = out;
    const std::size_t page = limit * kLeftPerChanged;
    Sql sql("SELECT ");
    sql << kRecordColumns << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=" << now
        << " AND ";
    sql.append(rows_after(after)) << " ORDER BY t.wake_at, t.id LIMIT " << page;
    Rows rows = session_.query(sql);
    std::size_t count = 0;
    while (due.size() < limit && rows.next()) {
      ++count;
      const TaskRecord task = read_record(rows, 1);
      SweepDecision decision = decide_sweep(task, now, pass.unsent_from, false, queues);
      // As little to do, and to write, as for one that was hinted, and no more: its end must not be
      // missed.
      const auto is_here = [&] { return has_hint && has_hint({task.id, task.epoch, task.lane}); };
      if (decision.kind == SweepDecision::Kind::kPublish && !decision.tried &&
          (is_here() || !hints_go_out) && now < task.deadline_at - kWholePass) {
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
      if (is_of_time(decision.kind) && !may_be_over(task)) {
        ++kept;
        stuck = stuck ? stuck : last;
        continue;
      }
      due.push_back({last, task.user, decision.ends()});
    }
    more = due.size() == limit || count == page;
    return out;
  };
  const SweepLook seen{.now = now, .unsent_from = pass.unsent_from, .queues = queues};
  SweepResult result;
  std::unordered_set<TaskId> held;
  // What comes last in a pass through a million rows may be due now. This goes on whatever it
  // meets: the pass comes to all of it in the end.
  bool more_new = false;
  if (lags_) {
    const Page fresh = read_page(std::min(*seen_to_, Position{now, {}}));
    if (!fresh.due.empty()) {
      sweep_due(fresh.due, seen, result, held);
      held.clear();
    }
    result.kept += fresh.kept;
    more_new = fresh.more;
    seen_to_ = fresh.more ? fresh.last : Position{now, {}};
    pass.over = pass.ahead || (pass.over && pass.began < now - kPassMost);
  }
  const bool resumed = resume_at_.has_value();
  const Position after = resumed ? *resume_at_ : pass.over ? kStart : pass.after;
  Page page = read_page(after);
  auto& [due, first_left, left, stuck, last, kept, more] = page;
  result.kept += kept;
  if (!due.empty()) {
    sweep_due(due, seen, result, held);
  }
  result.more = more || more_new || more_late;
  // What was due before this store's first look is for the pass, however long it takes.
  // After a step back it may have seen what has not come yet.
  seen_to_ = more && seen_to_ ? std::min(*seen_to_, Position{now, {}}) : Position{now, {}};
  lags_ = more;
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
    // Again at the next look, unless it is the rows themselves: then it would only fail again.
    pulling_back_ = e.fault() == DbFault::kUnavailable || e.fault() == DbFault::kBusy ||
                    e.fault() == DbFault::kUnknownOutcome;
    pulled_to_.reset();
    return false;
  }
}

void TaskStore::sweep_due(std::span<const Due> due,
                          const SweepLook& look,
                          SweepResult& result,
                          std::unordered_set<TaskId>& held) {
  result.looked_at += due.size();
  try {
    SweepResult changed;
    std::unordered_set<TaskId> skipped;
    session_.transact(
        [&] {
          skipped.clear();
          changed = sweep_locked(due, look, skipped);
        },
        "sweep");
    AG_CRASH_POINT("sweep.committed");
    held.merge(skipped);
    const auto tried = changed.publish.begin() + static_cast<std::ptrdiff_t>(changed.tried);
    result.publish.insert(result.publish.end(), tried, changed.publish.end());
    result.publish.insert(result.publish.begin(), changed.publish.begin(), tried);
    result.tried += changed.tried;
    result.reaped += changed.reaped;
    result.expired += changed.expired;
    result.exhausted += changed.exhausted;
    std::move(changed.swept.begin(), changed.swept.end(), std::back_inserter(result.swept));
  } catch (const DbError& e) {
    if (!may_be_of_one(e.fault())) {
      throw;
    }
    log_fault("sweep", e, due.size());
    if (due.size() > 1) {
      sweep_each(due, look, result, held);
      return;
    }
    // This row alone: it comes again later, and hides no other one until then.
    const TaskId task = due.front().at.id;
    log::error("a task cannot be swept",
               {{"task_id", task}, {"code", e.code()}, {"error", e.what()}});
    held.insert(task);
    Sql later("UPDATE tasks FORCE INDEX (PRIMARY) SET wake_at=");
    session_.execute(later << look.now + kFaultPause << " WHERE id=" << task
                           << " AND wake_at IS NOT NULL");
  }
}

// One row spoils the look; which one, only looking at each alone tells. What is not done in time is
// there at the next look.
void TaskStore::sweep_each(std::span<const Due> due,
                           const SweepLook& look,
                           SweepResult& result,
                           std::unordered_set<TaskId>& held) {
  result.looked_at -= due.size();
  const auto until = std::chrono::steady_clock::now() + kEachWithin;
  for (std::size_t i = 0; i < due.size() && std::chrono::steady_clock::now() < until; ++i) {
    try {
      sweep_due(due.subspan(i, 1), look, result, held);
    } catch (const DbError& e) {
      if (!may_be_of_one(e.fault())) {
        throw;
      }
    }
  }
}

SweepResult TaskStore::sweep_locked(std::span<const Due> due,
                                    const SweepLook& look,
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
  Books books(session_, seen_window_, std::move(users), Locking::kSkipLocked);
  LockedTasks tasks = lock_tasks(session_, ids, Columns::kWithTrail, Ahead::kBroughtBack);
  held = std::move(tasks.held);
  const bool was_away = watch_.was_away(clocks_.steady());
  // The clock may have been set back since the look, and the rows brought back with it: by the time
  // of the look their deadlines would have passed.
  const Instant now = std::min(look.now, tasks.now);
  std::vector<TaskChange> changes;
  std::vector<Look> looks;
  const auto publish = [&](const Hint& hint, bool tried) {
    const auto at = tried ? static_cast<std::ptrdiff_t>(result.tried++)
                          : static_cast<std::ptrdiff_t>(result.publish.size());
    result.publish.insert(result.publish.begin() + at, hint);
  };
  const auto tell = [&](const TaskRecord& task, Swept::Kind kind) {
    result.swept.push_back(
        {.task = task.id, .trail = task.trail, .worker = task.worker, .kind = kind});
  };
  const auto end =
      [&](const TaskRecord& task, const TaskMove& move, Swept::Kind kind, std::size_t& count) {
        // Every look moves its row, so that rows nothing can be done about never hide the others.
        if (books.find(task.user) == nullptr || !book_end(books, task, Units{})) {
          looks.push_back({task.id, now + kBusyPause});
          return;
        }
        changes.push_back(change_of(task, move));
        tell(task, kind);
        ++count;
      };
  for (const TaskId id : ids) {
    const TaskRecord* task = tasks.find(id);
    if (task == nullptr) {
      continue;
    }
    AG_CRASH_POINT("sweep.row");
    const SweepDecision decision =
        decide_sweep(*task, now, look.unsent_from, was_away, look.queues);
    switch (decision.kind) {
      case SweepDecision::Kind::kNothing:
      case SweepDecision::Kind::kHinted:
        break;
      case SweepDecision::Kind::kPublish:
        publish({task->id, task->epoch, task->lane}, decision.tried);
        [[fallthrough]];
      case SweepDecision::Kind::kLook:
        looks.push_back({task->id, decision.wake_at});
        break;
      case SweepDecision::Kind::kReap:
        changes.push_back(change_of(*task, *decision.move));
        publish({task->id, decision.move->epoch, task->lane}, decision.tried);
        tell(*task, Swept::Kind::kReaped);
        ++result.reaped;
        break;
      case SweepDecision::Kind::kExhaust:
        end(*task, *decision.move, Swept::Kind::kExhausted, result.exhausted);
        break;
      case SweepDecision::Kind::kExpire:
        end(*task, *decision.move, Swept::Kind::kExpired, result.expired);
        break;
    }
  }
  // A lease that was renewed since the look is not too long.
  write_looks(session_, looks, tasks.now);
  write_changes(session_, changes, now);
  books.write(now);
  return result;
}

Result<std::vector<Hint>, StoreFault> TaskStore::ready(std::size_t limit,
                                                       std::chrono::seconds age,
                                                       const std::unordered_set<TaskId>& without,
                                                       bool express_only) {
  return guarded<std::vector<Hint>>("ready",
                                    [&] { return ready_rows(limit, age, without, express_only); });
}

// New tasks are in the index of wake_at from the start, at their first look: so this reads as far
// ahead as that. Whether a row is ready is not asked of the database: where hundreds of thousands
// wait for their next try it would read all of them that are looked at soon to find one that is,
// which takes seconds.
std::vector<Hint> TaskStore::ready_rows(std::size_t limit,
                                        std::chrono::seconds age,
                                        const std::unordered_set<TaskId>& without,
                                        bool express_only) {
  constexpr std::size_t kPageLeast = 100, kPageMost = 1000, kReadyRows = 5'000;
  constexpr std::size_t kShare = 4;  // Of so many times as many as asked for, some are taken.
  const std::size_t first_page = std::clamp(limit * kShare + without.size(), kPageLeast, kPageMost);
  std::vector<Hint> express, bulk;
  const auto found = [&] { return express.size() + (express_only ? 0 : bulk.size()); };
  Position at = kStart;
  // Those of the express lane may be behind all that crowds have released, which are older: to look
  // there each time would be too much where nobody waits, for those that pull many times a second.
  constexpr std::uint32_t kDeepEvery = 8;
  const bool deep = pulls_++ % kDeepEvery == 0;
  const auto has_enough = [&] { return (deep ? express.size() : found()) >= limit; };
  std::size_t page = first_page;
  const std::size_t most_rows = kReadyRows + without.size();  // Those are ready, too.
  for (std::size_t seen = 0, count = page; count == page && seen < most_rows && !has_enough();
       seen += count) {
    page = seen == 0 ? first_page : kPageMost;
    Sql sql("SELECT UTC_TIMESTAMP(6), ");
    sql << kRecordColumns
        << " FROM tasks t FORCE INDEX (k_wake) WHERE t.wake_at<=UTC_TIMESTAMP(6) + INTERVAL "
        << kFirstLook.count() << " SECOND AND ";
    sql.append(rows_after(at)) << " ORDER BY t.wake_at, t.id LIMIT " << page;
    Rows rows = session_.query(sql);
    for (count = 0; rows.next(); ++count) {
      const TaskRecord task = read_record(rows, 2);
      const Instant now = rows.time(1);
      at = {*task.wake_at, task.id};
      if (may_claim(task, task.epoch, now) && task.next_run_at + age <= now &&
          !without.contains(task.id)) {
        auto& lane = task.lane == Lane::kExpress ? express : bulk;
        if (lane.size() < first_page) {
          lane.push_back({task.id, task.epoch, task.lane});
        }
      }
    }
  }
  thread_local std::minstd_rand random(std::random_device{}());
  LaneTurns turns(static_cast<std::uint32_t>(random()));
  std::vector<Lane> lanes;
  std::size_t of_express = 0, of_bulk = 0;
  for (const std::size_t most = std::min(limit, found()); lanes.size() < most;) {
    const bool bulk_left = !express_only && of_bulk < bulk.size();
    lanes.push_back(turns.next(of_express < express.size(), bulk_left));
    ++(lanes.back() == Lane::kExpress ? of_express : of_bulk);
  }
  // As many as are taken, and no more: what is drawn keeps its order, so the end of a longer draw
  // would always be the same.
  const auto some = [&](const std::vector<Hint>& of, std::size_t count) {
    std::vector<Hint> out;
    std::sample(of.begin(), of.end(), std::back_inserter(out), count, random);
    return out;
  };
  const std::vector<Hint> first = some(express, of_express), others = some(bulk, of_bulk);
  std::vector<Hint> out;
  for (auto e = first.begin(), b = others.begin(); const Lane lane : lanes) {
    out.push_back(lane == Lane::kExpress ? *e++ : *b++);
  }
  return out;
}

Result<bool, StoreFault> TaskStore::look_after_crowds(std::size_t limit,
                                                      std::chrono::seconds pace_over) {
  return guarded<bool>("look_after_crowds",
                       [&] { return look_after_some_crowds(limit, pace_over); });
}

// Released tasks that wait, and that somebody is called for: a page of them, after those that this
// count has seen. They are looked at within kLookAgain, or, in their last minute, at their
// deadline; what else has been put off until then was counted where it was. (One that is moved to
// its deadline while a count goes on is counted twice: some of very many.) Those that are parked
// are not among what is looked at so soon, but for the last of their time. Of very many a part is
// read, by the last byte of their ids, which is random and stands in the index: a smaller one, the
// more there are, so a page is shorter then. True at the end.
bool TaskStore::count_page() {
  constexpr std::uint64_t kPageMost = 2'500, kPassed = 30'000;
  QueueCount& count = *counting_;
  const std::uint64_t page = std::min(kPageMost, kPassed / queue_part_);
  const Position from = count.at.value_or(kStart);
  Sql sql(
      "SELECT wake_at, id, lane, state, GREATEST(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), "
      "deadline_at), 0), (state=");
  sql << TaskState::kQueued
      << " AND next_run_at<=UTC_TIMESTAMP(6)) OR (state=" << TaskState::kRunning
      << " AND attempt_state<=>" << std::uint32_t{kCallStarted} << "), wake_at<=" << count.until
      << " OR wake_at=deadline_at FROM tasks FORCE INDEX (k_wake) WHERE wake_at<="
      << count.until + (kWholePass - kLookAgain) << " AND ORD(RIGHT(id, 1))<"
      << kCountedParts / queue_part_ << " AND ";
  sql.append(rows_after(from)) << " ORDER BY wake_at, id LIMIT " << page;
  std::uint64_t seen = 0;
  Rows rows = session_.query(sql);
  for (; rows.next(); ++seen) {
    count.at = Position{rows.time(1), TaskId{rows.uuid(2)}};
    const auto lane = static_cast<Lane>(rows.u32(3));
    if (lane == Lane::kParked || rows.i64(6) == 0 || rows.i64(7) == 0) {
      continue;
    }
    const bool express = lane == Lane::kExpress;
    if (static_cast<TaskState>(rows.u32(4)) == TaskState::kRunning) {
      (express ? count.called_express : count.called_bulk) += queue_part_;
    } else {
      (express ? count.express : count.bulk)[std::chrono::seconds(rows.i64(5))] += queue_part_;
    }
  }
  count.read += seen;
  if (seen < page) {
    return true;
  }
  // Each row counts for as many as the part that it was read with says, so the part may change.
  if (count.read >= kCountedMost) {
    if (queue_part_ == kCountedParts) {
      return true;
    }
    queue_part_ *= 2;
    count.read /= 2;  // As if it had been that part from the start.
  }
  return false;
}

QueueSeen TaskStore::QueueCount::seen() const {
  const auto list = [](const auto& waiting) {
    std::vector<QueueSeen::Waiting> out;
    for (const auto& [left, count] : waiting) {
      out.push_back({.left = left, .count = count});
    }
    return out;
  };
  return {.express = list(express),
          .bulk = list(bulk),
          .called_express = called_express,
          .called_bulk = called_bulk};
}

// What waits, as the last whole count saw it; null: no count has come to its end yet. Where nobody
// has to wait nothing is counted, and what was counted is good again within some seconds: where
// calls end together there is room in between. However many wait, a tenth of the time is enough,
// and so much of it at once that nobody who is to be released notices.
const QueueSeen* TaskStore::count_queue(const WorkersSeen& workers) {
  constexpr int kRests = 9;
  constexpr std::chrono::milliseconds kAtOnce{25};  // And a page, some ten.
  static const QueueSeen nobody;
  if (!workers.full()) {
    return &nobody;
  }
  if (!continues(full_at_, workers.at)) {
    queue_.reset();
    counting_.reset();
    count_at_.reset();
  }
  full_at_ = workers.at;
  const auto began = clocks_.steady();
  if (!count_at_ || began >= *count_at_) {
    if (!counting_) {
      // What is put off meanwhile comes after that, and is not met again.
      counting_ = QueueCount{.until = workers.at + kLookAgain};
    }
    bool whole = false;
    auto now = began;
    do {
      whole = count_page();
      now = clocks_.steady();
    } while (!whole && now < began + kAtOnce);
    if (whole) {
      queue_ = counting_->seen();
      if (counting_->read < kCountedMost / 4 && queue_part_ > 1) {
        queue_part_ /= 2;
      }
      counting_.reset();
    }
    count_at_ = now + kRests * (now - began);
  }
  return queue_ ? &*queue_ : nullptr;
}

WorkersSeen TaskStore::look_at_workers() {
  // One that was last seen later than now has no place either: the clock was set back, and who
  // lives tells again.
  WorkersSeen seen{.at = session_.now()};
  std::vector<EndsCount::Told> told;
  Sql sql(
      "SELECT id, places, room, ended, needs, route_lines, in_flight FROM workers WHERE ended_at "
      "IS "
      "NULL AND seen_at>");
  sql << seen.at - kWorkerSeenWithin << " AND seen_at<" << seen.at + std::chrono::seconds(2);
  Rows rows = session_.query(sql);
  while (rows.next()) {
    ++seen.workers;
    seen.places += rows.u64(2);
    seen.room += rows.u64(3);
    seen.needs = std::max(seen.needs, rows.u32(5));
    seen.lines.add(parse_lines(rows.text(6)));
    seen.in_flight += rows.u64(7);
    told.push_back({rows.id<WorkerId>(1), rows.u64(4)});
  }
  seen.ended = ends_.look(told, seen.at);
  return seen;
}

// What all programs go by until the next look: by what is seen of workers, crowds and the queue
// now.
std::uint32_t TaskStore::set_window(std::chrono::seconds pace_over) {
  constexpr std::uint32_t kCrowdsCounted = 10'000;  // With as many, the window is the smallest.
  const WorkersSeen seen = look_at_workers();
  Sql sql(
      "SELECT c.n, c.tasks, r.size, r.crowds, r.tasks, r.pace, r.bulk_share, r.takes, "
      "r.express_wait, r.bulk_wait, r.needs, r.routes, r.looked_at FROM release_window r JOIN "
      "(SELECT "
      "COUNT(*) AS n, COALESCE(SUM(open),0) AS tasks FROM (SELECT released+parked AS open FROM "
      "balances FORCE INDEX (k_crowded) WHERE crowded=1 LIMIT ");
  Rows rows = session_.query(sql << kCrowdsCounted << ") b) c");
  if (!rows.next()) {
    throw DbError(DbFault::kUnexpected, 0, "release_window has no row");
  }
  const ReleaseWindow written{.size = rows.u32(3),
                              .crowds = rows.u32(4),
                              .tasks = rows.u64(5),
                              .pace = rows.u32(6),
                              .bulk_share = rows.u32(7),
                              .takes = rows.u32(8),
                              .express_wait = rows.u32(9),
                              .bulk_wait = rows.u32(10),
                              .needs = rows.u32(11),
                              .routes = parse_waits(rows.text(12))};
  const ReleaseWindow last = known_at(written, rows.maybe_time(13), seen.at);
  const std::uint32_t crowds = rows.u32(1);
  ReleaseWindow next{.size = window_.look(seen, crowds, last, kRoomFor).value_or(last.size),
                     .crowds = crowds,
                     .tasks = rows.u64(2),
                     .needs = seen.needs};
  const QueueSeen* const queue = count_queue(seen);
  const bool somebody_waits = crowds > 0 || !queue || queue->somebody_waits();
  next.pace = pace_.look(seen, somebody_waits, last.pace, pace_over);
  next = queue ? with_waits(next, *queue, seen.places, last) : uncounted(next, last);
  next = with_routes(next, queue, seen);
  // What is known is good for some seconds only.
  if (next != written || next.pace != 0 || !next.routes.empty()) {
    Sql update("UPDATE release_window SET size=");
    update << next.size << ", crowds=" << next.crowds << ", tasks=" << next.tasks
           << ", pace=" << next.pace << ", bulk_share=" << next.bulk_share
           << ", takes=" << next.takes << ", express_wait=" << next.express_wait
           << ", bulk_wait=" << next.bulk_wait << ", needs=" << next.needs << ", routes=";
    update.utf8(encode_waits(next.routes), kRouteTextMax)
        << ", routes_at=" << seen.at << ", looked_at=" << seen.at;
    // Whoever holds the row has all go by what it says, for some seconds, and keeps nobody parked.
    session_.transact([&] {
      if (session_.query(Sql("SELECT 1 FROM release_window FOR UPDATE SKIP LOCKED")).next()) {
        session_.later(update);
      }
    });
  }
  return next.size;
}

// Without a lock first: most of them have as many as they may.
bool TaskStore::look_after_some_crowds(std::size_t limit, std::chrono::seconds pace_over) {
  constexpr std::chrono::milliseconds kFurtherTime{500};
  if (!crowd_at_) {  // A round begins.
    crowd_window_ = set_window(pace_over);
  }
  Sql sql(
      "SELECT user_id, released, parked, released_max FROM balances FORCE INDEX (k_crowded) "
      "WHERE crowded=1 AND user_id>");
  sql << crowd_at_.value_or(UserId{}) << " ORDER BY user_id LIMIT " << limit;
  std::vector<UserId> waiting;
  std::size_t seen = 0;
  {
    Rows rows = session_.query(sql);
    for (; rows.next(); ++seen) {
      crowd_at_ = rows.id<UserId>(1);
      const OpenTasks open{.released = rows.u32(2),
                           .parked = rows.u32(3),
                           .parked_after = 0,
                           .released_max = rows.u32(4)};
      if (may_release(open, crowd_window_) > 0) {
        waiting.push_back(*crowd_at_);
      }
    }
  }
  // Of those whose oldest tasks have all ended since, many more are read at once.
  constexpr std::size_t kUsersAtOnce = 20, kFurtherAtOnce = 4;
  constexpr std::uint32_t kFurther = 1000;
  std::vector<UserId> further;
  const auto release = [&](std::span<const UserId> users, std::uint32_t beyond) {
    Released out;
    session_.transact(
        [&] {
          Books books(session_, seen_window_, {users.begin(), users.end()}, Locking::kSkipLocked);
          out = {};
          if (books.now()) {
            out = release_next(session_, books, users, *books.now(), beyond);
            books.write(*books.now());
          }
        },
        "crowds");
    released_.insert(released_.end(), out.hints.begin(), out.hints.end());
    further.insert(further.end(), out.further.begin(), out.further.end());
    return std::move(out.left);
  };
  while (!waiting.empty()) {
    const auto some =
        waiting.end() - static_cast<std::ptrdiff_t>(std::min(kUsersAtOnce, waiting.size()));
    const std::vector<UserId> users(some, waiting.end());
    waiting.erase(some, waiting.end());
    const auto left = release(users, kEndedSeen);
    waiting.insert(waiting.end(), left.begin(), left.end());
  }
  const auto until = std::chrono::steady_clock::now() + kFurtherTime;
  while (!further.empty() && std::chrono::steady_clock::now() < until) {
    const std::size_t count = std::min(kFurtherAtOnce, further.size());
    const std::vector<UserId> some(further.begin(), further.begin() + static_cast<int>(count));
    further.erase(further.begin(), further.begin() + static_cast<int>(count));
    const auto left = release(some, kFurther);
    further.insert(further.end(), left.begin(), left.end());
  }
  if (seen < limit) {
    crowd_at_.reset();
  }
  return seen < limit;
}

}  // namespace audiogen::store
