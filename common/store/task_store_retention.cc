// Which finished tasks lose their files, by age or because their owners delete them, and their old
// provider calls and claims, and how far that has come; which files are no task's.
#include <algorithm>

#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

// Rows that are kept for as long as somebody may ask what became of their task, by its id.
struct Kept {
  std::string_view table, within;  // What tells its rows of one task apart.
};
constexpr Kept kCalls{.table = "provider_calls", .within = "n"};
constexpr Kept kClaims{.table = "past_claims", .within = "epoch"};

std::optional<Instant> oldest(Session& session, const Kept& kept) {
  Rows rows = session.query(Sql::trusted("SELECT task_id FROM " + std::string(kept.table) +
                                         " FORCE INDEX (PRIMARY) ORDER BY task_id LIMIT 1"));
  return rows.next() ? std::optional(made_at(rows.uuid(1))) : std::nullopt;
}

// Those of tasks made before then, by their ids.
std::size_t forget(Session& session, const Kept& kept, Instant before, std::size_t limit) {
  Sql sql = Sql::trusted("DELETE FROM " + std::string(kept.table) + " WHERE task_id<");
  sql << TaskId{first_uuid_at(before)};
  sql.append(Sql::trusted(" ORDER BY task_id, " + std::string(kept.within) + " LIMIT "));
  return static_cast<std::size_t>(session.execute(sql << limit));
}

}  // namespace

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_output() {
  return guarded<std::optional<Instant>>("oldest_output", [&] {
    Rows rows = session_.query(
        Sql("SELECT t.id FROM tasks t FORCE INDEX (PRIMARY) WHERE t.id>(SELECT done_to FROM "
            "retention WHERE id=1) ORDER BY t.id LIMIT 1"));
    return rows.next() ? std::optional(made_at(rows.uuid(1))) : std::nullopt;
  });
}

Result<OldOutputs, StoreFault> TaskStore::take_old_outputs(std::chrono::seconds age,
                                                           std::size_t limit,
                                                           Instant until) {
  return guarded<OldOutputs>("take_old_outputs", [&] {
    OldOutputs out;
    // Ids sort by creation time, so this is a short range of the primary key, whatever the number
    // of tasks. What is older than a task can be open is final: nobody else changes these rows (but
    // an owner who deletes his), and what is read here can be written in a statement of its own.
    Rows state = session_.query(Sql("SELECT done_to, UTC_TIMESTAMP(6) FROM retention WHERE id=1"));
    if (!state.next()) {
      return out;
    }
    const TaskId from = state.id<TaskId>(1);
    const Instant old = state.time(2) - age;
    const TaskId before{first_uuid_at(std::min(old, until))};
    // That range is by the clock of whoever made the ids.
    Rows rows = session_.query(Sql("SELECT id, output_key, created_at<")
                               << old << " FROM tasks WHERE id>" << from << " AND id<" << before
                               << " ORDER BY id LIMIT " << limit);
    while (rows.next()) {
      out.last = rows.id<TaskId>(1);
      ++out.looked_at;
      if (rows.i64(3) == 0) {
        ++out.kept;
      } else if (!rows.is_null(2)) {
        out.keys.push_back(rows.text(2));
      }
    }
    if (!out.keys.empty()) {
      session_.execute(Sql("UPDATE tasks SET output_deleted_at=UTC_TIMESTAMP(6), "
                           "updated_at=UTC_TIMESTAMP(6) WHERE id>")
                       << from << " AND id<=" << out.last << " AND created_at<" << old
                       << " AND output_key IS NOT NULL AND output_deleted_at IS NULL");
    }
    return out;
  });
}

Result<Done, StoreFault> TaskStore::old_outputs_deleted(TaskId last) {
  return guarded<Done>("old_outputs_deleted", [&] {
    session_.execute(Sql("UPDATE retention SET done_to=")
                     << last << " WHERE id=1 AND done_to<" << last);
    return Done{};
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_attempt() {
  return guarded<std::optional<Instant>>("oldest_attempt", [&] {
    Rows rows = session_.query(
        Sql("SELECT task_id FROM past_attempts FORCE INDEX (PRIMARY) WHERE task_id>(SELECT "
            "attempts_to FROM retention WHERE id=1) ORDER BY task_id LIMIT 1"));
    return rows.next() ? std::optional(made_at(rows.uuid(1))) : std::nullopt;
  });
}

Result<std::size_t, StoreFault> TaskStore::forget_attempts(std::chrono::seconds age,
                                                           std::size_t limit,
                                                           Instant until) {
  return guarded<std::size_t>("forget_attempts", [&] {
    std::uint64_t forgotten = 0;
    session_.transact([&] {
      forgotten = 0;
      Rows state =
          session_.query(Sql("SELECT attempts_to, UTC_TIMESTAMP(6) FROM retention WHERE id=1"));
      if (!state.next()) {
        return;
      }
      const TaskId from = state.id<TaskId>(1);
      const TaskId before{first_uuid_at(std::min(state.time(2) - age, until))};
      Rows rows = session_.query(
          Sql("SELECT MAX(task_id) FROM (SELECT task_id FROM past_attempts FORCE INDEX (PRIMARY) "
              "WHERE task_id>")
          << from << " AND task_id<" << before << " ORDER BY task_id LIMIT " << limit << ") o");
      if (!rows.next() || rows.is_null(1)) {
        return;
      }
      const TaskId last = rows.id<TaskId>(1);
      // Together: whoever counts the calls of a task goes by how far this has come.
      session_.later(Sql("UPDATE retention SET attempts_to=")
                     << last << " WHERE id=1 AND attempts_to<" << last);
      forgotten = session_.execute(Sql("DELETE FROM past_attempts WHERE task_id>")
                                   << from << " AND task_id<=" << last);
    });
    return static_cast<std::size_t>(forgotten);
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_call() {
  return guarded<std::optional<Instant>>("oldest_call", [&] { return oldest(session_, kCalls); });
}

Result<std::size_t, StoreFault> TaskStore::forget_calls(std::chrono::seconds age,
                                                        std::size_t limit,
                                                        Instant until) {
  return guarded<std::size_t>("forget_calls", [&] {
    return forget(session_, kCalls, std::min(session_.now() - age, until), limit);
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_claim() {
  return guarded<std::optional<Instant>>("oldest_claim", [&] { return oldest(session_, kClaims); });
}

Result<std::size_t, StoreFault> TaskStore::forget_claims(std::chrono::seconds age,
                                                         std::size_t limit,
                                                         Instant until) {
  return guarded<std::size_t>("forget_claims", [&] {
    return forget(session_, kClaims, std::min(session_.now() - age, until), limit);
  });
}

Result<std::vector<TaskOutput>, StoreFault> TaskStore::doubtful_outputs(TaskId from,
                                                                        TaskId to,
                                                                        std::size_t limit) {
  return guarded<std::vector<TaskOutput>>("doubtful_outputs", [&] {
    std::vector<TaskOutput> out;
    // Every claim after the first has an epoch above 1. Final only: an open task's output, just
    // written, is not yet named here.
    Rows rows = session_.query(Sql("SELECT id, output_key FROM tasks FORCE INDEX (PRIMARY) WHERE "
                                   "id>=")
                               << from << " AND id<=" << to
                               << " AND charged IS NOT NULL AND (epoch>1 OR output_key IS NULL) "
                                  "ORDER BY id LIMIT "
                               << limit);
    while (rows.next()) {
      out.push_back({.task = rows.id<TaskId>(1), .key = rows.is_null(2) ? "" : rows.text(2)});
    }
    return out;
  });
}

Result<std::vector<TaskOutput>, StoreFault> TaskStore::deletions(TaskId after, std::size_t limit) {
  return guarded<std::vector<TaskOutput>>("deletions", [&] {
    std::vector<TaskOutput> out;
    Rows rows =
        session_.query(Sql("SELECT d.task_id, t.output_key, t.request_id, t.trace FROM deletions d "
                           "FORCE INDEX (PRIMARY) STRAIGHT_JOIN "
                           "tasks t FORCE INDEX (PRIMARY) ON t.id=d.task_id WHERE d.task_id>")
                       << after << " ORDER BY d.task_id LIMIT " << limit);
    while (rows.next()) {
      out.push_back({.task = rows.id<TaskId>(1),
                     .key = rows.is_null(2) ? "" : rows.text(2),
                     .trail = read_trail(rows, 3)});
    }
    return out;
  });
}

Result<Done, StoreFault> TaskStore::deletions_done(std::span<const TaskId> tasks) {
  return guarded<Done>("deletions_done", [&] {
    if (!tasks.empty()) {
      Sql sql("DELETE FROM deletions WHERE task_id IN (");
      list(sql, tasks, [&](TaskId task) { sql << task; }) << ")";
      session_.execute(sql);
    }
    return Done{};
  });
}

Result<Instant, StoreFault> TaskStore::now() {
  return guarded<Instant>("now", [&] { return session_.now(); });
}

}  // namespace audiogen::store
