// Limits of what keys may spend, and the periods that they count.
#include "common/domain/spend_limit.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

Instant at(std::string_view text) {
  return *parse_iso(text);
}

TEST(SpendLimit, PeriodsHaveNamesBothWays) {
  for (const SpendPeriod period : {SpendPeriod::kDay, SpendPeriod::kMonth}) {
    EXPECT_EQ(parse_period(period_name(period)), period);
  }
  EXPECT_EQ(parse_period("week"), std::nullopt);
  EXPECT_EQ(parse_period("Day"), std::nullopt);
}

TEST(SpendLimit, IsInWholeCreditsAndAtLeastOneHold) {
  for (const Units amount : {credits(150), credits(151), credits(1'000'000'000)}) {
    EXPECT_TRUE(is_spend_limit({amount, SpendPeriod::kDay})) << amount.value;
  }
  for (const Units amount :
       {Units{}, credits(149), credits(150) + Units{1}, credits(1'000'000'001), Units{-150'000}}) {
    EXPECT_FALSE(is_spend_limit({amount, SpendPeriod::kDay})) << amount.value;
  }
  EXPECT_EQ(spend_limit_text({credits(1000), SpendPeriod::kMonth}), "1000 credits a month");
}

TEST(SpendLimit, DaysAndMonthsEndWhereUtcHasThemEnd) {
  const auto expect =
      [](SpendPeriod period, std::string_view when, std::string_view from, std::string_view to) {
        const SpendWindow window = spend_window(period, at(when));
        EXPECT_EQ(window.from, at(from)) << when;
        EXPECT_EQ(window.to, at(to)) << when;
      };
  const auto day = SpendPeriod::kDay, month = SpendPeriod::kMonth;
  expect(day, "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z");
  expect(day, "2026-11-23T23:59:59.999999Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z");
  expect(day, "2026-12-31T12:00:00Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z");
  expect(month, "2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
  expect(month, "2026-11-30T23:59:59.999999Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
  expect(month, "2026-12-15T00:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z");
  expect(month, "2028-02-29T01:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
}

TEST(SpendLimit, OnlyLessOfTheSamePeriodIsNoGift) {
  const SpendLimit day{credits(1000), SpendPeriod::kDay};
  EXPECT_FALSE(lifts(day, day));
  EXPECT_FALSE(lifts(SpendLimit{credits(999), SpendPeriod::kDay}, day));
  EXPECT_FALSE(lifts(day, std::nullopt));
  EXPECT_FALSE(lifts(std::nullopt, std::nullopt));
  EXPECT_TRUE(lifts(SpendLimit{credits(1001), SpendPeriod::kDay}, day));
  EXPECT_TRUE(lifts(std::nullopt, day));
  // What was spent of the one does not count in the other as it did.
  EXPECT_TRUE(lifts(SpendLimit{credits(150), SpendPeriod::kMonth}, day));
}

}  // namespace
}  // namespace audiogen
