#include "common/store/switches.h"

#include <string>

#include "common/store/commands.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr std::size_t kWhoMax = 200;  // Characters, as the columns.

Sql& append(Sql& sql, const Said& said) {
  sql.utf8(said.by, kWhoMax) << ",";
  return sql.utf8(said.reason, kReasonMax);
}

}  // namespace

Result<bool, Fault> Switches::drain_worker(WorkerId worker) {
  return guarded([&]() -> Result<bool, Fault> {
    std::optional<Fault> fault;
    bool before = false;
    session_.transact_surely([&](bool again) {
      fault.reset();
      Rows rows = session_.query(Sql("SELECT ended_at, drain_asked_at FROM workers WHERE id=")
                                 << worker << " FOR UPDATE");
      if (!rows.next()) {
        fault = Fault{.code = FaultCode::kNoSuchWorker, .about = worker.text()};
      } else if (!rows.is_null(1)) {
        fault = Fault{.code = FaultCode::kWorkerGone, .about = worker.text()};
      } else {
        before = !rows.is_null(2) && !again;
        session_.later(
            Sql("UPDATE workers SET drain_asked_at=COALESCE(drain_asked_at, UTC_TIMESTAMP(6)) "
                "WHERE id=")
            << worker);
        note_done(before ? "asked before, nothing changed" : "");
      }
    });
    if (fault) {
      return *fault;
    }
    return before;
  });
}

Result<Done, Fault> Switches::override_breaker(std::string_view provider,
                                               bool open,
                                               std::chrono::seconds lasts,
                                               const Said& said) {
  return guarded([&]() -> Result<Done, Fault> {
    Sql sql(
        "INSERT INTO provider_overrides (provider, state, since, ends_at, who, reason) VALUES (");
    sql.utf8(provider, kProviderMax)
        << "," << (open ? kHeldOpen : kHeldClosed)
        << ",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) + INTERVAL " << lasts.count() << " SECOND,";
    append(sql, said) << ") ON DUPLICATE KEY UPDATE state=VALUES(state), since=VALUES(since), "
                         "ends_at=VALUES(ends_at), who=VALUES(who), reason=VALUES(reason)";
    session_.transact_surely([&](bool) {
      session_.later(sql);
      session_.later(Sql("DELETE FROM provider_overrides WHERE ends_at<=UTC_TIMESTAMP(6)"));
      note_done();
    });
    return Done{};
  });
}

Result<Done, Fault> Switches::clear_override(std::string_view provider) {
  return guarded([&]() -> Result<Done, Fault> {
    bool there = false;
    session_.transact_surely([&](bool again) {
      Sql sql("SELECT 1 FROM provider_overrides WHERE ends_at>UTC_TIMESTAMP(6) AND provider=");
      sql.utf8(provider, kProviderMax);
      // The first run may have done it.
      there = locked(sql) || (again && there);
      if (there) {
        Sql end("DELETE FROM provider_overrides WHERE provider=");
        end.utf8(provider, kProviderMax);
        session_.later(end);
        note_done();
      }
    });
    if (!there) {
      return Fault{.code = FaultCode::kNoOverride, .about = std::string(provider)};
    }
    return Done{};
  });
}

Result<Done, Fault> Switches::pause_intake(const Said& said) {
  return guarded([&]() -> Result<Done, Fault> {
    bool paused = false;
    session_.transact_surely([&](bool again) {
      Sql look("SELECT 1 FROM service_switches WHERE name='intake'");
      paused = locked(look) && !again;
      if (!paused) {
        Sql sql("INSERT INTO service_switches (name, since, who, reason) VALUES ('intake',");
        sql << "UTC_TIMESTAMP(6),";
        // The first run may have written it, and so may somebody else by now.
        session_.later(append(sql, said) << ") ON DUPLICATE KEY UPDATE name=VALUES(name)");
        note_done();
      }
    });
    if (paused) {
      return Fault{.code = FaultCode::kIntakePaused};
    }
    return Done{};
  });
}

Result<Done, Fault> Switches::resume_intake() {
  return guarded([&]() -> Result<Done, Fault> {
    bool paused = false;
    session_.transact_surely([&](bool again) {
      Sql look("SELECT 1 FROM service_switches WHERE name='intake'");
      paused = locked(look) || (again && paused);
      if (paused) {
        session_.later(Sql("DELETE FROM service_switches WHERE name='intake'"));
        note_done();
      }
    });
    if (!paused) {
      return Fault{.code = FaultCode::kIntakeOpen};
    }
    return Done{};
  });
}

Result<std::optional<IntakePause>, Fault> Switches::intake() {
  return guarded(
      [&]() -> Result<std::optional<IntakePause>, Fault> { return read_intake(session_); });
}

std::optional<IntakePause> read_intake(Session& session) {
  Rows rows =
      session.query(Sql("SELECT since, who, reason FROM service_switches WHERE name='intake'"));
  if (!rows.next()) {
    return std::nullopt;
  }
  return IntakePause{.since = rows.time(1), .by = rows.text(2), .reason = rows.text(3)};
}

}  // namespace audiogen::store
