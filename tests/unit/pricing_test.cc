// What audio costs, and how amounts are written.
#include "common/domain/pricing.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(Pricing, DurationRoundsHalvesUp) {
  struct Case {
    std::int64_t samples;
    int rate;
    std::int64_t milliseconds;
  };
  for (const Case& c : {Case{0, 24000, 0},
                        Case{24000, 24000, 1000},
                        Case{11, 24000, 0},  // 0.458 ms
                        Case{12, 24000, 1},  // 0.5 ms
                        Case{36, 24000, 2},  // 1.5 ms
                        Case{22, 44100, 0},  // 0.4989 ms
                        Case{23, 44100, 1},  // 0.5215 ms
                        Case{3, 2001, 1},    // 1.49925 ms, an odd rate
                        Case{5'760'000, 48000, 120'000},
                        Case{5'760'024, 48000, 120'001},
                        Case{5'760'023, 48000, 120'000}}) {
    EXPECT_EQ(duration_ms(c.samples, c.rate), c.milliseconds) << c.samples << " at " << c.rate;
  }
}

TEST(Pricing, ChargeIsSeventyFiveCreditsAMinuteWithinItsLimits) {
  struct Case {
    std::int64_t milliseconds;
    std::int64_t units;
  };
  for (const Case& c : {Case{0, 10'000},  // The least charge.
                        Case{1, 10'000},
                        Case{7'999, 10'000},  // 9998.75
                        Case{8'000, 10'000},  // Exactly the least charge.
                        Case{8'001, 10'001},  // 10001.25
                        Case{8'002, 10'003},  // 10002.5: a half goes up.
                        Case{8'003, 10'004},  // 10003.75
                        Case{8'004, 10'005},
                        Case{15'000, 18'750},    // The example 18.75.
                        Case{60'000, 75'000},    // A minute.
                        Case{119'998, 149'998},  // 149997.5
                        Case{119'999, 149'999},  // 149998.75
                        Case{120'000, 150'000},
                        Case{120'001, 150'000},  // Never more than was held.
                        Case{3'600'000, 150'000},
                        Case{INT64_MAX / 4, 150'000},
                        Case{INT64_MAX, 150'000}}) {
    EXPECT_EQ(charge_for(c.milliseconds).value, c.units) << c.milliseconds << " ms";
  }
}

TEST(Pricing, TheLongestAudioForACapCostsNoMoreAndTheNextMillisecondDoes) {
  for (std::int64_t cap = kChargeMin.value; cap < kHoldAmount.value; ++cap) {
    const std::int64_t ms = longest_ms({cap});
    ASSERT_LE(charge_for(ms).value, cap);
    ASSERT_GT(charge_for(ms + 1).value, cap);
  }
  EXPECT_EQ(longest_ms(kChargeMin), 8'000);
  EXPECT_EQ(longest_ms(credits(40)), 32'000);
  EXPECT_EQ(longest_ms(kHoldAmount), kAudioSecondsMax * 1000);
  EXPECT_EQ(longest_ms(credits(1'000)), kAudioSecondsMax * 1000);
}

TEST(Pricing, ChargeNeverFallsAsAudioGrows) {
  Units last{};
  for (std::int64_t ms = 0; ms <= 121'000; ++ms) {
    const Units charge = charge_for(ms);
    ASSERT_GE(charge, last) << ms;
    ASSERT_LE(charge, kHoldAmount) << ms;
    last = charge;
  }
}

TEST(PricingDeathTest, NegativeAudioIsABug) {
  EXPECT_DEATH(charge_for(-1), "check failed");
  EXPECT_DEATH(duration_ms(-1, 24000), "check failed");
  EXPECT_DEATH(duration_ms(1, 0), "check failed");
}

TEST(Pricing, CreditsHaveAtMostThreeDecimals) {
  struct Case {
    std::int64_t units;
    const char* text;
  };
  for (const Case& c : {Case{0, "0"},
                        Case{1, "0.001"},
                        Case{10, "0.01"},
                        Case{100, "0.1"},
                        Case{1'000, "1"},
                        Case{10'000, "10"},
                        Case{100'000, "100"},
                        Case{18'750, "18.75"},
                        Case{10'001, "10.001"},
                        Case{150'000, "150"},
                        Case{-150'000, "-150"},
                        Case{-1, "-0.001"},
                        Case{-18'750, "-18.75"},
                        Case{1'000'000'000'000'000, "1000000000000"}}) {
    EXPECT_EQ(format_credits({c.units}), c.text);
  }
}

TEST(Pricing, SecondsAlwaysHaveThreeDecimals) {
  EXPECT_EQ(format_seconds(0), "0.000");
  EXPECT_EQ(format_seconds(7), "0.007");
  EXPECT_EQ(format_seconds(14'999), "14.999");
  EXPECT_EQ(format_seconds(15'000), "15.000");
  EXPECT_EQ(format_seconds(120'000), "120.000");
}

}  // namespace
}  // namespace audiogen
