// The door to how the service did, minute by minute: what one worker writes, and pages draw.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/situation.h"
#include "common/store/door.h"

namespace audiogen::store {

// From when on after its end all processes have told of a minute, and all tasks that were asked for
// in it are committed; and until when workers still tell of it.
inline constexpr std::chrono::seconds kMinuteTold{15}, kMinuteKnown{50};
inline constexpr std::chrono::days kMinutesKept{30};
// Arrivals are counted in parts of a minute, and of each part no more than so many; what is more
// goes by how fast those came.
inline constexpr std::chrono::seconds kArrivalsPart{5};
inline constexpr std::uint64_t kArrivalsOfPart = 1'000;

// A span of minutes. Nullopt: not known of one of them.
struct HistoryPoint {
  Instant at{};
  std::uint64_t minutes = 0;  // So many of them are known.
  std::uint64_t arrivals = 0;
  bool arrivals_exact = true;
  std::optional<std::uint64_t> completions{};
  std::map<std::string, std::uint64_t> failed{};  // By code.
  // In seconds. Of several minutes p50 is the mean of theirs, weighted by completions, and p99 that
  // of the worst.
  std::optional<double> wait_p50{}, wait_p99{}, run_p50{}, run_p99{};
  std::optional<Units> captured{};
};

// Failures by code and provider (empty: not known), and up to when they are written.
struct MinutesFailed {
  std::optional<Instant> until{};  // Nullopt: none is written.
  std::map<std::pair<std::string, std::string>, std::uint64_t> tasks{};
};

// Writes the last minute that is over and told of, unless it is written. Whether it has written it:
// of all who call this at once, one has. Costs the same however many tasks there are. Throws
// DbError.
bool write_service_minute(Session& session);

// When the oldest minute began that is written; nullopt: there is none. Throws DbError.
std::optional<Instant> oldest_service_minute(Session& session);
// Deletes up to `limit` of each kind of rows of minutes that began before then. The larger number.
// Throws DbError.
std::size_t forget_service_minutes(Session& session, Instant before, std::size_t limit);

// See Door for threads, blocking and failures.
class ServiceMinutes : private Door {
 public:
  explicit ServiceMinutes(Session& session) : Door(session) {}

  // The last `range`, in spans of `step`, whole minutes both; those of which nothing is known are
  // missing.
  Result<std::vector<HistoryPoint>, Fault> history(std::chrono::minutes range,
                                                   std::chrono::minutes step);
  // Of the last `range`.
  Result<MinutesFailed, Fault> failures(std::chrono::minutes range);
};

}  // namespace audiogen::store
