// What a worker tells of itself from time to time, beside the numbers of its row: it is kept as
// JSON there, so that workers of one release can be looked at by programs of another. What is
// missing, or of another form, is unknown and never nothing.
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/domain/pricing.h"
#include "common/domain/task.h"

namespace audiogen {

// How long tasks took a worker's place, as counts of ranges each a tenth longer than the one
// before: so those of many workers can be added up, and what is told of them is right to a
// twentieth.
class ServiceTimes {
 public:
  void add(std::chrono::milliseconds time, std::uint64_t count = 1) {
    add_to(range_of(time), count);
  }
  void add(const ServiceTimes& others);
  // `share` of all, in (0, 1], took no longer; half of all. Nullopt: there are none.
  std::optional<double> seconds_at(double share) const;
  std::optional<double> median_seconds() const { return seconds_at(0.5); }

  // As they are kept.
  const std::map<int, std::uint64_t>& counts() const { return counts_; }
  // False: there is no such range.
  bool add_to(int range, std::uint64_t count);
  friend bool operator==(const ServiceTimes&, const ServiceTimes&) = default;

 private:
  static int range_of(std::chrono::milliseconds time);
  std::map<int, std::uint64_t> counts_;
};

// A task that has become final, as the worker that ended it knows it.
struct TaskEnd {
  std::optional<FailureCode> failure{};  // Nullopt: it succeeded.
  std::string provider{};                // That was called last; empty: none.
  // A place of the worker's, and until then since its creation; nullopt: it took none.
  std::optional<std::chrono::milliseconds> took{}, waited{};
  Units charged{};
};

// What has become final within a minute.
struct MinuteEnded {
  std::uint64_t succeeded = 0;
  std::map<std::string, std::uint64_t> failed{};  // By the name of the code.
  ServiceTimes times{};                           // Of those that took a place.
  // Only of whole minutes (WorkerStatus::minutes).
  std::map<std::pair<std::string, std::string>, std::uint64_t>
      failed_at{};  // By code and provider.
  ServiceTimes waits{};
  Units charged{};

  std::uint64_t failures() const;
  std::uint64_t all() const { return succeeded + failures(); }
  void add(const TaskEnd& end);
  void add(const MinuteEnded& others);
};
// By the minutes since 1970, UTC.
using WholeMinutes = std::map<std::int64_t, MinuteEnded>;
std::int64_t minute_of(Instant at);

// Remembers it, to the second; and by whole minutes, so that those of many workers can be added up
// and none is counted twice. Not thread-safe.
class MinuteWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `wall`: the same by the clock of the wall.
  void ended(const TaskEnd& end, Time now, Instant wall);
  MinuteEnded last(Time now) const;
  // The minute under way and the one before.
  WholeMinutes whole(Instant wall) const;

 private:
  struct Second {
    std::int64_t number = -1;
    MinuteEnded ended{};
  };
  std::vector<Second> seconds_ = std::vector<Second>(60);
  WholeMinutes whole_;
};

// Calls of one provider that have ended within kCallsOver.
struct ProviderCalls {
  std::uint64_t answered = 0;                     // With audio.
  std::map<std::string, std::uint64_t> errors{};  // All others, by what went wrong.
  std::uint64_t fallback = 0;  // Of all: another before it in the chain could have served.
  // Of those with audio: nobody got it. It is paid all the same.
  std::uint64_t undelivered = 0;
  ServiceTimes times{};  // Of those with audio.

  std::uint64_t all() const;
  void add(const ProviderCalls& others);
  friend bool operator==(const ProviderCalls&, const ProviderCalls&) = default;
};
inline constexpr std::chrono::minutes kCallsOver{10};

// Remembers them, to the minute. Not thread-safe.
class CallsWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Nullopt: it brought audio. `error` is a word of the program.
  void ended(std::optional<std::string_view> error,
             bool fallback,
             std::chrono::milliseconds took,
             Time now);
  // Nobody got the audio of one that had brought some.
  void undelivered(Time now);
  ProviderCalls last(Time now) const;

 private:
  struct Minute {
    std::int64_t number = -1;
    ProviderCalls calls{};
  };
  ProviderCalls& at(Time now);
  std::vector<Minute> minutes_ = std::vector<Minute>(kCallsOver.count());
};

struct ProviderStatus {
  std::string name;
  std::string state;  // "ready", or that of the breaker: "open", "half_open".
  std::uint64_t in_flight = 0, waiting = 0;
  std::optional<std::uint64_t> limit{};  // In flight at once.
  bool waits_for_account = false;        // Those that wait do so for places of all workers.
  // For how long it has not been ready without a break; nullopt where it is.
  std::optional<std::chrono::seconds> troubled{};
  std::optional<ProviderCalls> calls{};
  friend bool operator==(const ProviderStatus&, const ProviderStatus&) = default;
};

struct WorkerStatus {
  std::string version{};           // Empty: unknown.
  std::optional<bool> draining{};  // It takes nothing more, and ends when it has finished.
  // For how long it has been without the broker; 0: it has it.
  std::optional<std::chrono::seconds> broker_away{};
  // By how much the latest renewal of a lease is late.
  std::optional<std::chrono::milliseconds> renewal_lag{};
  // How many tasks it could work on at once if it had the places of all workers at providers'
  // accounts.
  std::optional<std::uint64_t> places_alone{};
  std::optional<std::vector<ProviderStatus>> providers{};  // In the order of the chain.
  std::optional<MinuteEnded> minute{};
  // The minute under way and the one before, by its own clock.
  std::optional<WholeMinutes> minutes{};
};

// Of bounded length: beyond kProvidersTold providers nothing is told of calls.
inline constexpr std::size_t kProvidersTold = 8;
std::string encode_worker_status(const WorkerStatus& status);
WorkerStatus parse_worker_status(std::string_view json);

}  // namespace audiogen
