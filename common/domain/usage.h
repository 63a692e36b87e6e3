// What a user's generations came to in a span of time, and how such a span is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_error.h"
#include "common/domain/pricing.h"

namespace audiogen {

enum class UsageBucket : std::uint8_t { kHour, kDay };
enum class UsageGroup : std::uint8_t { kNone, kKey, kVoice };

// The longest spans that are told by the hour and by the day.
inline constexpr std::chrono::days kHourlyUsageMax{7}, kDailyUsageMax{92};

// Whole buckets, in UTC: from <= t < to.
struct UsageSpan {
  Instant from, to;
  UsageBucket bucket = UsageBucket::kDay;
};

// The buckets of which something lies in from <= t < to. 400 naming the parameter when `to` is not
// later than `from`, or the span too long. Pure.
Result<UsageSpan, ApiError> usage_span(Instant from, Instant to, UsageBucket bucket);

// An hour or a day.
std::chrono::seconds length_of(UsageBucket bucket);

// A generation counts when it is created, and how it ends when it has ended: in one bucket there
// may be more of the one than of the other.
struct UsageCounts {
  std::uint64_t generations = 0, succeeded = 0, failed = 0, canceled = 0;
  std::int64_t audio_ms = 0;
  Units charged{};

  UsageCounts& operator+=(const UsageCounts& other);
  friend bool operator==(const UsageCounts&, const UsageCounts&) = default;
};

// Whether a client that says what it accepts (RFC 9110 section 12.5.1) would rather have text/csv
// than application/json. Without such a header, and when it takes both as gladly, it would not.
bool prefers_csv(std::string_view accept);

}  // namespace audiogen
