#include "api/server/serve.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "api/account/account.h"
#include "api/account/usage.h"
#include "api/catalogue/catalogue.h"
#include "api/console/account_end.h"
#include "api/console/account_eraser.h"
#include "api/console/issuer_links.h"
#include "api/console/mails.h"
#include "api/console/oidc.h"
#include "api/console/pages.h"
#include "api/console/passkeys.h"
#include "api/console/sign_in_ways.h"
#include "api/console/sign_ins.h"
#include "api/files/files.h"
#include "api/generations/generations.h"
#include "api/generations/history.h"
#include "api/generations/lookout.h"
#include "api/generations/publishing.h"
#include "api/operators/actions.h"
#include "api/operators/desk.h"
#include "api/operators/gauges.h"
#include "api/operators/now.h"
#include "api/operators/page.h"
#include "api/operators/scale.h"
#include "api/operators/situation_watch.h"
#include "api/server/access_log.h"
#include "api/server/auth.h"
#include "api/server/description.h"
#include "api/server/dispatcher.h"
#include "api/server/rate_limiter.h"
#include "api/server/routes.h"
#include "api/server/store_doors.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/blob/blob_store.h"
#include "common/http/ops_server.h"
#include "common/http/request_meter.h"
#include "common/http/server.h"
#include "common/store/probe.h"

namespace audiogen::api {
namespace {

constexpr int kReactorThreads = 2;
// More than the largest request there can be (2,048 characters, three addresses, all of metadata),
// also when every character is spelled as two escapes.
constexpr std::size_t kBodyMax = Call::kBytesMax;
// Every request ends within ten seconds, whatever hangs; one that prefers to wait, after that time.
constexpr auto kReplyTimeout = std::chrono::seconds(9);
// Requests held back until their task is final, and the part of all connections that they may take;
// and the same of streams.
constexpr std::size_t kHeldMax = 2'000, kHeldPart = 4;
// Of those who open files, each of which may take as long as its disk does.
constexpr std::size_t kDiskThreads = 4, kDiskWaiting = 1'000;
constexpr auto kDiskLimit = std::chrono::seconds(1);
constexpr auto kDrainLimit = std::chrono::seconds(15);
constexpr auto kPublishLimit = std::chrono::seconds(3);

}  // namespace

int serve(const Config& config) {
  const auto id = ApiId::make();
  log::identify("api_id", id.text());
  const std::size_t descriptors = raise_descriptor_limit();
  const std::size_t connections = std::min(static_cast<std::size_t>(config.connections_max),
                                           http::connections_for(descriptors));
  if (connections < static_cast<std::size_t>(config.connections_max)) {
    log::warn("the descriptor limit allows fewer connections than CONNECTIONS_MAX",
              {{"descriptors", descriptors}, {"connections_max", connections}});
  }
  const auto per_address = static_cast<std::size_t>(config.connections_per_address);
  const std::size_t of_one_address = http::connections_of_one_address(per_address, connections);
  if (of_one_address < per_address) {
    log::warn("one address has at most a quarter of all connections",
              {{"connections_per_address", of_one_address}, {"connections_max", connections}});
  }
  // Request by request would fail; say it once instead.
  if (!store::may_serve(config.database)) {
    return 1;
  }
  std::unique_ptr<DirectoryStore> files;
  if (const auto folder = blob_folder(config.blob_url)) {
    // Whoever signs his links gives out no address that was forged.
    const bool unsealed = config.blob_unsealed || !config.cdn_signing_keys.empty();
    auto opened = DirectoryStore::open(
        *folder, {.keys = config.blob_signing_keys, .reads_unsealed = unsealed});
    if (!opened) {
      log::error(opened.error().message);
      return 1;
    }
    files = std::move(*opened);
  }
  const Pages pages(config, embedded_pages);
  if (!pages.usable()) {
    log::error("CONSOLE_DIR has no index.html that can be read");
    return 1;
  }
  const bool with_console = config.console && pages.any();
  if (!with_console) {
    log::info(config.console
                  ? "no console: this program was built without its pages"
                  : "no console: CONSOLE is off, or PUBLIC_URL is neither https nor http on a "
                    "loopback address, or has a path");
  }
  std::optional<AccessLog> access_log;  // Before whoever may answer: until the end somebody does.
  http::AnsweredHook answered;
  if (config.access_log) {
    access_log.emplace();
    answered = [&access_log](const http::Answered& request) { access_log->answered(request); };
  }
  std::atomic<bool> accepting{false};
  store::Probe database(config.database, store::Probe::Watches::kIntakeToo);
  const std::string creations(kGenerationsPath);
  TaskPublisher publisher(config,
                          id,
                          {&http::RequestMeter::of(creations),
                           &http::RequestMeter::of(std::string(kConsole) + creations)});
  RateLimiter limiter(config);
  Authenticator keys(config, limiter, Authenticator::bearer_keys(config));
  std::optional<Authenticator> sessions;
  if (with_console) {
    sessions.emplace(config, limiter, Authenticator::session_cookies(config));
  }
  const Authenticators authenticators{keys, sessions ? &*sessions : nullptr};
  const Lookout lookout(config);
  const auto doors = [&config] { return std::make_unique<StoreDoors>(config.database); };
  DoorsPool pool(doors);
  // Of many hours and many keys one sum takes as long as a statement may, 3 s: it is waited for by
  // those alone who ask for sums, and for longer than that, or who is next would be refused.
  DoorsPool sums(doors, {.wait_max = std::chrono::seconds(5)});
  Generations generations(config,
                          publisher,
                          lookout,
                          pool,
                          authenticators,
                          database,
                          {.max = std::min(kHeldMax, connections / kHeldPart),
                           .stream_max = AG_TEST_LIMIT("STREAM_MAX_MS", kStreamMax)});
  std::optional<Mails> mails;
  if (with_console && config.smtp) {
    mails.emplace(config, limiter, pool);
  }
  Mails* const written = mails ? &*mails : nullptr;
  Account account(config, limiter, pool, written);
  Usage usage(sums);
  History history(config, pool, lookout);
  const Description description(config);
  Catalogue catalogue(config);
  std::optional<Oidc> oidc;
  if (with_console && config.oidc) {
    oidc.emplace(config, limiter, pool, written);
  }
  const SignInWays sign_in_ways(config);
  AccountEnd account_end(config, pool, written);
  IssuerLinks issuer_links(pool, written);
  std::optional<AccountEraser> eraser;
  std::optional<SignIns> sign_ins;
  std::optional<Passkeys> passkeys;
  if (with_console) {
    sign_ins.emplace(config, limiter, pool, written);
    eraser.emplace(config);
    if (auto party = relying_party(config.public_url)) {
      passkeys.emplace(*std::move(party), *sign_ins, pool, written);
    }
  }
  BlockingPool disk(kDiskThreads, kDiskWaiting);
  std::optional<Files> delivered;
  if (files) {
    delivered.emplace(config, *files, disk);
  }
  Parts parts{.database = &database,
              .generations = &generations,
              .history = &history,
              .files = delivered ? &*delivered : nullptr,
              .description = &description,
              .account = &account,
              .usage = &usage,
              .catalogue = &catalogue,
              .sign_ins = sign_ins ? &*sign_ins : nullptr,
              .passkeys = passkeys ? &*passkeys : nullptr,
              .issuer_links = &issuer_links,
              .pages = &pages,
              .sign_in_ways = &sign_in_ways,
              .account_end = &account_end,
              .mails = written,
              .oidc = oidc ? &*oidc : nullptr};
  const RouteTree tree = route_tree(config, files != nullptr, with_console);
  Dispatcher dispatcher(tree, parts, authenticators, limiter, config);

  http::Server server(
      http::ServerOptions{
          .host = config.listen.host,
          .port = config.listen.port,
          .threads = kReactorThreads,
          .limits = {.body = kBodyMax},
          .heads_first = true,
          .body_budget = static_cast<std::size_t>(config.body_budget_mb) * 1024 * 1024,
          .answer_budget = static_cast<std::size_t>(config.answer_budget_mb) * 1024 * 1024,
          .trusted_proxies = config.trusted_proxies,
          .name = "public",
          .answered = std::move(answered),
          .meter = &http::RequestMeter::of(http::kNoRoute),
          .connections_max = connections,
          .connections_per_address = of_one_address,
          .reply_timeout = kReplyTimeout},
      [&dispatcher](http::Exchange exchange) { dispatcher.handle(std::move(exchange)); },
      render_server_error);
  SituationWatch situations(config);
  Scale scale(situations, static_cast<std::uint64_t>(config.worker_in_flight));
  Actions actions(config);
  OpsDesk desk(config);
  http::OpsServer ops(
      config.ops_listen,
      [&] {
        return std::vector<http::ReadyPart>{{"database", database.ok(), true},
                                            {"schema", database.fits(), true},
                                            {"broker", publisher.connected(), false},
                                            {"accepting", accepting.load(), true}};
      },
      {{"/metrics",
        [&situations](const http::Exchange& exchange) { answer_metrics(situations, exchange); }},
       {"/ops", answer_page},
       {"/ops/now",
        [&situations](const http::Exchange& exchange) { answer_now(situations, exchange); }},
       {"/ops/history", [&desk](const http::Exchange& exchange) { desk.history(exchange); }},
       {"/ops/find", [&desk](const http::Exchange& exchange) { desk.find(exchange); }},
       {"/ops/task", [&desk](const http::Exchange& exchange) { desk.task(exchange); }},
       {"/scale", [&scale](const http::Exchange& exchange) { scale.handle(exchange); }},
       {"/ops/actions",
        [&actions](const http::Exchange& exchange) { actions.handle_get(exchange); }}},
      {{"/ops/actions",
        [&actions](const http::Exchange& exchange) { actions.handle_post(exchange); }}});
  // The public port last: whoever cannot have the other one has taken no request that it would have
  // to leave.
  auto started = ops.start();
  if (started) {
    started = server.start();
  }
  if (!started) {
    log::error(started.error().message);
    return 1;
  }
  accepting.store(true);
  log::info("audio-api serves",
            {{"listen", config.listen.host + ":" + std::to_string(server.port())},
             {"ops_listen", config.ops_listen.host + ":" + std::to_string(ops.port())}});
  tell_service_manager(Stage::kReady);

  while (wait_for_signal() == Signal::kReload) {
    log::info("nothing to reload: the configuration is the environment's");
  }
  tell_service_manager(Stage::kStopping);
  log::info("audio-api drains");
  accepting.store(false);
  generations.release_waits();
  server.drain(kDrainLimit);
  keys.stop();
  if (with_console) {
    sessions->stop();
    sign_ins->stop();
    eraser->stop();
  }
  generations.stop();
  const bool files_end = disk.stop(kDiskLimit), previews_end = catalogue.stop(kDiskLimit);
  server.finish_posted();  // The answers that its groups have left to the I/O threads.
  pool.stop();
  sums.stop();
  if (mails) {
    mails->stop();
  }
  publisher.stop(kPublishLimit);
  server.stop();
  situations.stop();
  actions.stop();
  desk.stop();
  ops.stop();
  if (access_log) {
    access_log->stop();
  }
  log::info("audio-api stopped");
  if (!files_end || !previews_end) {
    std::_Exit(0);  // What a thread that stands still refers to stays.
  }
  return 0;
}

}  // namespace audiogen::api
