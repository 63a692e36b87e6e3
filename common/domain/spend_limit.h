// What a key may spend at most in a period. Periods are days and months of UTC, by the database's
// clock, and a generation counts in the one in which it was created, however long it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"
#include "common/domain/pricing.h"

namespace audiogen {

enum class SpendPeriod : std::uint8_t { kDay = 1, kMonth = 2 };  // As stored.

// The name in the interface: day, month.
std::string_view period_name(SpendPeriod period);
std::optional<SpendPeriod> parse_period(std::string_view name);

// Whole credits. Less than a hold would refuse every creation; a key without the scope generate
// says that better.
inline constexpr std::int64_t kSpendLimitMin = kHoldAmount.value / 1000;
inline constexpr std::int64_t kSpendLimitMax = 1'000'000'000;

struct SpendLimit {
  Units amount;
  SpendPeriod period = SpendPeriod::kDay;
  friend bool operator==(const SpendLimit&, const SpendLimit&) = default;
};

// Whole credits, kSpendLimitMin to kSpendLimitMax of them.
bool is_spend_limit(const SpendLimit& limit);

// "1000 credits a day".
std::string spend_limit_text(const SpendLimit& limit);

// The period that `at` lies in: from `from` on, and before `to`.
struct SpendWindow {
  Instant from, to;
};
SpendWindow spend_window(SpendPeriod period, Instant at);

// Whether `after` lets a key spend anything that `before` did not. Nullopt: no limit. Another
// period counts from its own beginning, so it always may.
bool lifts(const std::optional<SpendLimit>& after, const std::optional<SpendLimit>& before);

}  // namespace audiogen
