// What workers do.
#include <algorithm>
#include <cmath>

#include "tests/bench/ceilings.h"
#include "tests/bench/drivers.h"

namespace audiogen::bench {
namespace {

// Waits until `count` tasks have succeeded and reports the rate from about a tenth to about nine
// tenths of them: after four times as many as are held at once, for a worker begins with all of
// these at the same moment, and over whole turns of them.
double measure_jobs(Context& context,
                    Stand& stand,
                    const std::string& name,
                    std::size_t count,
                    int in_flight_max,
                    double ceiling) {
  struct Mark {
    double done = 0;
    Clock::time_point at;
    Usage usage;
  };
  const auto all_tasks = static_cast<double>(count);
  const auto held = static_cast<double>(in_flight_max);
  const double first = std::min(std::max(0.1 * all_tasks, 4 * held), 0.5 * all_tasks);
  const double last = first + std::floor((0.9 * all_tasks - first) / held) * held;
  const auto mark = [&](double done) { return Mark{done, Clock::now(), stand.usage()}; };
  Mark from = mark(stand.succeeded()), to = from;
  const bool all = test::eventually(std::chrono::minutes(3), [&] {
    test::pace(std::chrono::milliseconds(100));  // Every look costs the worker something.
    const double done = stand.succeeded();
    // Messages of many hints must not lead a worker past its limit. Looking costs a scan, so only
    // the smoke run does.
    if (context.smoke && stand.running() > in_flight_max) {
      fail("more tasks are running than the workers may hold");
    }
    if (done < first) {
      from = mark(done);
    }
    if (done < last) {
      to = mark(done);
    }
    return done >= all_tasks;
  });
  if (!all) {
    fail("the workers do not finish their tasks: " + fixed(stand.succeeded(), 0) + " of " +
         std::to_string(count));
  }
  if (to.done <= from.done) {
    to = mark(all_tasks);
  }
  const double done = to.done - from.done;
  const double rate = done / std::chrono::duration<double>(to.at - from.at).count();
  context.report.row({.name = name,
                      .per_second = rate,
                      .ceiling = ceiling,
                      .note = "worker RSS at most " + fixed(stand.worker_rss_max(), 0) + " MB"},
                     done,
                     from.usage,
                     to.usage);
  return rate;
}

}  // namespace

double run_jobs(Context& context,
                int workers,
                int provider_delay_ms,
                int in_flight,
                double ceiling,
                double* rss) {
  Stand stand(context.stand(false));
  const Provider provider(stand.stack().log_folder(), provider_delay_ms);
  stand.watch("provider", {provider.pid()});
  const std::size_t count = context.scaled(
      provider_delay_ms > 0 ? static_cast<std::size_t>(context.seconds * 2500) + 25'000
                            : static_cast<std::size_t>(context.seconds * 2000) + 2000,
      100);
  stand.publish(stand.fill(count));
  for (int i = 0; i < workers; ++i) {
    stand.add_worker(
        {{"PROVIDERS_FILE", provider.file()}, {"WORKER_IN_FLIGHT", std::to_string(in_flight)}});
  }
  const double rate =
      measure_jobs(context,
                   stand,
                   std::to_string(workers) + (workers == 1 ? " worker" : " workers"),
                   count,
                   workers * in_flight,
                   ceiling);
  if (rss != nullptr) {
    *rss = stand.worker_rss_max();
  }
  stand.audit();
  return rate;
}

void bench_jobs(Context& context) {
  double ceiling = 0;
  {
    Stand stand(context.stand(false));
    ceiling = work_ceiling(stand, context.seconds / 2);
  }
  context.report.table(
      "The provider answers at once with 20 KB of WAV, which is what was asked "
      "for: decoded, measured, passed through and fsynced. Ceiling: claims and settlements "
      "from a bare loop, batches of 32 on two connections: a worker has as many for that. "
      "WORKER_IN_FLIGHT=800: an instant provider leaves most of them to the database.");
  const double rate = run_jobs(context, 1, 0, context.smoke ? 4 : 800, ceiling);
  context.report.goal({.what = "jobs, provider answers at once",
                       .figure = rate,
                       .target = 8'000,
                       .unit = "/s",
                       .ceiling = ceiling});
}

void bench_in_flight(Context& context) {
  context.report.table(
      "The provider takes 2 s and one worker holds 5,000 tasks. Ceiling: 5,000 / 2 s.");
  constexpr int kHeld = 5000;
  constexpr double kCeiling = kHeld / 2.0;
  double rss = 0;
  const double rate = run_jobs(context, 1, context.smoke ? 200 : 2000, kHeld, kCeiling, &rss);
  context.report.goal({.what = "jobs, provider takes 2 s, one worker",
                       .figure = rate,
                       .target = 2'400,
                       .unit = "/s",
                       .ceiling = kCeiling});
  context.report.goal(
      {.what = "… its RSS", .figure = rss, .target = 120, .unit = "MB", .at_most = true});
}

}  // namespace audiogen::bench
