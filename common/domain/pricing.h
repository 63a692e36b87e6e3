// What audio costs. Integers only: 1 credit = 1000 units (common/domain/README.md, "Money").
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace audiogen {

// An amount of credits in thousandths.
struct Units {
  std::int64_t value = 0;
  friend auto operator<=>(const Units&, const Units&) = default;
  friend Units operator+(Units a, Units b) { return {a.value + b.value}; }
  friend Units operator-(Units a, Units b) { return {a.value - b.value}; }
};

inline constexpr Units kHoldAmount{150'000};  // Reserved at creation: the longest charge, 120 s.
inline constexpr Units kChargeMin{10'000};    // The least charge of a success.
inline constexpr int kAudioSecondsMax = 120;
// The most credits one user may own (10^12): a balance is exact as a JSON number.
inline constexpr Units kBalanceMax{1'000'000'000'000'000};

// Whole credits as units; credits is at most 10^12.
constexpr Units credits(std::int64_t whole) {
  return {whole * 1000};
}

// round(samples * 1000 / rate), halves up. samples >= 0, rate > 0.
std::int64_t duration_ms(std::int64_t samples, int rate);

// duration_ms >= 0. clamp(round_half_up(duration_ms * 1.25), kChargeMin, kHoldAmount): 75 credits a
// minute.
Units charge_for(std::int64_t duration_ms);

// The longest audio, in milliseconds, whose charge is at most `cap`; cap >= kChargeMin. What is
// longer has to be cut there before it is priced.
std::int64_t longest_ms(Units cap);

// "18.75": at most three decimals, none trailing. The JSON number of the interface.
std::string format_credits(Units amount);

// "14.999": always three decimals.
std::string format_seconds(std::int64_t milliseconds);

}  // namespace audiogen
