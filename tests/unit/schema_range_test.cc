// On which schemas a program may serve: each row of the rule.
#include "common/domain/schema_range.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

constexpr int kProgram = 16;

SchemaFit fit(int complete, int begun, int serves_from) {
  return schema_fit({.complete = complete, .begun = begun, .serves_from = serves_from}, kProgram);
}

TEST(SchemaRange, ItsOwnSchemaFits) {
  EXPECT_EQ(fit(16, 16, 16), SchemaFit::kFits);
  EXPECT_EQ(fit(16, 16, 12), SchemaFit::kFits);
}

TEST(SchemaRange, OneStepAheadFitsWhereTheStepAllowsIt) {
  EXPECT_EQ(fit(17, 17, 16), SchemaFit::kFits);
  EXPECT_EQ(fit(17, 17, 15), SchemaFit::kFits);
  EXPECT_EQ(fit(17, 17, 17), SchemaFit::kTooNew);
}

// It is at work on tables of which the program knows nothing.
TEST(SchemaRange, AMigrationCountsFromItsBeginning) {
  EXPECT_EQ(fit(16, 17, 16), SchemaFit::kFits);
  EXPECT_EQ(fit(16, 17, 17), SchemaFit::kTooNew);
}

TEST(SchemaRange, TwoStepsAheadNeverFit) {
  EXPECT_EQ(fit(18, 18, 16), SchemaFit::kTooNew);
  EXPECT_EQ(fit(17, 18, 15), SchemaFit::kTooNew);
}

TEST(SchemaRange, AnOlderSchemaNeverFits) {
  EXPECT_EQ(fit(15, 15, 15), SchemaFit::kTooOld);
  EXPECT_EQ(fit(0, 0, 0), SchemaFit::kTooOld);
  EXPECT_EQ(fit(15, 16, 16), SchemaFit::kTooOld) << "its own migration is under way";
  EXPECT_EQ(fit(15, 17, 17), SchemaFit::kTooOld);
}

}  // namespace
}  // namespace audiogen
