// What calls to providers cost, in millionths of whatever currency the operator counts in: the
// service knows none. Integers, so that sums over any number of calls are exact.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

// What providers bill by.
enum class PriceUnit : std::uint8_t {
  kCall = 1,
  kThousandCharacters = 2,  // Of the text.
  kAudioSecond = 3,
  kComputeSecond = 4,  // Of the machine that made it.
  kBillableUnit = 5,   // What the provider calls so.
};
// All that there are of these.
inline constexpr std::array kPriceUnits = {PriceUnit::kCall,
                                           PriceUnit::kThousandCharacters,
                                           PriceUnit::kAudioSecond,
                                           PriceUnit::kComputeSecond,
                                           PriceUnit::kBillableUnit};
// As the providers file has it: "1000_characters".
std::string_view price_unit_name(PriceUnit unit);
std::optional<PriceUnit> parse_price_unit(std::string_view name);

// An amount of money: millionths of the operator's currency.
struct Micros {
  std::int64_t value = 0;
  friend auto operator<=>(const Micros&, const Micros&) = default;
  Micros& operator+=(Micros more) {
    value += more.value;
    return *this;
  }
};
inline constexpr std::int64_t kMicros = 1'000'000;
inline constexpr std::int64_t kPriceMax = 1'000;  // Of one unit, in whole ones of the currency.

// "0.015": a number of at most six decimals.
std::string format_micros(Micros amount);
// The same, read: from 0 to kPriceMax.
std::optional<Micros> parse_micros(std::string_view text);

// Of one unit.
struct ProviderPrice {
  PriceUnit unit = PriceUnit::kCall;
  Micros amount{};
  friend bool operator==(const ProviderPrice&, const ProviderPrice&) = default;
};

// So much of a unit, in thousandths of it: characters, milliseconds.
using Thousandths = std::int64_t;
inline constexpr Thousandths kQuantityMax = 1'000'000'000;  // A million units: no call has more.

// 12.34 units as thousandths, rounded. Nullopt for what cannot be: not a number, less than nothing
// or above kQuantityMax.
std::optional<Thousandths> thousandths_of(double units);

// What became of a call. Stored.
enum class CallOutcome : std::uint8_t {
  kDelivered = 1,    // Its audio was what the client paid for.
  kUndelivered = 2,  // Audio that nobody got: no good, or too late.
  kFailed = 3,       // Refused, or broken down: for certain.
  kUnknown = 4,      // Nobody can tell whether it was made there.
  kBeaten = 5,       // Ended by us: the call it was raced with had its audio first.
  kDropped = 6,      // Ended by us: its task was canceled or lost, or its worker stopped.
  kLost = 7,         // Its worker has died: nobody has told.
};
// All that there are of these.
inline constexpr std::array kCallOutcomes = {CallOutcome::kDelivered,
                                             CallOutcome::kUndelivered,
                                             CallOutcome::kFailed,
                                             CallOutcome::kUnknown,
                                             CallOutcome::kBeaten,
                                             CallOutcome::kDropped,
                                             CallOutcome::kLost};
std::string_view call_outcome_name(CallOutcome outcome);

// What a call is counted by, as far as it is known; nullopt: it is not.
struct CallQuantities {
  std::int64_t characters = 0;  // Of its text.
  std::optional<std::int64_t> audio_ms{};
  std::optional<Thousandths> reported{};  // By the provider, in the unit of the price.
  bool goes_on = false;  // It may be gone on with there, by another call, which counts it.
};
// What is billed of it, in the unit of the price: as the provider reports it, else as we count.
// What may have been made counts as made, what has failed does not. Nullopt: not known.
std::optional<Thousandths> billed(CallOutcome outcome, PriceUnit unit, const CallQuantities& call);

// Half a millionth is one more. `quantity` from 0 to kQuantityMax.
Micros cost_of(const ProviderPrice& price, Thousandths quantity);

}  // namespace audiogen
