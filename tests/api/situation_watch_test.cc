// How the service stands, for many who ask: they share looks, and what they are told of it.
#include "api/operators/situation_watch.h"

#include <atomic>
#include <filesystem>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "api/operators/gauges.h"
#include "api/operators/scale.h"
#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Asks = SituationWatch::Asks;
constexpr auto kLimit = 20s;

class SituationWatchTest : public testing::Test {
 protected:
  // While `held_`, a look does not end.
  void watch(SituationWatch::Options options) {
    watch_.emplace(
        [this] {
          return
              [this](const SituationWatch::Wanted& wanted) -> std::optional<SituationWatch::Seen> {
                ++looks_;
                monitored_ = wanted.monitors;
                shown_ = wanted.pages;
                EXPECT_TRUE(eventually(kLimit, [&] { return !held_; }));
                if (away_) {
                  return std::nullopt;
                }
                SituationWatch::Seen out{.tells_monitors = wanted.monitors};
                out.situation.ready.value = static_cast<std::uint64_t>(looks_);
                return out;
              };
        },
        options);
  }
  // What is answered: the number of the look, 0 for none.
  std::uint64_t asked(Asks who = Asks::kPeople) {
    std::atomic<std::int64_t> told{-1};
    watch_->ask(who, [&](const auto& seen) {
      told = seen ? static_cast<std::int64_t>(seen->situation.ready.value) : 0;
    });
    EXPECT_TRUE(eventually(kLimit, [&] { return told >= 0; }));
    return static_cast<std::uint64_t>(told);
  }

  std::atomic<int> looks_{0};
  std::atomic<bool> held_{false}, away_{false}, monitored_{false}, shown_{false};
  std::optional<SituationWatch> watch_;
};

TEST_F(SituationWatchTest, NobodyLooksBeforeAnybodyAsksAndManyShareALook) {
  watch({.least = 1h, .kept = 1h});
  EXPECT_EQ(looks_, 0);
  held_ = true;
  std::atomic<int> told{0};
  for (int i = 0; i < 10; ++i) {
    watch_->ask(Asks::kPeople, [&](const auto& seen) { told += seen ? 1 : 0; });
  }
  EXPECT_TRUE(eventually(kLimit, [&] { return looks_ == 1; }));
  EXPECT_EQ(told, 0);
  held_ = false;
  EXPECT_TRUE(eventually(kLimit, [&] { return told == 10; }));
  EXPECT_EQ(asked(), 1U) << "it is new enough";
  EXPECT_EQ(looks_, 1);
}

TEST_F(SituationWatchTest, WhatCostsMuchIsKeptLonger) {
  const SituationWatch::Options options;
  EXPECT_EQ(SituationWatch::kept_for(0ms, options), 900ms);
  EXPECT_EQ(SituationWatch::kept_for(4ms, options), 900ms);
  EXPECT_EQ(SituationWatch::kept_for(8ms, options), 1600ms);
  EXPECT_EQ(SituationWatch::kept_for(1s, options), 2s);
  EXPECT_EQ(SituationWatch::kept_for(1s, {.kept = 0ms}), 0ms);
}

TEST_F(SituationWatchTest, WhatIsOldIsNotTold) {
  watch({.kept = 0ms});
  EXPECT_EQ(asked(), 1U);
  EXPECT_EQ(asked(), 2U);
  away_ = true;
  EXPECT_EQ(asked(), 0U) << "and nothing instead of it";
  away_ = false;
  EXPECT_EQ(asked(), 4U);
}

TEST_F(SituationWatchTest, ADatabaseThatIsAwayIsNotAskedMoreOften) {
  watch({.least = 1h, .kept = 1h});
  away_ = true;
  EXPECT_EQ(asked(), 0U);
  EXPECT_EQ(asked(), 0U);
  EXPECT_EQ(looks_, 1);
}

TEST_F(SituationWatchTest, OnlyWhoIsMonitoredTakesTheTurn) {
  watch({.kept = 0ms, .monitored = 1h});
  asked();
  EXPECT_FALSE(monitored_);
  asked(Asks::kMonitor);
  EXPECT_TRUE(monitored_);
  asked();
  EXPECT_TRUE(monitored_) << "for a while";
  watch({.kept = 0ms, .monitored = 0ms});
  asked(Asks::kMonitor);
  EXPECT_FALSE(monitored_) << "too long ago";
}

TEST_F(SituationWatchTest, APageIsToldOnlyWhatWasSeenForPages) {
  watch({.least = 1h, .kept = 1h, .shown = 1h});
  EXPECT_EQ(asked(), 1U);
  EXPECT_FALSE(shown_);
  EXPECT_EQ(asked(Asks::kPage), 2U);
  EXPECT_TRUE(shown_);
  EXPECT_EQ(asked(Asks::kPage), 2U);
  EXPECT_EQ(asked(), 2U);
  watch({.kept = 0ms, .shown = 0ms});
  asked(Asks::kPage);
  EXPECT_FALSE(shown_) << "too long ago";
}

TEST_F(SituationWatchTest, AfterItsStopNothingIsTold) {
  watch({.kept = 0ms});
  held_ = true;
  std::atomic<int> first{-1}, later{-1};
  watch_->ask(Asks::kPeople, [&](const auto& seen) { first = seen ? 1 : 0; });
  EXPECT_TRUE(eventually(kLimit, [&] { return looks_ == 1; }));
  watch_->ask(Asks::kPeople, [&](const auto& seen) { later = seen ? 1 : 0; });
  held_ = false;
  watch_->stop();
  EXPECT_GE(first, 0);
  EXPECT_GE(later, 0);
  EXPECT_EQ(asked(), 0U);
}

TEST(ScaleJson, SaysNullOfWhatIsNotKnown) {
  ScaleFigures figures{.current = 2, .backlog = {7, false}, .arrivals_per_second = 1.5};
  rapidjson::Document json;
  json.Parse(scale_json(figures, 3, Instant(std::chrono::hours(500'000))).c_str());
  ASSERT_TRUE(json.IsObject());
  EXPECT_EQ(json["wanted_workers"].GetInt(), 3);
  EXPECT_EQ(json["current"].GetInt(), 2);
  EXPECT_EQ(json["backlog"].GetInt(), 7);
  EXPECT_FALSE(json["backlog_exact"].GetBool());
  EXPECT_DOUBLE_EQ(json["arrivals_per_s"].GetDouble(), 1.5);
  for (const char* const unknown : {"limited_by", "service_seconds_p50", "drain_seconds"}) {
    EXPECT_TRUE(json[unknown].IsNull()) << unknown;
  }
  EXPECT_EQ(json["safe_to_remove"].Size(), 0U);
  EXPECT_STREQ(json["as_of"].GetString(), "2027-01-15T08:00:00.000Z");
  figures.limited_by = "provider:primary";
  figures.service_seconds_p50 = 0.25;
  figures.drain_seconds = 12;
  figures.safe_to_remove = {WorkerId::make()};
  json.Parse(scale_json(figures, 3, Instant(std::chrono::hours(1))).c_str());
  EXPECT_STREQ(json["limited_by"].GetString(), "provider:primary");
  EXPECT_DOUBLE_EQ(json["service_seconds_p50"].GetDouble(), 0.25);
  EXPECT_DOUBLE_EQ(json["drain_seconds"].GetDouble(), 12);
  EXPECT_EQ(json["safe_to_remove"][0].GetString(), figures.safe_to_remove[0].text());
}

TEST(SituationGauges, TellNothingOfWhatIsNotKnown) {
  SituationWatch::Seen seen;
  seen.situation.ready = {3, true};
  seen.situation.oldest_ready = 1500ms;
  seen.situation.credits_held = credits(150);
  const std::string text = metrics::render(situation_gauges(seen));
  EXPECT_THAT(text,
              AllOf(HasSubstr("\naudiogen_tasks_ready 3\n"),
                    HasSubstr("\naudiogen_tasks_running 0\n"),
                    HasSubstr("\naudiogen_oldest_ready_seconds 1.5\n"),
                    HasSubstr("\naudiogen_credits_held 150\n"),
                    HasSubstr("\naudiogen_workers{state=\"working\"} 0\n"),
                    Not(HasSubstr("audit_")),
                    Not(HasSubstr("drain_seconds")),
                    Not(HasSubstr("dead_messages"))));
  seen.situation.audit = {{.name = "I1", .bad = 3}};
  seen.situation.audited_at = Instant(90s);
  EXPECT_THAT(metrics::render(situation_gauges(seen)),
              AllOf(HasSubstr("\naudiogen_audit_violations{check=\"I1\"} 3\n"),
                    HasSubstr("\naudiogen_audit_last_success_timestamp_seconds 90\n")));
  seen.dead = 2;
  EXPECT_THAT(metrics::render(situation_gauges(seen)), HasSubstr("\naudiogen_dead_messages 2\n"));
  EXPECT_THAT(metrics::render(), Not(HasSubstr("tasks_ready"))) << "nobody keeps them";
}

TEST(Metrics, TellOfTheProcess) {
  metrics::set_build("1.2.3", "");
  const std::string text = metrics::render();
  EXPECT_THAT(text,
              AllOf(HasSubstr(R"(audiogen_build_info{commit="unknown",version="1.2.3"} 1)"),
                    HasSubstr("\n# TYPE process_cpu_seconds_total counter\n")));
  const auto value = [&](const std::string& name) {
    const auto at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + name.size() + 2));
  };
  EXPECT_GT(value("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(value("process_threads"), 1);
  // The folder is open while it is read.
  const std::filesystem::directory_iterator open("/proc/self/fd");
  EXPECT_NEAR(
      value("process_open_fds"), static_cast<double>(std::distance(begin(open), end(open))), 1);
  EXPECT_GE(value("process_max_fds"), value("process_open_fds"));
  const auto started = std::chrono::system_clock::time_point(
      std::chrono::seconds(static_cast<std::int64_t>(value("process_start_time_seconds"))));
  const auto ago = std::chrono::system_clock::now() - started;
  EXPECT_GE(ago, -5s);
  EXPECT_LE(ago, 24h);
}

}  // namespace
}  // namespace audiogen::api
