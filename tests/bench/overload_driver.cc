// More than the service can bear.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"

namespace audiogen::bench {
namespace {

// As if the load came from another machine: one core for the service and everything it stands on,
// another one for this process. Everything is as it was when this ends. Does nothing on a
// machine with one core.
class OwnCores {
 public:
  explicit OwnCores(const Parts& service) {
    cpu_set_t allowed;
    ::sched_getaffinity(0, sizeof allowed, &allowed);
    std::vector<std::size_t> cores;
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) {
        cores.push_back(core);
      }
    }
    if (cores.size() < 2) {
      return;
    }
    for (const auto& [part, pids] : service) {
      for (const pid_t pid : pids) {
        pin(pid, cores[0]);
      }
    }
    pin(::getpid(), cores[1]);
  }
  ~OwnCores() {
    for (const pid_t pid : pinned_) {
      for (const pid_t thread : threads_of(pid)) {
        const auto known = before_.find(thread);
        // Made meanwhile: as the first one.
        set(thread, known != before_.end() ? known->second : before_.at(pid));
      }
    }
  }
  OwnCores(const OwnCores&) = delete;
  OwnCores& operator=(const OwnCores&) = delete;

  bool pinned() const { return !pinned_.empty(); }

 private:
  void pin(pid_t pid, std::size_t core) {
    pinned_.push_back(pid);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    // A thread made meanwhile may still be anywhere: the second round finds it.
    for (int round = 0; round < 2; ++round) {
      for (const pid_t thread : threads_of(pid)) {
        cpu_set_t cores;
        if (::sched_getaffinity(thread, sizeof cores, &cores) == 0) {
          before_.try_emplace(thread, cores);
        }
        set(thread, one);
      }
    }
  }

  static std::vector<pid_t> threads_of(pid_t pid) {
    std::vector<pid_t> out;
    std::error_code gone;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
      out.push_back(std::stoi(thread.path().filename()));
    }
    return out;
  }
  static void set(pid_t thread, const cpu_set_t& cores) {
    ::sched_setaffinity(thread, sizeof cores, &cores);
  }

  std::vector<pid_t> pinned_;
  std::map<pid_t, cpu_set_t> before_;  // By thread: the broker binds each of its own to a core.
};

constexpr double kPolls = 500;  // A second.

// Creations, and every so many of them a poll.
class Both : public Aim {
 public:
  static constexpr std::size_t kCreate = 0, kPoll = 1;
  Both(Aim& creates, Aim& polls, double creations)
      : creates_(creates), polls_(polls), share_(kPolls / (kPolls + creations)) {}
  Shot next(std::size_t connection) override {
    due_ += share_;
    if (due_ < 1) {
      return creates_.next(connection);
    }
    due_ -= 1;
    return {polls_.next(connection).bytes, kPoll};
  }
  void answered(std::size_t, int, std::string_view) override {}

 private:
  Aim &creates_, &polls_;
  const double share_;
  double due_ = 0;
};

// What the service is to keep up under any load: latency of what it accepts, and of polls.
constexpr double kAcceptedP99 = 250, kPollsP99 = 50;  // Milliseconds.

struct Offered {
  double good_per_second = 0, p99_ms = 0, polls_p99_ms = 0;
  bool sustained = false;  // Hardly a refusal, and in time.
};

// Two rows: `rate` creations a second, called `name`, and polls beside them. Every creation that
// was accepted must be in the database, and nothing else.
Offered offer(Context& context,
              Stand& stand,
              const std::string& name,
              double rate,
              double peak,
              Aim& creates,
              Aim& polls) {
  auto& database = stand.stack().database();
  const auto rows = [&] { return database.number(store::Sql("SELECT COUNT(*) FROM tasks")); };
  const std::int64_t rows_before = rows();
  Usage before;
  Both aim(creates, polls, rate);
  LoadResult result = run_load({.port = stand.api_port(),
                                .connections = context.scaled(2000, 500),
                                .rate = rate + kPolls,
                                .seconds = context.seconds,
                                .warm_up = context.seconds / 5,
                                .warm = [&] { before = stand.usage(); },
                                .spin = true},
                               aim);
  const Usage after = stand.usage();
  expect_borne("overload", result);
  result.kinds.resize(2);
  const Tally& made = result.kinds[Both::kCreate];
  const Tally& read = result.kinds[Both::kPoll];
  const auto a_second = [&](std::uint64_t count) {
    return static_cast<double>(count) / result.seconds;
  };
  context.report.row(
      {.name = name,
       .per_second = a_second(made.good),
       .latency = &made.latency,
       .ceiling = peak,
       .note = "offered " + fixed(rate, 0) + "/s: " + fixed(a_second(made.refused()), 0) +
               "/s refused, " + fixed(a_second(result.not_sent), 0) + "/s not sent, " +
               fixed(a_second(result.late), 0) + "/s sent late"},
      static_cast<double>(made.good),
      before,
      after);
  context.report.line({.name = "… polls beside them",
                       .per_second = a_second(read.good),
                       .latency = &read.latency,
                       .ceiling = kPolls});
  const auto accepted = static_cast<std::int64_t>(made.good + made.good_before);
  if (const std::int64_t found = rows() - rows_before; found != accepted) {
    fail("overload: " + std::to_string(accepted) + " accepted, " + std::to_string(found) +
         " in the database");
  }
  const double p99 = made.latency.quantile(0.99);
  return {.good_per_second = a_second(made.good),
          .p99_ms = p99,
          .polls_p99_ms = read.latency.quantile(0.99),
          .sustained = a_second(made.good) >= 0.98 * rate && p99 <= kAcceptedP99};
}

// A service on its own core, its users and what is asked of it. Not for longer than a minute:
// without workers nobody sweeps, and after that the audit says so.
struct Bed {
  explicit Bed(Context& context)
      : stand(context.stand(true)),
        cores(stand.processes()),
        creates(creates_of(stand.keys())),
        polls(polls_of(stand.keys(), stand.fill(context.scaled(20'000, 500)))) {}

  Stand stand;
  OwnCores cores;
  Rounds creates, polls;
};

// Creations a second of the closed loop.
double closed_loop(Context& context, Bed& bed) {
  // Enough connections to fill the service's batches: with fewer it waits for the load, and more
  // than this "peak" would be borne.
  constexpr std::size_t kPeakConnections = 256;
  const std::uint16_t port = bed.stand.api_port();
  run_load({.port = port, .connections = kPeakConnections, .seconds = context.seconds / 5},
           bed.creates);
  return measured(context,
                  bed.stand,
                  "peak, closed loop, 256 connections",
                  {.port = port,
                   .connections = kPeakConnections,
                   .rate = 0,
                   .seconds = context.seconds,
                   .spin = true},
                  bed.creates,
                  0)
      .good_per_second();
}

}  // namespace

void bench_overload(Context& context) {
  auto bed = std::make_unique<Bed>(context);
  context.report.table(
      "POST over 2,000 connections, 500 polls/s beside it, after a second of the same. First more "
      "and more of what the closed loop reaches (the ceiling): the sustainable rate is the highest "
      "of which 98 % are accepted with p99 within 250 ms. Then, from an empty database, so many "
      "times that rate. Creations per second are the accepted ones, latency is theirs, from when "
      "they were due. Not sent: no connection was free for a second. Late: sent when one was free "
      "again. " +
      std::string(bed->cores.pinned() ? "One core for API, database and broker together, one "
                                        "for the load, which never sleeps."
                                      : "Service and load share the only core."));
  const double peak = closed_loop(context, *bed);
  double best = 0;  // Goodput of all loads.
  const auto offered = [&](const std::string& name, double rate) {
    const Offered result = offer(context, bed->stand, name, rate, peak, bed->creates, bed->polls);
    best = std::max(best, result.good_per_second);
    return result;
  };
  double sustainable = 0.5 * peak;  // Of the first nothing is asked.
  for (const double share : {0.5, 0.6, 0.7, 0.8, 0.9}) {
    const std::string name = "creations at " + fixed(share, 1) + " of the closed loop";
    // Once more if not: a checkpoint of the database is no limit.
    if (!offered(name, share * peak).sustained && !offered(name, share * peak).sustained) {
      break;
    }
    sustainable = share * peak;
  }
  bed->stand.audit();
  bed.reset();
  bed = std::make_unique<Bed>(context);
  Offered last;
  for (const double times : {1.5, 2.0, 3.0}) {
    last =
        offered("creations at " + fixed(times, 1) + "x the sustainable rate", times * sustainable);
  }
  context.report.goal({.what = "overload, 3x the sustainable rate: goodput",
                       .figure = last.good_per_second,
                       .target = 0.9 * best,
                       .unit = "/s",
                       .ceiling = best});
  context.report.goal({.what = "… p99 of what is accepted",
                       .figure = last.p99_ms,
                       .target = kAcceptedP99,
                       .unit = "ms",
                       .at_most = true});
  context.report.goal({.what = "… p99 of polls beside it",
                       .figure = last.polls_p99_ms,
                       .target = kPollsP99,
                       .unit = "ms",
                       .at_most = true});
  bed->stand.audit();
}

}  // namespace audiogen::bench
