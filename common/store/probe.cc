#include "common/store/probe.h"

#include <chrono>
#include <cstdlib>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/rest.h"
#include "common/store/migrate.h"
#include "common/store/session.h"
#include "common/store/switches.h"

namespace audiogen::store {
namespace {

// The newest migration that this program knows; a test of two releases has another idea of one.
int program_version() {
#ifdef AUDIOGEN_CRASH_POINTS
  if (const char* const text = std::getenv("SCHEMA_VERSION"); text != nullptr) {
    return std::atoi(text);
  }
#endif
  return newest_migration();
}

// Whether this program may serve on it.
bool serves_on(const SchemaLook& schema) {
  return schema_fit(schema, program_version()) == SchemaFit::kFits;
}

void say_why_not(const SchemaLook& schema) {
  const bool old = schema_fit(schema, program_version()) == SchemaFit::kTooOld;
  log::error(old ? "the database's schema is older than this program: run audio-api migrate"
                 : "the database's schema is newer than this program may serve on: use the newer "
                   "program",
             {{"database_version", schema.complete},
              {"begun", schema.begun},
              {"serves_from", schema.serves_from},
              {"program_version", program_version()}});
}

// Here, so that it is told from the start.
prometheus::Gauge& reachable =
    metrics::gauge("database_reachable", "1 while the database answers, asked once a second");

}  // namespace

bool may_serve(const DatabaseUrl& url) {
  const auto schema = look_at_schema(url);
  if (!schema || serves_on(*schema)) {
    return true;
  }
  say_why_not(*schema);
  return false;
}

void Probe::watch(const DatabaseUrl& url, const std::stop_token& stop) {
  Session session(url);
  do {
    look(session);
  } while (!stopped_within(stop, std::chrono::seconds(1)));
}

void Probe::look_at_intake(Session& session) {
  const auto pause = read_intake(session);
  const bool before = intake_paused_.exchange(pause.has_value());
  if (pause && !before) {
    log::warn("the intake is paused: creations are refused",
              {{"by", pause->by}, {"reason", pause->reason}});
  } else if (!pause && before) {
    log::info("the intake is open again");
  }
}

void Probe::look(Session& session) {
  try {
    const SchemaLook schema = look_at_schema(session);
    const bool fit = serves_on(schema);
    const bool fitted = fits_.exchange(fit);
    if (fitted && !fit) {
      say_why_not(schema);
    } else if (!fitted && fit) {
      log::info("the database's schema is one for this program again");
    }
    if (fit && intake_too_) {
      look_at_intake(session);
    }
    ok_.store(true);
    reachable.Set(1);
  } catch (const DbError& e) {
    ok_.store(false);
    reachable.Set(0);
    log::warn("the database does not answer", {{"code", e.code()}, {"error", e.what()}});
  }
}

}  // namespace audiogen::store
