#include "tests/simulation/store.h"

#include <algorithm>
#include <map>
#include <utility>

namespace audiogen::simulation {
namespace {

using store::CancelOutcome;
using store::CreateOutcome;
using store::SettleOutcome;

// As in common/store/task_store_sweep.cc.
constexpr std::chrono::seconds kBusyPause{1};
constexpr std::size_t kLeftPerChanged = 5;
constexpr std::chrono::minutes kPassMost{10};
constexpr std::chrono::seconds kApiCounts{60};
const std::pair<Instant, TaskId> kStart{
    Instant(std::chrono::sys_days(std::chrono::year(2000) / 1 / 1)), {}};

// As in common/store/lanes.{h,cc}.
constexpr std::size_t kEndedSeen = 16, kReleasedAtOnce = 200, kUsersAtOnce = 64;

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
    const auto created = [&](Instant at, Lane lane) {
      item.outcome.kind = CreateOutcome::Kind::kCreated;
      item.outcome.task.id = command.id;
      item.outcome.task.created_at = at;
      item.outcome.lane = lane;
    };
    if (const Row* const there = runs.again ? database_.find(command.id) : nullptr) {
      created(there->created_at, there->lane);
      continue;
    }
    const Balance* const balance = tx.balance(command.user);
    const auto entry = hold(*balance, kHoldAmount);
    if (!entry) {
      item.outcome.kind = CreateOutcome::Kind::kInsufficient;
      continue;
    }
    OpenTasks& open = *tx.open_tasks(command.user);
    const std::uint32_t window = shared_.is(Mutant::kParkNobody) ? kWindowMax : tx.window.size;
    ReleaseWindow waits = tx.window;
    if (shared_.is(Mutant::kSmallAreRefused) && waits.crowds > 0) {
      waits.express_wait = UINT32_MAX;
    }
    if (const auto again_in =
            refused_for(open, waits, Route(), command.deadline, draw_of(command.id))) {
      item.outcome.kind = CreateOutcome::Kind::kTooLate;
      item.outcome.again_in = *again_in;
      continue;
    }
    open.released_max = shared_.is(Mutant::kNoPlanLimit) ? 0 : command.released_max;
    Row row;
    row.lane = add_task(open, window, balance->seq);
    tx.book(command.user, command.id, *entry);
    row.id = command.id;
    row.user = command.user;
    row.called = false;
    row.held = kHoldAmount;
    row.created_at = row.updated_at = row.next_run_at = tx.now;
    row.deadline_at = tx.now + command.deadline;
    row.wake_at = first_look(row.lane, tx.now, row.deadline_at);
    tx.insert(row);
    created(tx.now, row.lane);
  }
}

void Store::claim(Transaction& tx,
                  ClaimItems& items,
                  Runs& runs,
                  const Claimant& worker,
                  const FirstProvider& first_provider) {
  lock_tasks(tx, ids_of(items));
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
    if (shared_.is(Mutant::kParkedIsClaimed)) {
      facts.lane = Lane::kBulk;
    }
    if (!may_claim(facts, item.command.epoch, tx.now)) {
      continue;
    }
    store::Claim claim;
    claim.task = task->id;
    claim.user = task->user;
    claim.epoch = task->epoch + 1;
    claim.claims = task->claims + 1;
    claim.lost_leases = task->lost_leases;
    claim.calls = task->calls;
    claim.deadline_at = task->deadline_at;
    claim.until_deadline = task->deadline_at - tx.now;
    auto provider = first_provider(claim);
    if (!provider) {
      task->next_run_at = put_off(*task, tx.now, shared_.random.jitter());
      task->wake_at = task->next_run_at;
      task->updated_at = tx.now;
      continue;
    }
    claim.provider = std::move(*provider);
    task->called = !claim.provider.empty();
    task->calls += task->called ? 1U : 0U;
    item.outcome = std::move(claim);
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
  lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    Row* const task = tx.task(item.command.task);
    item.held = tx.is_held(item.command.task);
    item.outcome = task != nullptr && may_renew(*task, item.command.epoch, worker);
    if (item.outcome) {
      task->lease_until = tx.now + kLease;
    }
  }
}

void Store::start_calls(Transaction& tx, StartItems& items) {
  lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    const store::CallStart& start = item.command;
    Row* const task = tx.task(start.task);
    item.held = tx.is_held(start.task);
    item.outcome = task != nullptr && is_of(*task, start.epoch);
    if (!item.outcome || task->calls >= start.n) {
      continue;
    }
    item.held = task->calls + 1 != start.n;
    if (!item.held) {
      ++task->calls;
      task->called = true;
    }
  }
}

void Store::settle(Transaction& tx, SettleItems& items) {
  std::vector<UserId> users, crowds;
  std::vector<Hint>* hints = nullptr;
  for (const auto& item : items) {
    if (item.command.kind != ClaimEnd::Kind::kRelease) {
      users.push_back(item.command.user);
    }
  }
  database_.lock_balances(tx, users);
  lock_tasks(tx, ids_of(items));
  for (auto& item : items) {
    const store::SettleCommand& command = item.command;
    Row* const task = tx.task(command.task);
    if (task == nullptr) {
      item.held = tx.is_held(command.task);
      item.outcome.outcome = SettleOutcome::kNotOurs;
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
    item.outcome.outcome = !decision.to             ? SettleOutcome::kNotOurs
                           : is_final(*decision.to) ? SettleOutcome::kSettled
                                                    : SettleOutcome::kRequeued;
    if (decision.move || !decision.to) {
      item.outcome.released.clear();  // Else the run before was committed.
    }
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
        item.outcome.outcome = SettleOutcome::kFailed;
        continue;
      }
      if (tx.open_tasks(task->user)->crowded()) {
        crowds.push_back(task->user);
        hints = &item.outcome.released;
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
  if (hints != nullptr && !shared_.is(Mutant::kReleaseNobodyAtEnd)) {
    *hints = release_next(tx, crowds, kEndedSeen).hints;
  }
}

Store::Released Store::release_next(Transaction& tx,
                                    std::span<const UserId> users,
                                    std::size_t beyond) {
  std::map<UserId, std::size_t> wanted;
  for (const UserId user : users) {
    const OpenTasks* const open = tx.open_tasks(user);
    std::size_t count = open == nullptr ? 0 : may_release(*open, tx.window.size);
    if (open != nullptr && shared_.is(Mutant::kReleaseAll)) {
      count = open->parked;
    }
    if (count > 0 && wanted.size() < kUsersAtOnce) {
      wanted[user] = std::min({count, kReleasedAtOnce, shared_.plan.sweep_limit});
    }
  }
  struct Held {
    std::uint64_t seq = 0;
    TaskId task;
    bool parked = false;
  };
  const bool newest = shared_.is(Mutant::kReleaseNewest);
  std::map<UserId, std::vector<Held>> found;
  std::vector<TaskId> ids;
  for (const auto& [user, most] : wanted) {
    auto holds = database_.holds(
        user, tx.open_tasks(user)->parked_after, newest ? kWindowMax : most + beyond);
    if (newest) {
      std::reverse(holds.begin(), holds.end());
    }
    std::size_t count = 0;
    for (const Hold& hold : holds) {
      const Row& row = *database_.find(hold.task);
      const bool parked = row.state == TaskState::kQueued && row.lane == Lane::kParked;
      found[user].push_back({hold.seq, hold.task, parked});
      if (parked && count++ < most) {
        ids.push_back(hold.task);
      }
    }
  }
  lock_tasks(tx, ids);
  Released out;
  for (const auto& [user, holds] : found) {
    OpenTasks& open = *tx.open_tasks(user);
    const std::size_t most = wanted.at(user);
    std::uint32_t count = 0;
    std::uint64_t seq = open.parked_after;
    bool in_use = false;
    for (const Held& held : holds) {
      if (held.parked) {
        Row* const task = count < most ? tx.task(held.task) : nullptr;
        if (task == nullptr && count < most && shared_.is(Mutant::kReleasePastHeld)) {
          continue;
        }
        if (task == nullptr) {
          in_use = true;
          break;
        }
        // A new epoch, so that nobody takes it for a new task whose first hint was confirmed.
        task->lane = Lane::kBulk;
        ++task->epoch;
        task->next_run_at = task->updated_at = tx.now;
        task->wake_at = std::min(task->deadline_at, tx.now + kFirstLook);
        out.hints.push_back({task->id, task->epoch, task->lane});
        ++count;
      }
      seq = newest ? seq : held.seq;
    }
    release_tasks(open, count, seq);
    if (!in_use && count < most && holds.size() >= most + beyond) {
      out.further.push_back(user);
    }
  }
  return out;
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
    const OpenTasks before = *tx.open_tasks(task->user);
    if (!end(tx, *task, *to.charged)) {
      out = {};
      continue;
    }
    if (shared_.is(Mutant::kCancelKeepsPlace)) {
      *tx.open_tasks(task->user) = before;
    }
    move(*task, to, tx.now);
    out.outcome = CancelOutcome::kCanceled;
  }
}

bool Store::end(Transaction& tx, const Row& task, Units charged) {
  const Balance* const balance = tx.balance(task.user);
  if (balance == nullptr || balance->held < task.held) {
    return false;
  }
  if (!shared_.is(Mutant::kNoReturn)) {
    tx.book(task.user, task.id, resolve(*balance, task.held, charged));
  }
  end_task(*tx.open_tasks(task.user),
           shared_.is(Mutant::kParkedEndsAsReleased) ? Lane::kBulk : task.lane);
  return true;
}

void Store::move(Row& task, const TaskMove& to, Instant now) const {
  task.state = to.state;
  task.called = task.called && to.epoch == task.epoch;
  task.epoch = to.epoch;
  task.claims = to.claims;
  task.lost_leases = to.lost_leases;
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
                               const std::unordered_set<TaskId>& without,
                               bool express_only) {
  constexpr std::size_t kPageLeast = 100, kPageMost = 1000, kReadyRows = 5'000, kShare = 4;
  const std::size_t page = std::clamp(limit * kShare + without.size(), kPageLeast, kPageMost);
  const Instant now = database_.now();
  std::vector<Hint> express, bulk;
  const auto found = [&] { return express.size() + (express_only ? 0 : bulk.size()); };
  std::size_t seen = 0;
  for (const Row* row : database_.awake(kStart, now + kFirstLook)) {
    if (seen % page == 0 && (found() >= limit || seen >= kReadyRows)) {
      break;
    }
    ++seen;
    TaskFacts task = *row;
    if (shared_.is(Mutant::kClaimEarly)) {
      task.next_run_at = std::min(task.next_run_at, now - age);
    }
    if (shared_.is(Mutant::kParkedIsClaimed) && task.lane == Lane::kParked) {
      task.lane = Lane::kBulk;
    }
    if (may_claim(task, task.epoch, now) && task.next_run_at + age <= now &&
        !without.contains(task.id)) {
      (task.lane == Lane::kExpress ? express : bulk).push_back({task.id, task.epoch, task.lane});
    }
  }
  LaneTurns turns(static_cast<std::uint32_t>(shared_.random.below(kBulkEvery)));
  std::vector<Lane> lanes;
  std::size_t of_express = 0, of_bulk = 0;
  for (const std::size_t most = std::min(limit, found()); lanes.size() < most;) {
    const bool bulk_left = !express_only && of_bulk < bulk.size();
    lanes.push_back(turns.next(of_express < express.size(), bulk_left));
    ++(lanes.back() == Lane::kExpress ? of_express : of_bulk);
  }
  const auto some = [&](const std::vector<Hint>& of, std::size_t count) {
    std::vector<Hint> out;
    for (std::size_t i = 0; i < of.size() && out.size() < count; ++i) {
      if (shared_.random.below(of.size() - i) < count - out.size()) {
        out.push_back(of[i]);
      }
    }
    return out;
  };
  const std::vector<Hint> first = some(express, of_express), others = some(bulk, of_bulk);
  std::vector<Hint> out;
  for (auto e = first.begin(), b = others.begin(); const Lane lane : lanes) {
    out.push_back(lane == Lane::kExpress ? *e++ : *b++);
  }
  return out;
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
  for (const Row* row : database_.awake({now, TaskId{}}, Instant::max())) {
    if (*row->wake_at > now &&
        (row->updated_at > now + kClockStep ||
         (row->lease_until && *row->lease_until > now + kLease + kClockStep) ||
         (*row->wake_at > now + kLookAgain && row->lane != Lane::kParked &&
          (row->next_run_at <= now || row->state == TaskState::kRunning)))) {
      found.push_back(row->id);
    }
  }
  return found;
}

std::size_t Store::pull_back(Transaction& tx, const std::vector<TaskId>& found, Instant looked_at) {
  const Instant now = shared_.is(Mutant::kPullBackByOldClock) ? looked_at : tx.now;
  lock_tasks(tx, found);
  std::size_t pulled = 0;
  for (const TaskId id : found) {
    if (Row* const row = tx.task(id); row != nullptr) {
      ++pulled;
      bring_back(*row, now);
    }
  }
  return pulled;
}

void Store::bring_back(Row& row, Instant now) const {
  if (!row.wake_at) {
    return;
  }
  if (row.updated_at > now) {
    row.next_run_at = now + std::max<Duration>(row.next_run_at - row.updated_at, Duration(0));
  } else if (row.state == TaskState::kRunning) {
    row.next_run_at = std::min(row.next_run_at, now);
  }
  const bool unseen =
      row.deadline_at > row.created_at && row.created_at > row.updated_at + std::chrono::hours(24);
  const Instant from = shared_.is(Mutant::kPullFromCreation) || unseen
                           ? row.created_at
                           : std::min(row.created_at, row.updated_at);
  row.deadline_at = std::min(row.deadline_at, now + (row.deadline_at - from));
  if (row.lease_until) {
    row.lease_until = std::min(*row.lease_until, now + kLease);
  }
  row.wake_at = std::min({*row.wake_at,
                          row.deadline_at,
                          row.lane == Lane::kParked
                              ? row.deadline_at
                              : row.lease_until.value_or(std::max(row.next_run_at, now))});
  if (!shared_.is(Mutant::kPulledStaysAhead)) {
    row.updated_at = std::min(row.updated_at, now);
  }
}

void Store::lock_tasks(Transaction& tx, const std::vector<TaskId>& ids) {
  database_.lock_tasks(tx, ids);
  for (const TaskId id : ids) {
    Row* const row = tx.task(id);
    if (row != nullptr && row->wake_at && row->updated_at > tx.now + kClockAgreement) {
      bring_back(*row, tx.now);
    }
  }
}

Store::Publish Store::sweep(Transaction& tx,
                            std::span<const Due> due,
                            const Pass& pass,
                            const QueuesSeen& queues,
                            bool was_away,
                            std::set<TaskId>& held) {
  const Instant now = shared_.is(Mutant::kSweepByOldClock) ? pass.now : std::min(pass.now, tx.now);
  std::vector<TaskId> ids;
  std::vector<UserId> users;
  for (const Due& row : due) {
    ids.push_back(row.at.second);
    if (row.ends) {
      users.push_back(row.user);
    }
  }
  database_.lock_balances(tx, users);
  lock_tasks(tx, ids);
  Publish publish;
  const auto send = [&](const Row& task, bool tried) {
    (tried ? publish.tried : publish.others).push_back({task.id, task.epoch, task.lane});
  };
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
    const SweepDecision decision = decide_sweep(
        facts, now, pass.unsent_from, was_away && !shared_.is(Mutant::kLostAlwaysCounted), queues);
    switch (decision.kind) {
      case SweepDecision::Kind::kNothing:
      case SweepDecision::Kind::kHinted:
        break;
      case SweepDecision::Kind::kPublish:
        send(*task, decision.tried);
        [[fallthrough]];
      case SweepDecision::Kind::kLook:
        set_look(*task, decision.wake_at);
        break;
      case SweepDecision::Kind::kReap: {
        TaskMove to = *decision.move;
        to.claims += task->claims - facts.claims;
        if (shared_.is(Mutant::kNoEpochAtReap)) {
          to.epoch = task->epoch;
        }
        if (shared_.is(Mutant::kLostNotCounted)) {
          to.lost_leases = task->lost_leases;
        }
        move(*task, to, now);
        send(*task, decision.tried);
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
  QueuesSeen queues;
  std::function<void(Result)> done;
  ClockLook clocks;
  Store::Pass pass;
  bool may_judge = true, resumed = false, more = false, more_new = false;
  std::vector<TaskId> late;
  std::size_t pulled = 0;
  std::vector<Store::Due> due;
  std::optional<Position> first_left, left, stuck;
  Position last;
  Store::Publish publish;
  std::set<TaskId> held;
};

void Sweeps::sweep(bool hints_go_out, const QueuesSeen& queues, std::function<void(Result)> done) {
  const auto look = std::make_shared<Look>();
  look->hints_go_out = hints_go_out;
  look->queues = queues;
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
        pulling_back_ =
            pulling_back_ || look->pass.ahead || watch_.missed() || (step && step->count() < 0);
        look->may_judge =
            watch_.may_judge(look->clocks.asked) || shared_.is(Mutant::kTrustJumpedClock);
        pull_back(look);
      });
}

void Sweeps::pull_back(const std::shared_ptr<Look>& look) {
  pulling_back_ = pulling_back_ && !shared_.is(Mutant::kNoPullBack);
  if (!pulling_back_) {
    look_at_new_rows(look);
    return;
  }
  const auto read = [this, look] { look->late = store_.to_pull_back(look->pass.now); };
  const auto write = [this, look](Transaction& tx) {
    look->pulled = store_.pull_back(tx, look->late, look->pass.now);
  };
  database_.execute(client_, read, [this, look, write](bool answered) {
    if (!answered || look->late.empty()) {
      pulling_back_ = !answered;
      look_at_new_rows(look);
      return;
    }
    database_.transact(client_, write, [this, look](TxEnd how) {
      pulling_back_ = shared_.is(Mutant::kPullBackOnce)
                          ? how == TxEnd::kNothing
                          : how != TxEnd::kCommitted || look->pulled != look->late.size();
      look_at_new_rows(look);
    });
  });
}

void Sweeps::read_page(Look& look, const Position& after) {
  const std::size_t limit = shared_.plan.sweep_limit;
  const std::size_t page = limit * kLeftPerChanged;
  const Instant now = look.pass.now;
  std::size_t count = 0;
  look.due.clear();
  look.first_left.reset();
  look.left.reset();
  look.stuck.reset();
  look.last = after;
  for (const Row* row : database_.awake(after, now)) {
    const Position at{*row->wake_at, row->id};
    if (count == page || look.due.size() == limit) {
      break;
    }
    ++count;
    SweepDecision decision = decide_sweep(*row, now, look.pass.unsent_from, false, look.queues);
    if (decision.kind == SweepDecision::Kind::kPublish && !decision.tried && !look.hints_go_out &&
        now < row->deadline_at - kWholePass) {
      decision.kind = SweepDecision::Kind::kHinted;
    }
    look.last = at;
    if (look.left || decision.kind == SweepDecision::Kind::kHinted) {
      look.first_left = look.first_left ? look.first_left : at;
      look.left = at;
    }
    if (decision.kind == SweepDecision::Kind::kHinted) {
      continue;
    }
    const Instant judged_by = ClockWatch::judged_by(look.clocks);
    if (is_of_time(decision.kind) &&
        (!look.may_judge ||
         !is_of_time(
             decide_sweep(*row, judged_by, look.pass.unsent_from, false, look.queues).kind))) {
      look.stuck = look.stuck ? look.stuck : at;
      continue;
    }
    look.due.push_back({at, row->user, decision.ends()});
  }
  look.more = look.due.size() == limit || count == page;
}

void Sweeps::look_at_new_rows(const std::shared_ptr<Look>& look) {
  if (!lags_) {
    look_at_rows(look);
    return;
  }
  const auto over = [this, look] {
    look->more_new = look->more;
    seen_to_ = look->more ? look->last : Position{look->pass.now, {}};
    look->held.clear();
    look->pass.over =
        look->pass.ahead || (look->pass.over && look->pass.began < look->pass.now - kPassMost);
    look_at_rows(look);
  };
  database_.execute(
      client_,
      [this, look] {
        read_page(*look, std::min(*seen_to_, Position{look->pass.now, {}}));
      },
      [this, look, over](bool answered) {
        if (!answered) {
          look->done({});
        } else if (look->due.empty()) {
          over();
        } else {
          change(look, over);
        }
      });
}

void Sweeps::look_at_rows(const std::shared_ptr<Look>& look) {
  look->resumed = resume_at_.has_value();
  const Position after = look->resumed ? *resume_at_ : look->pass.over ? kStart : look->pass.after;
  database_.execute(
      client_,
      [this, look, after] { read_page(*look, after); },
      [this, look](bool answered) {
        if (!answered) {
          look->done({});
        } else if (look->due.empty()) {
          finish(look);
        } else {
          change(look, [this, look] { finish(look); });
        }
      });
}

void Sweeps::change(const std::shared_ptr<Look>& look, const Action& then) {
  const auto publish = std::make_shared<Store::Publish>();
  database_.transact(
      client_,
      [this, look, publish](Transaction& tx) {
        look->held.clear();
        *publish = store_.sweep(
            tx, look->due, look->pass, look->queues, watch_.was_away(client_.steady()), look->held);
      },
      [look, publish, then](TxEnd how) {
        if (how != TxEnd::kCommitted) {
          // What was done, and what was not, the next look finds.
          look->done({});
          return;
        }
        const auto add = [](std::vector<Hint>& to, const std::vector<Hint>& some) {
          to.insert(to.end(), some.begin(), some.end());
        };
        add(look->publish.tried, publish->tried);
        add(look->publish.others, publish->others);
        then();
      });
}

void Sweeps::finish(const std::shared_ptr<Look>& look) {
  const Position all{look->pass.now, {}};
  seen_to_ = look->more && seen_to_ ? std::min(*seen_to_, all) : all;
  lags_ = look->more;
  Result result{true, std::move(look->publish), look->more || look->more_new};
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

// From the turn to the end of what there is time for.
struct Crowds::Look {
  Action done;
  ClockLook::Steady until, further_until;
  WorkersSeen seen;
  QueueSeen queue;
  ReleaseWindow written, last, next;
  std::vector<UserId> waiting, further;
  std::size_t crowds = 0;  // That this round has read.
  std::vector<Hint> released;
};

void Crowds::look(Action done) {
  const auto look = std::make_shared<Look>();
  look->done = std::move(done);
  const auto turn = std::make_shared<bool>(false);
  // Both at once: who has lost the turn meanwhile does no harm.
  database_.execute(
      client_,
      [this, look, turn] {
        *turn = database_.take_turn(worker_);
        read_window(*look);
      },
      [this, look, turn](bool answered) {
        if (!answered || !*turn || shared_.is(Mutant::kNoLookAfterCrowds)) {
          look->done();
          return;
        }
        look->until = client_.steady() + std::chrono::seconds(1);
        if (crowd_at_) {
          read_crowds(look);
        } else {
          set_window(look);
        }
      });
}

void Crowds::begin_round(const LookPtr& look) {
  if (crowd_at_) {
    read_crowds(look);
    return;
  }
  database_.execute(
      client_,
      [this, look] { read_window(*look); },
      [this, look](bool answered) {
        if (answered) {
          set_window(look);
        } else {
          end_round(look, true);
        }
      });
}

// In the server.
void Crowds::read_window(Look& look) const {
  constexpr std::chrono::seconds kSeenWithin{15};
  look.seen = {.at = database_.now()};
  for (const auto& [number, worker] : database_.workers) {
    if (!worker.has_ended && worker.seen_at > look.seen.at - kSeenWithin) {
      ++look.seen.workers;
      look.seen.places += worker.places;
      look.seen.room += worker.room;
      look.seen.ended += worker.ended;
    }
  }
  look.queue = look.seen.full() ? see_queue() : QueueSeen();
  look.written = database_.window();
  look.last = database_.known_window();
  look.next = {};
  for (const auto& [user, open] : database_.crowds(std::nullopt)) {
    ++look.next.crowds;
    look.next.tasks += open.count();
  }
}

// In the server. Reads rows by when they wake, so those of a lane are sorted afterwards.
QueueSeen Crowds::see_queue() const {
  const Instant now = database_.now();
  QueueSeen out;
  for (const Row* const row : database_.awake({}, now + kLookAgain)) {
    const bool express = row->lane == Lane::kExpress;
    if (row->state == TaskState::kRunning && row->called) {
      ++(express ? out.called_express : out.called_bulk);
    } else if (row->state == TaskState::kQueued && row->lane != Lane::kParked &&
               row->next_run_at <= now) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(row->deadline_at - now);
      (express ? out.express : out.bulk)
          .push_back({.left = std::max(left, std::chrono::seconds(0)), .count = 1});
    }
  }
  for (auto* const lane : {&out.express, &out.bulk}) {
    std::sort(
        lane->begin(), lane->end(), [](const auto& a, const auto& b) { return a.left < b.left; });
  }
  return out;
}

void Crowds::set_window(const LookPtr& look) {
  constexpr std::chrono::seconds kPaceOver{20};
  const ReleaseWindow& last = look->last;
  ReleaseWindow& next = look->next;
  next.size = window_.look(look->seen, next.crowds, last, store::kRoomFor).value_or(last.size);
  next.pace =
      pace_.look(look->seen, next.crowds > 0 || look->queue.somebody_waits(), last.pace, kPaceOver);
  next = with_waits(next, look->queue, look->seen.places, last);
  crowd_window_ = next.size;
  const bool writes = next != look->written || next.pace != 0;
  if (!writes && next.crowds == 0) {
    end_round(look, true);  // To ask for none costs the simulation a statement a second.
    return;
  }
  if (!writes) {
    read_crowds(look);
    return;
  }
  database_.execute(
      client_,
      [this, next, at = look->seen.at] { database_.set_window(next, at); },
      [this, look](bool answered) {
        if (answered) {
          read_crowds(look);
        } else {
          end_round(look, true);
        }
      });
}

void Crowds::read_crowds(const LookPtr& look) {
  const auto limit = std::min<std::size_t>(500, shared_.plan.sweep_limit);
  const auto read = std::make_shared<std::vector<std::pair<UserId, OpenTasks>>>();
  database_.execute(
      client_,
      [this, read] { *read = database_.crowds(crowd_at_); },
      [this, look, read, limit](bool answered) {
        constexpr std::chrono::milliseconds kFurtherTime{500};
        if (!answered) {
          end_round(look, true);
          return;
        }
        look->crowds = std::min(limit, read->size());
        for (const auto& [user, open] : std::span(*read).first(look->crowds)) {
          crowd_at_ = user;
          if (may_release(open, crowd_window_) > 0) {
            look->waiting.push_back(user);
          }
        }
        look->further_until = client_.steady() + kFurtherTime;
        release(look);
      });
}

// Those that wait, and then further ones of those whose oldest tasks have all ended since.
void Crowds::release(const LookPtr& look) {
  constexpr std::size_t kWaitingAtOnce = 20, kFurtherAtOnce = 4, kFurther = 1000;
  const bool first = !look->waiting.empty();
  if (!first && (look->further.empty() || client_.steady() >= look->further_until)) {
    const bool all = look->crowds < std::min<std::size_t>(500, shared_.plan.sweep_limit);
    if (all) {
      crowd_at_.reset();
    }
    look->further.clear();
    end_round(look, all);
    return;
  }
  std::vector<UserId>& from = first ? look->waiting : look->further;
  const std::size_t count = std::min(first ? kWaitingAtOnce : kFurtherAtOnce, from.size());
  const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
  const std::vector<UserId> users(from.begin(), end);
  from.erase(from.begin(), end);
  const auto out = std::make_shared<Store::Released>();
  database_.transact(
      client_,
      [this, users, first, out](Transaction& tx) {
        database_.lock_balances(tx, users);
        *out = store_.release_next(tx, users, first ? kEndedSeen : kFurther);
      },
      [this, look, out](TxEnd how) {
        if (how != TxEnd::kCommitted) {
          look->waiting.clear();
          look->further.clear();
          end_round(look, true);
          return;
        }
        look->released.insert(look->released.end(), out->hints.begin(), out->hints.end());
        look->further.insert(look->further.end(), out->further.begin(), out->further.end());
        release(look);
      });
}

void Crowds::end_round(const LookPtr& look, bool done) {
  send_(std::exchange(look->released, {}));
  if (done || client_.steady() >= look->until) {
    look->done();
  } else {
    begin_round(look);
  }
}

}  // namespace audiogen::simulation
