#include "tests/simulation/judge.h"

#include <algorithm>
#include <utility>

namespace audiogen::simulation {
namespace {

using std::chrono::seconds;

// What the pages of the project promise: at most five claims; retries after 2, 8, 8 and 8 s at
// the least, less a fifth, and later where a task has much time; 150 credits held, 1.25 units a
// millisecond, 10 credits at least.
constexpr std::uint32_t kClaims = 5;
constexpr Duration kDelays[] = {seconds(2), seconds(8), seconds(8), seconds(8)};
constexpr Units kHeld{150'000};
constexpr Units kLeast{10'000};

// Who has a lease stops after 25 s, and looks once a second.
constexpr Duration kBelieves = seconds(26) + std::chrono::milliseconds(500);
// A task is final so long after its deadline, or after the last trouble that kept everybody from
// ending it: the length of a lease in which a clock that was set is not believed, and a pass of the
// sweepers.
constexpr Duration kLate = seconds(120);
// Who has parked tasks and nothing released has something released so soon: somebody looks once a
// second, after five at the latest somebody else does, and a statement may take three.
constexpr Duration kStuck = seconds(20);
// A transaction that releases goes by the window of when it began: the server ends it after this.
constexpr Duration kWindowCounts = seconds(1);
// What has lost so many leases is a suspect.
constexpr std::uint32_t kSuspect = 2;

Units price(std::int64_t ms) {
  return Units{std::clamp((ms * 125 + 50) / 100, kLeast.value, kHeld.value)};
}

std::string name_of(TaskId task) {
  return "task " + std::to_string(task.uuid.bytes[14] * 256 + task.uuid.bytes[15]);
}

std::string text_of(Duration time) {
  return std::to_string(std::chrono::duration<double>(time).count()) + " s";
}

}  // namespace

void Judge::wrong(const std::string& what) {
  if (!verdict_) {
    verdict_ = what + " (at " + text_of(timeline_.now()) + ")";
  }
}

Judge::Task& Judge::task(TaskId id) {
  return tasks_[id];
}

Judge::Working* Judge::working(const ClaimOf& claim) {
  const auto all = working_.find(claim.task);
  if (all == working_.end()) {
    return nullptr;
  }
  const auto found =
      std::find_if(all->second.begin(), all->second.end(), [&](const Working& other) {
        return other.claim.worker == claim.worker && other.claim.epoch == claim.epoch;
      });
  return found == all->second.end() ? nullptr : &*found;
}

void Judge::clock_was_set(Duration by) {
  set_by_ += by;
  last_trouble_ = timeline_.now();
  clock_set_at_ = timeline_.now();
  for (auto& [id, task] : tasks_) {
    task.not_before.reset();
    if (by < Duration(0) && task.deadline) {
      // No task is given longer than it was to have.
      task.deadline = std::min(*task.deadline, database_now() + task.length);
      // What was created at a time that has come keeps its deadline. Else this is as much earlier
      // as that lies ahead, so that a new task has all of its time; but by no more than the step,
      // so that one that saw a step before has what it had left.
      const Duration ahead = task.last->created_at - database_now();
      task.earliest = *task.earliest - std::clamp(ahead, Duration(0), -by);
    }
  }
}

void Judge::blocked(bool is) {
  if (is_blocked_ || is) {
    last_trouble_ = timeline_.now();
  }
  is_blocked_ = is;
}

void Judge::healed(Duration within) {
  healed_at_ = timeline_.now();
  heals_within_ = within;
}

void Judge::granted(UserId user, Units amount) {
  granted_[user] = granted_[user] + amount;
}

void Judge::allowed(UserId user, std::uint32_t released_max) {
  crowds_[user].released_max = released_max;
}

void Judge::accepted(TaskId id, UserId user, Instant created_at, Duration deadline) {
  Task& of = task(id);
  of.user = user;
  of.sure = true;
  of.length = deadline;
  if (!of.last) {
    wrong(name_of(id) + " was accepted and is not there");
  } else if (of.last->created_at != created_at) {
    wrong(name_of(id) + " was created at two times");
  }
}

void Judge::perhaps_accepted(TaskId id, UserId user, Duration deadline) {
  Task& of = task(id);
  of.user = user;
  of.length = deadline;
}

void Judge::refused(TaskId id) {
  Task& of = task(id);
  of.refused = true;
  if (of.last) {
    wrong(name_of(id) + " was refused and is there");
  }
}

void Judge::refused_as_late(TaskId id) {
  const Task& of = task(id);
  const Crowd& crowd = crowds_[of.user];
  ++refused_as_late_;
  if (crowd.released == 0 && crowd.parked.empty() && undisturbed_.single_within &&
      *undisturbed_.single_within < of.length / 2) {
    wrong(name_of(id) + ", the only one of its user, was refused for want of time");
  }
}

void Judge::cancel_answered(TaskId id, bool canceled) {
  Task& of = task(id);
  if (!of.last || !is_final(of.last->state)) {
    wrong(name_of(id) + " is open, its cancellation answered");
  } else if (canceled && of.last->state != TaskState::kCanceled) {
    wrong(name_of(id) + " was told to be canceled and is not");
  }
}

void Judge::saw(const Seen& now) {
  Task& of = task(now.task);
  if (of.refused) {
    wrong(name_of(now.task) + " was refused and is there");
  }
  if (!of.last) {
    ++open_;
    of.user = now.user;
    // The clock may have been set back since the transaction began.
    of.deadline = of.earliest = std::min(now.created_at, database_now()) + of.length;
    of.began = timeline_.now();
    const Crowd& crowd = crowds_[now.user];
    of.single = crowd.released == 0 && crowd.parked.empty();
  } else {
    const Seen& before = *of.last;
    if (is_final(before.state) &&
        (before.state != now.state || before.charged != now.charged ||
         before.output_key != now.output_key || before.failure != now.failure)) {
      wrong(name_of(now.task) + " was final and has changed");
    }
    if (now.epoch < before.epoch) {
      wrong("the epoch of " + name_of(now.task) + " went back");
    }
    if (before.state == TaskState::kRunning && now.state == TaskState::kQueued) {
      if (of.open_claim && has_believer(now.task, of.claim)) {
        wrong(name_of(now.task) + " was taken back from a worker that believes to have it");
      }
      if (of.open_claim) {
        ++of.lost;
        if (timeline_.now() < say_nothing_.second && now.lost_leases != before.lost_leases &&
            was_leased_at(now.task, of.claim, say_nothing_.first)) {
          wrong(name_of(now.task) + " is blamed for a lease that nobody could renew");
        }
      }
      of.open_claim = false;
      if (now.epoch == before.epoch) {
        wrong(name_of(now.task) + " was put back, and whoever ran it is not fenced");
      }
    }
  }
  if (now.state == TaskState::kQueued &&
      (now.lost_leases > of.lost ||
       (undisturbed_.leases && now.lost_leases < std::min(of.lost, kSuspect)))) {
    wrong(name_of(now.task) + " has lost " + std::to_string(of.lost) + " leases and not " +
          std::to_string(now.lost_leases));
  }
  if (now.parked && now.state == TaskState::kRunning) {
    wrong(name_of(now.task) + " is parked, and somebody has it");
  }
  if (now.claims > kClaims) {
    wrong(name_of(now.task) + " was claimed more than five times");
  }
  const bool was_final = of.last && is_final(of.last->state);
  if (of.last && of.last->lost_leases < kSuspect && now.lost_leases >= kSuspect) {
    ++suspects_;
  }
  count(of, now);
  of.last = now;
  if (is_final(now.state) && !was_final) {
    ended(of, now);
  }
}

// Keeps the table of its user's open tasks.
void Judge::count(Task& of, const Seen& now) {
  enum class Is { kGone, kReleased, kParked };
  const auto is = [](const Seen& task) {
    return is_final(task.state) ? Is::kGone : task.parked ? Is::kParked : Is::kReleased;
  };
  const Is was = of.last ? is(*of.last) : Is::kGone, is_now = is(now);
  Crowd& crowd = crowds_[now.user];
  crowd.shown = true;
  if (was == is_now) {
    return;
  }
  if (was == Is::kParked) {
    crowd.parked.erase(of.hold);
    crowd.parked_ended = crowd.parked_ended || is_now == Is::kGone;
  } else if (was == Is::kReleased) {
    --crowd.released;
  }
  if (is_now == Is::kParked) {
    crowd.parked[of.hold] = now.task;
    ++parked_;
    if (was == Is::kReleased) {
      wrong(name_of(now.task) + " was released and is parked");
    }
  } else if (is_now == Is::kReleased) {
    ++crowd.released;
    crowd.newest_released = std::max(crowd.newest_released.value_or(0), of.hold);
  }
}

void Judge::window_is(std::uint32_t size) {
  windows_.emplace_back(timeline_.now(), window_);
  window_ = size;
}

// The largest by which anybody may still release.
std::uint32_t Judge::window() const {
  std::uint32_t most = window_;
  for (const auto& [until, size] : windows_) {
    most = std::max(most, size);
  }
  return most;
}

void Judge::open_is(UserId user,
                    std::size_t released,
                    std::size_t parked,
                    std::uint64_t parked_after) {
  Crowd& crowd = crowds_[user];
  crowd.shown = true;
  crowd.kept_released = released;
  crowd.kept_parked = parked;
  crowd.parked_after = parked_after;
}

void Judge::committed() {
  while (!windows_.empty() && windows_.front().first < timeline_.now() - kWindowCounts) {
    windows_.pop_front();
  }
  for (auto& [user, crowd] : crowds_) {
    if (std::exchange(crowd.shown, false)) {
      look_at(crowd);
    }
  }
}

void Judge::look_at(Crowd& crowd) {
  const auto counts = [&] {
    return std::to_string(crowd.released) + " released and " + std::to_string(crowd.parked.size()) +
           " parked tasks";
  };
  if (crowd.kept_released != crowd.released || crowd.kept_parked != crowd.parked.size()) {
    wrong("a user has " + counts() + ", and his row says " + std::to_string(crowd.kept_released) +
          " and " + std::to_string(crowd.kept_parked));
  }
  if (!crowd.parked.empty() && crowd.parked.begin()->first <= crowd.parked_after) {
    wrong(name_of(crowd.parked.begin()->second) + " is parked where nobody looks for it");
  }
  const auto newest = std::exchange(crowd.newest_released, std::nullopt);
  if (newest && crowd.released > std::max(window(), 1U)) {
    wrong("a user has " + counts() + " at a window of " + std::to_string(window()));
  }
  if (newest && crowd.released_max != 0 && crowd.released > crowd.released_max) {
    wrong("a user has " + counts() + ", and his plan allows " + std::to_string(crowd.released_max));
  }
  if (newest && !crowd.parked.empty() && *newest > crowd.parked.begin()->first) {
    wrong(name_of(crowd.parked.begin()->second) + " is parked, and a later one is released");
  }
  look_at_stuck(crowd);
  const bool stuck = crowd.released == 0 && !crowd.parked.empty();
  if (!stuck) {
    crowd.stuck_from.reset();
  } else if (!crowd.stuck_from) {
    crowd.stuck_from = timeline_.now();
  }
  if (std::exchange(crowd.settled, false) && stuck && undisturbed_.releases &&
      !crowd.parked_ended && *task(crowd.parked.begin()->second).deadline > database_now()) {
    wrong(name_of(crowd.parked.begin()->second) +
          " was not released by the end of the last one that was");
  }
}

void Judge::look_at_stuck(Crowd& crowd) {
  if (!crowd.stuck_from || is_blocked_) {
    return;
  }
  const Duration from = std::max({*crowd.stuck_from, last_trouble_, last_strike_});
  const Duration time = timeline_.now() - from;
  longest_stuck_ = std::max(longest_stuck_, time);
  if (time > kStuck) {
    wrong("a user's tasks were parked for " + text_of(time) + " with nothing of his released");
  }
}

void Judge::ended(Task& of, const Seen& now) {
  const std::string name = name_of(now.task);
  ++ended_;
  --open_;
  of.open_claim = false;
  if (of.tries == 0) {
    waited(of, name);
  }
  if (!now.charged) {
    wrong(name + " ended without a price");
    return;
  }
  if (now.state == TaskState::kSucceeded) {
    ++succeeded_;
    const auto made = delivered_.find(now.output_key);
    if (made == delivered_.end()) {
      wrong(name + " succeeded with what nobody delivered");
      return;
    }
    if (made->second.epoch != of.claim) {
      wrong(name + " was settled by a stale claim");
    }
    const Units due = std::min(price(made->second.ms), made->second.most);
    if (*now.charged != due) {
      wrong(name + " costs " + std::to_string(now.charged->value) + " and not " +
            std::to_string(due.value));
    }
  } else if (now.charged->value != 0) {
    wrong(name + " brought nothing and costs something");
  }
  if (of.deadline) {
    // By neither clock. What is set between lock and COMMIT, nobody could go by.
    if (now.failure == FailureCode::kDeadlineExceeded && now.locked_at < *of.earliest &&
        timeline_.now() < of.began + of.length - seconds(1)) {
      wrong(name + " was ended before its deadline");
    }
    const Duration deadline = timeline_.now() - (database_now() - *of.deadline);
    const Duration from = is_blocked_ ? timeline_.now() : std::max(deadline, last_trouble_);
    const Duration late = timeline_.now() - from;
    if (timeline_.now() > deadline) {
      latest_after_deadline_ = std::max(latest_after_deadline_, late);
      if (late > kLate) {
        wrong(name + " ended " + text_of(late) + " late");
      }
    }
  }
  if (healed_at_) {
    const Duration took = timeline_.now() - *healed_at_;
    latest_after_healing_ = std::max(latest_after_healing_, took);
    if (took > heals_within_) {
      wrong(name + " ended " + text_of(took) + " after everything had healed");
    }
  }
}

void Judge::booked(UserId user, TaskId id, const Entry& entry) {
  Balance& balance = balances_[user];
  balance.available = balance.available + entry.d_available;
  balance.held = balance.held + entry.d_held;
  ++balance.seq;
  if (entry.d_available + entry.d_held + entry.d_system != Units{}) {
    wrong("a ledger row does not sum to zero");
  }
  if (entry.after != balance) {
    wrong("a ledger row does not follow from the one before");
  }
  if (balance.available < Units{} || balance.held < Units{}) {
    wrong("a balance is below zero");
  }
  if (entry.kind == EntryKind::kGrant) {
    return;
  }
  Task& of = task(id);
  const std::string name = name_of(id);
  if (entry.kind == EntryKind::kHold) {
    if (of.held) {
      wrong(name + " has two holds");
    }
    of.held = entry.d_held;
    of.hold = entry.after.seq;
    if (entry.d_held != kHeld || entry.d_system != Units{}) {
      wrong("the hold of " + name + " is not 150 credits");
    }
    return;
  }
  if (!of.held || of.charged) {
    wrong("the hold of " + name + (of.held ? " ended twice" : " ended and never was"));
    return;
  }
  of.charged = entry.d_system;
  taken_[user] = taken_[user] + entry.d_system;
  if (Units{} - entry.d_held != *of.held || *of.charged < Units{} || *of.charged > *of.held) {
    wrong("charge and return of " + name + " are not its hold");
  }
}

void Judge::balance_is(UserId user, const Balance& balance) {
  if (balance != balances_[user]) {
    wrong("a balance is not what its ledger says");
  }
  if (balance.available + balance.held + taken_[user] != granted_[user]) {
    wrong("credits came or went");
  }
}

void Judge::claimed(const ClaimOf& claim) {
  Task& of = task(claim.task);
  const std::string name = name_of(claim.task);
  if (!of.last || of.last->state != TaskState::kQueued) {
    wrong(name + " was claimed and did not wait");
  }
  if (claim.epoch <= of.claim) {
    wrong(name + " was claimed twice with one epoch");
  }
  if (of.last && of.last->parked) {
    wrong(name + " was claimed and is parked");
  }
  if (of.tries == 0) {
    waited(of, name);
  }
  if (of.not_before && timeline_.now() < *of.not_before) {
    wrong(name + " was claimed before it was due");
  }
  of.not_before.reset();
  of.claim = claim.epoch;
  of.open_claim = true;
  of.claim_is_suspect = of.last && of.last->lost_leases >= kSuspect;
  ++of.tries;
}

// For its first claim, or for its end without one.
void Judge::waited(const Task& of, const std::string& name) {
  if (!of.single || !undisturbed_.single_within) {
    return;
  }
  const Duration time = timeline_.now() - of.began;
  longest_single_ = std::max(longest_single_, time);
  if (time > *undisturbed_.single_within) {
    wrong(name + ", the only one of its user, waited for " + text_of(time));
  }
}

void Judge::delivered(const ClaimOf& claim, const std::string& key, std::int64_t ms, Units most) {
  delivered_[key] = {claim.epoch, ms, most};
}

void Judge::settled(TaskId id, std::uint32_t epoch, Left how, Duration not_before) {
  Task& of = task(id);
  const std::string name = name_of(id);
  if (!of.open_claim) {
    wrong(name + " was settled, and nobody had it");
  } else if (epoch != of.claim) {
    wrong(name + " was settled by a stale claim");
  }
  of.open_claim = false;
  if (how == Left::kEnded) {
    crowds_[of.user].settled = true;
  }
  if (how == Left::kWaits) {
    const std::size_t row = std::clamp<std::size_t>(of.last ? of.last->claims : 1, 1, 4) - 1;
    const Duration least = std::max(kDelays[row] * 8 / 10, not_before);
    // The rules see the time when the transaction began, a second before its COMMIT at the most.
    of.not_before = timeline_.now() + least - seconds(1);
  } else if (how == Left::kReleased) {
    of.not_before = timeline_.now() + not_before - seconds(1);
  }
  if (clock_set_at_ && timeline_.now() - *clock_set_at_ < seconds(1)) {
    of.not_before.reset();  // Set between the transaction's beginning and its COMMIT.
  }
  // However long it is to wait, not past its deadline.
  if (of.not_before && of.deadline) {
    const Duration left = std::max<Duration>(*of.deadline - database_now(), Duration(0));
    of.not_before = std::min(*of.not_before, timeline_.now() + left);
  }
}

void Judge::settle_answered(const ClaimOf& claim, bool succeeded, const std::string& key) {
  const Task& of = task(claim.task);
  const std::string name = name_of(claim.task);
  if (!of.last) {
    wrong(name + " is not there, its settlement answered");
  } else if (succeeded && (of.last->state != TaskState::kSucceeded || of.last->output_key != key)) {
    wrong(name + " was told to have succeeded and has not");
  }
}

bool Judge::believes(const Working& worker) const {
  const bool frozen = worker.claim.worker < frozen_.size() && frozen_[worker.claim.worker];
  return !frozen && timeline_.now() - worker.leased_from <= kBelieves;
}

bool Judge::has_believer(TaskId id, std::uint32_t epoch) const {
  const auto all = working_.find(id);
  return all != working_.end() &&
         std::any_of(all->second.begin(), all->second.end(), [&](const Working& worker) {
           return worker.claim.epoch == epoch && believes(worker);
         });
}

bool Judge::was_leased_at(TaskId id, std::uint32_t epoch, Duration time) const {
  const auto all = working_.find(id);
  return all != working_.end() &&
         std::any_of(all->second.begin(), all->second.end(), [&](const Working& worker) {
           return worker.claim.epoch == epoch && worker.leased_from + kBelieves > time;
         });
}

void Judge::leased(const ClaimOf& claim, Duration asked_at) {
  if (Working* const found = working(claim)) {
    found->leased_from = asked_at;
  } else {
    const Task& of = task(claim.task);
    const bool suspect = of.claim == claim.epoch && of.claim_is_suspect;
    working_[claim.task].push_back({claim, asked_at, false, suspect});
  }
}

void Judge::call_made(const ClaimOf& claim) {
  Working* const own = working(claim);
  const std::string name = name_of(claim.task);
  if (own == nullptr) {
    wrong(name + " is called for by a worker that never had it");
    return;
  }
  if (timeline_.now() - own->leased_from > kBelieves) {
    wrong(name + " is called for by a worker whose own lease is over");
  }
  if (const Task& of = task(claim.task); of.last && of.last->parked) {
    wrong(name + " is called for and is parked");
  }
  own->calls = true;
  for (const Working& other : working_[claim.task]) {
    if (other.claim.worker != claim.worker && other.calls && believes(other)) {
      wrong(name + " is called for by two workers that both believe to have it");
    }
  }
  auto& calling = calling_[claim.worker];
  for (const Working& other : calling) {
    if (other.claim.task != claim.task && (other.suspect || own->suspect)) {
      const bool it = other.suspect;
      wrong((it ? name_of(other.claim.task) : name) + ", a suspect, is called for beside " +
            (it ? name : name_of(other.claim.task)));
    }
  }
  calling.push_back(*own);
}

void Judge::call_ended(const ClaimOf& claim) {
  if (Working* const own = working(claim)) {
    own->calls = false;
  }
  std::erase_if(calling_[claim.worker], [&](const Working& other) {
    return other.claim.task == claim.task && other.claim.epoch == claim.epoch;
  });
}

void Judge::froze(std::size_t worker, bool is) {
  frozen_.resize(std::max(frozen_.size(), worker + 1));
  frozen_[worker] = is;
}

void Judge::died(std::size_t worker) {
  for (auto& [id, all] : working_) {
    std::erase_if(all, [&](const Working& other) { return other.claim.worker == worker; });
  }
  calling_.erase(worker);
  froze(worker, false);
}

void Judge::finish() {
  for (auto& [user, crowd] : crowds_) {
    look_at_stuck(crowd);
  }
  for (const auto& [id, task] : tasks_) {
    const std::string name = name_of(id);
    if (!task.last) {
      if (task.sure) {
        wrong(name + " was accepted and is lost");
      }
      continue;
    }
    if (!is_final(task.last->state)) {
      wrong(name + " never ended");
    } else if (!task.held || !task.charged) {
      wrong(name + " has ended and its hold has not");
    } else if (task.charged != task.last->charged) {
      wrong(name + " costs what its ledger does not say");
    }
  }
}

}  // namespace audiogen::simulation
