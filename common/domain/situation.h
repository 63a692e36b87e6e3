// How the service stands at one instant, as the database of record has it, and what follows from
// that: what operators see, and how many workers there should be. Whatever is not known says so; it
// is never 0.
//
// Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/clock_trust.h"
#include "common/domain/operator_action.h"
#include "common/domain/pricing.h"
#include "common/domain/refusals.h"
#include "common/domain/worker_status.h"

namespace audiogen {

// A count that ended where going on would have cost too much: then there are so many or more.
struct AtLeast {
  std::uint64_t value = 0;
  bool exact = true;

  AtLeast operator+(const AtLeast& other) const {
    return {value + other.value, exact && other.exact};
  }
  friend bool operator==(const AtLeast&, const AtLeast&) = default;
};
// "12", "20,000+".
std::string count_text(const AtLeast& count);

// What a check of the audit found: its number, and the rows or users that break it.
struct AuditCheck {
  std::string name;
  std::uint64_t bad = 0;
};

struct Situation {
  struct Worker {
    // Ended: it said so, when its work was done. Lost: not heard of for kWorkerLost. Neither holds
    // work, whatever it said last: its tasks go to others when their leases end.
    enum class State : std::uint8_t { kWorking, kEnded, kLost };

    WorkerId id{};
    std::string host{};
    std::uint32_t pid = 0;
    State state = State::kLost;
    Instant started_at{}, seen_at{};
    std::optional<Instant> ended_at{};
    // Tasks in hand, and how many it can work on at once.
    std::uint64_t in_flight = 0, places = 0;
    WorkerStatus status{};

    bool works() const { return state == State::kWorking; }
    bool drains() const { return works() && status.draining.value_or(false); }
  };
  // A user who has parked tasks, and a plan that says how many of his run at once.
  struct ByPlan {
    std::uint64_t places = 0;   // So many.
    std::uint64_t waiting = 0;  // Parked, or ready within a minute.
    double arrivals_per_second = 0;
  };
  struct Api {
    ApiId id{};
    Instant seen_at{};
    bool alive = false;  // Heard of within kApiGone; an end is not told apart from a loss.
    // For how long the oldest of its hints has waited for the broker to have it; 0: none waits.
    std::chrono::milliseconds unsent{0};
    // What it did with the creations of the minute before. Nullopt: it does not tell, or is gone.
    std::optional<CreationCount> last_minute;

    std::optional<double> refused_share() const {
      return last_minute ? std::optional(last_minute->refused_share()) : std::nullopt;
    }
  };

  Instant at{};
  // Open tasks: theirs to take for the workers, worked on, put back and not due yet, not the
  // workers' yet.
  AtLeast ready{}, running{}, waiting_retry{}, parked{};
  // Of waiting_retry: not due within a minute.
  std::uint64_t retry_later = 0;
  std::vector<ByPlan> by_plan{};
  // Since the oldest of them was created; 0: there is none. Where the count is not exact, there may
  // be an older one.
  std::chrono::milliseconds oldest_ready{0}, oldest_parked{0};
  std::chrono::milliseconds oldest_hold{0};  // The same of all that is open: each holds credits.
  double arrivals_per_second =
      0;                          // Over the last minute, or the last of them where there are many.
  Units credits_held{};           // By all open tasks; at least so many where a count is not exact.
  std::vector<Worker> workers{};  // Also those that are gone, for a day. By their start.
  std::vector<Api> apis{};
  // What operators have said, as long as it holds.
  std::vector<BreakerOverride> overrides{};
  std::optional<IntakePause> intake_paused{};
  // The last audit that came to its end: when, and what each check found. Nullopt, and none: there
  // was none yet.
  std::optional<Instant> audited_at{};
  std::vector<AuditCheck> audit{};

  // All that is open and not worked on.
  AtLeast backlog() const { return ready + waiting_retry + parked; }
  AtLeast open() const { return backlog() + running; }
  // What the processes that are alive did with the creations of their last minutes, of those that
  // tell. Nullopt: none does.
  std::optional<CreationCount> last_minute() const;
  std::optional<double> refused_share() const {
    const auto minute = last_minute();
    return minute ? std::optional(minute->refused_share()) : std::nullopt;
  }
  std::chrono::milliseconds oldest_waiting() const { return std::max(oldest_ready, oldest_parked); }
};

inline constexpr std::chrono::seconds kWorkerLost{30}, kApiGone{15};
// Was it heard of within that time? Not where that is yet to come: the database's clock was set
// back, and who lives tells again.
constexpr bool was_seen_within(std::chrono::seconds time, Instant seen_at, Instant now) {
  return now - seen_at < time && seen_at - now < kClockSlack;
}
// Workers tell of themselves every second. One that has missed two of these is killed, frozen or
// cut off, which is told long before its leases end and it counts as lost.
inline constexpr std::chrono::seconds kWorkerSilent{2};

std::string_view worker_state_name(Situation::Worker::State state);  // working, ended, lost

// What the workers have ended in the last minute, as they report it. Those that are gone, or
// silent, count with the part of it that they were heard of in. Nullopt: not known, one of them
// does not tell.
std::optional<MinuteEnded> ended_in_last_minute(const Situation& situation);
std::optional<double> completions_per_second(const Situation& situation);

// What the workers ended in that minute since 1970, as they tell by now: whole, if it is over for
// some seconds and for less than a minute. Of a lost one what it told last. Who is gone and was
// seen after `now`, by a clock that has been set back since, tells of none. Nullopt: not known, one
// that was there does not tell, or its clock is wrong.
std::optional<MinuteEnded> ended_in_minute(const std::vector<Situation::Worker>& workers,
                                           std::int64_t minute,
                                           Instant now);

// A provider over all living workers.
struct ProviderSum {
  std::string name;
  std::string state;  // One that is not ready somewhere is what is to be seen.
  std::uint64_t in_flight = 0, waiting = 0, workers = 0, workers_ready = 0;
  std::optional<std::uint64_t> limit{};   // Nullopt: one of them does not tell.
  std::uint64_t waiting_for_account = 0;  // Of those that wait.
  std::optional<BreakerOverride> overridden{};
  // Since when it has not been ready somewhere; nullopt where it is, or nobody tells.
  std::optional<Instant> troubled_since{};
  std::optional<ProviderCalls> calls{};  // Nullopt: one of them does not tell.
};
// In the order of the chain.
std::vector<ProviderSum> providers_of(const Situation& situation);

// How long all living workers have been without the broker: the least of it, so 0 when one has it.
// One that is silent does not count: the broker may have gone since. Nullopt: not known.
std::optional<std::chrono::seconds> broker_away(const Situation& situation);

// Until what waits now is done, were it for what waits now alone. Nullopt: not known, or never, as
// nothing ends.
std::optional<double> drain_seconds(const AtLeast& backlog, std::optional<double> completions);

// How things go, in one sentence, and whether anybody has to look: what is only busy needs no more
// than time or workers.
enum class Health : std::uint8_t { kHealthy, kBusy, kTroubled };
struct Assessment {
  std::string sentence;
  Health health = Health::kTroubled;
};
Assessment assess(const Situation& situation);
std::string_view health_name(Health health);

// --- how many workers there should be

struct ScaleFigures {
  std::uint64_t current = 0;  // Workers that take tasks.
  AtLeast backlog{};
  // Of it: what is not due within a minute, and what waits of users who wait for their plan.
  std::uint64_t later = 0, by_plan = 0;
  double arrivals_per_second = 0, arrivals_by_plan = 0;  // All, and those users'.
  // Of these, however many workers there are: each as many as he has use for, and his plan gives.
  double places_by_plan = 0;
  std::optional<double> service_seconds_p50{}, drain_seconds{};
  double places = 1;  // Of one worker.
  // "provider:NAME" where more workers would not help: nobody calls it, nor any other, or all calls
  // that wait do so for places of its account, of which all workers together have no more.
  std::optional<std::string> limited_by{};
  std::vector<WorkerId> safe_to_remove{};  // They take tasks, and have none in hand.
};
// `places`: of one worker, where none tells.
ScaleFigures scale_figures(const Situation& situation, std::uint64_t places);

// So many that what arrives takes seven tenths of their places, and what waits is done within a
// minute; of each user who waits for his plan no more of either than it gives him places for. One
// at the least, which sees to it that nothing is stuck. Where nobody knows how long tasks take, as
// many as there are.
std::uint64_t workers_for(const ScaleFigures& figures);

// More at once, fewer only after kScaleDownAfter.
class ScaleWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kScaleDownAfter{5};

  // What is wanted from now on. Until it has looked for so long, no fewer than there are.
  std::uint64_t look(const ScaleFigures& figures, Time now);

 private:
  struct Wanted {
    Time at;
    std::uint64_t workers;
  };
  std::deque<Wanted> seen_;  // Fewer and fewer; the first is the most.
  std::optional<Time> since_, looked_at_;
};

}  // namespace audiogen
