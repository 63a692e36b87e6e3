// Promises of time when a part is missing: without the broker, and with more work than the
// providers can do.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"
#include "tests/support/test_broker.h"

namespace audiogen::bench {
namespace {

using store::Sql;

std::int64_t number(Stand& stand, const std::string& sql) {
  return stand.stack().database().number(Sql::trusted(sql));
}

void wait_for_none_open(Stand& stand) {
  const bool none = test::eventually(std::chrono::minutes(10), [&] {
    test::pace(std::chrono::milliseconds(20));
    return number(stand, "SELECT COUNT(*) FROM tasks WHERE wake_at IS NOT NULL") == 0;
  });
  if (!none) {
    fail("the workers do not finish their tasks");
  }
}

// Creates `count` tasks at once and waits for all of them: how many a second.
double finish(Context& context,
              Stand& stand,
              const std::string& name,
              std::size_t count,
              double ceiling,
              double normal = 0) {
  const Usage before = stand.usage();
  const auto began = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    if (const int status = stand.create(i % stand.users().size()); status != 202) {
      fail("a creation was answered " + std::to_string(status));
    }
  }
  wait_for_none_open(stand);
  const double rate = static_cast<double>(count) / since(began);
  context.report.row({.name = name,
                      .per_second = rate,
                      .ceiling = ceiling,
                      .note = normal > 0 ? fixed(rate / normal, 2) + " of normal" : std::string()},
                     static_cast<double>(count),
                     before,
                     stand.usage());
  return rate;
}

// One at a time: from creation to claim.
double single(Context& context, Stand& stand, const std::string& name, std::size_t count) {
  const Usage before = stand.usage();
  const auto began = Clock::now();
  const Histogram waits = stand.claim_waits(0, count);
  context.report.row({.name = name,
                      .per_second = static_cast<double>(count) / since(began),
                      .latency = &waits,
                      .note = "from creation to claim"},
                     static_cast<double>(count),
                     before,
                     stand.usage());
  wait_for_none_open(stand);
  return waits.quantile(0.99);
}

// Who asks for more than the providers can do.
struct Askers {
  const char* name;
  std::size_t crowds, small;  // Users who share one half of the load each, if there are both.
};
constexpr Askers kFew{.name = "16 users", .crowds = 16, .small = 0};
// So many that none of them has more than two or three tasks under way.
constexpr Askers kSmall{.name = "400 small users", .crowds = 0, .small = 400};
constexpr Askers kBoth{.name = "4 crowds and 400 small users", .crowds = 4, .small = 400};

// Whose calls take 5 s on the average.
struct Calls {
  const char* name;  // Empty: all of them do.
  Provider::Delays delays;
};
constexpr Calls kEqual{.name = "", .delays = {.ms = 5000}};
// What a task must have left for such a provider is five times what the mean call takes.
constexpr Calls kUnequal{.name = ", one call of ten 20 s",
                         .delays = {.ms = 3333, .long_every = 10, .long_ms = 20'000}};

// Creations by these users: of both kinds in turn.
Rounds creates_by(const Askers& askers, std::span<const std::string> keys) {
  std::vector<std::string> out;
  const auto crowds = keys.first(askers.crowds), small = keys.subspan(askers.crowds);
  for (std::size_t i = 0; i < std::max(askers.crowds, askers.small); ++i) {
    for (const auto& some : {crowds, small}) {
      if (!some.empty()) {
        out.push_back(create_request(some[i % some.size()]));
      }
    }
  }
  return Rounds(std::move(out));
}

// How long each load of over_capacity() lasts, without its beginning.
double over_capacity_seconds(const Context& context) {
  const char* const asked = std::getenv("BENCH_OVER_CAPACITY_SECONDS");
  const double seconds = asked == nullptr ? 0 : std::atof(asked);
  if (context.smoke) {
    return context.seconds * 4;
  }
  return seconds > 0 ? seconds : context.seconds * 24;
}

// So many times what the provider can do: its calls take `call`, `slots` at once, and a task is
// worth nothing after `deadline`.
void over_capacity(Context& context, double times, const Askers& askers, const Calls& calls) {
  const int slots = 20, parts = context.smoke ? 10 : 1;
  const auto call = std::chrono::milliseconds(5000 / parts);
  const auto deadline = std::chrono::seconds(context.smoke ? 5 : 60);
  constexpr int kQuarters = 4;
  Stand stand({.api = true,
               .users = askers.crowds + askers.small,
               .environment = {{"TASK_DEADLINE_SECONDS", std::to_string(deadline.count())}}});
  const Provider provider(stand.stack().log_folder(),
                          Provider::Delays{.ms = calls.delays.ms / parts,
                                           .long_every = calls.delays.long_every,
                                           .long_ms = calls.delays.long_ms / parts},
                          slots);
  stand.watch("provider", {provider.pid()});
  stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
  const double capacity = slots / std::chrono::duration<double>(call).count();
  // The first calls teach how long one takes, and fill the places; what was accepted until then is
  // over a deadline later.
  const double warm_up = std::chrono::duration<double>(2 * call + deadline).count();
  const double lasts = over_capacity_seconds(context);
  const std::string from = stand.stack().database().text(Sql("SELECT UTC_TIMESTAMP(6)"));
  Rounds offer = creates_by(askers, stand.keys());
  const Usage before = stand.usage();
  const LoadResult result = run_load({.port = stand.api_port(),
                                      .connections = 16,
                                      .rate = times * capacity,
                                      .seconds = warm_up + lasts},
                                     offer);
  const Usage after = stand.usage();
  wait_for_none_open(stand);
  const auto count = [&](int quarter, const std::string& which, const std::string& when) {
    const auto at = [&](int n) {
      return "'" + from + "' + INTERVAL " +
             std::to_string(std::llround((warm_up + lasts * n / kQuarters) * 1e6)) + " MICROSECOND";
    };
    return number(stand,
                  "SELECT COUNT(*) FROM tasks WHERE " + which + when + ">=" + at(quarter) +
                      " AND " + when + "<" + at(quarter + 1));
  };
  double made = 0, least = 1e9;
  std::int64_t taken = 0, in_vain = 0;
  std::string quarters, accepted, refunded;
  for (int i = 0; i < kQuarters; ++i) {
    const auto some = static_cast<double>(count(i, "state=3 AND ", "updated_at"));
    made += some;
    const double part = some / (capacity * lasts / kQuarters);
    least = std::min(least, part);
    const std::string comma = i == 0 ? "" : ", ";
    quarters += comma + fixed(part, 2);
    const std::int64_t all = count(i, "", "created_at");
    const std::int64_t late = count(i, "state=4 AND ", "created_at");
    taken += all;
    in_vain += late;
    accepted += comma + std::to_string(all);
    refunded += comma + std::to_string(late);
  }
  const std::string who = std::string(askers.name) + calls.name;
  const std::string name = fixed(times, 1) + " times the capacity, " + who;
  const auto total = [&](const std::string& sql) { return std::to_string(number(stand, sql)); };
  context.report.row(
      {.name = name,
       .per_second = made / lasts,
       .ceiling = capacity,
       .note = "quarters " + quarters + " of capacity; accepted " + accepted +
               ", of which refunded after their deadline " + refunded + "; with the beginning " +
               total("SELECT COUNT(*) FROM tasks") + " accepted, " +
               std::to_string(result.kinds.at(0).refused()) + " refused with 503, " +
               total("SELECT COUNT(*) FROM tasks WHERE state=4") + " refunded, " +
               total("SELECT COUNT(*) FROM attempts WHERE state NOT IN (2)") +
               " calls without a result"},
      made,
      before,
      after);
  context.report.goal({.what = "goodput at " + fixed(times, 1) + " times what providers take, " +
                               who + ", of their capacity, worst quarter",
                       .figure = least,
                       .target = 0.95,
                       .unit = "",
                       .digits = 2});
  // As many are taken as can be done, or nearly.
  context.report.goal({.what = "accepted at " + fixed(times, 1) + " times what providers take, " +
                               who + ", and refunded after the deadline, of all accepted",
                       .figure = static_cast<double>(in_vain) /
                                 static_cast<double>(std::max<std::int64_t>(taken, 1)),
                       .target = 0.05,
                       .unit = "",
                       .at_most = true,
                       .digits = 2});
  stand.audit();
}

}  // namespace

void bench_broker_away(Context& context) {
  constexpr int kPlaces = 20;
  const int call_ms = context.smoke ? 100 : 1000;
  const double ceiling = kPlaces * 1000.0 / call_ms;
  const std::size_t many = context.scaled(400, 40), few = context.scaled(20, 3);
  context.report.table(
      "One worker of 20 places, a provider that takes 1 s. 400 tasks at once, and single "
      "ones, with the broker and after kill -9 of it; then tasks whose hints the broker "
      "took and lost. Ceiling: places / 1 s.");
  auto broker = std::make_unique<test::PrivateBroker>();
  const auto url = [&] { return test::text_of(broker->url()); };
  Stand stand({.api = true, .users = 1, .environment = {}, .amqp_url = url()});
  const Provider provider(stand.stack().log_folder(), call_ms, kPlaces);
  stand.watch("provider", {provider.pid()});
  const std::map<std::string, std::string> worker = {{"PROVIDERS_FILE", provider.file()},
                                                     {"WORKER_IN_FLIGHT", std::to_string(kPlaces)}};
  stand.add_worker(worker);
  const double normal = finish(context, stand, "with the broker", many, ceiling);
  const double wait = single(context, stand, "… single tasks", few);
  broker->kill();
  const double away = finish(context, stand, "broker killed", many, ceiling, normal);
  const double wait_away = single(context, stand, "… single tasks", few);
  broker->start();
  // What the broker took, and no worker ever saw.
  stand.stack().worker(0).kill();
  const auto confirmed = [&] {
    constexpr std::string_view kLine = "\naudiogen_hints_confirmed_total ";
    const std::string text = test::http("GET", stand.stack().ops_url() + "/metrics").body;
    const auto found = text.find(kLine);
    return found == std::string::npos ? 0.0 : std::atof(text.c_str() + found + kLine.size());
  };
  static_cast<void>(test::eventually(std::chrono::seconds(30), [&] {
    return test::http("GET", stand.stack().ops_url() + "/readyz").status == 200;
  }));
  const double had = confirmed();
  for (std::size_t i = 0; i < few; ++i) {
    if (const int status = stand.create(0); status != 202) {
      fail("a creation was answered " + std::to_string(status));
    }
  }
  if (!test::eventually(std::chrono::seconds(60),
                        [&] { return confirmed() >= had + static_cast<double>(few); })) {
    fail("the broker does not take the hints");
  }
  test::purge_jobs(broker->url());
  stand.add_worker(worker);
  const auto began = Clock::now();
  if (!test::eventually(std::chrono::minutes(5), [&] {
        return number(stand,
                      "SELECT COUNT(*) FROM tasks WHERE wake_at IS NOT NULL AND attempts=0") == 0;
      })) {
    fail("tasks whose hints were lost are not claimed");
  }
  const double found = since(began);
  context.report.line({.name = "queue purged",
                       .note = "all of " + std::to_string(few) + " claimed " + fixed(found, 2) +
                               " s after a worker listened"});
  wait_for_none_open(stand);
  context.report.goal({.what = "jobs without the broker, of normal",
                       .figure = away / normal,
                       .target = 0.8,
                       .unit = "",
                       .digits = 2});
  context.report.goal({.what = "wait of a new task without the broker, p99, more than normal",
                       .figure = wait_away - wait,
                       .target = 1000,
                       .unit = "ms",
                       .at_most = true});
  context.report.goal({.what = "a purged queue costs",
                       .figure = found,
                       .target = 5,
                       .unit = "s",
                       .at_most = true,
                       .digits = 2});
  stand.audit();
}

// Workers come and go while calls take a minute: when what they hold, or could have, is worked on.
void bench_rebalance(Context& context) {
  constexpr std::size_t kPlaces = 20;
  constexpr std::size_t kTasks = 3 * kPlaces;
  context.report.table(
      "Calls take a minute, a worker has 20 places, 60 users have a task each. How "
      "long until a worker that is added has its first task and until it has 20, "
      "and until one with room works on all of another that is told to end, after "
      "the second that it has for it, or killed.");
  Stand stand({.api = true, .users = kTasks, .environment = {{"DRAIN_SECONDS", "1"}}});
  const Provider provider(stand.stack().log_folder(), 60'000);
  stand.watch("provider", {provider.pid()});
  const auto add_worker = [&](std::size_t places) {
    stand.add_worker(
        {{"PROVIDERS_FILE", provider.file()}, {"WORKER_IN_FLIGHT", std::to_string(places)}});
  };
  const auto held_by = [&](int worker) {
    return number(stand,
                  "SELECT COUNT(*) FROM tasks WHERE state=2 AND attempt_state=1 AND worker=(SELECT "
                  "id FROM workers ORDER BY started_at LIMIT 1 OFFSET " +
                      std::to_string(worker) + ")");
  };
  const auto wait_until_held = [&](int worker, std::int64_t tasks) {
    const auto began = Clock::now();
    if (!test::eventually(std::chrono::minutes(3), [&] { return held_by(worker) >= tasks; })) {
      fail("worker " + std::to_string(worker) + " does not get its tasks");
    }
    return since(began);
  };
  const auto tell = [&](const std::string& what, double seconds, double most) {
    context.report.line({.name = what, .note = "after " + fixed(seconds, 2) + " s"});
    context.report.goal({.what = "rebalance: " + what,
                         .figure = seconds,
                         .target = most,
                         .unit = "s",
                         .at_most = true,
                         .digits = 2});
  };
  add_worker(kPlaces);
  for (std::size_t i = 0; i < kTasks; ++i) {
    if (const int status = stand.create(i); status != 202) {
      fail("a creation was answered " + std::to_string(status));
    }
  }
  wait_until_held(0, kPlaces);
  add_worker(kPlaces);
  const double first = wait_until_held(1, 1);
  tell("an added worker has its first task", first, 2);
  tell("an added worker has 20", first + wait_until_held(1, kPlaces), 2);
  add_worker(2 * kTasks);
  // The express lane may take an eighth more places, so how many wait is not the same each time.
  const auto all_held = [&] { return held_by(0) + held_by(1) + held_by(2); };
  if (!test::eventually(std::chrono::minutes(1), [&] { return all_held() == kTasks; })) {
    fail("the third worker does not take what waits");
  }
  const std::int64_t after_one = held_by(2) + held_by(1);
  stand.stack().worker(1).signal(SIGTERM);
  tell("all tasks of a worker that has left are worked on", wait_until_held(2, after_one) - 1, 1);
  if (!context.smoke) {  // A lease is 30 s.
    stand.stack().worker(0).kill();
    tell("all tasks of a killed worker are worked on", wait_until_held(2, kTasks), 31);
  }
  stand.audit();
}

void bench_over_capacity(Context& context) {
  context.report.table(
      "A provider whose calls take 5 s, 20 at once; a task is worth nothing after "
      "60 s. Creations at "
      "a rate, successes in each quarter of the time. Ceiling: 20 / 5 s.");
  over_capacity(context, 1.5, kBoth, kEqual);
  over_capacity(context, 3, kFew, kEqual);
  over_capacity(context, 3, kSmall, kEqual);
  over_capacity(context, 3, kBoth, kEqual);
}

void bench_uneven_calls(Context& context) {
  context.report.table(
      "As over-capacity, but one call of ten takes 20 s, and the others 3.3 s. "
      "Ceiling: 20 / 5 s.");
  over_capacity(context, 1.5, kSmall, kUnequal);
  over_capacity(context, 3, kBoth, kUnequal);
}

}  // namespace audiogen::bench
