// Runs many seeds, or one with its log: `./dev simulate`.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/simulation/simulation.h"

namespace audiogen::simulation {
namespace {

constexpr std::size_t kShown = 20;

struct Failed {
  std::uint64_t seed = 0;
  Report report;
};

struct Totals {
  std::uint64_t seeds = 0, events = 0, tasks = 0, succeeded = 0, parked = 0, suspects = 0,
                refused_as_late = 0, failed = 0;
  std::chrono::duration<double> simulated{0};
  // The longest of a time, and its seed.
  struct Longest {
    Duration time{0};
    std::uint64_t seed = 0;
    void add(Duration of, std::uint64_t from) {
      if (of > time) {
        time = of;
        seed = from;
      }
    }
  };
  Longest after_deadline, after_healing, stuck, single;
  std::vector<Failed> shown;

  void add(std::uint64_t seed, Report report) {
    ++seeds;
    events += report.events;
    tasks += report.tasks;
    succeeded += report.succeeded;
    simulated += report.lasted;
    parked += report.parked;
    suspects += report.suspects;
    refused_as_late += report.refused_as_late;
    after_deadline.add(report.latest_after_deadline, seed);
    after_healing.add(report.latest_after_healing, seed);
    stuck.add(report.longest_stuck, seed);
    single.add(report.longest_single, seed);
    if (report.verdict) {
      ++failed;
      if (shown.size() < kShown) {
        std::printf("seed %" PRIu64 " (%" PRIu64 " events): %s\n",
                    seed,
                    report.events,
                    report.verdict->c_str());
        std::fflush(stdout);
      }
      shown.push_back({seed, std::move(report)});
    }
  }
};

void print(std::uint64_t seed, const Report& report) {
  std::printf("seed %" PRIu64 ": %s\n\n%s\n%s\n",
              seed,
              report.plan.c_str(),
              report.log.c_str(),
              report.verdict ? report.verdict->c_str() : "all is as promised");
}

double seconds_of(Duration time) {
  return std::chrono::duration<double>(time).count();
}

int run_many(std::uint64_t from, std::uint64_t count, unsigned threads, Mutant mutant) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  Totals totals;  // Guarded by mutex.
  std::vector<std::thread> runners;
  for (unsigned i = 0; i < threads; ++i) {
    runners.emplace_back([&] {
      for (std::uint64_t n = next.fetch_add(1); n < count; n = next.fetch_add(1)) {
        Report report = simulate(from + n, mutant);
        const std::scoped_lock lock(mutex);
        totals.add(from + n, std::move(report));
      }
    });
  }
  for (std::thread& runner : runners) {
    runner.join();
  }
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  std::printf("%" PRIu64 " seeds from %" PRIu64 " in %.1f s, %.0f a minute: %" PRIu64
              " events, %.0f days, %" PRIu64 " tasks, of which %" PRIu64 " succeeded, %" PRIu64
              " were parked, %" PRIu64 " were suspects; %" PRIu64
              " were refused for want of time\n",
              totals.seeds,
              from,
              took,
              static_cast<double>(totals.seeds) / took * 60,
              totals.events,
              totals.simulated.count() / 86'400,
              totals.tasks,
              totals.succeeded,
              totals.parked,
              totals.suspects,
              totals.refused_as_late);
  std::printf("latest end after a deadline or the trouble that kept it: %.1f s (seed %" PRIu64
              "); after healing: %.1f s (seed %" PRIu64 ")\n",
              seconds_of(totals.after_deadline.time),
              totals.after_deadline.seed,
              seconds_of(totals.after_healing.time),
              totals.after_healing.seed);
  std::printf("longest without trouble: a crowd with nothing released %.1f s (seed %" PRIu64
              "), a user's only task not claimed %.1f s (seed %" PRIu64 ")\n",
              seconds_of(totals.stuck.time),
              totals.stuck.seed,
              seconds_of(totals.single.time),
              totals.single.seed);
  if (totals.shown.empty()) {
    std::printf("all of it as promised\n");
    return 0;
  }
  const Failed* least = &totals.shown.front();
  for (const Failed& failed : totals.shown) {
    least = failed.report.events < least->report.events ? &failed : least;
  }
  std::printf("%" PRIu64 " seeds are not as promised; the shortest of them:\n\n", totals.failed);
  print(least->seed, simulate(least->seed, mutant, true));
  return 1;
}

Mutant mutant_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Mutant::kLastMutant); ++i) {
    if (mutant_name(static_cast<Mutant>(i)) == name) {
      return static_cast<Mutant>(i);
    }
  }
  throw CLI::ValidationError("--mutant", "there is no " + name);
}

int main_with(int argc, char** argv) {
  CLI::App app("Simulates the queue's protocol, seed by seed, and judges what comes of it.");
  std::uint64_t count = 10'000, from = 0, seed = 0;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool log = false;
  std::string mutant = "none";
  app.add_option("--seeds", count, "how many seeds")->capture_default_str();
  app.add_option("--from", from, "the first of them")->capture_default_str();
  const auto* one = app.add_option("--seed", seed, "this one alone");
  app.add_flag("--log", log, "with --seed: all that happens");
  app.add_option("--threads", threads, "how many at once")->capture_default_str();
  app.add_option("--mutant", mutant, "with this deliberate break")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Mutant broken = mutant_named(mutant);
  if (one->count() == 0) {
    return run_many(from, count, threads, broken);
  }
  const Report report = simulate(seed, broken, log);
  print(seed, report);
  return report.verdict ? 1 : 0;
}

}  // namespace
}  // namespace audiogen::simulation

int main(int argc, char** argv) {
  try {
    return audiogen::simulation::main_with(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "simulate: %s\n", e.what());
    return 2;
  }
}
