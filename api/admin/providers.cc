#include "api/admin/providers.h"

#include <cmath>
#include <cstdint>

#include "api/admin/output.h"
#include "common/store/provider_days.h"

namespace audiogen::api {
namespace {

using store::ProviderDay;

Micros cost_of(const ProviderDay& day, CallOutcome outcome) {
  const auto at = day.by_outcome.find(outcome);
  return at == day.by_outcome.end() ? Micros{} : at->second.cost;
}

std::optional<std::int64_t> milliseconds_at(const ServiceTimes& times, double share) {
  constexpr double kSecond = 1'000;
  const auto seconds = times.seconds_at(share);
  return seconds ? std::optional<std::int64_t>(std::llround(*seconds * kSecond)) : std::nullopt;
}

// "2.5 billable_unit", of each unit that was billed. Nullopt: none is known of.
std::optional<std::string> units_of(const ProviderDay& day) {
  std::string out;
  for (const auto& [unit, quantity] : day.units) {
    out += (out.empty() ? "" : ", ") + format_micros({quantity * (kMicros / 1'000)}) + " " +
           std::string(price_unit_name(unit));
  }
  return out.empty() ? std::nullopt : std::optional(out);
}

// What all this brought, at `value` for a credit; as far as costs are known.
Micros margin(const ProviderDay& day, Micros value) {
  constexpr std::int64_t kCredit = credits(1).value;
  const std::int64_t whole = day.earned.value / kCredit, rest = day.earned.value % kCredit;
  const std::int64_t earned = whole * value.value + (rest * value.value + kCredit / 2) / kCredit;
  return {earned - day.all().cost.value};
}

}  // namespace

Reply providers(Doors& doors, const Options& o) {
  std::optional<Micros> value;
  if (!o.credit_value.empty()) {
    value = parse_micros(o.credit_value);
    if (!value) {
      return Failure{"--credit-value must be a number from 0 to 1000 of at most six decimals"};
    }
  }
  const auto days = store::ProviderDays(doors.session).read(static_cast<std::uint32_t>(o.days));
  if (!days) {
    return failure(days.error());
  }
  bool all_known = true;
  Json json;
  json.objects("days", *days, [&](const ProviderDay& day) {
    const auto all = day.all(), wasted = day.wasted();
    all_known = all_known && all.of_unknown_cost == 0;
    json.member("day", day.day).member("provider", day.provider).member("calls", all.calls);
    for (const CallOutcome outcome : kCallOutcomes) {
      const auto at = day.by_outcome.find(outcome);
      json.member(std::string(call_outcome_name(outcome)).c_str(),
                  at == day.by_outcome.end() ? std::uint64_t{0} : at->second.calls);
    }
    json.member("p50_ms", milliseconds_at(day.took, 0.5))
        .member("p95_ms", milliseconds_at(day.took, 0.95))
        .member("first_byte_p50_ms", milliseconds_at(day.first_bytes, 0.5))
        .member("first_byte_p95_ms", milliseconds_at(day.first_bytes, 0.95))
        .member("audio_ms", day.audio_ms)
        .member("units", units_of(day))
        .member("cost", all.cost)
        .member("wasted", wasted.cost)
        .member("wasted_undelivered", cost_of(day, CallOutcome::kUndelivered))
        .member("wasted_failed", cost_of(day, CallOutcome::kFailed))
        .member("wasted_unknown", cost_of(day, CallOutcome::kUnknown))
        .member("wasted_beaten", cost_of(day, CallOutcome::kBeaten))
        .member("wasted_dropped", cost_of(day, CallOutcome::kDropped))
        .member("calls_of_unknown_cost", all.of_unknown_cost)
        .member("earned_credits", day.earned)
        .member("margin", value ? std::optional(margin(day, *value)) : std::nullopt);
  });
  std::string note;
  if (!all_known) {
    note =
        "Of some calls nobody knows the cost: their provider has no price, or did not say, or "
        "their worker has\ndied. They are in calls and in no cost.";
  }
  return Answer{json.finish(), note};
}

}  // namespace audiogen::api
