#include "common/domain/provider_price.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/ascii.h"
#include "common/base/check.h"

namespace audiogen {
namespace {

constexpr std::int64_t kThousand = 1'000;
constexpr std::size_t kDecimals = 6;  // Of kMicros.
static_assert(kPriceMax * kMicros <= INT64_MAX / kQuantityMax / 2, "a cost must fit");

}  // namespace

std::string_view price_unit_name(PriceUnit unit) {
  switch (unit) {
    case PriceUnit::kCall:
      return "call";
    case PriceUnit::kThousandCharacters:
      return "1000_characters";
    case PriceUnit::kAudioSecond:
      return "audio_second";
    case PriceUnit::kComputeSecond:
      return "compute_second";
    case PriceUnit::kBillableUnit:
      return "billable_unit";
  }
  return "";
}

std::optional<PriceUnit> parse_price_unit(std::string_view name) {
  const auto at = std::find_if(kPriceUnits.begin(), kPriceUnits.end(), [&](PriceUnit unit) {
    return price_unit_name(unit) == name;
  });
  return at == kPriceUnits.end() ? std::nullopt : std::optional(*at);
}

std::string format_micros(Micros amount) {
  const bool negative = amount.value < 0;
  const auto value = static_cast<std::uint64_t>(negative ? -amount.value : amount.value);
  std::string out = (negative ? "-" : "") + std::to_string(value / kMicros);
  if (const std::uint64_t part = value % kMicros; part != 0) {
    const std::string digits = std::to_string(part);
    out += "." + std::string(kDecimals - digits.size(), '0') + digits;
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out;
}

std::optional<Micros> parse_micros(std::string_view text) {
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string decimals(point == std::string_view::npos ? "0" : text.substr(point + 1));
  constexpr std::size_t kDigitsMax = 4;
  if (whole.empty() || whole.size() > kDigitsMax || decimals.empty() ||
      decimals.size() > kDecimals) {
    return std::nullopt;
  }
  decimals.resize(kDecimals, '0');
  const std::string digits = std::string(whole) + decimals;
  if (!std::all_of(digits.begin(), digits.end(), ascii::is_digit)) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value <= kPriceMax * kMicros ? std::optional(Micros{value}) : std::nullopt;
}

std::optional<Thousandths> thousandths_of(double units) {
  const double scaled = units * static_cast<double>(kThousand);
  if (!(scaled >= 0 && scaled <= static_cast<double>(kQuantityMax))) {
    return std::nullopt;
  }
  return std::llround(scaled);
}

std::string_view call_outcome_name(CallOutcome outcome) {
  switch (outcome) {
    case CallOutcome::kDelivered:
      return "delivered";
    case CallOutcome::kUndelivered:
      return "undelivered";
    case CallOutcome::kFailed:
      return "failed";
    case CallOutcome::kUnknown:
      return "unknown";
    case CallOutcome::kBeaten:
      return "beaten";
    case CallOutcome::kDropped:
      return "dropped";
    case CallOutcome::kLost:
      return "lost";
  }
  return "";
}

std::optional<Thousandths> billed(CallOutcome outcome, PriceUnit unit, const CallQuantities& call) {
  if (call.goes_on) {
    return std::nullopt;  // Whoever goes on with it counts it.
  }
  if (call.reported) {
    return call.reported;
  }
  if (outcome == CallOutcome::kFailed) {
    return 0;
  }
  if (outcome == CallOutcome::kLost) {
    return std::nullopt;
  }
  switch (unit) {
    case PriceUnit::kCall:
      return kThousand;
    case PriceUnit::kThousandCharacters:
      return call.characters;
    case PriceUnit::kAudioSecond:
      return call.audio_ms;
    case PriceUnit::kComputeSecond:
    case PriceUnit::kBillableUnit:
      break;  // Nobody but the provider knows.
  }
  return std::nullopt;
}

Micros cost_of(const ProviderPrice& price, Thousandths quantity) {
  AG_CHECK(quantity >= 0 && quantity <= kQuantityMax);
  AG_CHECK(price.amount.value >= 0 && price.amount.value <= kPriceMax * kMicros);
  return {(price.amount.value * quantity + kThousand / 2) / kThousand};
}

}  // namespace audiogen
