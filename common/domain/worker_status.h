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
#include <vector>

#include "common/domain/task.h"

namespace audiogen {

// How long tasks took a worker's place, as counts of ranges each a tenth longer than the one
// before: so those of many workers can be added up, and what is told of them is right to a
// twentieth.
class ServiceTimes {
 public:
  void add(std::chrono::milliseconds time) { add_to(range_of(time), 1); }
  void add(const ServiceTimes& others);
  // Half of all took no longer. Nullopt: there are none.
  std::optional<double> median_seconds() const;

  // As they are kept.
  const std::map<int, std::uint64_t>& counts() const { return counts_; }
  // False: there is no such range.
  bool add_to(int range, std::uint64_t count);

 private:
  static int range_of(std::chrono::milliseconds time);
  std::map<int, std::uint64_t> counts_;
};

// What has become final within a minute.
struct MinuteEnded {
  std::uint64_t succeeded = 0;
  std::map<std::string, std::uint64_t> failed{};  // By the name of the code.
  ServiceTimes times{};                           // Of those that took a place.

  std::uint64_t failures() const;
  std::uint64_t all() const { return succeeded + failures(); }
  void add(const MinuteEnded& others);
};

// Remembers it, to the second. Not thread-safe.
class MinuteWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Nullopt: it succeeded, or it took no place.
  void ended(std::optional<FailureCode> failure,
             std::optional<std::chrono::milliseconds> took,
             Time now);
  MinuteEnded last(Time now) const;

 private:
  struct Second {
    std::int64_t number = -1;
    MinuteEnded ended{};
  };
  std::vector<Second> seconds_ = std::vector<Second>(60);
};

struct ProviderStatus {
  std::string name;
  std::string state;  // "ready", or that of the breaker: "open", "half_open".
  std::uint64_t in_flight = 0, waiting = 0;
  std::optional<std::uint64_t> limit{};  // In flight at once.
  friend bool operator==(const ProviderStatus&, const ProviderStatus&) = default;
};

struct WorkerStatus {
  std::string version{};           // Empty: unknown.
  std::optional<bool> draining{};  // It takes nothing more, and ends when it has finished.
  // For how long it has been without the broker; 0: it has it.
  std::optional<std::chrono::seconds> broker_away{};
  std::optional<std::vector<ProviderStatus>> providers{};  // In the order of the chain.
  std::optional<MinuteEnded> minute{};
};

std::string encode_worker_status(const WorkerStatus& status);
WorkerStatus parse_worker_status(std::string_view json);

}  // namespace audiogen
