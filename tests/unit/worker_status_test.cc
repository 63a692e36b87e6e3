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

TEST(ServiceTimes, ShareTellsHowManyTookNoLonger) {
  ServiceTimes times;
  for (int i = 0; i < 98; ++i) {
    times.add(milliseconds(100));
  }
  times.add(milliseconds(5'000));
  times.add(milliseconds(60'000));
  EXPECT_NEAR(*times.seconds_at(0.98), 0.1, 0.005);
  EXPECT_NEAR(*times.seconds_at(0.99), 5, 0.25);
  EXPECT_NEAR(*times.seconds_at(1), 60, 3);
}

TEST(CallsWatch, RemembersTenMinutes) {
  CallsWatch watch;
  EXPECT_EQ(watch.last(at(0)), ProviderCalls());
  watch.ended(std::nullopt, false, milliseconds(100), at(0));
  watch.ended("retry_same", true, milliseconds(9'000), at(70));
  watch.ended(std::nullopt, true, milliseconds(200), at(130));
  watch.undelivered(at(131));
  const ProviderCalls all = watch.last(at(500));
  EXPECT_EQ(all.all(), 3U);
  EXPECT_EQ(all.answered, 2U);
  EXPECT_EQ(all.fallback, 2U);
  EXPECT_EQ(all.undelivered, 1U);
  EXPECT_THAT(all.errors, ElementsAre(Pair("retry_same", 1U)));
  EXPECT_NEAR(*all.times.seconds_at(1), 0.2, 0.01) << "what brought nothing counts no time";
  EXPECT_EQ(watch.last(at(615)).all(), 2U) << "the first is over ten minutes ago";
  EXPECT_EQ(watch.last(at(900)), ProviderCalls());
  watch.ended("try_next", false, milliseconds(1), at(1200));
  EXPECT_EQ(watch.last(at(1200)).all(), 1U) << "in the place of what was 20 minutes ago";
}

TaskEnd end(std::optional<FailureCode> failure = {}, std::string provider = {}) {
  return {.failure = failure,
          .provider = std::move(provider),
          .took = milliseconds(100),
          .waited = milliseconds(50),
          .charged = failure ? Units{} : Units{10'000}};
}

TEST(MinuteWatch, RemembersAMinute) {
  MinuteWatch watch;
  const Instant wall{};
  EXPECT_EQ(watch.last(at(0)).all(), 0U);
  watch.ended(end(), at(0), wall);
  watch.ended({.failure = FailureCode::kDeadlineExceeded}, at(0), wall);
  watch.ended(end(FailureCode::kDeadlineExceeded), at(30), wall);
  const MinuteEnded all = watch.last(at(59));
  EXPECT_EQ(all.succeeded, 1U);
  EXPECT_THAT(all.failed, ElementsAre(Pair("deadline_exceeded", 2U)));
  EXPECT_EQ(all.all(), 3U);
  EXPECT_EQ(all.times.counts().begin()->second, 2U);
  EXPECT_EQ(watch.last(at(60)).all(), 1U);
  EXPECT_EQ(watch.last(at(90)).all(), 0U);
  watch.ended(end(), at(120), wall);
  EXPECT_EQ(watch.last(at(120)).all(), 1U) << "in the place of what was 120 s ago";
}

TEST(MinuteWatch, TellsOfWholeMinutesAndCountsNothingTwice) {
  MinuteWatch watch;
  const Instant wall(std::chrono::minutes(1'000));
  watch.ended(end(), at(0), wall + seconds(59));
  watch.ended(end(FailureCode::kInternalError, "a"), at(1), wall + seconds(60));
  watch.ended(end(FailureCode::kInternalError), at(2), wall + seconds(119));
  WholeMinutes minutes = watch.whole(wall + seconds(119));
  ASSERT_EQ(minutes.size(), 2U);
  EXPECT_EQ(minutes[1'000].succeeded, 1U);
  EXPECT_EQ(minutes[1'000].charged, Units{10'000});
  EXPECT_EQ(minutes[1'000].waits.counts().begin()->second, 1U);
  EXPECT_EQ(minutes[1'001].succeeded, 0U);
  EXPECT_THAT(minutes[1'001].failed_at,
              ElementsAre(Pair(std::pair("internal_error", ""), 1U),
                          Pair(std::pair("internal_error", "a"), 1U)));
  // Nothing of it is there two minutes later; that there was nothing is known.
  minutes = watch.whole(wall + seconds(180));
  ASSERT_EQ(minutes.size(), 2U);
  EXPECT_EQ(minutes[1'002].all(), 0U);
  EXPECT_EQ(minutes[1'003].all(), 0U);
}

TEST(WorkerStatus, IsReadAsItWasWritten) {
  WorkerStatus status{
      .version = "1.2.3",
      .draining = true,
      .broker_away = seconds(180),
      .renewal_lag = milliseconds(1'500),
      .places_alone = 40,
      .providers = std::vector<ProviderStatus>{
          {.name = "a \"b\"", .state = "open", .in_flight = 3, .waiting = 2},
          {.name = "c", .state = "ready", .in_flight = 0, .waiting = 0, .limit = 9}}};
  status.providers->front().troubled = seconds(77);
  status.providers->front().waits_for_account = true;
  ProviderCalls& calls = status.providers->front().calls.emplace();
  calls = {.answered = 5, .errors = {{"try_next", 2}}, .fallback = 3, .undelivered = 1};
  calls.times.add(milliseconds(250));
  status.minute.emplace();
  status.minute->succeeded = 12;
  status.minute->failed["provider_unavailable"] = 3;
  status.minute->times.add(milliseconds(250));
  status.minute->times.add(milliseconds(250));
  status.minutes = WholeMinutes{{29'000'000, {}}};
  MinuteEnded& whole = (*status.minutes)[29'000'001];
  whole.add(end());
  whole.add(end(FailureCode::kInternalError, "a \"b\""));
  const WorkerStatus read = parse_worker_status(encode_worker_status(status));
  EXPECT_EQ(read.version, "1.2.3");
  EXPECT_EQ(read.draining, true);
  EXPECT_EQ(read.broker_away, seconds(180));
  EXPECT_EQ(read.renewal_lag, milliseconds(1'500));
  EXPECT_EQ(read.places_alone, 40U);
  EXPECT_EQ(read.providers, status.providers);
  ASSERT_TRUE(read.minute);
  EXPECT_EQ(read.minute->succeeded, 12U);
  EXPECT_EQ(read.minute->failed, status.minute->failed);
  EXPECT_EQ(read.minute->times.counts(), status.minute->times.counts());
  ASSERT_TRUE(read.minutes);
  ASSERT_EQ(read.minutes->size(), 2U);
  EXPECT_EQ(read.minutes->at(29'000'000).all(), 0U);
  const MinuteEnded& told = read.minutes->at(29'000'001);
  EXPECT_EQ(told.succeeded, 1U);
  EXPECT_EQ(told.failed_at, whole.failed_at);
  EXPECT_EQ(told.waits, whole.waits);
  EXPECT_EQ(told.times, whole.times);
  EXPECT_EQ(told.charged, whole.charged);
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
    EXPECT_FALSE(read.renewal_lag) << json;
  }
  for (const char* const calls :
       {"7",
        R"({"answered":1,"fallback":0,"undelivered":0,"errors":{}})",
        R"({"answered":1,"fallback":0,"undelivered":0,"errors":{"a":"b"},"times":[]})",
        R"({"answered":1,"fallback":0,"errors":{},"times":[]})"}) {
    const auto read =
        parse_worker_status(R"({"providers":[{"name":"a","state":"ready","in_flight":2,"calls":)" +
                            std::string(calls) + "}]}");
    ASSERT_TRUE(read.providers) << calls;
    EXPECT_FALSE(read.providers->front().calls) << calls;
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

// The column has 64 KB, and a row that cannot be written makes its worker look lost.
TEST(WorkerStatus, ItsLengthIsBounded) {
  ProviderCalls calls{.answered = 1'000'000'000, .fallback = 1'000'000'000};
  MinuteEnded minute{.succeeded = 1'000'000'000};
  for (std::int64_t ms = 1; ms < 10'000'000; ms = ms * 104 / 100 + 1) {
    for (int i = 0; i < 100; ++i) {
      calls.times.add(milliseconds(ms));
      minute.times.add(milliseconds(ms));
    }
  }
  for (const char* const error :
       {"retry_same", "throttled", "try_next", "broken_by_input", "rejected"}) {
    calls.errors[error] = 1'000'000'000;
    minute.failed[error] = 1'000'000'000;
  }
  minute.waits = minute.times;
  WorkerStatus status{.providers = std::vector<ProviderStatus>(),
                      .minute = minute,
                      .minutes = WholeMinutes{{1, minute}, {2, minute}}};
  for (int i = 0; i < 100; ++i) {
    status.providers->push_back(
        {.name = std::string(64, 'n'), .state = "half_open", .limit = 1'000, .calls = calls});
  }
  const std::string json = encode_worker_status(status);
  EXPECT_LT(json.size(), 60'000U);
  const auto read = parse_worker_status(json);
  ASSERT_EQ(read.providers->size(), 100U);
  EXPECT_EQ((*read.providers)[kProvidersTold - 1].calls, calls);
  EXPECT_FALSE((*read.providers)[kProvidersTold].calls);
}

}  // namespace
}  // namespace audiogen
