// What the service does under load, and what that costs: `./dev bench [NAME…]`.
//
// Every figure stands beside a ceiling measured in the same run on the same machine, because
// absolute numbers move with the machine: the same SQL from a bare loop, the HTTP server with a
// constant answer, the broker with nothing else to do.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/http/server.h"
#include "common/queue/publisher.h"
#include "tests/bench/load.h"
#include "tests/bench/stand.h"
#include "tests/support/test_broker.h"

namespace audiogen::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnections = 64;
// Open loop: this part of what the closed loop reached, over enough connections that requests never
// wait for one.
constexpr double kOpenLoad = 0.7;
constexpr std::size_t kOpenConnections = 256;
constexpr double kAudioSeconds = 0.417;  // 20 KB of 16-bit mono at 24 kHz.

double since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

// --- what is reported

std::string fixed(double value, int digits) {
  char out[64];
  std::snprintf(out, sizeof out, "%.*f", digits, value);
  return out;
}

struct Row {
  std::string name;
  double per_second = 0;
  const Histogram* latency = nullptr;
  double ceiling = 0;  // Per second; 0: none.
  std::string note;
};

class Report {
 public:
  void begin(const std::string& driver, const std::string& about) {
    text("\n### " + driver + "\n\n" + about + "\n\n");
    text(
        "| what | per second | of ceiling | p50 ms | p99 ms | p99.9 ms | CPU us per operation |\n");
    text("|---|---:|---:|---:|---:|---:|---|\n");
  }
  // `operations` happened while the parts used `before` … `after`.
  void row(const Row& row, double operations, const Usage& before, const Usage& after) {
    std::string costs;
    for (const auto& [part, used] : after) {
      const auto earlier = before.find(part);
      const double us = (used - (earlier == before.end() ? 0 : earlier->second)) /
                        std::max(operations, 1.0) * 1e6;
      costs += (costs.empty() ? "" : " · ") + part + " " + fixed(us, 1);
    }
    line(row, costs);
  }
  void line(const Row& row, const std::string& costs) {
    std::string out = "| " + row.name + " | ";
    out += row.per_second > 0 ? fixed(row.per_second, 0) : "";
    out += " | " + (row.ceiling > 0
                        ? fixed(row.per_second / row.ceiling, 2) + " of " + fixed(row.ceiling, 0)
                        : std::string());
    for (const double q : {0.5, 0.99, 0.999}) {
      out += " | " + (row.latency != nullptr ? fixed(row.latency->quantile(q), 2) : std::string());
    }
    text(out + " | " + costs + (row.note.empty() ? "" : (costs.empty() ? "" : "; ") + row.note) +
         " |\n");
  }
  void note(const std::string& sentence) { text("\n" + sentence + "\n"); }
  const std::string& all() const { return all_; }

 private:
  void text(const std::string& more) {
    all_ += more;
    std::fputs(more.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string all_;
};

struct Context {
  double seconds = 5;  // Of each load.
  bool smoke = false;
  Report report;

  std::size_t scaled(std::size_t full, std::size_t small) const { return smoke ? small : full; }
  Stand::Options stand(bool api) const {
    return {.api = api, .users = scaled(256, 16), .environment = {}};
  }
};

// --- requests

std::string create_request(std::string_view key, const std::string& extra = "") {
  const std::string_view body = usual_body();
  return "POST /api/v1/audio/generations HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " +
         std::string(key) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + extra + "\r\n" + std::string(body);
}

std::string poll_request(std::string_view key, std::string_view task) {
  return "GET /api/v1/audio/generations/" + std::string(task) +
         " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " + std::string(key) + "\r\n\r\n";
}

// The same few requests in turn.
class Rounds : public Aim {
 public:
  explicit Rounds(std::vector<std::string> requests) : requests_(std::move(requests)) {}
  Shot next(std::size_t) override { return {requests_[at_++ % requests_.size()]}; }
  void answered(std::size_t, int, std::string_view) override {}

 private:
  std::vector<std::string> requests_;
  std::size_t at_ = 0;
};

// Creations with an Idempotency-Key of their own each.
class KeyedCreates : public Aim {
 public:
  explicit KeyedCreates(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      requests_.push_back(create_request(key, "Idempotency-Key: " + std::string(kPlace) + "\r\n"));
    }
    place_at_ = requests_.front().find(kPlace);
  }
  Shot next(std::size_t) override {
    char number[sizeof kPlace];
    std::snprintf(number, sizeof number, "%012zu", ++count_);
    std::string& request = requests_[count_ % requests_.size()];
    request.replace(place_at_, sizeof number - 1, number);
    return {request};
  }
  void answered(std::size_t, int, std::string_view) override {}

 private:
  static constexpr char kPlace[] = "000000000000";
  std::vector<std::string> requests_;
  std::size_t place_at_ = 0, count_ = 0;
};

// Each connection creates a task and polls it ten times, again and again.
class Mixed : public Aim {
 public:
  static constexpr std::size_t kCreate = 0, kPoll = 1;
  Mixed(const std::vector<std::string>& keys, std::size_t connections)
      : keys_(keys), clients_(connections) {}
  Shot next(std::size_t connection) override {
    Client& client = clients_[connection];
    const std::string& key = keys_[connection % keys_.size()];
    if (client.task.empty() || client.polls == 10) {
      client = {.request = create_request(key), .creating = true};
      return {client.request, kCreate};
    }
    ++client.polls;
    client.request = poll_request(key, client.task);
    return {client.request, kPoll};
  }
  void answered(std::size_t connection, int status, std::string_view body) override {
    Client& client = clients_[connection];
    if (std::exchange(client.creating, false) && status == 202) {
      constexpr std::string_view kId = "\"id\":\"";
      const auto at = body.find(kId);
      client.task = body.substr(at + kId.size(), 30);
    }
  }

 private:
  struct Client {
    std::string task{}, request{};
    std::size_t polls = 0;
    bool creating = false;
  };
  const std::vector<std::string>& keys_;
  std::vector<Client> clients_;
};

std::vector<std::string> creates_of(std::span<const std::string> keys) {
  std::vector<std::string> out;
  for (const std::string& key : keys) {
    out.push_back(create_request(key));
  }
  return out;
}

// --- ceilings

// Calls `work` on `threads` threads, each with a connection to the database, for a while; how often
// it returned per second.
double store_ceiling(const DatabaseUrl& url,
                     std::size_t threads,
                     double seconds,
                     const std::function<void(store::TaskStore&, std::size_t)>& work) {
  std::atomic<std::size_t> calls{0};
  std::vector<std::thread> running;
  const auto began = Clock::now();
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      store::TaskStore store(url);
      for (std::size_t i = 0; since(began) < seconds; ++i) {
        work(store, i * threads + t);
        ++calls;
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  return static_cast<double>(calls) / since(began);
}

// The same SQL as the service's, in full batches, with no HTTP, no hints and nothing to wait for.
double create_ceiling(Stand& stand, double seconds, std::size_t users, bool keys) {
  constexpr std::size_t kBatch = 32;
  return kBatch * store_ceiling(stand.database(), 2, seconds, [&](auto& store, std::size_t seed) {
           std::vector<store::CreateCommand> commands;
           for (std::size_t i = 0; i < kBatch; ++i) {
             commands.push_back(usual_command(stand.users()[(seed * kBatch + i) % users]));
             if (keys) {
               commands.back().idempotency_key = commands.back().id.text();
             }
           }
           if (!store.create(commands)) {
             fail("the ceiling's creations failed");
           }
         });
}

// One row a round trip.
double read_ceiling(Stand& stand, double seconds, const std::vector<TaskId>& tasks) {
  return store_ceiling(stand.database(), 4, seconds, [&](auto& store, std::size_t seed) {
    const std::size_t i = seed % tasks.size();
    const store::FindCommand command{.id = tasks[i],
                                     .user = stand.users()[i % stand.users().size()]};
    if (const auto found = store.find({&command, 1}); !found || !found->front()) {
      fail("the ceiling's reads failed");
    }
  });
}

// The server alone, with an answer of the usual size.
double http_ceiling(double seconds, std::string request) {
  http::Server server(
      http::ServerOptions{},
      [](const http::Exchange& exchange) {
        http::Response response;
        response.headers = "Content-Type: application/json\r\n";
        response.body = std::string(400, 'x');
        exchange.reply(std::move(response));
      },
      [](int status, std::string_view, const http::Request*) {
        http::Response response;
        response.status = status;
        return response;
      });
  if (!server.start()) {
    fail("the bare server does not start");
  }
  Rounds aim({std::move(request)});
  const LoadResult result =
      run_load({.port = server.port(), .connections = kConnections, .seconds = seconds}, aim);
  server.stop();
  return static_cast<double>(result.all().good) / result.seconds;
}

double publish_ceiling(double seconds) {
  const test::TestTopology topology;
  std::atomic<std::size_t> confirmed{0};
  queue::Publisher publisher(
      test::test_broker_url(),
      {.topology = {.prefix = topology.names().prefix, .max_length = 10'000'000}},
      [&](std::span<const Hint> hints) { confirmed += hints.size(); });
  const auto began = Clock::now();
  const auto seconds_gone = [&] { return since(began) >= seconds; };
  static_cast<void>(test::eventually(std::chrono::seconds(60), [&] {
    std::vector<Hint> hints(publisher.waiting() < 2000 ? 2000 : 0);
    for (Hint& hint : hints) {
      hint.task = TaskId::make();
    }
    publisher.submit(hints);
    return seconds_gone();
  }));
  const double rate = static_cast<double>(confirmed) / since(began);
  publisher.stop(std::chrono::milliseconds(0));
  return rate;
}

// --- drivers

// Load, measured and reported. A refusal for overload is told; any other error, and a broken
// connection, fails the run.
LoadResult measured(Context& context,
                    Stand& stand,
                    const std::string& name,
                    const LoadOptions& options,
                    Aim& aim,
                    double ceiling) {
  const Usage before = stand.usage();
  LoadResult result = run_load(options, aim);
  const Usage after = stand.usage();
  const Tally all = result.all();
  std::uint64_t answers = 0;
  for (const auto& [status, count] : all.statuses) {
    answers += count;
  }
  const auto refused = all.statuses.contains(503) ? all.statuses.at(503) : 0;
  if (answers != all.good + refused || all.good == 0 || result.broken > 0) {
    std::string told;
    for (const auto& [status, count] : all.statuses) {
      told += " " + std::to_string(status) + ": " + std::to_string(count);
    }
    fail(name + ": unexpected answers:" + told + "; broken: " + std::to_string(result.broken));
  }
  const double rate = static_cast<double>(all.good) / result.seconds;
  Row row{
      .name = name, .per_second = rate, .latency = &all.latency, .ceiling = ceiling, .note = ""};
  if (options.rate > 0) {
    row.note = "asked for " + fixed(options.rate, 0) + "/s";
  }
  if (refused > 0) {
    row.note += (row.note.empty() ? "" : ", ") + std::to_string(refused) + " refused with 503";
  }
  context.report.row(row, static_cast<double>(all.good), before, after);
  return result;
}

// Closed loop for the throughput, then open loop for the latency at a load it can bear.
void closed_and_open(Context& context, Stand& stand, Aim& aim, double ceiling) {
  const std::uint16_t port = stand.api_port();
  run_load({.port = port, .connections = kConnections, .seconds = context.seconds / 5}, aim);
  const LoadResult closed =
      measured(context,
               stand,
               "closed loop, 64 connections",
               {.port = port, .connections = kConnections, .rate = 0, .seconds = context.seconds},
               aim,
               ceiling);
  const double rate = kOpenLoad * static_cast<double>(closed.all().good) / closed.seconds;
  measured(
      context,
      stand,
      "open loop at 70 %",
      {.port = port, .connections = kOpenConnections, .rate = rate, .seconds = context.seconds},
      aim,
      0);
}

void bench_create(Context& context) {
  Stand stand(context.stand(true));
  context.report.begin("create",
                       "POST, 256 users, workers stopped. Ceiling: the same transactions from a "
                       "bare loop, batches of 32.");
  {
    Rounds aim(creates_of(stand.keys()));
    closed_and_open(context,
                    stand,
                    aim,
                    create_ceiling(stand, context.seconds / 2, stand.users().size(), false));
  }
  KeyedCreates keyed(stand.keys());
  const double ceiling = create_ceiling(stand, context.seconds / 2, stand.users().size(), true);
  measured(context,
           stand,
           "with Idempotency-Key, closed loop",
           {.port = stand.api_port(),
            .connections = kConnections,
            .rate = 0,
            .seconds = context.seconds},
           keyed,
           ceiling);
  context.report.line({.name = "broker alone: hints confirmed",
                       .per_second = publish_ceiling(context.seconds / 2),
                       .note = ""},
                      "");
  stand.audit();
}

void bench_hot_user(Context& context) {
  Stand stand(context.stand(true));
  context.report.begin("hot-user", "POST, all of one user: one balance row, one lock.");
  Rounds aim(creates_of(std::span(stand.keys()).first(1)));
  closed_and_open(context, stand, aim, create_ceiling(stand, context.seconds / 2, 1, false));
  stand.audit();
}

void bench_poll(Context& context) {
  Stand stand(context.stand(true));
  const std::vector<TaskId> tasks = stand.fill(context.scaled(20'000, 500));
  std::vector<std::string> requests;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    requests.push_back(poll_request(stand.keys()[i % stand.keys().size()], tasks[i].text()));
  }
  context.report.begin("poll",
                       "GET, 256 users, 20,000 tasks in turn. Ceiling: the HTTP server alone with "
                       "a constant answer.");
  const double bare = http_ceiling(context.seconds / 2, requests.front());
  context.report.line({.name = "database alone: one row a round trip, 4 connections",
                       .per_second = read_ceiling(stand, context.seconds / 2, tasks),
                       .note = ""},
                      "");
  Rounds aim(std::move(requests));
  closed_and_open(context, stand, aim, bare);
  stand.audit();
}

// Waits until `count` tasks have succeeded and reports the rate between a tenth and nine tenths.
void measure_jobs(Context& context,
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
  Mark from, to;
  const auto mark = [&](double done) { return Mark{done, Clock::now(), stand.usage()}; };
  const bool all = test::eventually(std::chrono::minutes(3), [&] {
    test::pace(std::chrono::milliseconds(20));  // Every look costs the worker something.
    const double done = stand.succeeded();
    // Messages of many hints must not lead a worker past its limit. Looking costs a scan, so only
    // the smoke run does.
    if (context.smoke && stand.running() > in_flight_max) {
      fail("more tasks are running than the workers may hold");
    }
    if (done < 0.1 * static_cast<double>(count)) {
      from = mark(done);
    }
    if (done < 0.9 * static_cast<double>(count)) {
      to = mark(done);
    }
    return done >= static_cast<double>(count);
  });
  if (!all) {
    fail("the workers do not finish their tasks: " + fixed(stand.succeeded(), 0) + " of " +
         std::to_string(count));
  }
  if (to.done <= from.done) {
    to = mark(static_cast<double>(count));
  }
  const double done = to.done - from.done;
  const double seconds = std::chrono::duration<double>(to.at - from.at).count();
  context.report.row({.name = name,
                      .per_second = done / seconds,
                      .ceiling = ceiling,
                      .note = "worker RSS at most " + fixed(stand.worker_rss_max(), 0) + " MB"},
                     done,
                     from.usage,
                     to.usage);
}

// Claims and settles from a bare loop.
double work_ceiling(Stand& stand, double seconds) {
  constexpr std::size_t kBatch = 32;
  const std::vector<TaskId> tasks = stand.fill(static_cast<std::size_t>(seconds * 10'000) + kBatch);
  std::atomic<std::size_t> next{0};
  const WorkerId worker = WorkerId::make();
  std::atomic<std::size_t> done{0};
  const auto began = Clock::now();
  store_ceiling(stand.database(), 2, seconds, [&](auto& store, std::size_t) {
    const std::size_t first = next.fetch_add(kBatch);
    if (first + kBatch > tasks.size()) {
      return;
    }
    std::vector<Hint> hints;
    for (const TaskId task : std::span(tasks).subspan(first, kBatch)) {
      hints.push_back({.task = task, .epoch = 0});
    }
    const auto claims = store.claim(hints, worker, [](const auto&) { return "double"; });
    std::vector<store::SettleCommand> commands;
    for (const auto& claim : *claims) {
      store::SettleCommand command;
      command.kind = store::SettleCommand::Kind::kSucceed;
      command.task = claim->task;
      command.user = claim->user;
      command.epoch = claim->epoch;
      command.output_key = claim->task.text() + "/0123456789abcdef.wav";
      command.output_bytes = 20'000;
      command.duration_ms = 417;
      command.attempt = 1;
      command.attempt_state = 2;
      commands.push_back(std::move(command));
    }
    if (!store.settle(commands)) {
      fail("the ceiling's settlements failed");
    }
    done += kBatch;
  });
  return static_cast<double>(done) / std::min(seconds, since(began));
}

void run_jobs(Context& context, int workers, int delay_ms, int in_flight, double ceiling) {
  Stand stand(context.stand(false));
  const Provider provider(stand.stack().log_folder(), kAudioSeconds, delay_ms);
  stand.watch(provider);
  const std::size_t count =
      context.scaled(delay_ms > 0 ? static_cast<std::size_t>(context.seconds * 2500) + 5000
                                  : static_cast<std::size_t>(context.seconds * 2000) + 2000,
                     100);
  stand.publish(stand.fill(count));
  for (int i = 0; i < workers; ++i) {
    stand.add_worker(
        {{"PROVIDERS_FILE", provider.file()}, {"WORKER_IN_FLIGHT", std::to_string(in_flight)}});
  }
  measure_jobs(context,
               stand,
               std::to_string(workers) + (workers == 1 ? " worker" : " workers"),
               count,
               workers * in_flight,
               ceiling);
  stand.audit();
}

void bench_jobs(Context& context) {
  double ceiling = 0;
  {
    Stand stand(context.stand(false));
    ceiling = work_ceiling(stand, context.seconds / 2);
  }
  context.report.begin(
      "jobs",
      "The provider answers at once with 20 KB of WAV, which is what was asked "
      "for: decoded, measured, passed through and fsynced. Ceiling: claims and settlements "
      "from a bare loop, batches of 32.");
  run_jobs(context, 1, 0, context.smoke ? 4 : 200, ceiling);
}

void bench_in_flight(Context& context) {
  context.report.begin("in-flight",
                       "The provider takes 2 s, one worker holds 5,000 tasks: at most 2,500/s.");
  run_jobs(context, 1, context.smoke ? 200 : 2000, 5000, 2500);
}

void bench_mixed(Context& context) {
  Stand stand(context.stand(true));
  const Provider provider(stand.stack().log_folder(), kAudioSeconds, 0);
  stand.watch(provider);
  stand.add_worker({{"PROVIDERS_FILE", provider.file()}});
  context.report.begin("mixed", "Ten polls per creation, one worker on.");
  Mixed closed(stand.keys(), kConnections);
  const LoadResult result = measured(context,
                                     stand,
                                     "closed loop, 64 connections",
                                     {.port = stand.api_port(),
                                      .connections = kConnections,
                                      .rate = 0,
                                      .seconds = context.seconds},
                                     closed,
                                     0);
  Mixed open(stand.keys(), kOpenConnections);
  const LoadResult paced =
      measured(context,
               stand,
               "open loop at 70 %",
               {.port = stand.api_port(),
                .connections = kOpenConnections,
                .rate = kOpenLoad * static_cast<double>(result.all().good) / result.seconds,
                .seconds = context.seconds},
               open,
               0);
  context.report.line(
      {.name = "… its creations", .latency = &paced.kinds[Mixed::kCreate].latency, .note = ""}, "");
  context.report.line(
      {.name = "… its polls", .latency = &paced.kinds[Mixed::kPoll].latency, .note = ""}, "");
  stand.audit();
}

void bench_start(Context& context) {
  context.report.begin("start", "From exec to the first answer; memory a while later.");
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
                       .note = fixed(api * 1000, 0) + " ms, " + fixed(stand.api_rss(), 1) + " MB"},
                      "");
  context.report.line(
      {.name = "audio-worker",
       .note = fixed(worker * 1000, 0) + " ms, " + fixed(stand.worker_rss_max(), 1) + " MB"},
      "");
  stand.audit();
}

void bench_overload(Context& context) {
  Stand stand(context.stand(true));
  context.report.begin("overload",
                       "POST at three times what the closed loop reached, over 8,000 connections, "
                       "and 500 polls/s beside it.");
  Rounds creates(creates_of(stand.keys()));
  const std::uint16_t port = stand.api_port();
  run_load({.port = port, .connections = kConnections, .seconds = context.seconds / 5}, creates);
  const LoadResult peak =
      measured(context,
               stand,
               "peak, closed loop",
               {.port = port, .connections = kConnections, .rate = 0, .seconds = context.seconds},
               creates,
               0);
  const double peak_rate = static_cast<double>(peak.all().good) / peak.seconds;

  const std::vector<TaskId> tasks = stand.fill(100);
  std::vector<std::string> polls;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    polls.push_back(poll_request(stand.keys()[i % stand.keys().size()], tasks[i].text()));
  }
  Rounds poll_aim(std::move(polls));
  LoadResult polled;
  const std::int64_t before_count =
      stand.stack().database().number(store::Sql("SELECT COUNT(*) FROM tasks"));
  const Usage before = stand.usage();
  std::thread poller([&] {
    polled = run_load({.port = port, .connections = 64, .rate = 500, .seconds = context.seconds},
                      poll_aim);
  });
  const LoadResult result = run_load({.port = port,
                                      .connections = context.scaled(8000, 200),
                                      .rate = 3 * peak_rate,
                                      .seconds = context.seconds},
                                     creates);
  poller.join();
  const Usage after = stand.usage();
  const Tally all = result.all();
  const auto refused = all.statuses.contains(503) ? all.statuses.at(503) : 0;
  context.report.row({.name = "creations accepted at 3x",
                      .per_second = static_cast<double>(all.good) / result.seconds,
                      .latency = &all.latency,
                      .ceiling = peak_rate,
                      .note = std::to_string(refused) + " refused with 503"},
                     static_cast<double>(all.good),
                     before,
                     after);
  const Tally reads = polled.all();
  context.report.line({.name = "polls beside it",
                       .per_second = static_cast<double>(reads.good) / polled.seconds,
                       .latency = &reads.latency,
                       .ceiling = 500,
                       .note = ""},
                      "");
  const std::int64_t made =
      stand.stack().database().number(store::Sql("SELECT COUNT(*) FROM tasks")) - before_count;
  if (result.broken > 0 || made != static_cast<std::int64_t>(all.good)) {
    fail("overload: " + std::to_string(all.good) + " accepted, " + std::to_string(made) +
         " in the database, " + std::to_string(result.broken) + " broken");
  }
  stand.audit();
}

// `size` finished tasks of the first user with their ledger rows, made inside the database.
void grow_history(Stand& stand, std::int64_t size) {
  using store::Sql;
  const UserId user = stand.users().front();
  auto& db = stand.stack().database();
  const std::int64_t kChunk = 50'000;
  for (std::int64_t first = 0; first < size; first += kChunk) {
    const std::int64_t count = std::min(kChunk, size - first);
    Sql numbers(
        "(WITH RECURSIVE d(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM d WHERE n<999) SELECT ");
    numbers << first << "+a.n*1000+b.n AS n FROM d a JOIN d b WHERE a.n*1000+b.n<" << count
            << ") x";
    const auto statement = [&](const std::string& head, const std::string& tail) {
      db.execute(Sql::trusted(head + numbers.text() + tail));
    };
    const std::string owner = (Sql() << user).text();
    const std::string request = Sql().bytes(usual_request()).text();
    const std::string id = "UNHEX(CONCAT('0180', LPAD(HEX(n), 28, '0')))";
    statement(
        "INSERT INTO tasks (id, user_id, state, request, output_format, held, charged, epoch, "
        "claims, attempts, next_run_at, deadline_at, output_key, output_bytes, output_sha256, "
        "duration_ms, created_at, updated_at) SELECT " +
            id + "," + owner + ",3," + request +
            ",2,150000,10000,1,1,1,'2026-01-01','2026-01-01',CONCAT('old/',n,'.wav'),20000,"
            "x'" +
            std::string(64, '0') + "',417,'2026-01-01','2026-01-01' FROM ",
        "");
    statement(
        "INSERT INTO attempts (task_id, n, epoch, provider, state, started_at, ended_at) SELECT " +
            id + ",1,1,'double',2,'2026-01-01','2026-01-01' FROM ",
        "");
    const std::string granted = std::to_string(kGranted.value);
    const std::string common =
        "INSERT INTO ledger (user_id, seq, kind, source_id, d_available, "
        "d_held, d_system, available_after, held_after, created_at) SELECT " +
        owner + ",";
    statement(common + "n*2+2,1," + id + ",-150000,150000,0," + granted +
                  "-n*10000-150000,150000,'2026-01-01' FROM ",
              "");
    statement(common + "n*2+3,2," + id + ",140000,-150000,10000," + granted +
                  "-(n+1)*10000,0,'2026-01-01' FROM ",
              "");
    db.execute(Sql("UPDATE balances SET seq=")
               << (first + count) * 2 + 1 << ", available="
               << kGranted.value - (first + count) * 10'000 << " WHERE user_id=" << user);
  }
}

// How long `work` takes for each of its `operations`, in us.
template <class Work>
double us_each(std::size_t operations, const Work& work) {
  const auto began = Clock::now();
  work();
  return since(began) / static_cast<double>(operations) * 1e6;
}

// One line: what each operation costs beside `size` finished tasks.
void measure_size(Context& context, std::int64_t size) {
  constexpr std::size_t kBatch = 32;
  const std::size_t rounds = context.scaled(100, 2);
  const std::size_t operations = rounds * kBatch;
  Stand stand(Stand::Options{.api = false, .users = 64, .environment = {}});
  grow_history(stand, size);
  store::TaskStore store(stand.database());
  const double sweep = us_each(rounds, [&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      if (!store.sweep(200)) {
        fail("sweeps failed");
      }
    }
  });
  // The first user's history is numbered by hand: nothing more may be booked on it.
  std::vector<store::CreateCommand> commands(operations);
  for (std::size_t i = 0; i < operations; ++i) {
    commands[i] = usual_command(stand.users()[1 + i % 63]);
  }
  const auto in_batches = [&](const auto& items, const auto& work) {
    return us_each(operations, [&] {
      for (std::size_t at = 0; at < items.size(); at += kBatch) {
        if (!work(std::span(items).subspan(at, kBatch))) {
          fail("an operation failed beside " + std::to_string(size) + " tasks");
        }
      }
    });
  };
  const double create =
      in_batches(commands, [&](auto some) { return static_cast<bool>(store.create(some)); });
  std::vector<Hint> hints;
  for (const store::CreateCommand& command : commands) {
    hints.push_back({.task = command.id, .epoch = 0});
  }
  const double claim = in_batches(hints, [&](auto some) {
    return static_cast<bool>(
        store.claim(some, WorkerId::make(), [](const auto&) { return "double"; }));
  });
  std::vector<store::FindCommand> finds(operations);
  for (std::size_t i = 0; i < operations; ++i) {
    // Anywhere in the history, by steps that jump about in it.
    const std::uint64_t n = i * 7'919'777 % static_cast<std::uint64_t>(size);
    finds[i].user = stand.users().front();
    finds[i].id.uuid.bytes[0] = 0x01;
    finds[i].id.uuid.bytes[1] = 0x80;
    for (std::size_t k = 0; k < 8; ++k) {
      finds[i].id.uuid.bytes[15 - k] = static_cast<std::uint8_t>(n >> (8 * k));
    }
  }
  const double find = in_batches(finds, [&](auto some) {
    const auto found = store.find(some);
    return found && found->back();
  });
  context.report.line(
      {.name = std::to_string(size) + " finished tasks",
       .note = "create " + fixed(create, 0) + ", poll " + fixed(find, 1) + ", claim " +
               fixed(claim, 0) + ", a sweep that finds nothing " + fixed(sweep, 0)},
      "");
  stand.audit();
}

void bench_scale(Context& context) {
  context.report.begin("scale",
                       "Costs by size: us per operation in batches of 32 on one connection, beside "
                       "so many finished tasks (cold: a 256 MB buffer pool). Then more workers.");
  const std::vector<std::int64_t> sizes =
      context.smoke ? std::vector<std::int64_t>{100}
                    : std::vector<std::int64_t>{1000, 10'000, 100'000, 1'000'000};
  for (const std::int64_t size : sizes) {
    measure_size(context, size);
  }
  for (const int workers : context.smoke ? std::vector<int>{2} : std::vector<int>{1, 2, 4}) {
    run_jobs(context, workers, 0, 200, 0);
  }
}

void bench_codec(Context& context) {
  const std::string program = std::string(AUDIOGEN_BIN_DIR) + "/bench-codec";
  if (!std::filesystem::exists(program)) {
    context.report.note("codec: " + program + " is not built.");
    return;
  }
  const test::Output out = test::run({program}, {});
  if (out.code != 0) {
    fail("bench-codec failed");
  }
  context.report.note("### codec\n\n```\n" + out.out + "```");
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
                               {"scale", bench_scale},
                               {"codec", bench_codec}};

std::string first_value(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name)) {
      return line.substr(line.find_first_not_of(" \t", line.find(':') + 1));
    }
  }
  return "unknown";
}

std::string machine(Stand& stand) {
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

int run(int argc, char** argv) {
  Context context;
  std::vector<std::string> names;
  std::string results;
  CLI::App app(
      "Measures the service: needs TEST_DATABASE_URL and TEST_AMQP_URL of servers on this machine "
      "with nothing else to do.");
  app.add_option("--seconds", context.seconds, "of each load");
  app.add_flag("--smoke", context.smoke, "shows only that everything works");
  app.add_option("--results", results, "file to write the tables to");
  app.add_option("name", names, "drivers; without: all");
  CLI11_PARSE(app, argc, argv);
  if (context.smoke) {
    context.seconds = 0.4;
  }
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kDrivers), std::end(kDrivers), [&](const Driver& driver) {
          return name == driver.name;
        })) {
      fail("there is no benchmark " + name);
    }
  }
  std::string about;
  {
    Stand stand(Stand::Options{.api = false, .users = 0, .environment = {}});
    about = machine(stand);
    std::printf("%s\n", about.c_str());
  }
  for (const Driver& driver : kDrivers) {
    if (names.empty() || std::find(names.begin(), names.end(), driver.name) != names.end()) {
      driver.run(context);
    }
  }
  Stand::delete_files();
  if (::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) {
    fail("a check of the test support failed");
  }
  if (!results.empty()) {
    std::ofstream out(results);
    out << "# Benchmark results\n\nWritten by `./dev bench`. Load generator, API, workers, MariaDB "
           "and RabbitMQ share the machine; every 202 is a\ndurable commit, every hint a confirmed "
           "message of a quorum queue, every file fsynced. CPU is each process's own, from "
           "/proc/PID/stat.\n\n"
        << about << "\n"
        << context.report.all();
    if (!out.flush()) {
      fail("cannot write " + results);
    }
  }
  return 0;
}

}  // namespace
}  // namespace audiogen::bench

int main(int argc, char** argv) {
  return audiogen::bench::run(argc, argv);
}
