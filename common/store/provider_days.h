// The door to what calls to providers were and cost, day by day.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/domain/pricing.h"
#include "common/domain/provider_price.h"
#include "common/domain/worker_status.h"
#include "common/store/door.h"

namespace audiogen::store {

// The calls that were sent to one provider on one day of UTC, and have ended.
struct ProviderDay {
  std::string day{};  // "2026-11-24"
  std::string provider{};
  struct Calls {
    std::uint64_t calls = 0;
    std::uint64_t of_unknown_cost = 0;
    Micros cost{};  // Of the others.
  };
  std::map<CallOutcome, Calls> by_outcome{};  // Each call is one of these.
  ServiceTimes took{};                        // Of calls that brought audio.
  ServiceTimes first_bytes{};                 // The same, where it is known.
  std::int64_t audio_ms = 0;                  // Delivered.
  // What was billed of each unit, as far as it is known: of calls without a price, too.
  std::map<PriceUnit, Thousandths> units{};
  Units earned{};  // Charged for what was delivered.

  Calls all() const;
  // Of all but what was delivered.
  Calls wasted() const;
};

// See Door for threads, blocking and failures.
class ProviderDays : private Door {
 public:
  explicit ProviderDays(Session& session) : Door(session) {}

  // Today and the `days` - 1 before it, by day and provider. It reads the records of these days, in
  // parts by which no statement takes long.
  Result<std::vector<ProviderDay>, Fault> read(std::uint32_t days);
};

}  // namespace audiogen::store
