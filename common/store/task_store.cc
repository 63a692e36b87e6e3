// The parts of TaskStore that only read, or that keep house. What keeps house is one statement at a
// time and no transaction, so that no lock is ever held while the server waits for us; but where it
// might come upon a row that somebody holds: free_rows.h is for that.
#include "common/store/task_store.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "common/base/check.h"
#include "common/domain/sign_in.h"
#include "common/store/free_rows.h"
#include "common/store/service_minutes.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"

namespace audiogen::store {
namespace {

constexpr std::chrono::seconds kLogEvery{1};
constexpr std::chrono::days kIdempotencyKept{7};
// Nothing here waits for a lock.
SessionOptions never_waits(std::optional<std::chrono::seconds> turns_kept) {
  SessionOptions options{.lock_wait = std::chrono::seconds(0)};
  if (turns_kept) {
    options.idle_max = *turns_kept;
    options.rests = true;
  }
  return options;
}

constexpr std::array kRowEnd{KeyColumn{.name = "expires_at", .kind = KeyColumn::Kind::kTime}};
constexpr std::array kRowUserAndKey{KeyColumn{.name = "user_id"},
                                    KeyColumn{.name = "idem_key", .kind = KeyColumn::Kind::kBytes}};
constexpr KeyedTable kApiKeyRows{.name = "api_keys", .key = kRowId};
constexpr KeyedTable kSessionRows{.name = "sessions", .key = kRowId};
constexpr KeyedTable kWorkerRows{.name = "workers", .key = kRowId};
constexpr KeyedTable kApiProcessRows{.name = "api_processes", .key = kRowId};
constexpr KeyedTable kIdempotencyRows{.name = "idempotency", .key = kRowUserAndKey};

// What is over at a time of its own. By that it is known: who keeps house may not see more of it.
constexpr KeyedTable ending(std::string_view table) {
  return {.name = table, .key = kRowEnd, .index = "k_expires", .unique = false};
}
constexpr std::array kLinkRows{ending("login_links"), ending("sign_ups"), ending("mail_changes")};
constexpr KeyedTable kChallengeRows = ending("used_challenges");

// Rows by their ids.
Sql these(Sql table, std::span<const Uuid> ids) {
  Sql sql = table << " FORCE INDEX (PRIMARY) WHERE id IN (";
  list(sql, ids, [&](const Uuid& id) { sql << id; }) << ")";
  return sql;
}

using KeysByHash = std::unordered_map<std::string, KeyRecord>;

// Outcome i is what was found for hash i.
std::vector<KeyOutcome> in_order(std::span<const Sha256> hashes, const KeysByHash& found) {
  std::vector<KeyOutcome> out;
  out.reserve(hashes.size());
  for (const Sha256& hash : hashes) {
    const auto row = found.find(std::string(hash.begin(), hash.end()));
    out.push_back(row == found.end() ? std::nullopt : std::optional(row->second));
    if (out.back()) {
      out.back()->secret = hash;
    }
  }
  return out;
}

// Outcome i is that of id i, of which `changed` are done. Of the others somebody holds the row, or
// has deleted it.
Batch<Done> in_order(std::span<const Uuid> ids,
                     const Result<std::vector<Uuid>, StoreFault>& changed) {
  Batch<Done> out;
  out.reserve(ids.size());
  for (const Uuid& id : ids) {
    if (!changed) {
      out.emplace_back(changed.error());
    } else if (std::find(changed->begin(), changed->end(), id) == changed->end()) {
      out.emplace_back(StoreFault::kLocked);
    } else {
      out.emplace_back(Done{});
    }
  }
  return out;
}

}  // namespace

TaskStore::TaskStore(const DatabaseUrl& url,
                     LocalClocks clocks,
                     std::optional<std::chrono::seconds> turns_kept)
    : session_(url, never_waits(turns_kept)), clocks_(std::move(clocks)) {}

void TaskStore::log_fault(const char* what, const DbError& error, std::size_t commands) {
  // With the database away every call fails; one line a second says it. That a row is held is no
  // fault of anything.
  const auto now = std::chrono::steady_clock::now();
  if (error.fault() == DbFault::kBusy || (logged_at_ && now - *logged_at_ < kLogEvery)) {
    return;
  }
  logged_at_ = now;
  log::warn(
      "transaction failed",
      {{"what", what}, {"commands", commands}, {"code", error.code()}, {"error", error.what()}});
}

Batch<FindOutcome> TaskStore::find(std::span<const FindCommand> commands) {
  if (commands.empty()) {
    return {};
  }
  auto found_all = guarded<std::vector<FindOutcome>>("find", [&] {
    std::vector<TaskId> ids;
    ids.reserve(commands.size());
    for (const FindCommand& command : commands) {
      ids.push_back(command.id);
    }
    std::vector<FindOutcome> outcomes(commands.size());
    for (OwnedView& found : read_views(session_, ids)) {
      const TaskId id = found.view.id;
      FindOutcome* given = nullptr;
      for (std::size_t i = 0; i < commands.size(); ++i) {
        // A foreign task and a missing one take the same way, and look the same.
        if (commands[i].id == id && commands[i].user == found.user) {
          outcomes[i] = given == nullptr ? std::move(found.view) : **given;
          given = &outcomes[i];
        }
      }
    }
    return outcomes;
  });
  return all_or_fault(std::move(found_all), commands.size());
}

Batch<KeyOutcome> TaskStore::find_keys(std::span<const Sha256> hashes) {
  if (hashes.empty()) {
    return {};
  }
  auto found_all = guarded<std::vector<KeyOutcome>>("find_keys", [&] {
    Sql sql(
        "SELECT k.key_hash, k.id, k.user_id, u.plan=1 OR u.purchased=1, k.scopes, k.spend_limit IS "
        "NOT NULL, u.plan=1 FROM api_keys k FORCE INDEX (u_hash) JOIN users u ON u.id=k.user_id "
        "WHERE "
        "k.deleted_at IS NULL "
        "AND (k.expires_at IS NULL OR k.expires_at>UTC_TIMESTAMP(6)) AND k.key_hash IN (");
    const auto write = [&](const Sha256& hash) { sql.bytes(hash); };
    list(sql, hashes, write)
        << ") UNION ALL SELECT k.previous_hash, k.id, k.user_id, u.plan=1 OR u.purchased=1, "
           "k.scopes, k.spend_limit IS NOT NULL, u.plan=1 FROM api_keys k FORCE INDEX (u_previous) "
           "JOIN "
           "users u ON u.id=k.user_id WHERE "
           "k.deleted_at IS NULL AND (k.expires_at IS NULL OR k.expires_at>UTC_TIMESTAMP(6)) AND "
           "k.previous_until>UTC_TIMESTAMP(6) AND k.previous_hash IN (";
    list(sql, hashes, write) << ")";
    KeysByHash found;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      found[rows.text(1)] = {.id = rows.id<KeyId>(2),
                             .user = rows.id<UserId>(3),
                             .api_access = rows.i64(4) != 0,
                             .scopes = rows.scopes(5),
                             .limited = rows.i64(6) != 0,
                             .paid = rows.i64(7) != 0};
    }
    return in_order(hashes, found);
  });
  return all_or_fault(std::move(found_all), hashes.size());
}

Batch<Done> TaskStore::touch_keys(std::span<const KeyRecord> used) {
  if (used.empty()) {
    return {};
  }
  std::vector<Uuid> keys;
  keys.reserve(used.size());
  for (const KeyRecord& key : used) {
    keys.push_back(key.id.uuid);
  }
  const auto noted = guarded<std::vector<Uuid>>("touch_keys", [&] {
    // It may have got another since it was looked up, which nobody has seen.
    Sql now("SET last_used_at=UTC_TIMESTAMP(6), secret_used=secret_used OR key_hash IN (");
    list(now, used, [&](const KeyRecord& key) { now.bytes(key.secret); }) << ")";
    return change_free(session_, kApiKeyRows, these(Sql("api_keys"), keys), now);
  });
  return in_order(keys, noted);
}

Batch<KeyOutcome> TaskStore::find_sessions(std::span<const Sha256> hashes) {
  if (hashes.empty()) {
    return {};
  }
  auto found_all = guarded<std::vector<KeyOutcome>>("find_sessions", [&] {
    Sql sql(
        "SELECT s.token_hash, s.id, s.user_id, s.created_at, s.last_seen_at, UTC_TIMESTAMP(6), "
        "u.plan=1 FROM sessions s FORCE INDEX (u_hash) JOIN users u ON u.id=s.user_id WHERE "
        "s.token_hash IN (");
    list(sql, hashes, [&](const Sha256& hash) { sql.bytes(hash); }) << ")";
    KeysByHash found;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      if (session_end(rows.time(4), rows.time(5)) > rows.time(6)) {
        found[rows.text(1)] = {.user = rows.id<UserId>(3),
                               .api_access = true,
                               .scopes = kAllScopes,
                               .paid = rows.i64(7) != 0,
                               .session = rows.id<SessionId>(2)};
      }
    }
    return in_order(hashes, found);
  });
  return all_or_fault(std::move(found_all), hashes.size());
}

Batch<Done> TaskStore::touch_sessions(std::span<const SessionId> sessions) {
  if (sessions.empty()) {
    return {};
  }
  std::vector<Uuid> ids;
  ids.reserve(sessions.size());
  for (const SessionId& session : sessions) {
    ids.push_back(session.uuid);
  }
  const auto noted = guarded<std::vector<Uuid>>("touch_sessions", [&] {
    return change_free(session_,
                       kSessionRows,
                       these(Sql("sessions"), ids),
                       Sql("SET last_seen_at=UTC_TIMESTAMP(6)"));
  });
  return in_order(ids, noted);
}

Result<std::size_t, StoreFault> TaskStore::purge_sessions(std::size_t limit) {
  return guarded<std::size_t>("purge_sessions", [&] {
    // Ids sort by the time they were made, by the clock of whoever made them, which may be wrong.
    const Instant now = session_.now();
    const SessionId made{first_uuid_at(now - kSessionLifeMax - std::chrono::days(1))};
    const auto forget_over = [&](const KeyedTable& table, Instant before) {
      return forget_free(session_,
                         table,
                         Sql::trusted(std::string(table.name))
                             << " FORCE INDEX (k_expires) WHERE expires_at<" << before
                             << " ORDER BY expires_at",
                         limit);
    };
    std::size_t most = forget_free(session_,
                                   kSessionRows,
                                   Sql("sessions FORCE INDEX (k_seen) WHERE last_seen_at<")
                                       << now - kSessionIdleMax << " ORDER BY last_seen_at",
                                   limit);
    most = std::max(
        most,
        forget_free(session_,
                    kSessionRows,
                    Sql("sessions FORCE INDEX (PRIMARY) WHERE id<")
                        << made << " AND created_at<" << now - kSessionLifeMax << " ORDER BY id",
                    limit));
    for (const KeyedTable& table : kLinkRows) {
      most = std::max(most, forget_over(table, now));
    }
    // A challenge's end is by the clock of whoever made it.
    return std::max(most, forget_over(kChallengeRows, now - std::chrono::hours(1)));
  });
}

Result<std::size_t, StoreFault> TaskStore::forget_silent(std::size_t limit) {
  return guarded<std::size_t>("forget_silent", [&] {
    constexpr char kSilent[] =
        " FORCE INDEX (k_seen) WHERE seen_at<UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY "
        "seen_at";
    return std::max(forget_free(session_, kWorkerRows, Sql("workers") << kSilent, limit),
                    forget_free(session_, kApiProcessRows, Sql("api_processes") << kSilent, limit));
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_idempotency() {
  return guarded<std::optional<Instant>>("oldest_idempotency", [&] {
    // As old_idempotency() takes them: a key whose task never ends keeps no other.
    Rows rows = session_.query(Sql("SELECT i.created_at FROM idempotency i FORCE INDEX (k_age) "
                                   "STRAIGHT_JOIN tasks t FORCE "
                                   "INDEX (PRIMARY) ON t.id=i.task_id WHERE t.state>=")
                               << TaskState::kSucceeded << " ORDER BY i.created_at LIMIT 1");
    return rows.next() ? std::optional(rows.time(1)) : std::nullopt;
  });
}

Result<std::vector<OldKey>, StoreFault> TaskStore::old_idempotency(std::size_t limit,
                                                                   Instant from,
                                                                   Instant until) {
  return guarded<std::vector<OldKey>>("old_idempotency", [&] {
    const Instant before = std::min(until, session_.now() - kIdempotencyKept);
    Sql sql(
        "SELECT i.user_id, i.idem_key, i.task_id, i.created_at FROM idempotency i FORCE INDEX "
        "(k_age) STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) ON t.id=i.task_id WHERE "
        "i.created_at>=");
    sql << from << " AND i.created_at<" << before << " AND t.state>=" << TaskState::kSucceeded
        << " ORDER BY i.created_at LIMIT " << limit;
    std::vector<OldKey> old;
    Rows rows = session_.query(sql);
    while (rows.next()) {
      old.push_back({.user = rows.id<UserId>(1),
                     .key = rows.text(2),
                     .task = rows.id<TaskId>(3),
                     .used_at = rows.time(4)});
    }
    return old;
  });
}

Result<std::size_t, StoreFault> TaskStore::forget_idempotency(std::span<const OldKey> keys) {
  return guarded<std::size_t>("forget_idempotency", [&]() -> std::size_t {
    if (keys.empty()) {
      return 0;
    }
    // Somebody else may have deleted such a row meanwhile, and its user may use the key for another
    // task: that one stays.
    Sql from("(SELECT NULL AS u, NULL AS k, NULL AS t");
    for (const OldKey& old : keys) {
      from << " UNION ALL SELECT " << old.user << ",";
      from.bytes(old.key) << "," << old.task;
    }
    from << ") o STRAIGHT_JOIN idempotency FORCE INDEX (PRIMARY) ON user_id=o.u AND idem_key=o.k "
            "AND "
            "task_id=o.t";
    return forget_free(session_, kIdempotencyRows, from);
  });
}

Result<bool, StoreFault> TaskStore::take_turn(Chore chore) {
  return guarded<bool>("take_turn", [&] {
    // A lock of the server's, as for the roll-up of usage: it ends with its holder's connection, or
    // once that has been idle for a while. Asked before each step, so that no new connection takes
    // itself for the one before.
    const std::string kind = "chore" + std::to_string(static_cast<int>(chore));
    Rows rows = session_.query(
        Sql("SELECT COALESCE(IS_USED_LOCK(n)=CONNECTION_ID(), GET_LOCK(n,0), 0) FROM (SELECT ")
            .append(lock_name(kind))
        << " AS n) l");
    AG_CHECK(rows.next());
    return rows.i64(1) == 1;
  });
}

Result<ClockLook, StoreFault> TaskStore::look_at_clocks() {
  return guarded<ClockLook>("look_at_clocks", [&] {
    ClockLook look;
    look.local = clocks_.wall();
    look.asked = clocks_.steady();
    look.database = session_.now();
    look.answered = clocks_.steady();
    return look;
  });
}

Result<WorkerOrders, StoreFault> TaskStore::report_worker(WorkerId worker,
                                                          const std::string& host,
                                                          int pid,
                                                          const WorkerReport& report) {
  constexpr std::size_t kHostMax = 255;
  return guarded<WorkerOrders>("report_worker", [&] {
    Sql sql(
        "INSERT INTO workers (id, host, pid, in_flight, places, room, ended, needs, "
        "route_lines, status, started_at, seen_at) VALUES (");
    sql << worker << ",";
    sql.utf8(host, kHostMax) << "," << pid << "," << report.in_flight << "," << report.places << ","
                             << report.room << "," << report.ended << "," << report.needs.count()
                             << ",";
    sql.utf8(encode_lines(report.lines), kRouteTextMax) << ",";
    sql.bytes(report.status_json) << ",UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE "
                                     "in_flight=VALUES(in_flight), places=VALUES(places), "
                                     "room=VALUES(room), "
                                     "ended=VALUES(ended), needs=VALUES(needs), "
                                     "route_lines=VALUES(route_lines), "
                                     "status=VALUES(status), seen_at=VALUES(seen_at)";
    session_.execute(sql);
    WorkerOrders orders;
    Rows rows = session_.query(
        Sql("SELECT w.drain_asked_at, o.provider, o.state, TIMESTAMPDIFF(MICROSECOND, "
            "UTC_TIMESTAMP(6), o.ends_at), (SELECT COUNT(*) FROM workers s WHERE s.ended_at IS "
            "NULL "
            "AND s.drain_asked_at IS NULL AND s.status NOT LIKE '%\"draining\":true%' "
            "AND s.seen_at<UTC_TIMESTAMP(6) + INTERVAL 2 SECOND AND s.seen_at>UTC_TIMESTAMP(6) - "
            "INTERVAL ")
        << kWorkerSeenWithin.count() << " SECOND) FROM workers w LEFT JOIN provider_overrides o ON "
        << "o.ends_at>UTC_TIMESTAMP(6) WHERE w.id=" << worker);
    while (rows.next()) {
      orders.drain = !rows.is_null(1);
      orders.workers = std::max<std::uint64_t>(rows.u64(5), 1);
      if (!rows.is_null(2)) {
        orders.breakers.push_back(
            {.provider = rows.text(2),
             .open = rows.u32(3) == kHeldOpen,
             .left = std::chrono::ceil<std::chrono::milliseconds>(
                 std::chrono::microseconds(std::max<std::int64_t>(rows.i64(4), 0)))});
      }
    }
    return orders;
  });
}

Result<bool, StoreFault> TaskStore::write_service_minute() {
  return guarded<bool>("write_service_minute",
                       [&] { return store::write_service_minute(session_); });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_minute() {
  return guarded<std::optional<Instant>>("oldest_minute",
                                         [&] { return oldest_service_minute(session_); });
}

Result<std::size_t, StoreFault> TaskStore::forget_minutes(std::chrono::seconds age,
                                                          std::size_t limit,
                                                          Instant until) {
  return guarded<std::size_t>("forget_minutes", [&] {
    return forget_service_minutes(session_, std::min(session_.now() - age, until), limit);
  });
}

Result<Done, StoreFault> TaskStore::report_worker_ended(WorkerId worker) {
  return guarded<Done>("report_worker_ended", [&] {
    session_.execute(Sql("UPDATE workers SET in_flight=0, ended_at=UTC_TIMESTAMP(6) WHERE id=")
                     << worker << " AND ended_at IS NULL");
    return Done{};
  });
}

Result<Done, StoreFault> TaskStore::report_api(ApiId api,
                                               TaskId unsent_from,
                                               const std::optional<CreationCount>& last_minute) {
  return guarded<Done>("report_api", [&] {
    Sql sql("INSERT INTO api_processes (id, unsent_from, creations, refused, seen_at) VALUES (");
    sql << api << "," << unsent_from << ","
        << (last_minute ? std::optional(last_minute->answered) : std::nullopt) << ","
        << (last_minute ? std::optional(last_minute->refused) : std::nullopt)
        << ",UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE unsent_from=VALUES(unsent_from), "
           "creations=VALUES(creations), refused=VALUES(refused), seen_at=VALUES(seen_at)";
    session_.execute(sql);
    return Done{};
  });
}

Result<Done, StoreFault> TaskStore::report_api_ended(ApiId api) {
  return guarded<Done>("report_api_ended", [&] {
    // As though it had been silent for a minute: it counts no more, but where there is no other its
    // last word does. It is left for that; after a day the janitors forget it.
    session_.execute(
        Sql("UPDATE api_processes SET seen_at=UTC_TIMESTAMP(6) - INTERVAL 60 SECOND WHERE id=")
        << api);
    return Done{};
  });
}

bool TaskStore::ping() {
  return static_cast<bool>(guarded<Done>("ping", [&] {
    session_.now();
    return Done{};
  }));
}

}  // namespace audiogen::store
