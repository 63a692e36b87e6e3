// Lets tasks that may end the worker they run on, suspects, run alone: with nothing else in hand,
// one at a time (README.md, "Suspects").
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

// Whose turn it is, and for how long: pure. From offer() on, until it is over, a worker takes
// nothing else.
class Isolation {
 public:
  using Clock = Job::Clock;

  // Half of the suspects that come to a worker with other jobs go on, perhaps to an idle one.
  static constexpr double kGoOn = 0.5;
  // How long a worker waits for its other jobs to end. In vain: three times as long for the next
  // suspect, up to the most; each has its day, also where calls take minutes.
  static constexpr std::chrono::seconds kPatience{20}, kPatienceMost{300};
  static constexpr int kPatienceGrows = 3;

  // May `task` be claimed now? The same answer for the same task, until granted(). `busy`: there
  // are other jobs. `chance`: of [0, 1).
  bool offer(TaskId task, bool busy, double chance, Clock::time_point now);
  // The claims that offer() was asked for have been made; `task` is the suspect among them. False:
  // whoever was to come will not.
  bool granted(std::optional<TaskId> task);
  enum class Next { kWait, kBegin, kGiveBack, kOver };
  // What becomes of the suspect that has come.
  Next look(Roster::Company company, Clock::time_point now);
  // It has come, and nobody was called.
  bool waits() const { return is(Turn::Stage::kWaits); }
  // How long a worker that nobody else wants waits for somebody else.
  static constexpr std::chrono::seconds kRestAlone{2};
  // Its turn is over. As long as it lasted, the next has none: others get half of the time, if any
  // come.
  void end(Clock::time_point now);

 private:
  struct Turn {
    TaskId task;
    Clock::time_point from;  // It was offered.
    enum class Stage { kOffered, kWaits, kRuns } stage = Stage::kOffered;
  };
  bool is(Turn::Stage stage) const { return turn_ && turn_->stage == stage; }

  std::optional<Turn> turn_;
  std::optional<Clock::time_point> ended_at_, rest_until_;
  std::chrono::seconds patience_ = kPatience;
};

// Carries the suspect of this worker until it may begin. Thread-safe; nothing blocks.
class Suspects {
 public:
  using Clock = Isolation::Clock;
  using Begin = std::function<void(const JobPtr&)>;
  // To settle it as not tried; it is due again after the delay.
  using GiveBack = std::function<void(const JobPtr&, std::chrono::milliseconds)>;

  // Closes `roster` for as long as a suspect is here. Both are called without a lock.
  Suspects(Roster& roster, Scheduler& scheduler, Begin begin, GiveBack give_back);
  Suspects(const Suspects&) = delete;
  Suspects& operator=(const Suspects&) = delete;

  // May this task be claimed? Asked in the transaction that claims it; then the outcome.
  bool offer(TaskId task);
  void granted(std::optional<TaskId> task);
  // It was; it is in the roster.
  void came(const JobPtr& job);

  // Whenever something may have left the roster.
  void look();

  // Takes no more; one that has not begun is given back.
  void stop();

 private:
  void watch(const JobPtr& job);
  void end_turn() LOCKS_REQUIRED(mutex_);

  Roster& roster_;
  Scheduler& scheduler_;
  const Begin begin_;
  const GiveBack give_back_;

  Mutex mutex_;
  Isolation isolation_ GUARDED_BY(mutex_);
  JobPtr job_ GUARDED_BY(mutex_);  // The suspect that has come.
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace audiogen::worker
