#include "common/domain/usage.h"

#include <algorithm>
#include <string>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

// Takes what is before the next `separator` off `text`, without white space around it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return ascii::trim(out);
}

// A weight in thousandths ("0.5" is 500); 0 for what is none, so that it is never preferred.
int thousandths(std::string_view weight) {
  const bool one = weight.starts_with('1');
  if (weight.empty() || (!one && weight.front() != '0') || weight.size() > 5 ||
      (weight.size() > 1 && weight[1] != '.')) {
    return 0;
  }
  int out = one ? 1000 : 0;
  int place = 100;
  for (const char digit : weight.substr(std::min<std::size_t>(2, weight.size()))) {
    if (!ascii::is_digit(digit)) {
      return 0;
    }
    out += (digit - '0') * place;
    place /= 10;
  }
  return std::min(out, 1000);
}

// How gladly `type`/`subtype` is accepted: by the most special of the ranges that match counts.
int weight_of(std::string_view accept, std::string_view type, std::string_view subtype) {
  int special = -1, out = 0;
  while (!accept.empty()) {
    std::string_view range = take(accept, ',');
    std::string_view name = take(range, ';');
    const std::string_view main = take(name, '/');
    const bool any_type = main == "*", any_subtype = name == "*";
    if ((!any_type && !ascii::equals_ignoring_case(main, type)) ||
        (!any_subtype && (any_type || !ascii::equals_ignoring_case(name, subtype)))) {
      continue;
    }
    int weight = 1000;
    while (!range.empty()) {
      std::string_view value = take(range, ';');
      if (ascii::equals_ignoring_case(take(value, '='), "q")) {
        weight = thousandths(ascii::trim(value));
      }
    }
    const int how_special = any_type ? 0 : any_subtype ? 1 : 2;
    if (how_special > special) {
      special = how_special;
      out = weight;
    }
  }
  return out;
}

}  // namespace

std::chrono::seconds length_of(UsageBucket bucket) {
  return bucket == UsageBucket::kHour ? std::chrono::seconds(std::chrono::hours(1))
                                      : std::chrono::seconds(std::chrono::days(1));
}

Result<UsageSpan, ApiError> usage_span(Instant from, Instant to, UsageBucket bucket) {
  if (to <= from) {
    return invalid_parameter("to", "to must be later than from.");
  }
  const bool hourly = bucket == UsageBucket::kHour;
  const std::chrono::days longest = hourly ? kHourlyUsageMax : kDailyUsageMax;
  if (to - from > longest) {
    return invalid_parameter("to",
                             std::string("to must be at most ") + std::to_string(longest.count()) +
                                 " days after from when bucket is " + (hourly ? "hour." : "day."));
  }
  // Days begin where hours do: the epoch is a midnight.
  const auto length = std::chrono::duration_cast<Instant::duration>(length_of(bucket));
  const auto begin_of = [&](Instant at) {
    const auto since = at.time_since_epoch();
    const auto over = since % length;
    return Instant(since - (over.count() < 0 ? over + length : over));
  };
  const Instant last = begin_of(to);
  return UsageSpan{
      .from = begin_of(from), .to = last < to ? last + length : last, .bucket = bucket};
}

UsageCounts& UsageCounts::operator+=(const UsageCounts& other) {
  generations += other.generations;
  succeeded += other.succeeded;
  failed += other.failed;
  canceled += other.canceled;
  audio_ms += other.audio_ms;
  charged = charged + other.charged;
  return *this;
}

bool prefers_csv(std::string_view accept) {
  return weight_of(accept, "text", "csv") > weight_of(accept, "application", "json");
}

}  // namespace audiogen
