#include "common/domain/pricing.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/check.h"

namespace audiogen {

static_assert(kHoldAmount.value * 4 == std::int64_t{kAudioSecondsMax} * 1000 * 5,
              "the hold is the price of the longest audio");

std::int64_t duration_ms(std::int64_t samples, int rate) {
  AG_CHECK(samples >= 0 && samples <= INT64_MAX / 4000);
  AG_CHECK(rate > 0);
  return (samples * 2000 + rate) / (std::int64_t{rate} * 2);
}

Units charge_for(std::int64_t duration_ms) {
  AG_CHECK(duration_ms >= 0);
  // Capped before the multiplication, so that no duration overflows.
  const std::int64_t billed = std::min(duration_ms, std::int64_t{kAudioSecondsMax} * 1000);
  const Units exact{(billed * 5 + 2) / 4};
  return std::clamp(exact, kChargeMin, kHoldAmount);
}

std::int64_t longest_ms(Units cap) {
  AG_CHECK(cap >= kChargeMin);
  // (ms * 5 + 2) / 4 <= cap, rounded down as in charge_for().
  return (std::min(cap, kHoldAmount).value * 4 + 1) / 5;
}

namespace {

std::string thousandths(std::int64_t value) {
  const std::string digits = std::to_string(std::abs(value) % 1000);
  std::string out = value < 0 ? "-" : "";
  out += std::to_string(std::abs(value / 1000));
  out += '.';
  out.append(3 - digits.size(), '0');
  out += digits;
  return out;
}

}  // namespace

std::string format_credits(Units amount) {
  std::string out = thousandths(amount.value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) {
    out.pop_back();
  }
  return out;
}

std::string format_seconds(std::int64_t milliseconds) {
  return thousandths(milliseconds);
}

}  // namespace audiogen
