// What a worker tells of itself, and what of it is known to who looks.
#include "common/domain/worker_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

MinuteWatch::Time at(std::int64_t second) {
  return MinuteWatch::Time(seconds(1'000'000 + second));
}

TEST(ServiceTimes, TheMedianIsRightToATwentieth) {
  EXPECT_EQ(ServiceTimes().median_seconds(), std::nullopt);
  for (const std::int64_t ms : {1, 2, 7, 99, 1'000, 12'345, 899'999, 3'000'000}) {
    ServiceTimes times;
    times.add(milliseconds(ms));
    const double seen = *times.median_seconds() * 1000;
    EXPECT_NEAR(seen, static_cast<double>(ms), static_cast<double>(ms) * 0.05 + 0.1) << ms;
  }
  ServiceTimes times;
  for (int i = 0; i < 49; ++i) {
    times.add(milliseconds(10'000));
  }
  for (int i = 0; i < 51; ++i) {
    times.add(milliseconds(100));
  }
  EXPECT_NEAR(*times.median_seconds(), 0.1, 0.005);
  ServiceTimes others;
  others.add(milliseconds(10'000));
  others.add(milliseconds(10'000));
  others.add(milliseconds(10'000));
  times.add(others);
  EXPECT_NEAR(*times.median_seconds(), 10, 0.5) << "52 of 103";
}

TEST(ServiceTimes, WhatNobodyCanHaveTakenIsKeptInTheFirstAndTheLastRange) {
  ServiceTimes times;
  times.add(milliseconds(-5));
  times.add(milliseconds(0));
  times.add(milliseconds::max());
  EXPECT_EQ(times.counts().begin()->second, 2U);
  EXPECT_EQ(times.counts().size(), 2U);
  EXPECT_FALSE(times.add_to(-1, 1));
  EXPECT_FALSE(times.add_to(1000, 1));
}

TEST(MinuteWatch, RemembersAMinute) {
  MinuteWatch watch;
  EXPECT_EQ(watch.last(at(0)).all(), 0U);
  watch.ended(std::nullopt, milliseconds(100), at(0));
  watch.ended(FailureCode::kDeadlineExceeded, std::nullopt, at(0));
  watch.ended(FailureCode::kDeadlineExceeded, milliseconds(100), at(30));
  const MinuteEnded all = watch.last(at(59));
  EXPECT_EQ(all.succeeded, 1U);
  EXPECT_THAT(all.failed, ElementsAre(Pair("deadline_exceeded", 2U)));
  EXPECT_EQ(all.all(), 3U);
  EXPECT_EQ(all.times.counts().begin()->second, 2U);
  EXPECT_EQ(watch.last(at(60)).all(), 1U);
  EXPECT_EQ(watch.last(at(90)).all(), 0U);
  watch.ended(std::nullopt, milliseconds(100), at(120));
  EXPECT_EQ(watch.last(at(120)).all(), 1U) << "in the place of what was 120 s ago";
}

TEST(WorkerStatus, IsReadAsItWasWritten) {
  WorkerStatus status{
      .version = "1.2.3",
      .draining = true,
      .broker_away = seconds(180),
      .providers = std::vector<ProviderStatus>{
          {.name = "a \"b\"", .state = "open", .in_flight = 3, .waiting = 2},
          {.name = "c", .state = "ready", .in_flight = 0, .waiting = 0, .limit = 9}}};
  status.minute.emplace();
  status.minute->succeeded = 12;
  status.minute->failed["provider_unavailable"] = 3;
  status.minute->times.add(milliseconds(250));
  status.minute->times.add(milliseconds(250));
  const WorkerStatus read = parse_worker_status(encode_worker_status(status));
  EXPECT_EQ(read.version, "1.2.3");
  EXPECT_EQ(read.draining, true);
  EXPECT_EQ(read.broker_away, seconds(180));
  EXPECT_EQ(read.providers, status.providers);
  ASSERT_TRUE(read.minute);
  EXPECT_EQ(read.minute->succeeded, 12U);
  EXPECT_EQ(read.minute->failed, status.minute->failed);
  EXPECT_EQ(read.minute->times.counts(), status.minute->times.counts());
}

TEST(WorkerStatus, WhatIsMissingOrOfAnotherFormIsUnknown) {
  for (const char* const json : {"",
                                 "not json",
                                 "[]",
                                 "7",
                                 "{}",
                                 R"({"version":1,"draining":0,"broker_away_seconds":-1,
         "providers":{},"minute":[]})",
                                 R"({"minute":{"succeeded":1,"failed":{}}})",
                                 R"({"minute":{"succeeded":1,"failed":{"a":-1},"times":[]}})",
                                 R"({"minute":{"succeeded":1,"failed":{},"times":[[1]]}})",
                                 R"({"minute":{"succeeded":1,"failed":{},"times":[[160,1]]}})"}) {
    const WorkerStatus read = parse_worker_status(json);
    EXPECT_EQ(read.version, "") << json;
    EXPECT_FALSE(read.draining) << json;
    EXPECT_FALSE(read.broker_away) << json;
    EXPECT_FALSE(read.providers) << json;
    EXPECT_FALSE(read.minute) << json;
  }
  // As the release before wrote it, and a provider that says nothing.
  const auto before = parse_worker_status(
      R"({"providers":[{"name":"a","state":"ready","in_flight":2,"waiting":1},{"name":"b"},7]})");
  ASSERT_TRUE(before.providers);
  EXPECT_THAT(*before.providers,
              ElementsAre(ProviderStatus{
                  .name = "a", .state = "ready", .in_flight = 2, .waiting = 1, .limit = {}}));
  EXPECT_THAT(*parse_worker_status(R"({"providers":[]})").providers, IsEmpty());
}

}  // namespace
}  // namespace audiogen
