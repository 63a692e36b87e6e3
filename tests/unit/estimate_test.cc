// What a request will probably cost. Whether that is so of real speech: tests/audio/speech_test.cc.
#include "common/domain/estimate.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

GenerationRequest of(std::string prompt, double speed = 1) {
  GenerationRequest out;
  out.prompt = std::move(prompt);
  out.speed = speed;
  return out;
}

TEST(Estimate, GrowsWithTheText) {
  const Estimate brief = estimate(of("x"));
  EXPECT_EQ(brief.expected, kChargeMin);
  EXPECT_EQ(brief.least, kChargeMin);
  EXPECT_EQ(brief.most, kHoldAmount);
  EXPECT_GT(brief.short_ms, 0);
  EXPECT_GT(brief.long_ms, brief.short_ms);
  const Estimate minute = estimate(of(std::string(900, 'a')));
  EXPECT_EQ(minute.expected, charge_for(900 * 67));
  EXPECT_EQ(minute.short_ms, 39'195);
  EXPECT_EQ(minute.long_ms, 102'510);
}

TEST(Estimate, CountsWhatIsSaid) {
  const auto length = [](std::string prompt) { return estimate(of(std::move(prompt))).long_ms; };
  EXPECT_EQ(length("é"), length("e"));
  EXPECT_GT(length("か"), length("e"));
  EXPECT_GT(length("한"), length("e"));
  EXPECT_GT(length("漢"), length("か"));
  EXPECT_EQ(length("𠀋"), length("漢"));
  EXPECT_EQ(length("😀"), length("e"));
  EXPECT_EQ(length("\xFF"), length("e")) << "no text, and no reason to fall over";
}

TEST(Estimate, FasterSpeechCostsLess) {
  const std::string text(900, 'a');
  EXPECT_EQ(estimate(of(text, 2)).short_ms, 19'598);
  EXPECT_EQ(estimate(of(text, 2)).expected, charge_for(30'150));
  EXPECT_EQ(estimate(of(text, 0.5)).expected, kHoldAmount);
}

TEST(Estimate, NeverPassesWhatCanBeCharged) {
  const Estimate longest = estimate(of(std::string(2048, 'a'), 0.5));
  EXPECT_EQ(longest.expected, kHoldAmount);
  EXPECT_EQ(longest.long_ms, kAudioSecondsMax * 1000);
  GenerationRequest capped = of(std::string(2048, 'a'));
  capped.max_credits = credits(40);
  const Estimate out = estimate(capped);
  EXPECT_EQ(out.expected, credits(40));
  EXPECT_EQ(out.most, credits(40));
  EXPECT_EQ(out.short_ms, 32'000);
  EXPECT_EQ(out.long_ms, 32'000);
}

}  // namespace
}  // namespace audiogen
