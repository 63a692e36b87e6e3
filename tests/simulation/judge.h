// The judge of a simulation. It knows what the interface promises and none of the rules by which
// the service keeps it: everything here is said in its own words and counted in its own way.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"
#include "tests/simulation/timeline.h"

namespace audiogen::simulation {

// The database's clock when a simulation begins.
inline constexpr Instant kBeginning{std::chrono::sys_days(std::chrono::year(2030) / 1 / 1)};

// A claim of a task by a worker.
struct ClaimOf {
  std::size_t worker = 0;  // Its number.
  TaskId task;
  std::uint32_t epoch = 0;
};

class Judge {
 public:
  explicit Judge(const Timeline& timeline) : timeline_(timeline) {}

  // The first thing that is not as promised.
  const std::optional<std::string>& verdict() const { return verdict_; }

  // --- the world

  // Whoever can set the database's clock has set it by so much.
  void clock_was_set(Duration by);
  // Nobody is there to do anything, or what they need is away: promises wait.
  void blocked(bool is);
  // Something goes wrong, or ends to: what is promised of a time without trouble begins anew.
  void struck() { last_strike_ = timeline_.now(); }
  // Everybody saw that the database was away from `from` on: until `until` a lease that was lost
  // since says nothing of its task.
  void leases_say_nothing(Duration from, Duration until) { say_nothing_ = {from, until}; }
  // What never goes wrong in this run.
  struct Undisturbed {
    bool leases = false;    // Whoever loses one is gone, and so is known to be.
    bool releases = false;  // Nobody but the service holds rows or ends tasks.
    std::optional<Duration>
        single_within{};  // Nothing at all: a user's only task is claimed so soon, and accepted.
  };
  void undisturbed(const Undisturbed& what) { undisturbed_ = what; }
  // From here on nothing goes wrong: all tasks end within `within`, and not for want of time.
  void healed(Duration within);

  // --- clients

  void granted(UserId user, Units amount);
  // By his plan no more of his tasks are released at once; 0: no limit.
  void allowed(UserId user, std::uint32_t released_max);
  void accepted(TaskId task, UserId user, Instant created_at, Duration deadline);
  // No answer, or one that says that nobody knows.
  void perhaps_accepted(TaskId task, UserId user, Duration deadline);
  void refused(TaskId task);
  // It was, because it would not end in time.
  void refused_as_late(TaskId task);
  void cancel_answered(TaskId task, bool canceled);

  // --- what the database shows

  struct Seen {
    TaskId task;
    UserId user;
    TaskState state = TaskState::kQueued;
    std::uint32_t epoch = 0, claims = 0, lost_leases = 0;
    bool parked = false;
    Instant created_at;
    Instant locked_at;  // By the database's clock as of the locks of who wrote it.
    std::optional<Units> charged{};
    std::optional<FailureCode> failure{};
    std::string output_key{};
  };
  void saw(const Seen& task);
  void booked(UserId user, TaskId task, const Entry& entry);
  void balance_is(UserId user, const Balance& balance);
  // So many of a user's tasks are released at once, from now on.
  void window_is(std::uint32_t size);
  // The user's row says so.
  void open_is(UserId user, std::size_t released, std::size_t parked, std::uint64_t parked_after);
  // All of a COMMIT has been shown.
  void committed();

  // --- workers

  void claimed(const ClaimOf& claim);
  // What a worker sends to be written for a success.
  void delivered(const ClaimOf& claim, const std::string& key, std::int64_t ms, Units most);
  enum class Left { kEnded, kWaits, kReleased };
  // A settlement of `epoch` has moved the task.
  void settled(TaskId task, std::uint32_t epoch, Left how, Duration not_before);
  void settle_answered(const ClaimOf& claim, bool succeeded, const std::string& key);
  // Its lease lasts, as far as the worker can know, for 30 s from when it asked for it.
  void leased(const ClaimOf& claim, Duration asked_at);
  void call_made(const ClaimOf& claim);
  void call_ended(const ClaimOf& claim);
  void froze(std::size_t worker, bool is);
  void died(std::size_t worker);

  // --- the end

  bool all_final() const { return open_ == 0; }
  void finish();

  // How long after its time, or after the last trouble, the latest task ended; and how long after
  // everything had healed.
  Duration latest_after_deadline() const { return latest_after_deadline_; }
  Duration latest_after_healing() const { return latest_after_healing_; }
  // How long a crowd had nothing released, and a user's only task waited, without trouble.
  Duration longest_stuck() const { return longest_stuck_; }
  Duration longest_single() const { return longest_single_; }
  // Tasks that once were.
  std::size_t parked() const { return parked_; }
  std::size_t suspects() const { return suspects_; }
  std::size_t refused_as_late() const { return refused_as_late_; }
  std::size_t succeeded() const { return succeeded_; }
  std::size_t ended() const { return ended_; }

 private:
  struct Task {
    UserId user;
    bool sure = false;     // A client was told that it was accepted.
    bool refused = false;  // Or that it was not.
    Duration length{};
    // By the database's clock: it has ended by the one, and not for want of time before the other.
    std::optional<Instant> deadline, earliest;
    Duration began{};     // By the true clock.
    bool single = false;  // Its user had no other one then.
    std::optional<Seen> last;
    std::optional<Units> held, charged;  // By the ledger: reserved, and taken when that ended.
    std::uint32_t claim = 0;             // The newest.
    bool open_claim = false, claim_is_suspect = false;
    std::uint32_t tries = 0, lost = 0;   // Claims, and leases that ended with nobody's word.
    std::uint64_t hold = 0;              // The number of its hold in its user's ledger.
    std::optional<Duration> not_before;  // By the true clock, as long as nobody sets the other.
    bool canceled = false;
    std::optional<std::string> output;  // A worker was told that this is it.
  };
  struct Delivered {
    std::uint32_t epoch = 0;
    std::int64_t ms = 0;
    Units most;
  };
  struct Working {
    ClaimOf claim;
    Duration leased_from{};
    bool calls = false, suspect = false;
  };
  // The open tasks of a user, as their rows say.
  struct Crowd {
    std::map<std::uint64_t, TaskId> parked{};  // By their holds.
    std::size_t released = 0;
    std::uint32_t released_max = 0;
    std::size_t kept_released = 0, kept_parked = 0;  // As his own row says.
    std::uint64_t parked_after = 0;
    std::optional<Duration> stuck_from{};  // Some are parked, and none is released.
    bool parked_ended = false;             // One of them ended as such.
    // In the COMMIT that is being shown.
    bool shown = false, settled = false;
    std::optional<std::uint64_t> newest_released{};
  };

  void wrong(const std::string& what);
  Task& task(TaskId id);
  Working* working(const ClaimOf& claim);
  bool believes(const Working& worker) const;
  bool has_believer(TaskId id, std::uint32_t epoch) const;
  // Its lease, as its worker knows it, lasted beyond `time`.
  bool was_leased_at(TaskId id, std::uint32_t epoch, Duration time) const;
  void ended(Task& task, const Seen& now);
  void count(Task& task, const Seen& now);
  void waited(const Task& task, const std::string& name);
  void look_at(Crowd& crowd);
  void look_at_stuck(Crowd& crowd);
  std::uint32_t window() const;
  Instant database_now() const { return kBeginning + timeline_.now() + set_by_; }

  const Timeline& timeline_;
  std::optional<std::string> verdict_;
  Duration set_by_{0};
  bool is_blocked_ = false;
  Duration last_trouble_{0};
  std::optional<Duration> clock_set_at_;
  std::optional<Duration> healed_at_;
  Duration heals_within_{0};
  Duration latest_after_deadline_{0}, latest_after_healing_{0};
  std::size_t open_ = 0, succeeded_ = 0, ended_ = 0, parked_ = 0, suspects_ = 0;
  std::size_t refused_as_late_ = 0;
  std::unordered_map<TaskId, Task> tasks_;
  std::unordered_map<UserId, Balance> balances_;  // As the ledger adds up.
  std::unordered_map<UserId, Units> granted_, taken_;
  std::unordered_map<std::string, Delivered> delivered_;
  std::unordered_map<TaskId, std::vector<Working>> working_;
  std::unordered_map<std::size_t, std::vector<Working>> calling_;  // By worker.
  std::vector<bool> frozen_;                                       // By worker.
  Undisturbed undisturbed_;
  Duration last_strike_{0}, longest_stuck_{0}, longest_single_{0};
  std::pair<Duration, Duration> say_nothing_{};
  std::map<UserId, Crowd> crowds_;
  std::uint32_t window_ = 1000;
  std::deque<std::pair<Duration, std::uint32_t>> windows_;  // Until when they were.
};

}  // namespace audiogen::simulation
