#include "api/serve.h"

#include <atomic>
#include <memory>
#include <optional>

#include "api/auth.h"
#include "api/generations.h"
#include "api/publishing.h"
#include "api/rate_limiter.h"
#include "api/routes.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/blob/blob_store.h"
#include "common/http/ops_server.h"
#include "common/http/server.h"
#include "common/store/migrate.h"
#include "common/store/probe.h"

namespace audiogen::api {
namespace {

constexpr int kReactorThreads = 2;
constexpr std::size_t kLookupThreads = 1;
// Every request ends within ten seconds (DESIGN 1), whatever hangs.
constexpr auto kReplyTimeout = std::chrono::seconds(9);
constexpr auto kDrainLimit = std::chrono::seconds(15);
constexpr auto kPublishLimit = std::chrono::seconds(3);

// A database that lacks a migration would fail request by request; say it once instead. A database
// that is away now may come back: that is no reason to refuse to start.
bool schema_fits(const Config& config) {
  const auto version = store::schema_version(config.database);
  if (version && *version != store::newest_migration()) {
    log::error("the database schema does not fit this program: run audio-api migrate",
               {{"database_version", *version}, {"program_version", store::newest_migration()}});
    return false;
  }
  return true;
}

}  // namespace

int serve(const Config& config) {
  if (!schema_fits(config)) {
    return 1;
  }
  std::unique_ptr<DirectoryStore> files;
  if (const auto folder = blob_folder(config.blob_url)) {
    auto opened = DirectoryStore::open(*folder);
    if (!opened) {
      log::error(opened.error().message);
      return 1;
    }
    files = std::move(*opened);
  }
  std::atomic<bool> draining{false};
  store::Probe database(config.database);
  TaskPublisher publisher(config);
  RateLimiter limiter(config);
  Authenticator authenticator(config, kLookupThreads);
  Generations generations(config, authenticator, limiter, publisher);
  Routes routes(config, generations, files.get());

  http::Server server(
      http::ServerOptions{.host = config.listen.host,
                          .port = config.listen.port,
                          .threads = kReactorThreads,
                          .reply_timeout = kReplyTimeout},
      [&routes](http::Exchange exchange) { routes.handle(std::move(exchange)); },
      render_server_error);
  http::OpsServer ops(config.ops_listen, [&] {
    return std::vector<http::ReadyPart>{{"database", database.ok(), true},
                                        {"broker", publisher.connected(), false},
                                        {"accepting", !draining.load(), true}};
  });
  for (const Result<Done>& started : {server.start(), ops.start()}) {
    if (!started) {
      log::error(started.error().message);
      return 1;
    }
  }
  log::info("audio-api serves",
            {{"listen", config.listen.host + ":" + std::to_string(server.port())},
             {"ops_listen", config.ops_listen.host + ":" + std::to_string(ops.port())}});

  while (wait_for_signal() == Signal::kReload) {
    log::info("nothing to reload: the configuration is the environment's");
  }
  log::info("audio-api drains");
  draining.store(true);
  server.drain(kDrainLimit);
  authenticator.stop();
  generations.stop();
  publisher.stop(kPublishLimit);
  server.stop();
  ops.stop();
  log::info("audio-api stopped");
  return 0;
}

}  // namespace audiogen::api
