// audio-worker: takes tasks from the queue, has them made, settles their price.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/check.h"
#include "common/base/commit.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/process.h"
#include "common/blob/blob_store.h"
#include "common/domain/worker_status.h"
#include "common/http/egress.h"
#include "common/http/ops_server.h"
#include "common/http/outgoing.h"
#include "common/queue/consumer.h"
#include "common/queue/publisher.h"
#include "common/store/probe.h"
#include "common/store/session.h"
#include "worker/chain/chain.h"
#include "worker/decode/sandboxed_decoder.h"
#include "worker/job/runner.h"
#include "worker/job/spool.h"
#include "worker/providers_file.h"
#include "worker/sandbox/landlock.h"
#include "worker/upkeep/account_keeper.h"
#include "worker/upkeep/eraser.h"
#include "worker/upkeep/janitor.h"
#include "worker/upkeep/puller.h"
#include "worker/upkeep/sweeper.h"
#include "worker/upkeep/usage_roller.h"

// What jemalloc goes by, where the program is linked with it (worker/CMakeLists.txt). Jobs go from
// thread to thread, so memory freed by one must be of use to the others: no arena for each. Sounds
// come and go within milliseconds: what is free is kept for a tenth of a second before the system
// has it back, else it is given back and taken again, page by page, for every sound. Two dozen
// threads keep nothing large of their own for that.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:2,dirty_decay_ms:100,muzzy_decay_ms:0,tcache_max:4096";
}

namespace audiogen::worker {
namespace {

constexpr auto kCloseLimit = std::chrono::seconds(2);
constexpr auto kLookEvery = std::chrono::milliseconds(200);  // At what the probe has found.

void log_providers_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) {
    log::error("PROVIDERS_FILE is wrong", {{"why", error}});
  }
}

// For how long a worker that is told to stop finishes what it has: what is under way for longer is
// called, and paid, again.
class DrainLimit {
 public:
  explicit DrainLimit(const Config& config) : told_(config.drain_seconds) {}

  // To be called for each chain that comes into force: jobs keep the one that they have.
  void heed(const Chain& chain) {
    const auto longest = std::chrono::ceil<std::chrono::seconds>(chain.longest_unresumed());
    longest_ = std::max(longest_, longest + kAfterTheCall);
    if (told_.count() > 0 && longest > told_) {
      log::warn("a call may outlast DRAIN_SECONDS: a release in the middle of it is paid twice",
                {{"timeout_seconds", longest.count()}, {"drain_seconds", told_.count()}});
    }
  }
  std::chrono::seconds get() const { return told_.count() > 0 ? told_ : longest_; }

 private:
  static constexpr std::chrono::seconds kLeast{60}, kAfterTheCall{5};

  const std::chrono::seconds told_;  // 0: nothing.
  std::chrono::seconds longest_ = kLeast;
};

std::size_t places(const Chain& chain, const Config& config) {
  return std::min(static_cast<std::size_t>(config.worker_in_flight), chain.capacity());
}

// The same if it had the places of all workers at providers' accounts.
std::size_t places_alone(const Chain& chain, const Config& config) {
  return std::min(static_cast<std::size_t>(config.worker_in_flight), chain.capacity_alone());
}

// SIGHUP: takes a new PROVIDERS_FILE into force, or keeps the old one and says why.
void reload(const Config& config,
            http::Client& client,
            Accounts& accounts,
            CurrentChain& chains,
            DrainLimit& drain_limit) {
  auto providers = load_providers(config.providers_file, client);
  if (!providers) {
    log_providers_errors(providers.error().lines);
    log::error("providers not reloaded, the old ones stay");
    return;
  }
  chains.replace(std::make_shared<const Chain>(std::move(*providers), &accounts));
  drain_limit.heed(*chains.get());
  log::info("providers reloaded", {{"file", config.providers_file}});
}

metrics::Snapshot worker_gauges(const Chain& chain,
                                const Accounts& accounts,
                                const Config& config,
                                std::size_t in_flight,
                                bool draining) {
  metrics::Snapshot out;
  out.gauge("worker_in_flight", "Tasks in hand", static_cast<double>(in_flight))
      .gauge("worker_capacity",
             "Tasks it can work on at once",
             static_cast<double>(places(chain, config)))
      .gauge("worker_draining", "1 while it takes nothing more", draining ? 1 : 0);
  for (const ProviderStatus& provider : chain.status()) {
    const metrics::Labels labels = {{"provider", provider.name}};
    out.gauge("provider_breaker_state",
              "0: calls pass; 1: one tries whether it works again; 2: it is left alone",
              provider.state == "ready"       ? 0
              : provider.state == "half_open" ? 1
                                              : 2,
              labels)
        .gauge("provider_in_flight",
               "Calls under way",
               static_cast<double>(provider.in_flight),
               labels)
        .gauge("provider_waiting",
               "Calls that wait for their turn",
               static_cast<double>(provider.waiting),
               labels);
  }
  for (const auto& account : accounts.all()) {
    out.gauge("provider_account_places",
              "Calls that may be under way at once here, of those of an account of all workers",
              static_cast<double>(account->places()),
              {{"account", account->name()}});
  }
  return out;
}

// Exit codes, as the units have them: with the second nobody starts it again.
constexpr int kFailed = 1, kWrongSettings = 2;

int work(const Config& config) {
  const WorkerId id = WorkerId::make();
  log::identify("worker_id", id.text());
  http::set_egress(http::egress_of(config.outgoing));
  raise_descriptor_limit();
  if (!store::may_serve(config.database)) {
    return kFailed;
  }
  if (!sandbox::landlock_available()) {
    // The list of system calls still holds: what a helper could do more is read files.
    if (config.sandbox == SandboxPolicy::kRequired) {
      log::error("this kernel has no Landlock, and SANDBOX=required: not started");
      return kWrongSettings;
    }
    log::warn("this kernel has no Landlock: the speech helper could read any file of its user");
  }
  auto blobs = open_blob_store(config.blob_url, config.s3, config.blob_signing_keys);
  if (!blobs) {
    log::error(blobs.error().message);
    // A folder may be there later.
    return blob_folder(config.blob_url) ? kFailed : kWrongSettings;
  }
  if (!Spool::works_in(config.references_folder)) {
    log::error("REFERENCES_FOLDER: no file can be made there",
               {{"folder", config.references_folder}, {"why", std::strerror(errno)}});
    return kFailed;
  }
  http::Client client({.deny = config.url_deny});
  auto providers = load_providers(config.providers_file, client);
  if (!providers) {
    log_providers_errors(providers.error().lines);
    return providers.error().may_pass ? kFailed : kWrongSettings;
  }
  Accounts accounts;
  CurrentChain chains(std::make_shared<const Chain>(std::move(*providers), &accounts));
  DrainLimit drain_limit(config);
  drain_limit.heed(*chains.get());
  SandboxedDecoder decoder;
  store::Probe database(config.database);
  queue::Publisher publisher(config.amqp, {}, [](std::span<const Hint>) {});
  // The runner acknowledges through the consumer, the consumer delivers to the runner: it is made
  // first, started last and stopped before the runner goes.
  JobRunner* receiver = nullptr;
  queue::Consumer consumer(
      config.amqp,
      // So that full messages hold no more than the worker has room for.
      queue::ConsumerOptions{
          .prefetch = static_cast<std::uint16_t>(std::max<std::size_t>(
              static_cast<std::size_t>(config.worker_in_flight) / queue::kHintsMax, 1))},
      [&receiver](std::vector<queue::Delivery> deliveries) {
        receiver->deliver(std::move(deliveries));
      });
  JobRunner runner(
      config,
      id,
      chains,
      **blobs,
      client,
      decoder,
      [&consumer](const queue::Delivery& delivery) { consumer.ack(delivery); },
      [&publisher](std::span<const Hint> hints) { publisher.submit(hints); });
  receiver = &runner;
  std::atomic<bool> draining{false}, drain_asked{false};
  // Before anything claims: whoever cannot have its port ends here, and has nothing to give back.
  http::OpsServer ops(
      config.ops_listen,
      [&] {
        return std::vector<http::ReadyPart>{{"database", database.ok(), true},
                                            {"schema", database.fits(), true},
                                            {"broker", consumer.connected(), true},
                                            {"accepting", !draining.load(), true}};
      },
      {{"/metrics", [&](const http::Exchange& exchange) {
          exchange.reply(http::metrics_answer(
              worker_gauges(*chains.get(), accounts, config, runner.in_flight(), draining.load())));
        }}});
  if (const auto started = ops.start(); !started) {
    log::error(started.error().message);
    return kFailed;
  }
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> broker_lost;  // The sweeper's.
  Sweeper sweeper(
      config,
      id,
      publisher,
      {.take = [&runner](std::span<const Hint> hints) { return runner.take(hints); },
       .take_tried = [&runner](std::span<const Hint> hints) { return runner.take_tried(hints); },
       .queues_seen = [&runner] { return runner.queues_seen(); },
       .has_hint = [&runner](const Hint& hint) { return runner.has_hint(hint); },
       // While the database is away what it said last holds, each to its end.
       .obey =
           [&](const WorkerOrders& orders) {
             chains.obey(orders.breakers, Clock::now());
             runner.set_workers(orders.workers);
             drain_asked.store(orders.drain);
           }},
      [&](const Sweeper::Swept& swept) {
        const auto chain = chains.get();
        if (consumer.connected()) {
          broker_lost.reset();
        } else if (!broker_lost) {
          broker_lost = Clock::now();
        }
        MinuteEnded minute = runner.ended_in_last_minute();
        minute.add(swept.minute);
        WholeMinutes minutes = runner.ended_by_minute();
        for (const auto& [at, ended] : swept.minutes) {
          minutes[at].add(ended);
        }
        const WorkerStatus status{.version = AUDIOGEN_VERSION,
                                  .draining = draining.load(),
                                  .broker_away = broker_lost
                                                     ? std::chrono::ceil<std::chrono::seconds>(
                                                           Clock::now() - *broker_lost + 1ms)
                                                     : 0s,
                                  .renewal_lag = runner.renewal_lag(),
                                  .places_alone = places_alone(*chain, config),
                                  .providers = chain->status(),
                                  .minute = std::move(minute),
                                  .minutes = std::move(minutes)};
        // The places of a worker that leaves, or cannot decode, are gone as they get free.
        const bool claims_none = draining.load() || !runner.decodes();
        const std::size_t in_flight = runner.in_flight(), all = places(*chain, config);
        return store::WorkerReport{
            .in_flight = in_flight,
            .places = claims_none ? std::min(all, in_flight) : all,
            .room = runner.room_told(),
            .ended = runner.ended(),
            .needs =
                claims_none ? 0s : std::chrono::ceil<std::chrono::seconds>(chain->needed_most()),
            .lines = claims_none ? RouteLines() : runner.lines(),
            .status_json = encode_worker_status(status)};
      });
  Puller puller(
      config,
      [&runner] { return runner.room(); },
      [&runner](std::span<const Hint> hints) { return runner.take(hints); },
      [&runner] { return runner.waiting_for_providers(); },
      [&] { return consumer.connected() && !publisher.blocked(); });
  AccountKeeper account_keeper(config, id, accounts);
  Janitor janitor(config, **blobs);
  Eraser eraser(config, **blobs);
  UsageRoller usage_roller(config);
  consumer.start();
  log::info("audio-worker works", {{"ops_listen", config.ops_listen.text()}});
  tell_service_manager(Stage::kReady);

  std::optional<Signal> signal;
  while (signal != Signal::kStop && database.fits() && !drain_asked.load()) {
    signal = wait_for_signal(kLookEvery);
    if (signal == Signal::kReload) {
      reload(config, client, accounts, chains, drain_limit);
    }
    // A chain that was replaced may hold models in memory.
    chains.collect();
  }
  tell_service_manager(Stage::kStopping);
  const bool fits = database.fits();
  // On a schema of which it knows nothing it could settle nothing, and would only keep the leases:
  // what it has is given back while that can still be written.
  const std::chrono::milliseconds limit =
      fits ? AG_TEST_LIMIT("DRAIN_LIMIT_MS", drain_limit.get()) : std::chrono::milliseconds(0);
  draining.store(true);
  runner.close(limit);
  log::info("audio-worker drains",
            {{"in_flight", runner.in_flight()},
             {"limit_seconds", drain_limit.get().count()},
             {"schema_fits", fits},
             {"asked_by_operator", drain_asked.load()}});
  consumer.stop(kCloseLimit);  // What is not claimed goes to other workers now.
  puller.stop();
  runner.drain(limit);
  account_keeper.stop();
  sweeper.stop();
  usage_roller.stop();
  publisher.stop(kCloseLimit);
  ops.stop();
  janitor.stop();  // These two may wait for a disk.
  eraser.stop();
  log::info("audio-worker stopped");
  return fits ? 0 : kFailed;
}

}  // namespace
}  // namespace audiogen::worker

int main(int argc, char** argv) {
  using audiogen::Program;
  audiogen::leave_no_core();
  audiogen::block_signals();
  audiogen::prefer_batches();
  audiogen::http::bound_lookups();
  audiogen::store::init_driver();
  CLI::App app("Works on audio generation tasks until SIGTERM. Run as many as you like.");
  app.set_version_flag("--version", AUDIOGEN_VERSION);
  bool print_config = false;
  app.add_flag(
      "--print-config", print_config, "print the configuration in force, secrets masked, and exit");
  app.footer(audiogen::config_help(Program::kWorker));
  CLI11_PARSE(app, argc, argv);
  if (print_config) {
    std::fputs(audiogen::print_config(Program::kWorker).c_str(), stdout);
    return 0;
  }
  const auto config = audiogen::load_config(Program::kWorker);
  if (!config) {
    for (const std::string& error : config.error()) {
      std::fprintf(stderr, "audio-worker: %s\n", error.c_str());
    }
    return audiogen::worker::kWrongSettings;
  }
  audiogen::log::init("audio-worker", config->log_level, config->log_format);
  audiogen::metrics::set_build(AUDIOGEN_VERSION, audiogen::kCommit);
  return audiogen::worker::work(*config);
}
