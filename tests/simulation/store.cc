#include "tests/simulation/store.h"

#include <algorithm>
#include <utility>

namespace audiogen::simulation {
namespace {

using store::CancelOutcome;
using store::CreateOutcome;
using store::SettleOutcome;

// As in common/store/task_store_sweep.cc.
constexpr std::chrono::seconds kBusyPause{1};
constexpr std::size_t kLeftPerChanged = 5;
constexpr std::chrono::seconds kApiCounts{60};
const std::pair<Instant, TaskId> kStart{
    Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}};

template <class Items>
std::vector<TaskId> ids_of(const Items& items) {
  std::vector<TaskId> ids;
  for (const auto& item : items) {
    ids.push_back(item.command.task);
  }
  return ids;
}

bool is_of_time(SweepDecision::Kind kind) {
  using Kind = SweepDecision::Kind;
  return kind == Kind::kReap || kind == Kind::kExhaust || kind == Kind::kExpire;
}

}  // namespace

void Store::create(Transaction& tx, CreateItems& items, const Runs& runs) {
  std::vector<UserId> users;
  for (const auto& item : items) {
    users.push_back(item.command.user);
  }
  database_.lock_balances(tx, users);
  for (auto& item : items) {
    const store::CreateCommand& command = item.command;
    item.held = tx.is_held(command.user);
    if (item.held) {
      continue;
    }
    item.outcome = {};
    const auto created = [&](Instant at) {
      item.outcome.kind = CreateOutcome::Kind::kCreated;
      item.outcome.task.id = command.id;
      item.outcome.task.created_at = at;
    };
    if (const Row* const there = runs.again ? database_.find(command.id) : nullptr) {
      created(there->created_at);
      continue;
    }
    const Balance* const balance = tx.balance(command.user);
    const auto entry = hold(*balance, kHoldAmount);
    if (!entry) {
      item.outcome.kind = CreateOutcome::Kind::kInsufficient;
      continue;
    }
    tx.book(command.user, command.id, *entry);
    Row row;
    row.id = command.id;
    row.user = command.user;
    row.held = kHoldAmount;
    row.created_at = row.updated_at = row.next_run_at = tx.now;
    row.deadline_at = tx.now + command.deadline;
    row.wake_at = first_look(Lane::kBulk, tx.now, row.deadline_at);
    tx.insert(row);
    created(tx.now);
  }
}

void Store::claim(Transaction& tx, ClaimItems& items, Runs& runs, const Claimant& worker) {
  database_.lock_tasks(tx, ids_of(items));
  const Instant lease = tx.now + kLease;
  for (auto& item : items) {
    Row* const task = tx.task(item.command.task);
    if (task == nullptr) {
      item.held = tx.is_held(item.command.task);
      continue;
    }
    if (runs.again && item.outcome && task->worker == worker.id &&
        task->epoch == item.outcome->epoch && task->lease_until == runs.written_lease) {
      continue;  // The run before was committed.
    }
    item.outcome.reset();
    TaskFacts facts = *task;
    if (shared_.is(Mutant::kClaimEarly)) {
      facts.next_run_at = std::min(facts.next_run_at, tx.now);
    }
    if (shared_.is(Mutant::kNoEpochAtClaim) && !is_final(facts.state)) {
      facts.state = TaskState::kQueued;
      facts.epoch = item.command.epoch;
    }
    if (!may_claim(facts, item.command.epoch, tx.now)) {
      continue;
    }
    item.outcome = store::Claim{};
    store::Claim& claim = *item.outcome;
    claim.task = task->id;
    claim.user = task->user;
    claim.epoch = task->epoch + 1;
    claim.claims = task->claims + 1;
    claim.attempts = task->attempts;
    claim.deadline_at = task->deadline_at;
    claim.until_deadline = task->deadline_at - tx.now;
    if (shared_.plan.start_named) {
      claim.provider = "p";
      ++task->attempts;
    }
    task->state = TaskState::kRunning;
    ++task->epoch;
    ++task->claims;
    task->worker = worker.id;
    task->lease_until = lease;
    if (shared_.is(Mutant::kNoWakeAtClaim)) {
      task->wake_at.reset();
    } else if (task->wake_at && *task->wake_at <= tx.now) {
      task->wake_at = std::min(lease, task->deadline_at);
    }
    task->updated_at = tx.now;
    tx.at_commit(
        [this, of = ClaimOf{worker.number, task->id, task->epoch}] { shared_.judge.claimed(of); });
  }
  runs.written_lease = lease;
}

void Store::renew(Transaction& tx, RenewItems& items, WorkerId worker) {
  database_.lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    Row* const task = tx.task(item.command.task);
    item.held = tx.is_held(item.command.task);
    item.outcome = task != nullptr && may_renew(*task, item.command.epoch, worker);
    if (item.outcome) {
      task->lease_until = tx.now + kLease;
    }
  }
}

void Store::start_attempts(Transaction& tx, StartItems& items) {
  database_.lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    const store::AttemptStart& start = item.command;
    Row* const task = tx.task(start.task);
    item.held = tx.is_held(start.task);
    item.outcome = task != nullptr && is_of(*task, start.epoch);
    if (!item.outcome || task->attempts >= start.n) {
      continue;
    }
    item.held = task->attempts + 1 != start.n;
    if (!item.held) {
      ++task->attempts;
    }
  }
}

void Store::settle(Transaction& tx, SettleItems& items) {
  std::vector<UserId> users;
  for (const auto& item : items) {
    if (item.command.kind != ClaimEnd::Kind::kRelease) {
      users.push_back(item.command.user);
    }
  }
  database_.lock_balances(tx, users);
  database_.lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    const store::SettleCommand& command = item.command;
    Row* const task = tx.task(command.task);
    if (task == nullptr) {
      item.held = tx.is_held(command.task);
      item.outcome = SettleOutcome::kNotOurs;
      continue;
    }
    TaskFacts facts = *task;
    if (shared_.is(Mutant::kNoEpochAtSettle) && facts.state == TaskState::kRunning) {
      facts.epoch = command.epoch;
    }
    if (shared_.is(Mutant::kSettleTwice) && is_final(facts.state)) {
      facts.state = TaskState::kRunning;
      facts.epoch = command.epoch;
    }
    if (shared_.is(Mutant::kClaimsUnlimited)) {
      facts.claims = std::min(facts.claims, kClaimsMax - 1);
    }
    SettleDecision decision = decide_settle(facts, command, tx.now);
    item.outcome = !decision.to             ? SettleOutcome::kNotOurs
                   : is_final(*decision.to) ? SettleOutcome::kSettled
                                            : SettleOutcome::kRequeued;
    if (!decision.move) {
      continue;
    }
    TaskMove& to = *decision.move;
    to.claims += task->claims - facts.claims;
    if (is_final(to.state)) {
      if (shared_.is(Mutant::kChargeWhole) && to.state == TaskState::kSucceeded) {
        to.charged = task->held;
      }
      item.held = tx.is_held(task->user);
      if (item.held || !end(tx, *task, *to.charged)) {
        item.outcome = SettleOutcome::kFailed;
        continue;
      }
    }
    if (shared_.is(Mutant::kNoWakeAtRetry)) {
      to.wake_at.reset();
    }
    move(*task, to, tx.now);
    if (to.state == TaskState::kSucceeded) {
      task->output_key = command.output_key;
    }
    const auto left = is_final(to.state)                         ? Judge::Left::kEnded
                      : command.kind == ClaimEnd::Kind::kRelease ? Judge::Left::kReleased
                                                                 : Judge::Left::kWaits;
    const auto wait = std::chrono::duration_cast<Duration>(
        left == Judge::Left::kEnded ? std::chrono::milliseconds(0) : command.retry_after);
    tx.at_commit([this, id = task->id, epoch = command.epoch, left, wait] {
      shared_.judge.settled(id, epoch, left, wait);
    });
  }
}

void Store::cancel(Transaction& tx, CancelItems& items, const Runs& runs) {
  std::vector<UserId> users;
  std::vector<TaskId> open;
  std::vector<bool> asked(items.size(), false);
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto& [command, out, held] = items[i];
    const Row* const seen = database_.find(command.task);
    if (seen == nullptr) {
      out.outcome = CancelOutcome::kNotFound;
    } else if (is_final(seen->state)) {
      const bool by_the_run_before = runs.again && out.outcome == CancelOutcome::kCanceled &&
                                     seen->state == TaskState::kCanceled;
      out.outcome = by_the_run_before ? CancelOutcome::kCanceled : CancelOutcome::kAlreadyFinal;
    } else {
      asked[i] = true;
      users.push_back(seen->user);
      open.push_back(command.task);
    }
  }
  if (open.empty()) {
    return;
  }
  database_.lock_balances(tx, users);
  database_.lock_tasks(tx, open);
  for (std::size_t i = 0; i < items.size(); ++i) {
    auto& [command, out, held] = items[i];
    if (!asked[i]) {
      continue;
    }
    Row* const task = tx.task(command.task);
    held = task == nullptr || tx.is_held(task->user) || is_final(task->state);
    if (held) {
      continue;
    }
    TaskMove to = cancel_task(*task);
    if (shared_.is(Mutant::kCancelKeepsCredits)) {
      to.charged = task->held;
    }
    if (!end(tx, *task, *to.charged)) {
      out = {};
      continue;
    }
    move(*task, to, tx.now);
    out.outcome = CancelOutcome::kCanceled;
  }
}

bool Store::end(Transaction& tx, const Row& task, Units charged) {
  const Balance* const balance = tx.balance(task.user);
  if (shared_.is(Mutant::kNoReturn)) {
    return true;
  }
  if (balance == nullptr || balance->held < task.held) {
    return false;
  }
  tx.book(task.user, task.id, resolve(*balance, task.held, charged));
  return true;
}

void Store::move(Row& task, const TaskMove& to, Instant now) const {
  task.state = to.state;
  task.epoch = to.epoch;
  task.claims = to.claims;
  task.next_run_at = to.next_run_at;
  task.wake_at = to.wake_at;
  task.charged = to.charged;
  task.failure = to.failure;
  task.worker.reset();
  task.lease_until.reset();
  task.updated_at = now;
}

std::vector<Hint> Store::ready(std::size_t limit,
                               std::chrono::seconds age,
                               const std::unordered_set<TaskId>& without) {
  const Instant now = database_.now();
  std::vector<Hint> found;
  for (const Row* row : database_.awake(now + kFirstLook)) {
    TaskFacts task = *row;
    if (shared_.is(Mutant::kClaimEarly)) {
      task.next_run_at = std::min(task.next_run_at, now - age);
    }
    if (found.size() < limit && may_claim(task, task.epoch, now) && task.next_run_at + age <= now &&
        !without.contains(task.id)) {
      found.push_back({task.id, task.epoch});
    }
  }
  return found;
}

Store::Pass Store::read_pass() {
  Pass pass;
  const SweepMarks& marks = database_.marks;
  pass.now = database_.now();
  pass.after = marks.after;
  pass.began = marks.began;
  const Instant newest = std::max(pass.began, pass.after.first);
  pass.ahead = newest > pass.now + kClockStep && !shared_.is(Mutant::kMarksStay);
  pass.over = pass.began < pass.now - kWholePass || pass.ahead;
  std::optional<TaskId> least, last;
  for (const auto& [number, api] : database_.apis) {
    if (api.seen_at > pass.now - kApiCounts) {
      least = std::min(least.value_or(api.unsent_from), api.unsent_from);
    }
    last = std::max(last.value_or(api.unsent_from), api.unsent_from);
  }
  pass.unsent_from = least ? *least : last.value_or(TaskId{});
  return pass;
}

void Store::move_pass(const Pass& from, const std::pair<Instant, TaskId>& to) {
  SweepMarks& marks = database_.marks;
  if (marks.began != from.began) {
    return;
  }
  if (from.over) {
    marks = {to, from.now};
  } else if (marks.after < to) {
    marks.after = to;
  }
}

std::vector<TaskId> Store::to_pull_back(Instant now) {
  std::vector<TaskId> found;
  for (const Row* row : database_.awake(Instant::max())) {
    if (*row->wake_at > now &&
        (row->updated_at > now + kClockStep ||
         (row->lease_until && *row->lease_until > now + kLease + kClockStep) ||
         (*row->wake_at > now + kLookAgain &&
          (row->next_run_at <= now || row->state == TaskState::kRunning)))) {
      found.push_back(row->id);
    }
  }
  return found;
}

std::size_t Store::pull_back(Transaction& tx, const std::vector<TaskId>& found, Instant now) {
  database_.lock_tasks(tx, found);
  std::size_t pulled = 0;
  for (const TaskId id : found) {
    Row* const row = tx.task(id);
    if (row == nullptr) {
      continue;
    }
    ++pulled;
    if (!row->wake_at) {
      continue;
    }
    if (row->updated_at > now) {
      row->next_run_at = now + std::max<Duration>(row->next_run_at - row->updated_at, Duration(0));
    } else if (row->state == TaskState::kRunning) {
      row->next_run_at = std::min(row->next_run_at, now);
    }
    const bool unseen = row->deadline_at > row->created_at &&
                        row->created_at > row->updated_at + std::chrono::hours(24);
    const Instant from = shared_.is(Mutant::kPullFromCreation) || unseen
                             ? row->created_at
                             : std::min(row->created_at, row->updated_at);
    row->deadline_at = std::min(row->deadline_at, now + (row->deadline_at - from));
    if (row->lease_until) {
      row->lease_until = std::min(*row->lease_until, now + kLease);
    }
    row->wake_at = std::min({*row->wake_at,
                             row->deadline_at,
                             row->lease_until.value_or(std::max(row->next_run_at, now))});
    row->updated_at = std::min(row->updated_at, now);
  }
  return pulled;
}

std::vector<Hint> Store::sweep(Transaction& tx,
                               std::span<const Due> due,
                               Instant looked_at,
                               std::set<TaskId>& held) {
  const Instant now =
      shared_.is(Mutant::kSweepByOldClock) ? looked_at : std::min(looked_at, tx.now);
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  for (const Due& row : due) {
    ids.push_back(row.at.second);
    if (row.ends) {
      users.push_back(row.user);
    }
  }
  database_.lock_balances(tx, users);
  database_.lock_tasks(tx, ids);
  std::vector<Hint> publish;
  const auto set_look = [&](Row& task, std::optional<Instant> wake_at) {
    task.wake_at = wake_at;
    if (task.lease_until) {
      task.lease_until = std::min(*task.lease_until, now + kLease);
    }
  };
  for (const TaskId id : ids) {
    Row* const task = tx.task(id);
    if (task == nullptr) {
      if (tx.is_held(id)) {
        held.insert(id);
      }
      continue;
    }
    TaskFacts facts = *task;
    if (shared_.is(Mutant::kClaimsUnlimited)) {
      facts.claims = std::min(facts.claims, kClaimsMax - 1);
    }
    const SweepDecision decision = decide_sweep(facts, now);
    switch (decision.kind) {
      case SweepDecision::Kind::kNothing:
      case SweepDecision::Kind::kHinted:
        break;
      case SweepDecision::Kind::kPublish:
        publish.push_back({task->id, task->epoch});
        [[fallthrough]];
      case SweepDecision::Kind::kLook:
        set_look(*task, decision.wake_at);
        break;
      case SweepDecision::Kind::kReap: {
        TaskMove to = *decision.move;
        to.claims = task->claims;
        if (shared_.is(Mutant::kNoEpochAtReap)) {
          to.epoch = task->epoch;
        }
        move(*task, to, now);
        publish.push_back({task->id, task->epoch});
        break;
      }
      case SweepDecision::Kind::kExhaust:
      case SweepDecision::Kind::kExpire:
        if (tx.balance(task->user) == nullptr ||
            !end(tx, *task, decision.move->charged.value_or(Units{}))) {
          set_look(*task, now + kBusyPause);
        } else {
          move(*task, *decision.move, now);
        }
        break;
    }
  }
  return publish;
}

// One look, from its question to its end.
struct Sweeps::Look {
  bool hints_go_out = true;
  std::function<void(Result)> done;
  ClockLook clocks;
  Store::Pass pass;
  bool may_judge = true, resumed = false, more = false;
  std::vector<TaskId> late;
  std::size_t pulled = 0;
  std::vector<Store::Due> due;
  std::optional<Position> first_left, left, stuck;
  Position last;
  std::vector<Hint> publish;
  std::set<TaskId> held;
};

void Sweeps::sweep(bool hints_go_out, std::function<void(Result)> done) {
  const auto look = std::make_shared<Look>();
  look->hints_go_out = hints_go_out;
  look->done = std::move(done);
  look->clocks.local = kBeginning + client_.wall();
  look->clocks.asked = client_.steady();
  database_.execute(
      client_,
      [this, look] { look->pass = store_.read_pass(); },
      [this, look](bool answered) {
        if (!answered) {
          look->done({});
          return;
        }
        look->clocks.answered = client_.steady();
        look->clocks.database = look->pass.now;
        const auto step = watch_.look(look->clocks);
        if (step) {
          shared_.note(client_.name(), [&] {
            return "sees that the clock was set by " + std::to_string(step->count() / 1'000'000) +
                   " s";
          });
        }
        pulling_back_ = pulling_back_ || look->pass.ahead || (step && step->count() < 0);
        look->may_judge =
            watch_.may_judge(look->clocks.asked) || shared_.is(Mutant::kTrustJumpedClock);
        pull_back(look);
      });
}

void Sweeps::pull_back(const std::shared_ptr<Look>& look) {
  pulling_back_ = pulling_back_ && !shared_.is(Mutant::kNoPullBack);
  if (!pulling_back_) {
    look_at_rows(look);
    return;
  }
  const auto read = [this, look] { look->late = store_.to_pull_back(look->pass.now); };
  const auto write = [this, look](Transaction& tx) {
    look->pulled = store_.pull_back(tx, look->late, look->pass.now);
  };
  database_.execute(client_, read, [this, look, write](bool answered) {
    if (!answered || look->late.empty()) {
      pulling_back_ = !answered;
      look_at_rows(look);
      return;
    }
    database_.transact(client_, write, [this, look](TxEnd how) {
      pulling_back_ = shared_.is(Mutant::kPullBackOnce)
                          ? how == TxEnd::kNothing
                          : how != TxEnd::kCommitted || look->pulled != look->late.size();
      look_at_rows(look);
    });
  });
}

void Sweeps::look_at_rows(const std::shared_ptr<Look>& look) {
  look->resumed = resume_at_.has_value();
  const Position after = look->resumed ? *resume_at_ : look->pass.over ? kStart : look->pass.after;
  look->last = after;
  const auto read = [this, look, after] {
    const std::size_t limit = shared_.plan.sweep_limit;
    const std::size_t page = limit * kLeftPerChanged;
    const Instant now = look->pass.now;
    std::size_t count = 0;
    for (const Row* row : database_.awake(now)) {
      const Position at{*row->wake_at, row->id};
      if (at <= after) {
        continue;
      }
      if (count == page || look->due.size() == limit) {
        break;
      }
      ++count;
      SweepDecision decision = decide_sweep(*row, now, look->pass.unsent_from);
      if (decision.kind == SweepDecision::Kind::kPublish && !look->hints_go_out &&
          now < row->deadline_at - kWholePass) {
        decision.kind = SweepDecision::Kind::kHinted;
      }
      look->last = at;
      if (look->left || decision.kind == SweepDecision::Kind::kHinted) {
        look->first_left = look->first_left ? look->first_left : at;
        look->left = at;
      }
      if (decision.kind == SweepDecision::Kind::kHinted) {
        continue;
      }
      if (!look->may_judge && is_of_time(decision.kind)) {
        look->stuck = look->stuck ? look->stuck : at;
        continue;
      }
      look->due.push_back({at, row->user, decision.ends()});
    }
    look->more = look->due.size() == limit || count == page;
  };
  database_.execute(client_, read, [this, look](bool answered) {
    if (!answered) {
      look->done({});
    } else if (look->due.empty()) {
      finish(look);
    } else {
      change(look);
    }
  });
}

void Sweeps::change(const std::shared_ptr<Look>& look) {
  database_.transact(
      client_,
      [this, look](Transaction& tx) {
        look->held.clear();
        look->publish = store_.sweep(tx, look->due, look->pass.now, look->held);
      },
      [this, look](TxEnd how) {
        if (how == TxEnd::kCommitted) {
          finish(look);
        } else {
          look->done({});  // What was done, and what was not, the next look finds.
        }
      });
}

void Sweeps::finish(const std::shared_ptr<Look>& look) {
  Result result{true, std::move(look->publish), look->more};
  const auto first_held =
      std::find_if(look->due.begin(), look->due.end(), [&](const Store::Due& row) {
        return look->held.contains(row.at.second);
      });
  if (first_held != look->due.end() && (!look->stuck || first_held->at < *look->stuck)) {
    look->stuck = first_held->at;
  }
  resume_at_ =
      look->more && (look->resumed || look->stuck) ? std::optional(look->last) : std::nullopt;
  std::optional<Position> to;
  if (!look->resumed) {
    to = look->left;
    if (to && look->stuck && *look->stuck < *to) {
      to = *look->first_left < *look->stuck ? look->first_left : std::nullopt;
    }
    if (!to && look->pass.over && (look->pass.after.first > kStart.first || look->pass.ahead)) {
      to = kStart;
    }
  }
  if (!to) {
    look->done(std::move(result));
    return;
  }
  database_.execute(
      client_,
      [this, look, to] { store_.move_pass(look->pass, *to); },
      [look, result = std::move(result)](bool) { look->done(result); });
}

}  // namespace audiogen::simulation
