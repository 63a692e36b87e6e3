// audio-api: serve · migrate · admin …
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <malloc.h>

#include "api/admin/admin.h"
#include "api/admin/schema.h"
#include "api/server/serve.h"
#include "common/base/commit.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/process.h"
#include "common/http/egress.h"
#include "common/store/grants.h"
#include "common/store/session.h"

namespace {

using audiogen::Config;
using audiogen::Program;

int with_config(int (*run)(const Config&)) {
  const auto config = audiogen::load_config(Program::kApi);
  if (!config) {
    for (const std::string& error : config.error()) {
      std::fprintf(stderr, "audio-api: %s\n", error.c_str());
    }
    return 2;
  }
  audiogen::log::init("audio-api", config->log_level, config->log_format);
  audiogen::metrics::set_build(AUDIOGEN_VERSION, audiogen::kCommit);
  audiogen::http::set_egress(audiogen::http::egress_of(config->outgoing));
  return run(*config);
}

}  // namespace

int main(int argc, char** argv) {
  audiogen::leave_no_core();
  // By default the end of a heap is given back and taken again, page by page, for every
  // transaction.
  constexpr int kMegabyte = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, kMegabyte);
  mallopt(M_MMAP_THRESHOLD, kMegabyte);
  audiogen::block_signals();
  audiogen::prefer_batches();
  audiogen::store::init_driver();
  // The admin command has a command line of its own.
  if (argc > 1 && std::string(argv[1]) == "admin") {
    audiogen::allow_signals();
    return audiogen::api::run_admin(std::vector<std::string>(argv + 2, argv + argc));
  }

  CLI::App app("The HTTP interface of the audio generation service, and its tools.");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", AUDIOGEN_VERSION);
  bool print_config = false;
  app.add_flag(
      "--print-config", print_config, "print the configuration in force, secrets masked, and exit");
  app.footer(audiogen::config_help(Program::kApi));
  const auto* serve = app.add_subcommand("serve", "answer requests until SIGTERM");
  const auto* migrating = app.add_subcommand("migrate", "bring the database schema up to date");
  auto* const granting = app.add_subcommand(
      "grants",
      "give database users their rights, and take what is more; as the database's owner, after "
      "each migrate. Prints what it does");
  std::vector<audiogen::store::Grantee> grantees;
  for (const char* const role : {"api", "worker", "admin"}) {
    granting
        ->add_option_function<std::vector<std::string>>(
            std::string("--") + role,
            [&grantees, role](const std::vector<std::string>& accounts) {
              for (const std::string& account : accounts) {
                grantees.push_back({role, account});
              }
            },
            "an account, as name@host, that exists and that the " + std::string(role) +
                (std::string_view(role) == "admin" ? " commands use" : " processes use"))
        ->expected(1, -1);
  }
  bool print_grants = false;
  granting->add_flag("--print", print_grants, "only print what would be done");
  app.add_subcommand("admin",
                     "users, credits, keys, tasks, queue, audit: see audio-api admin --help");
  CLI11_PARSE(app, argc, argv);

  if (print_config) {
    std::fputs(audiogen::print_config(Program::kApi).c_str(), stdout);
    return 0;
  }
  if (serve->parsed()) {
    return with_config(audiogen::api::serve);
  }
  if (migrating->parsed()) {
    return audiogen::api::run_migrate();
  }
  if (granting->parsed()) {
    return audiogen::api::run_grants(grantees, print_grants);
  }
  std::fputs(app.help().c_str(), stdout);
  return 2;
}
