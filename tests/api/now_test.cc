// What the page of operators is told of how the service stands.
#include "api/operators/now.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

namespace audiogen::api {
namespace {

using State = Situation::Worker::State;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kNow(std::chrono::hours(500'000));

Situation::Worker worker(State state) {
  Situation::Worker out{.id = WorkerId::make(),
                        .host = "host",
                        .pid = 7,
                        .state = state,
                        .started_at = kNow - seconds(100),
                        .seen_at = kNow - seconds(3)};
  if (state == State::kEnded) {
    out.ended_at = kNow - seconds(80);
  }
  out.status.minute.emplace();
  return out;
}

rapidjson::Document told(const SituationWatch::Seen& seen) {
  rapidjson::Document out;
  out.Parse(now_json(seen).c_str());
  EXPECT_TRUE(out.IsObject()) << now_json(seen);
  return out;
}

TEST(NowJson, SaysNullOfWhatIsNotKnown) {
  SituationWatch::Seen seen{.situation = {.at = kNow}};
  seen.situation.workers = {worker(State::kWorking)};
  seen.situation.workers[0].status = {};
  seen.situation.workers[0].status.providers =
      std::vector<ProviderStatus>{{.name = "a", .state = "open"}};
  const auto json = told(seen);
  EXPECT_STREQ(json["as_of"].GetString(), "2027-01-15T08:00:00.000Z");
  EXPECT_STREQ(json["health"].GetString(), "troubled");
  for (const char* const unknown :
       {"done_per_minute", "failed_per_minute", "failed_by_code", "dead"}) {
    EXPECT_TRUE(json["tiles"][unknown].IsNull()) << unknown;
  }
  const auto& provider = json["providers"][0];
  for (const char* const unknown : {"since",
                                    "limit",
                                    "p50_seconds",
                                    "p99_seconds",
                                    "errors",
                                    "fallback_share",
                                    "paid_not_delivered",
                                    "override"}) {
    EXPECT_TRUE(provider[unknown].IsNull()) << unknown;
  }
  for (const char* const unknown : {"version", "renewal_lag_seconds", "ended_at"}) {
    EXPECT_TRUE(json["workers"][0][unknown].IsNull()) << unknown;
  }
  for (const char* const unknown : {"stuck", "users", "failures", "intake_paused"}) {
    EXPECT_TRUE(json[unknown].IsNull()) << unknown;
  }
}

TEST(NowJson, TellsWhatOperatorsHold) {
  SituationWatch::Seen seen{.situation = {.at = kNow}};
  seen.situation.workers = {worker(State::kWorking)};
  seen.situation.workers[0].status.providers =
      std::vector<ProviderStatus>{{.name = "a", .state = "open"}, {.name = "b", .state = "ready"}};
  seen.situation.overrides = {{.provider = "a", .open = true, .until = kNow + seconds(60)}};
  seen.situation.intake_paused =
      IntakePause{.since = kNow - seconds(5), .by = "ops", .reason = "a \"drill\""};
  const auto json = told(seen);
  EXPECT_STREQ(json["providers"][0]["override"]["state"].GetString(), "open");
  EXPECT_STREQ(json["providers"][0]["override"]["until"].GetString(), "2027-01-15T08:01:00.000Z");
  EXPECT_TRUE(json["providers"][1]["override"].IsNull());
  EXPECT_STREQ(json["intake_paused"]["since"].GetString(), "2027-01-15T07:59:55.000Z");
  EXPECT_STREQ(json["intake_paused"]["by"].GetString(), "ops");
  EXPECT_STREQ(json["intake_paused"]["reason"].GetString(), "a \"drill\"");
  EXPECT_STREQ(json["health"].GetString(), "troubled");
}

TEST(NowJson, TellsWhatWasSeen) {
  SituationWatch::Seen seen{.situation = {.at = kNow}, .dead = 2};
  Situation& now = seen.situation;
  now.ready = {3, false};
  now.oldest_ready = milliseconds(1'500);
  now.credits_held = Units{150'500};
  auto first = worker(State::kWorking), draining = worker(State::kWorking);
  first.in_flight = 4;
  first.places = 8;
  first.status.version = "1.2";
  first.status.renewal_lag = milliseconds(250);
  first.status.minute->succeeded = 6;
  first.status.minute->failed["internal_error"] = 2;
  const std::int64_t minute = minute_of(kNow);
  first.status.minutes = WholeMinutes{{minute - 1, {}}, {minute, {}}};
  first.status.minutes->at(minute - 1).failed_at[{"internal_error", ""}] = 100;  // Written.
  first.status.minutes->at(minute).failed_at[{"internal_error", ""}] = 2;
  ProviderStatus provider{.name = "a", .state = "open", .limit = 5, .troubled = seconds(57)};
  provider.calls =
      ProviderCalls{.answered = 3, .errors = {{"try_next", 1}}, .fallback = 1, .undelivered = 2};
  provider.calls->times.add(milliseconds(100));
  first.status.providers = std::vector<ProviderStatus>{provider};
  draining.status.draining = true;
  now.workers = {first, draining, worker(State::kEnded), worker(State::kLost)};
  now.apis = {
      {.id = ApiId::make(),
       .seen_at = kNow,
       .alive = true,
       .unsent = milliseconds(4'500),
       .last_minute = CreationCount{.answered = 8, .refused = 2}},
      {.id = ApiId::make(), .seen_at = kNow - seconds(1), .alive = true, .last_minute = {}}};
  store::Stuck stuck{.at = kNow, .whole = false, .causes = {{"retry", 2}}, .tasks = {}};
  stuck.tasks.emplace_back();
  stuck.tasks[0].row.view.created_at = kNow - seconds(150);
  stuck.tasks[0].cause = "retry";
  seen.particulars = std::make_shared<const Particulars>(Particulars{
      .stuck = stuck,
      .users = {{.user = UserId::make(), .mail = "ann@example.com", .open = 9, .running = 2}},
      .failed = {.until = kNow,
                 .tasks = {{{"internal_error", ""}, 5}, {{"provider_unavailable", "a"}, 1}}}});
  const auto json = told(seen);
  const auto& tiles = json["tiles"];
  EXPECT_EQ(tiles["ready"]["value"].GetInt(), 3);
  EXPECT_FALSE(tiles["ready"]["exact"].GetBool());
  EXPECT_DOUBLE_EQ(tiles["oldest_waiting_seconds"].GetDouble(), 1.5);
  EXPECT_DOUBLE_EQ(tiles["credits_held"].GetDouble(), 150.5);
  EXPECT_EQ(tiles["done_per_minute"].GetInt(), 6);
  EXPECT_EQ(tiles["failed_per_minute"].GetInt(), 2);
  EXPECT_EQ(tiles["failed_by_code"]["internal_error"].GetInt(), 2);
  EXPECT_EQ(tiles["dead"].GetInt(), 2);
  const auto& told_provider = json["providers"][0];
  EXPECT_STREQ(told_provider["since"].GetString(), "2027-01-15T07:59:00.000Z");
  EXPECT_NEAR(told_provider["p50_seconds"].GetDouble(), 0.1, 0.01);
  EXPECT_EQ(told_provider["errors"]["try_next"].GetInt(), 1);
  EXPECT_DOUBLE_EQ(told_provider["fallback_share"].GetDouble(), 0.25);
  EXPECT_EQ(told_provider["paid_not_delivered"].GetInt(), 2);
  EXPECT_STREQ(json["workers"][0]["state"].GetString(), "working");
  EXPECT_DOUBLE_EQ(json["workers"][0]["renewal_lag_seconds"].GetDouble(), 0.25);
  EXPECT_EQ(json["workers"][0]["seen_seconds"].GetInt(), 3);
  EXPECT_STREQ(json["workers"][1]["state"].GetString(), "draining");
  EXPECT_STREQ(json["workers"][2]["state"].GetString(), "drained");
  EXPECT_STREQ(json["workers"][3]["state"].GetString(), "lost");
  EXPECT_EQ(json["workers_gone"]["lost"].GetInt(), 1);
  EXPECT_DOUBLE_EQ(json["apis"][0]["unsent_seconds"].GetDouble(), 4.5);
  EXPECT_DOUBLE_EQ(json["apis"][0]["refused_share"].GetDouble(), 0.25);
  EXPECT_TRUE(json["apis"][1]["refused_share"].IsNull()) << "of a release before: not known";
  EXPECT_EQ(json["stuck"]["causes"][0]["tasks"].GetInt(), 2);
  EXPECT_EQ(json["stuck"]["tasks"][0]["age_seconds"].GetInt(), 150);
  EXPECT_FALSE(json["stuck"]["whole"].GetBool());
  ASSERT_EQ(json["failures"].Size(), 2U);
  EXPECT_EQ(json["failures"][0]["tasks"].GetInt(), 7) << "each minute counts once";
  EXPECT_TRUE(json["failures"][0]["provider"].IsNull());
  EXPECT_STREQ(json["failures"][1]["provider"].GetString(), "a");
  EXPECT_STREQ(json["users"][0]["mail"].GetString(), "ann@example.com");
  EXPECT_DOUBLE_EQ(json["users"][0]["share"].GetDouble(), 0.25);
}

// However many workers come and go in a day.
TEST(NowJson, OfThoseThatAreGoneTheLastAreTold) {
  SituationWatch::Seen seen{.situation = {.at = kNow}};
  for (int i = 0; i < 500; ++i) {
    auto gone = worker(State::kLost);
    gone.pid = static_cast<std::uint32_t>(i);
    gone.seen_at = kNow - seconds(100 + i);
    seen.situation.workers.push_back(gone);
  }
  seen.situation.workers.push_back(worker(State::kWorking));
  const auto json = told(seen);
  ASSERT_EQ(json["workers"].Size(), 21U);
  EXPECT_STREQ(json["workers"][0]["state"].GetString(), "working");
  EXPECT_EQ(json["workers"][1]["pid"].GetInt(), 0);
  EXPECT_EQ(json["workers_gone"]["lost"].GetInt(), 500);
}

}  // namespace
}  // namespace audiogen::api
