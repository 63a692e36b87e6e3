// How the service stands, and how many workers there should be.
#include "common/domain/situation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen {
namespace {

using State = Situation::Worker::State;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Instant kNow = Instant(std::chrono::hours(500'000));

struct Ended {
  std::uint64_t succeeded = 0, failed = 0;
  milliseconds each{1'000};
};

MinuteEnded minute_of(const Ended& ended) {
  MinuteEnded out{.succeeded = ended.succeeded};
  if (ended.failed > 0) {
    out.failed["internal_error"] = ended.failed;
  }
  for (std::uint64_t i = 0; i < ended.succeeded + ended.failed; ++i) {
    out.times.add(ended.each);
  }
  return out;
}

// At work, with everything told.
Situation::Worker worker(const Ended& ended = {}) {
  Situation::Worker out{.id = WorkerId::make(),
                        .host = "h",
                        .pid = 1,
                        .state = State::kWorking,
                        .started_at = kNow,
                        .seen_at = kNow,
                        .in_flight = 1,
                        .places = 100};
  out.status = {.version = "1",
                .draining = false,
                .broker_away = seconds(0),
                .providers = std::vector<ProviderStatus>{{.name = "primary", .state = "ready"}},
                .minute = minute_of(ended)};
  return out;
}

Situation with(std::vector<Situation::Worker> workers) {
  Situation out;
  out.at = kNow;
  out.workers = std::move(workers);
  return out;
}

Situation::Worker gone(Situation::Worker worker, State state, seconds ago) {
  worker.state = state;
  worker.seen_at = kNow - ago;
  worker.ended_at = state == State::kEnded ? std::optional(worker.seen_at) : std::nullopt;
  worker.in_flight = 0;
  return worker;
}

Situation::Worker with_provider(Situation::Worker worker, const char* state) {
  worker.status.providers->front().state = state;
  return worker;
}

std::string verdict(const Situation& situation) {
  return assess(situation).sentence;
}

TEST(Counts, SayWhenThereMayBeMore) {
  EXPECT_EQ(count_text({0, true}), "0");
  EXPECT_EQ(count_text({999, true}), "999");
  EXPECT_EQ(count_text({1'234'567, true}), "1,234,567");
  EXPECT_EQ(count_text({20'000, false}), "20,000+");
  EXPECT_EQ((AtLeast{2, true} + AtLeast{3, false}), (AtLeast{5, false}));
}

TEST(EndedInLastMinute, IsWhatAllWorkersTellTogether) {
  const auto ended = ended_in_last_minute(
      with({worker({.succeeded = 10, .failed = 2}), worker({.succeeded = 5, .failed = 1})}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->succeeded, 15U);
  EXPECT_EQ(ended->failed.at("internal_error"), 3U);
  EXPECT_DOUBLE_EQ(*completions_per_second(with({worker({.succeeded = 90})})), 1.5);
  EXPECT_EQ(completions_per_second(with({})), 0.0) << "nobody works, so nothing ends";
}

TEST(EndedInLastMinute, IsUnknownWhereAWorkerDoesNotTell) {
  auto silent = worker();
  silent.status.minute.reset();
  EXPECT_EQ(ended_in_last_minute(with({worker({.succeeded = 10}), silent})), std::nullopt);
  EXPECT_TRUE(ended_in_last_minute(with({gone(silent, State::kEnded, seconds(61))})));
  EXPECT_EQ(ended_in_last_minute(with({gone(silent, State::kLost, seconds(59))})), std::nullopt);
}

TEST(EndedInLastMinute, WhoIsGoneCountsForAsLongAsHeWasThere) {
  const auto after = [](seconds ago) {
    return ended_in_last_minute(
               with({gone(worker({.succeeded = 60, .failed = 6}), State::kLost, ago)}))
        ->all();
  };
  EXPECT_EQ(after(seconds(-3)), 66U) << "a clock that is ahead";
  EXPECT_EQ(after(seconds(0)), 66U);
  EXPECT_EQ(after(seconds(30)), 33U);
  EXPECT_EQ(after(seconds(60)), 0U);
  EXPECT_EQ(after(seconds(6000)), 0U);
  EXPECT_EQ(after(seconds(-600)), 0U) << "the clock was set back since";
}

// Its last minute was taken for the present one until it counted as lost.
TEST(EndedInLastMinute, WhoIsSilentCountsForAsLongAsHeWasHeardOf) {
  auto silent = worker({.succeeded = 60});
  silent.seen_at = kNow - seconds(15);
  EXPECT_EQ(ended_in_last_minute(with({silent}))->succeeded, 45U);
  silent.seen_at = kNow - seconds(1);
  EXPECT_EQ(ended_in_last_minute(with({silent}))->succeeded, 60U);
}

TEST(EndedInMinute, IsWhatAllWhoWereThereTell) {
  const std::int64_t minute = 29'000'000;
  const Instant from{std::chrono::minutes(minute)}, now = from + seconds(80);
  const auto telling = [&](std::uint64_t succeeded) {
    auto out = worker();
    out.started_at = from - seconds(100);
    out.seen_at = from + seconds(80);
    out.status.minutes =
        WholeMinutes{{minute, {.succeeded = succeeded}}, {minute + 1, {.succeeded = 9}}};
    return out;
  };
  auto lost = gone(telling(2), State::kLost, seconds(40));
  lost.seen_at = from + seconds(30);
  lost.status.minutes = WholeMinutes{{minute - 1, {.succeeded = 9}}, {minute, {.succeeded = 2}}};
  auto gone_before = worker();
  gone_before.status.minutes.reset();
  gone_before.started_at = from - seconds(100);
  gone_before.seen_at = from - seconds(1);
  auto came_later = gone_before;
  came_later.started_at = came_later.seen_at = from + seconds(60);
  auto ended = ended_in_minute({telling(1), lost, gone_before, came_later}, minute, now);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->succeeded, 3U);
  // The clock was set back since they were seen: for an hour nothing would be known of any minute.
  auto seen_ahead = gone(telling(5), State::kLost, seconds(0));
  seen_ahead.seen_at = now + seconds(3600);
  seen_ahead.status.minutes = WholeMinutes{};
  auto ended_ahead = seen_ahead;
  ended_ahead.state = State::kEnded;
  ended = ended_in_minute({telling(1), seen_ahead, ended_ahead}, minute, now);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->succeeded, 1U);
  seen_ahead.state = State::kWorking;
  EXPECT_FALSE(ended_in_minute({telling(1), seen_ahead}, minute, now)) << "it was there";
  // One does not tell, or not of that minute.
  auto silent = telling(1);
  silent.status.minutes.reset();
  EXPECT_FALSE(ended_in_minute({telling(1), silent}, minute, now));
  silent.status.minutes = WholeMinutes{{minute + 7, {}}};
  EXPECT_FALSE(ended_in_minute({telling(1), silent}, minute, now));
  EXPECT_EQ(ended_in_minute({}, minute, now)->all(), 0U);
}

TEST(Providers, AreSummedOverLivingWorkers) {
  auto one = worker(), two = worker(), without_limit = worker();
  one.status.providers = std::vector<ProviderStatus>{
      {.name = "a", .state = "ready", .in_flight = 2, .waiting = 1, .limit = 10},
      {.name = "b", .state = "ready", .in_flight = 1, .waiting = 0, .limit = 5}};
  two.status.providers = std::vector<ProviderStatus>{
      {.name = "a", .state = "open", .in_flight = 3, .waiting = 0, .limit = 10},
      {.name = "b", .state = "ready", .in_flight = 0}};
  one.status.providers->front().calls = ProviderCalls{.answered = 4, .fallback = 1};
  two.status.providers->front().calls =
      ProviderCalls{.answered = 5, .errors = {{"try_next", 2}}, .undelivered = 3};
  one.status.providers->back().calls = ProviderCalls{.answered = 1};
  two.status.providers->front().troubled = seconds(90);
  auto lost = gone(one, State::kLost, seconds(40));
  auto silent = worker();
  silent.status.providers.reset();
  const auto sums = providers_of(with({one, lost, silent, two}));
  ASSERT_THAT(sums, SizeIs(2));
  EXPECT_EQ(sums[0].name, "a");
  EXPECT_EQ(sums[0].state, "open") << "trouble of one is what is to be seen";
  EXPECT_EQ(sums[0].in_flight, 5U);
  EXPECT_EQ(sums[0].waiting, 1U);
  EXPECT_EQ(sums[0].limit, 20U);
  EXPECT_EQ(sums[0].workers, 2U);
  EXPECT_EQ(sums[0].workers_ready, 1U);
  EXPECT_EQ(sums[0].troubled_since, two.seen_at - seconds(90));
  EXPECT_EQ(
      sums[0].calls,
      (ProviderCalls{.answered = 9, .errors = {{"try_next", 2}}, .fallback = 1, .undelivered = 3}));
  EXPECT_EQ(sums[1].limit, std::nullopt) << "one does not tell";
  EXPECT_EQ(sums[1].calls, std::nullopt) << "the same";
  EXPECT_EQ(sums[1].troubled_since, std::nullopt);
  EXPECT_THAT(providers_of(with({})), IsEmpty());
}

TEST(BrokerAway, IsWhatTheLastOfThemMisses) {
  auto has = worker(), misses = worker(), misses_longer = worker(), silent = worker();
  misses.status.broker_away = seconds(5);
  misses_longer.status.broker_away = seconds(90);
  silent.status.broker_away.reset();
  EXPECT_EQ(broker_away(with({has, misses})), seconds(0));
  EXPECT_EQ(broker_away(with({misses, misses_longer, silent})), seconds(5));
  EXPECT_EQ(broker_away(with({silent})), std::nullopt);
  auto killed = has;
  killed.seen_at = kNow - kWorkerSilent;
  EXPECT_EQ(broker_away(with({killed, misses})), seconds(5)) << "it says no more what it said last";
  EXPECT_EQ(broker_away(with({killed})), std::nullopt);
  EXPECT_EQ(broker_away(with({gone(has, State::kLost, seconds(40)), misses})), seconds(5));
}

TEST(Drain, IsUnknownWithoutCompletions) {
  EXPECT_EQ(drain_seconds({0, true}, std::nullopt), 0.0);
  EXPECT_EQ(drain_seconds({0, true}, 0.0), 0.0);
  EXPECT_EQ(drain_seconds({0, false}, std::nullopt), std::nullopt);
  EXPECT_EQ(drain_seconds({5, true}, std::nullopt), std::nullopt);
  EXPECT_EQ(drain_seconds({5, true}, 0.0), std::nullopt);
  EXPECT_EQ(drain_seconds({5, true}, 2.5), 2.0);
}

TEST(Verdict, SaysWhatOperatorsHold) {
  Situation now = with({worker({.succeeded = 60})});
  now.intake_paused = IntakePause{.since = kNow, .by = "ann", .reason = "the database moves"};
  EXPECT_EQ(verdict(now), "Intake paused by operator: the database moves");
  now.overrides = {{.provider = "primary", .open = true, .until = kNow + seconds(60)},
                   {.provider = "of nobody", .open = true, .until = kNow + seconds(60)}};
  EXPECT_EQ(verdict(now),
            "Intake paused by operator: the database moves. Trouble: provider `primary` held open "
            "by operator");
  now.intake_paused.reset();
  now.overrides[0].open = false;
  EXPECT_EQ(verdict(now), "Trouble: provider `primary` held closed by operator");
  ASSERT_THAT(providers_of(now), SizeIs(1));
  EXPECT_FALSE(providers_of(now)[0].overridden->open);
  now.overrides.clear();
  EXPECT_FALSE(providers_of(now)[0].overridden);
  EXPECT_EQ(verdict(now), "Healthy");
}

TEST(Verdict, IsOneSentence) {
  EXPECT_EQ(verdict(with({})), "No worker takes tasks; none waits");
  Situation now = with({gone(worker(), State::kLost, seconds(40))});
  now.ready = {1'200, true};
  EXPECT_EQ(verdict(now), "No worker takes tasks: 1,200 wait");
  auto draining = worker();
  draining.status.draining = true;
  now.workers = {draining};
  EXPECT_EQ(verdict(now), "No worker takes tasks: 1,200 wait");

  now = with({worker()});
  EXPECT_EQ(verdict(now), "Healthy");
  now.ready = {10, true};
  now.oldest_ready = seconds(14);
  now.arrivals_per_second = 42;
  EXPECT_EQ(verdict(now), "Healthy") << "a short burst";
  now.oldest_ready = seconds(61);
  EXPECT_EQ(verdict(now), "Stalled: 10 wait, the oldest for 61 s, none has ended in a minute");

  now.workers = {with_provider(worker({.succeeded = 31 * 60}), "open")};
  EXPECT_EQ(verdict(now),
            "Falling behind: arrivals 42/s, completions 31/s, provider `primary` open");
  now.arrivals_per_second = 3.14;
  now.workers = {worker({.succeeded = 60})};
  now.oldest_ready = {};
  now.oldest_parked = seconds(20);
  EXPECT_EQ(verdict(now), "Falling behind: arrivals 3.1/s, completions 1.0/s");
  now.arrivals_per_second = 0.5;
  now.parked = {590, true};
  EXPECT_EQ(verdict(now), "Catching up: 600 wait, about 10 min");
  now.workers[0].status.minute.reset();
  EXPECT_THAT(verdict(now), HasSubstr("completions are not known"));

  now = with({worker()});
  now.workers[0].status.broker_away = minutes(3);
  EXPECT_EQ(verdict(now),
            "Broker away 3 min: workers pull tasks from the database, about a second late");
  now = with({with_provider(worker(), "half_open")});
  EXPECT_EQ(verdict(now), "Trouble: provider `primary` half open");
}

// A backlog was told when somebody had waited for 15 s.
TEST(Verdict, SaysAtOnceWhenAllPlacesAreTakenAndMoreWaits) {
  Situation now = with({worker({.succeeded = 60}), worker({.succeeded = 60})});
  now.workers[0].in_flight = now.workers[0].places = 20;
  now.workers[1].in_flight = 22;  // The express lane may take some more.
  now.workers[1].places = 20;
  now.ready = {30, true};
  now.parked = {1'200, false};
  now.oldest_ready = seconds(2);
  EXPECT_EQ(verdict(now), "Busy: 1,230+ wait, all 40 places are taken");
  EXPECT_EQ(assess(now).health, Health::kBusy);
  now.workers[0].status.draining = true;
  EXPECT_EQ(verdict(now), "Busy: 1,230+ wait, all 20 places are taken");
  now.parked = {};
  now.ready = {20, true};
  EXPECT_EQ(verdict(now), "Healthy") << "no more than what is worked on";
  EXPECT_EQ(assess(now).health, Health::kHealthy);
  now.ready = {1'200, true};
  now.workers[1].in_flight = 19;
  EXPECT_EQ(verdict(now), "Healthy") << "there is room";
  now.workers[1].in_flight = 20;
  now.workers[1] = with_provider(now.workers[1], "open");
  EXPECT_EQ(verdict(now), "Busy: 1,200 wait, all 20 places are taken, provider `primary` open");
  EXPECT_EQ(assess(now).health, Health::kTroubled);
  now.workers[1].status.providers.reset();
  now.intake_paused = IntakePause{.since = kNow, .by = "ann", .reason = "the database moves"};
  EXPECT_EQ(assess(now).health, Health::kTroubled) << "somebody has to end it";
}

// All failed, or were refused, and it said "Healthy".
TEST(Verdict, SaysWhatFailsAndWhatIsRefused) {
  EXPECT_EQ(verdict(with({worker({.succeeded = 1, .failed = 40})})),
            "Trouble: 40 of 41 tasks of the last minute failed (internal_error)");
  EXPECT_EQ(verdict(with({worker({.succeeded = 1, .failed = 2})})), "Healthy") << "too few to tell";
  EXPECT_EQ(verdict(with({worker({.succeeded = 0, .failed = 1})})),
            "Trouble: 1 of 1 tasks of the last minute failed (internal_error)")
      << "where few come, and none succeeds";
  EXPECT_EQ(verdict(with({worker({.succeeded = 57, .failed = 3})})), "Healthy") << "a twentieth";
  auto mixed = worker({.succeeded = 10});
  mixed.status.minute->failed = {
      {"content_rejected", 900}, {"deadline_exceeded", 1}, {"provider_unavailable", 90}};
  EXPECT_EQ(verdict(with({mixed})),
            "Trouble: 91 of 101 tasks of the last minute failed (mostly provider_unavailable)");
  mixed.status.minute->failed["provider_unavailable"] = 4;
  EXPECT_EQ(verdict(with({mixed})),
            "Trouble: 5 of 15 tasks of the last minute failed (mostly provider_unavailable)")
      << "however many ask for what nobody makes";
  mixed.status.minute->failed.erase("provider_unavailable");
  EXPECT_EQ(verdict(with({mixed})), "Healthy") << "what clients asked for is no trouble of ours";

  Situation now = with({with_provider(worker({.succeeded = 1, .failed = 40}), "open")});
  now.apis = {{.alive = true, .last_minute = CreationCount{.answered = 200, .refused = 24}}};
  EXPECT_EQ(verdict(now),
            "Trouble: provider `primary` open, 40 of 41 tasks of the last minute failed "
            "(internal_error), 12 % of creations refused");
  now.workers = {worker()};
  now.apis[0].last_minute = CreationCount{.answered = 200, .refused = 2};
  EXPECT_EQ(verdict(now), "Healthy");
  now.apis[0].last_minute = CreationCount{.answered = 2, .refused = 2};
  EXPECT_EQ(verdict(now), "Healthy") << "too few to tell";

  // One that refuses all is told, however much the others take, and whether or not they tell.
  const CreationCount well{.answered = 10'000, .refused = 0}, ill{.answered = 90, .refused = 90};
  now.apis = {{.alive = true, .last_minute = well},
              {.id = ApiId::make(), .alive = true, .last_minute = ill}};
  const std::string told =
      "Trouble: API process `" + now.apis[1].id.text() + "` refuses all creations";
  EXPECT_EQ(verdict(now), told);
  now.apis[0].last_minute.reset();
  EXPECT_EQ(verdict(now), told);
  now.apis.push_back({.id = ApiId::make(), .alive = true, .last_minute = ill});
  EXPECT_EQ(verdict(now), "Trouble: 2 of 3 API processes refuse all creations");
  now.apis[2].alive = false;
  EXPECT_EQ(verdict(now), told);
  now.apis[1].last_minute = CreationCount{.answered = 90, .refused = 80};
  EXPECT_EQ(verdict(now), "Trouble: 89 % of creations refused") << "of those that tell";
  now.apis[1].alive = false;
  EXPECT_EQ(verdict(now), "Healthy");
}

TEST(Verdict, NamesWhoIsSilentLongBeforeHeCountsAsLost) {
  const auto last_heard = [](seconds ago) {
    auto out = worker({.succeeded = 60});
    out.seen_at = kNow - ago;
    return out;
  };
  EXPECT_EQ(verdict(with({worker(), last_heard(seconds(1))})), "Healthy");
  EXPECT_EQ(verdict(with({worker(), last_heard(seconds(2))})),
            "Trouble: worker `h:1` not heard of for 2 s");
  EXPECT_EQ(verdict(with({last_heard(seconds(29)), last_heard(seconds(3)), worker()})),
            "Trouble: 2 workers not heard of for 3 s");
  EXPECT_EQ(verdict(with({worker(), gone(worker(), State::kLost, seconds(40))})), "Healthy")
      << "it has gone, and holds nothing";
  Situation now = with({with_provider(last_heard(seconds(4)), "open")});
  now.arrivals_per_second = 2;
  now.ready = {10, true};
  now.oldest_ready = seconds(20);
  EXPECT_EQ(verdict(now),
            "Falling behind: arrivals 2.0/s, completions 0.9/s, worker `h:1` not heard of for 4 s, "
            "provider `primary` open");
}

// --- how many workers

ScaleFigures figures(double arrivals, std::uint64_t backlog, std::optional<double> service) {
  return {.current = 3,
          .backlog = {backlog, true},
          .arrivals_per_second = arrivals,
          .service_seconds_p50 = service,
          .places = 100};
}

TEST(WorkersFor, IsWhatArrivesAndWhatWaits) {
  EXPECT_EQ(workers_for(figures(0, 0, 2.0)), 1U) << "one sees to what is left";
  EXPECT_EQ(workers_for(figures(35, 0, 2.0)), 1U) << "exactly seven tenths of one";
  EXPECT_EQ(workers_for(figures(36, 0, 2.0)), 2U);
  EXPECT_EQ(workers_for(figures(35, 2'100, 2.0)), 2U) << "and 2,100 within a minute: 35 a second";
  EXPECT_EQ(workers_for(figures(1e12, 0, 2.0)), 10'000U);
  auto none = figures(10, 0, 2.0);
  none.places = 0;
  EXPECT_EQ(workers_for(none), 29U) << "never divided by nothing";
  // All that arrives is of users who have their places: what two sums differ by is nothing.
  auto theirs = figures(12.0 / 60, 0, 30.0);
  theirs.arrivals_by_plan = 5.0 / 60 + 5.0 / 60 + 2.0 / 60;
  theirs.places = 10;
  theirs.places_by_plan = 7;
  EXPECT_EQ(workers_for(theirs), 1U);
}

TEST(WorkersFor, StaysAsItIsWhereNobodyKnowsHowLongTasksTake) {
  EXPECT_EQ(workers_for(figures(5, 0, std::nullopt)), 3U);
  EXPECT_EQ(workers_for(figures(0, 9, std::nullopt)), 3U);
  EXPECT_EQ(workers_for(figures(0, 0, std::nullopt)), 1U);
  auto nobody = figures(5, 10, std::nullopt);
  nobody.current = 0;
  EXPECT_EQ(workers_for(nobody), 1U) << "who finds it out";
}

TEST(ScaleFigures, AreOfWhoTakesTasks) {
  auto idle = worker({.succeeded = 120, .each = milliseconds(4'000)}), draining = worker(),
       ended = gone(worker(), State::kEnded, seconds(100));
  idle.in_flight = 0;
  idle.places = 50;
  draining.status.draining = true;
  draining.places = 150;
  Situation now = with({idle, draining, ended});
  now.arrivals_per_second = 7;
  now.ready = {30, true};
  now.parked = {30, false};
  const ScaleFigures out = scale_figures(now, 200);
  EXPECT_EQ(out.current, 1U);
  EXPECT_EQ(out.backlog, (AtLeast{60, false}));
  EXPECT_NEAR(*out.service_seconds_p50, 4, 0.2);
  EXPECT_DOUBLE_EQ(*out.drain_seconds, 30);
  EXPECT_DOUBLE_EQ(out.places, 100);
  EXPECT_EQ(out.limited_by, std::nullopt);
  EXPECT_THAT(out.safe_to_remove, ElementsAre(idle.id));
  now.workers[1].in_flight = 0;
  EXPECT_THAT(scale_figures(now, 200).safe_to_remove, ElementsAre(idle.id)) << "it goes anyway";
  now.workers[0].seen_at = kNow - kWorkerSilent;
  EXPECT_THAT(scale_figures(now, 200).safe_to_remove, IsEmpty()) << "it may have taken one since";
  EXPECT_DOUBLE_EQ(scale_figures(with({}), 200).places, 200) << "nobody tells";
  EXPECT_EQ(scale_figures(with({}), 200).service_seconds_p50, std::nullopt);
}

// 200 of a user run, as many as his plan allows, and 9,800 are parked behind them: more workers
// than those 200 keep busy would get nothing to do.
TEST(ScaleFigures, OfWhatWaitsForAPlanGoByWhatItAllows) {
  auto busy = worker({.succeeded = 100, .each = milliseconds(10'000)});
  busy.in_flight = busy.places = 64;
  Situation now = with({busy, busy, busy, busy});
  now.running = {200, true};
  now.parked = {9'800, true};
  now.by_plan = {{.places = 200, .waiting = 9'800}};
  const auto wanted = [&] { return workers_for(scale_figures(now, 200)); };
  EXPECT_EQ(wanted(), 5U) << "200 places are seven tenths of 4.5 workers'";
  EXPECT_EQ(scale_figures(now, 200).backlog, now.parked) << "all of it waits";
  EXPECT_EQ(scale_figures(now, 200).limited_by, std::nullopt) << "no provider is in the way";
  now.by_plan[0].waiting = 60;
  now.parked = {60, true};
  EXPECT_EQ(wanted(), 1U) << "as little as that takes ten places for a minute";
  now.parked = {60 + 540, true};
  EXPECT_EQ(wanted(), 3U) << "of others, whose share grows with the workers, 540";
  now.by_plan.clear();
  now.parked = {9'800, true};
  EXPECT_GT(wanted(), 30U) << "no plan limits them";
}

// Whoever asks for ten tasks a second, of which his plan lets a few begin, was counted once by what
// he asks for, without a limit, and once more by what waits.
TEST(ScaleFigures, OfWhatArrivesForAPlanGoByWhatItAllows) {
  auto busy = worker({.succeeded = 100, .each = milliseconds(30'000)});
  busy.in_flight = busy.places = 64;
  Situation now = with({busy, busy, busy, busy});
  now.running = {200, true};
  now.parked = {1'000, true};
  now.by_plan = {{.places = 200, .waiting = 1'000, .arrivals_per_second = 10}};
  now.arrivals_per_second = 10;
  const auto wanted = [&] { return workers_for(scale_figures(now, 200)); };
  EXPECT_EQ(wanted(), 5U) << "200 places are seven tenths of 4.5 workers'";
  now.running = {};
  now.ready = {200, true};
  now.by_plan[0].waiting = 1'200;
  EXPECT_EQ(wanted(), 5U) << "the same 200, which nobody has begun yet";
  now.arrivals_per_second = 12;
  EXPECT_EQ(wanted(), 6U) << "and 60 for another one's two a second";
  now.arrivals_per_second = now.by_plan[0].arrivals_per_second = 1;
  now.ready = {};
  now.parked = {10, true};
  now.by_plan[0].waiting = 10;
  EXPECT_EQ(wanted(), 1U) << "he asks for no more than 35";
  EXPECT_EQ(scale_figures(now, 200).arrivals_per_second, 1) << "all of it is told";
}

// Thirty users who leave nearly all of their places made room for what three others have parked.
TEST(ScaleFigures, LendNobodyWhatAnothersPlanAllows) {
  Situation now = with({worker({.succeeded = 100, .each = milliseconds(5'000)})});
  now.workers[0].places = 200;
  constexpr std::uint64_t kGreedy = 3, kModest = 30;
  now.running = {(kGreedy + kModest) * 200, true};
  now.parked = {kGreedy * 9'800 + kModest, true};
  now.by_plan.assign(kGreedy, {.places = 200, .waiting = 9'800});
  now.by_plan.resize(kGreedy + kModest, {.places = 200, .waiting = 1});
  const ScaleFigures out = scale_figures(now, 200);
  EXPECT_EQ(out.by_plan, now.parked.value);
  EXPECT_EQ(workers_for(out), 5U) << "600 places, and hardly any for the thirty";
}

TEST(ScaleFigures, CountOfWhatIsTriedAgainWhatIsDueWithinAMinute) {
  Situation now = with({worker({.succeeded = 100, .each = milliseconds(10'000)})});
  now.waiting_retry = {1'000, true};
  EXPECT_EQ(workers_for(scale_figures(now, 200)), 3U);
  now.retry_later = 940;
  EXPECT_EQ(workers_for(scale_figures(now, 200)), 1U);
  EXPECT_EQ(scale_figures(now, 200).backlog.value, 1'000U);
}

// Each of many has little of an account: by that, ever more were wanted.
TEST(ScaleFigures, OfAnAccountGoByWhatAWorkerCouldHave) {
  constexpr std::uint64_t kLimit = 100;
  std::uint64_t current = 2;
  for (int i = 0; i < 10; ++i) {
    std::vector<Situation::Worker> workers(current, worker());
    for (Situation::Worker& one : workers) {
      one.places = kLimit / current;
      one.status.places_alone = 64;
    }
    ScaleFigures of = figures(80, 0, 1.0);
    of.places = scale_figures(with(workers), 1).places;
    current = workers_for(of);
  }
  EXPECT_EQ(current, 2U) << "80 calls under way, where one may have 64";
}

TEST(ScaleFigures, AreLimitedByAProviderThatNobodyCalls) {
  const auto limited_by = [](std::vector<Situation::Worker> workers) {
    return scale_figures(with(std::move(workers)), 200).limited_by;
  };
  EXPECT_EQ(limited_by({with_provider(worker(), "open")}), "provider:primary");
  EXPECT_EQ(limited_by({with_provider(worker(), "open"), worker()}), std::nullopt);
  auto fallback = with_provider(worker(), "open");
  fallback.status.providers->push_back({.name = "fallback", .state = "ready"});
  EXPECT_EQ(limited_by({fallback}), std::nullopt) << "whoever comes would call the other";
  auto silent = worker();
  silent.status.providers.reset();
  EXPECT_EQ(limited_by({silent}), std::nullopt);
}

class ScaleWatchTest : public testing::Test {
 protected:
  std::uint64_t look(seconds after, const ScaleFigures& now) {
    return watch_.look(now, ScaleWatch::Time(std::chrono::hours(1)) + after);
  }
  static ScaleFigures wanting(std::uint64_t workers, std::uint64_t current) {
    ScaleFigures out = figures(static_cast<double>(workers) * 70 - 1, 0, 1.0);
    out.current = current;
    EXPECT_EQ(workers_for(out), workers);
    return out;
  }
  ScaleWatch watch_;
};

TEST_F(ScaleWatchTest, GoesUpAtOnceAndDownAfterFiveMinutes) {
  EXPECT_EQ(look(seconds(0), wanting(2, 1)), 2U);
  EXPECT_EQ(look(seconds(30), wanting(9, 2)), 9U);
  EXPECT_EQ(look(seconds(60), wanting(4, 9)), 9U);
  EXPECT_EQ(look(seconds(200), wanting(5, 9)), 9U);
  EXPECT_EQ(look(seconds(330), wanting(1, 9)), 9U) << "five minutes after";
  EXPECT_EQ(look(seconds(331), wanting(1, 9)), 5U) << "what was wanted most since";
  EXPECT_EQ(look(seconds(501), wanting(1, 5)), 1U);
  EXPECT_EQ(look(seconds(502), wanting(6, 1)), 6U);
}

TEST(ScaleFigures, AreLimitedByAnAccountOfAllWorkers) {
  const auto limited_by = [](bool first_for_account, std::uint64_t second_waiting) {
    auto told = worker();
    told.status.providers = {{{.name = "primary",
                               .state = "ready",
                               .waiting = 3,
                               .waits_for_account = first_for_account},
                              {.name = "other", .state = "ready", .waiting = second_waiting}}};
    return scale_figures(with({told, told}), 200).limited_by;
  };
  EXPECT_EQ(limited_by(true, 0), "provider:primary");
  EXPECT_EQ(limited_by(true, 1), std::nullopt) << "whoever comes would call the other";
  EXPECT_EQ(limited_by(false, 0), std::nullopt);
}

// It was started just now, and does not know what was wanted before.
TEST_F(ScaleWatchTest, TakesNobodyAwayBeforeItHasLookedForFiveMinutes) {
  EXPECT_EQ(look(seconds(0), wanting(1, 8)), 8U);
  EXPECT_EQ(look(seconds(299), wanting(1, 8)), 8U);
  EXPECT_EQ(look(seconds(300), wanting(1, 8)), 1U);
  EXPECT_EQ(look(seconds(700), wanting(1, 8)), 8U) << "nobody asked for more than five minutes";
}

TEST_F(ScaleWatchTest, AddsNobodyWhereThatDoesNotHelp) {
  auto limited = wanting(9, 4);
  limited.limited_by = "provider:primary";
  EXPECT_EQ(look(seconds(0), limited), 4U);
  limited.current = 0;
  EXPECT_EQ(look(seconds(1), limited), 1U) << "somebody has to find out that it works again";
  EXPECT_EQ(look(seconds(2), wanting(9, 4)), 9U);
}

}  // namespace
}  // namespace audiogen
