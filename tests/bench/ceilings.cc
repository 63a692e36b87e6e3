#include "tests/bench/ceilings.h"

#include <atomic>
#include <functional>
#include <thread>

#include "common/http/server.h"
#include "common/queue/publisher.h"
#include "tests/bench/drivers.h"
#include "tests/bench/requests.h"
#include "tests/support/test_broker.h"

namespace audiogen::bench {
namespace {

constexpr std::size_t kBatch = 32;

// Calls `work` on `threads` threads, each with a connection to the database, until the time is over
// or it says that nothing is left to do; how often it worked per second.
double store_ceiling(const DatabaseUrl& url,
                     std::size_t threads,
                     double seconds,
                     const std::function<bool(store::TaskStore&, std::size_t)>& work) {
  std::atomic<std::size_t> calls{0};
  std::vector<std::thread> running;
  const auto began = Clock::now();
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      store::TaskStore store(url);
      for (std::size_t i = 0; since(began) < seconds && work(store, i * threads + t); ++i) {
        ++calls;
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  return static_cast<double>(calls) / since(began);
}

}  // namespace

double create_ceiling(Stand& stand, double seconds, std::size_t users, bool keys) {
  return kBatch * store_ceiling(stand.database(), 2, seconds, [&](auto& store, std::size_t seed) {
           std::vector<store::CreateCommand> commands;
           for (std::size_t i = 0; i < kBatch; ++i) {
             commands.push_back(usual_command(stand.users()[(seed * kBatch + i) % users]));
             if (keys) {
               commands.back().idempotency_key = commands.back().id.text();
             }
           }
           create_all(store, std::move(commands));
           return true;
         });
}

double work_ceiling(Stand& stand, double seconds) {
  // Several times what a database does: the time ends it, not the supply.
  constexpr double kSupplyPerSecond = 60'000;
  const std::size_t batches = static_cast<std::size_t>(seconds * kSupplyPerSecond) / kBatch;
  const std::vector<TaskId> tasks = stand.fill(batches * kBatch);
  const WorkerId worker = WorkerId::make();
  return kBatch * store_ceiling(stand.database(), 2, seconds, [&](auto& store, std::size_t seed) {
           if (seed >= batches) {
             return false;
           }
           const auto some = std::span(tasks).subspan(seed * kBatch, kBatch);
           settle_all(store, claim_all(store, some, worker));
           return true;
         });
}

double read_ceiling(Stand& stand, double seconds, const std::vector<TaskId>& tasks) {
  return store_ceiling(stand.database(), 4, seconds, [&](auto& store, std::size_t seed) {
    const std::size_t i = seed % tasks.size();
    const store::FindCommand command{.id = tasks[i],
                                     .user = stand.users()[i % stand.users().size()]};
    if (const auto found = store.find({&command, 1}); !found.front() || !*found.front()) {
      fail("the ceiling's reads failed");
    }
    return true;
  });
}

double http_ceiling(double seconds, const std::string& request) {
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
  Rounds aim({request});
  const LoadResult result =
      run_load({.port = server.port(), .connections = kConnections, .seconds = seconds}, aim);
  server.stop();
  return result.good_per_second();
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

}  // namespace audiogen::bench
