#include "common/domain/provider_price.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(ProviderPrice, UnitsHaveOneNameEach) {
  for (const PriceUnit unit : kPriceUnits) {
    EXPECT_EQ(parse_price_unit(price_unit_name(unit)), unit);
  }
  EXPECT_EQ(parse_price_unit("minute"), std::nullopt);
  EXPECT_EQ(parse_price_unit(""), std::nullopt);
}

TEST(ProviderPrice, AmountsAreReadAsTheyAreWritten) {
  for (const char* text : {"0", "1", "0.015", "0.000001", "999.999999", "1000", "12.5"}) {
    ASSERT_TRUE(parse_micros(text)) << text;
    EXPECT_EQ(format_micros(*parse_micros(text)), text);
  }
  EXPECT_EQ(format_micros(Micros{-1'500'000}), "-1.5");
  EXPECT_EQ(format_micros(Micros{-1}), "-0.000001");
  for (const char* text :
       {"", ".", "1.", ".5", "-1", "1e3", "0.0000001", "1000.000001", "99999", "1,5", "a"}) {
    EXPECT_FALSE(parse_micros(text)) << text;
  }
}

TEST(ProviderPrice, OutcomesHaveOneNameEach) {
  std::set<std::string_view> names;
  for (const CallOutcome outcome : kCallOutcomes) {
    EXPECT_TRUE(names.insert(call_outcome_name(outcome)).second);
  }
  EXPECT_FALSE(names.contains(""));
}

TEST(ProviderPrice, ACallCostsItsQuantityTimesThePriceOfOneUnit) {
  const ProviderPrice characters{PriceUnit::kThousandCharacters, Micros{15'000}};
  EXPECT_EQ(cost_of(characters, 1'000), Micros{15'000});
  EXPECT_EQ(cost_of(characters, 26), Micros{390});
  EXPECT_EQ(cost_of(characters, 0), Micros{0});
  const ProviderPrice seconds{PriceUnit::kAudioSecond, Micros{250}};
  EXPECT_EQ(cost_of(seconds, 9'300), Micros{2'325});
}

TEST(ProviderPrice, HalfAMillionthIsOneMore) {
  const ProviderPrice price{PriceUnit::kAudioSecond, Micros{1}};
  EXPECT_EQ(cost_of(price, 499), Micros{0});
  EXPECT_EQ(cost_of(price, 500), Micros{1});
  EXPECT_EQ(cost_of(price, 1'499), Micros{1});
}

TEST(ProviderPrice, TheDearestCallFits) {
  const ProviderPrice price{PriceUnit::kBillableUnit, Micros{kPriceMax * kMicros}};
  EXPECT_EQ(cost_of(price, kQuantityMax), (Micros{kPriceMax * kMicros * 1'000'000}));
}

constexpr CallOutcome kMade = CallOutcome::kDelivered;

TEST(ProviderPrice, WhatTheProviderReportsGoesBeforeWhatWeCount) {
  const CallQuantities told{.characters = 30, .audio_ms = 2'000, .reported = 45};
  for (const PriceUnit unit : kPriceUnits) {
    for (const CallOutcome outcome : kCallOutcomes) {
      EXPECT_EQ(billed(outcome, unit, told), 45);
    }
  }
}

TEST(ProviderPrice, WhatIsNotReportedIsCounted) {
  const CallQuantities counted{.characters = 30, .audio_ms = 2'000};
  EXPECT_EQ(billed(kMade, PriceUnit::kCall, counted), 1'000);
  EXPECT_EQ(billed(kMade, PriceUnit::kThousandCharacters, counted), 30);
  EXPECT_EQ(billed(kMade, PriceUnit::kAudioSecond, counted), 2'000);
  EXPECT_EQ(billed(kMade, PriceUnit::kAudioSecond, {.characters = 30}), std::nullopt);
  EXPECT_EQ(billed(kMade, PriceUnit::kComputeSecond, counted), std::nullopt);
  EXPECT_EQ(billed(kMade, PriceUnit::kBillableUnit, counted), std::nullopt);
}

TEST(ProviderPrice, WhatMayHaveBeenMadeCountsAsMade) {
  const CallQuantities call{.characters = 30};
  const auto of = [&](CallOutcome outcome) {
    return billed(outcome, PriceUnit::kThousandCharacters, call);
  };
  EXPECT_EQ(of(CallOutcome::kUndelivered), 30);
  EXPECT_EQ(of(CallOutcome::kUnknown), 30);
  EXPECT_EQ(of(CallOutcome::kBeaten), 30);
  EXPECT_EQ(of(CallOutcome::kDropped), 30);
  EXPECT_EQ(of(CallOutcome::kFailed), 0);
  EXPECT_EQ(of(CallOutcome::kLost), std::nullopt);
}

// Whoever goes on with it is a call, too: else one job would be counted twice.
TEST(ProviderPrice, WhatGoesOnThereCountsAtItsEnd) {
  EXPECT_EQ(billed(CallOutcome::kDropped, PriceUnit::kCall, {.goes_on = true}), std::nullopt);
  EXPECT_EQ(
      billed(
          CallOutcome::kUndelivered, PriceUnit::kBillableUnit, {.reported = 45, .goes_on = true}),
      std::nullopt);
}

TEST(ProviderPrice, WhatCannotBeIsNoQuantity) {
  EXPECT_EQ(thousandths_of(9.3), 9'300);
  EXPECT_EQ(thousandths_of(0), 0);
  EXPECT_EQ(thousandths_of(1'000'000), kQuantityMax);
  EXPECT_EQ(thousandths_of(1'000'001), std::nullopt);
  EXPECT_EQ(thousandths_of(-0.1), std::nullopt);
  EXPECT_EQ(thousandths_of(std::nan("")), std::nullopt);
  EXPECT_EQ(thousandths_of(std::numeric_limits<double>::infinity()), std::nullopt);
}

}  // namespace
}  // namespace audiogen
