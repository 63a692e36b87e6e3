// What the service does under load, and what that costs: `./dev bench [NAME…]`.
//
// Every figure stands beside a ceiling measured in the same run on the same machine, because
// absolute numbers move with the machine: the same SQL from a bare loop, the HTTP server with a
// constant answer, the broker with nothing else to do.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "tests/bench/drivers.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"

namespace audiogen::bench {
namespace {

void bench_start(Context& context) {
  context.report.table("From exec to the first answer; memory a while later.");
  Stand stand(Stand::Options{.api = false, .users = 1, .environment = {}});
  const auto began = Clock::now();
  stand.stack().start_api({}, false);
  const double api = since(began);
  const auto worker_began = Clock::now();
  stand.add_worker({});
  const double worker = since(worker_began);
  const auto settled = Clock::now();
  static_cast<void>(test::eventually(std::chrono::seconds(30),
                                     [&] { return since(settled) > (context.smoke ? 0.1 : 3); }));
  context.report.line({.name = "audio-api",
                       .note = fixed(api * 1000, 0) + " ms, " + fixed(stand.api_rss(), 1) + " MB"});
  context.report.line(
      {.name = "audio-worker",
       .note = fixed(worker * 1000, 0) + " ms, " + fixed(stand.worker_rss_max(), 1) + " MB"});
  for (const auto& [program, seconds, rss] :
       {std::tuple("audio-api", api, stand.api_rss()),
        std::tuple("audio-worker", worker, stand.worker_rss_max())}) {
    context.report.goal({.what = std::string(program) + ": start to first answer",
                         .figure = seconds * 1000,
                         .target = 100,
                         .unit = "ms",
                         .at_most = true});
    context.report.goal({.what = std::string(program) + ": idle RSS",
                         .figure = rss,
                         .target = 20,
                         .unit = "MB",
                         .at_most = true,
                         .digits = 1});
  }
  stand.audit();
}

// What a program of its own prints.
void bench_program(Context& context, const std::string& name) {
  const std::string program = test::program_path("bench-" + name);
  if (!std::filesystem::exists(program)) {
    context.report.note(name + ": " + program + " is not built.");
    return;
  }
  const test::Output out = test::run({program}, {});
  if (out.code != 0) {
    fail("bench-" + name + " failed");
  }
  context.report.note("```\n" + out.out + "```");
}

void bench_codec(Context& context) {
  bench_program(context, "codec");
}

void bench_voices(Context& context) {
  bench_program(context, "voices");
}

struct Driver {
  const char* name;
  void (*run)(Context&);
};
constexpr Driver kDrivers[] = {{"start", bench_start},
                               {"create", bench_create},
                               {"hot-user", bench_hot_user},
                               {"poll", bench_poll},
                               {"mixed", bench_mixed},
                               {"jobs", bench_jobs},
                               {"in-flight", bench_in_flight},
                               {"overload", bench_overload},
                               {"neighbours", bench_neighbours},
                               {"fairness", bench_fairness},
                               {"backlog", bench_backlog},
                               {"broker-away", bench_broker_away},
                               {"rebalance", bench_rebalance},
                               {"over-capacity", bench_over_capacity},
                               {"uneven-calls", bench_uneven_calls},
                               {"scale", bench_scale},
                               {"growth", bench_growth},
                               {"codec", bench_codec},
                               {"voices", bench_voices}};

std::string first_value(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name)) {
      return line.substr(line.find_first_not_of(" \t", line.find(':') + 1));
    }
  }
  return "unknown";
}

std::string machine() {
  Stand stand(Stand::Options{.api = false, .users = 0, .environment = {}});
  utsname system{};
  ::uname(&system);
  const std::time_t now = std::time(nullptr);
  char day[32];
  std::tm utc{};
  std::strftime(day, sizeof day, "%F %H:%M UTC", gmtime_r(&now, &utc));
  return std::to_string(std::thread::hardware_concurrency()) + " × " +
         first_value("/proc/cpuinfo", "model name") + ", " +
         first_value("/proc/meminfo", "MemTotal") + ", Linux " + system.release +
         ", MariaDB/MySQL " + stand.stack().database().text(store::Sql("SELECT VERSION()")) +
         " (innodb_flush_log_at_trx_commit=" +
         stand.stack().database().text(store::Sql("SELECT @@innodb_flush_log_at_trx_commit")) +
         "), " + day + ".";
}

// The file keeps the last run of each driver, and below this heading what people write of them.
constexpr std::string_view kProfiles = "\n## Where the time goes\n";
constexpr std::string_view kSection = "\n### ";

class Results {
 public:
  explicit Results(std::string path) : path_(std::move(path)) {
    std::ifstream in(path_);
    const std::string old(std::istreambuf_iterator<char>(in), {});
    const std::size_t end = std::min(old.find(kProfiles), old.size());
    for (std::size_t at = old.find(kSection); at < end;) {
      const std::size_t next = std::min(old.find(kSection, at + 1), end);
      const std::size_t name = at + kSection.size();
      sections_[old.substr(name, old.find('\n', name) - name)] = old.substr(at, next - at);
      at = next;
    }
    profiles_ = old.substr(end);
  }

  void keep(const std::string& driver, std::string section) {
    sections_[driver] = std::move(section);
    std::ofstream out(path_);
    out << "# Benchmark results\n\nWritten by `./dev bench`: of each driver its last run. Load "
           "generator, API, workers, MariaDB and RabbitMQ share\nthe machine; every 202 is a "
           "durable "
           "commit, every hint a confirmed message of a quorum queue, every file fsynced.\n\n`of "
           "ceiling` is our figure divided by what the table's heading names, measured in the same "
           "run. CPU is each process's own, from\n/proc/PID/stat; `service` is the sum of what a "
           "deployment runs, `load` is the generator.\n";
    for (const Driver& known : kDrivers) {
      out << sections_[known.name];
    }
    out << profiles_;
    if (!out.flush()) {
      fail("cannot write " + path_);
    }
  }

 private:
  const std::string path_;
  std::map<std::string, std::string> sections_;
  std::string profiles_;
};

// Thousands of connections, here and in the programs started from here.
void raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int argc, char** argv) {
  Context context;
  std::vector<std::string> names;
  std::string results;
  CLI::App app(
      "Measures the service: needs TEST_DATABASE_URL and TEST_AMQP_URL of servers on this machine "
      "with nothing else to do.");
  app.add_option("--seconds", context.seconds, "of each load");
  app.add_flag("--smoke", context.smoke, "shows only that everything works");
  app.add_option("--max-rows",
                 context.rows_max,
                 "finished tasks that `scale` goes up to, and rows that `growth` does");
  app.add_option("--backlog", context.backlog, "waiting tasks that `backlog` makes");
  app.add_option("--results", results, "file to write the tables to, beside those of others");
  app.add_option("name", names, "drivers; without: all");
  CLI11_PARSE(app, argc, argv);
  if (context.smoke) {
    context.seconds = 0.4;
    context.rows_max = 1000;
  }
  raise_file_limit();
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kDrivers), std::end(kDrivers), [&](const Driver& driver) {
          return name == driver.name;
        })) {
      fail("there is no benchmark " + name);
    }
  }
  std::optional<Results> kept;
  if (!results.empty()) {
    kept.emplace(results);
  }
  for (const Driver& driver : kDrivers) {
    if (names.empty() || std::find(names.begin(), names.end(), driver.name) != names.end()) {
      context.report.begin(driver.name, machine());
      driver.run(context);
      const std::string section = context.report.end();
      if (kept) {
        kept->keep(driver.name, section);
      }
    }
  }
  Stand::delete_files();
  if (::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) {
    fail("a check of the test support failed");
  }
  return 0;
}

}  // namespace
}  // namespace audiogen::bench

int main(int argc, char** argv) {
  return audiogen::bench::run(argc, argv);
}
