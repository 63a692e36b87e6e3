// Which finished tasks lose their files, by age or because their owners delete them, and their old
// provider calls and claims, and how far that has come; which files are no task's.
#include <algorithm>
#include <array>
#include <set>

#include "common/store/free_rows.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

constexpr KeyedTable kTaskRows{.name = "tasks", .key = kRowId};
constexpr KeyedTable kDeletionRows{.name = "deletions", .key = kRowTaskId};
// What is kept for as long as somebody may ask what became of a task, by its id: all of it or none.
constexpr KeyedTable kept_of_tasks(std::string_view table) {
  return {.name = table, .key = kRowTaskId, .unique = false};
}
constexpr KeyedTable kPastCallRows = kept_of_tasks("past_attempts");
constexpr KeyedTable kCallRows = kept_of_tasks("provider_calls");
constexpr KeyedTable kClaimRows = kept_of_tasks("past_claims");

std::optional<Instant> oldest(Session& session, const KeyedTable& kept) {
  Rows rows = session.query(Sql::trusted("SELECT task_id FROM " + std::string(kept.name) +
                                         " FORCE INDEX (PRIMARY) ORDER BY task_id LIMIT 1"));
  return rows.next() ? std::optional(made_at(rows.uuid(1))) : std::nullopt;
}

// Those of tasks made before then, by their ids.
Sql made_before(Instant before, const KeyedTable& kept) {
  return Sql::trusted(std::string(kept.name))
         << " FORCE INDEX (PRIMARY) WHERE task_id<" << TaskId{first_uuid_at(before)}
         << " ORDER BY task_id";
}

// Writes that the files of these are gone. Those whom somebody holds are left out.
std::vector<TaskId> say_deleted(Session& session, const std::set<TaskId>& tasks) {
  std::vector<TaskId> out;
  if (tasks.empty()) {
    return out;
  }
  session.transact([&] {
    Sql from("tasks FORCE INDEX (PRIMARY) WHERE id IN (");
    list(from, tasks, [&](TaskId task) { from << task; }) << ")";
    const FreeRows free(session, kTaskRows, from);
    out = free.ids<TaskId>();
    // Not updated_at: a task that is final says by it when it came to its end.
    free.change(Sql("SET output_deleted_at=COALESCE(output_deleted_at,UTC_TIMESTAMP(6))"));
  });
  return out;
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
                                                           Instant until,
                                                           TaskId after) {
  return guarded<OldOutputs>("take_old_outputs", [&] {
    OldOutputs out;
    // Ids sort by creation time, so this is a short range of the primary key, whatever the number
    // of tasks. What is older than a task can be open is final: nobody else changes these rows (but
    // an owner who deletes his), and what is read here can be written in a statement of its own.
    Rows state = session_.query(Sql("SELECT done_to, UTC_TIMESTAMP(6) FROM retention WHERE id=1"));
    if (!state.next()) {
      return out;
    }
    const TaskId from = std::max(state.id<TaskId>(1), after);
    const Instant old = state.time(2) - age;
    const TaskId before{first_uuid_at(std::min(old, until))};
    std::vector<TaskOutput> files;
    std::set<TaskId> unsaid;  // Of them, those whose tasks do not say yet that they are gone.
    // That range is by the clock of whoever made the ids.
    Rows rows = session_.query(
        Sql("SELECT id, output_key, created_at<")
        << old << ", output_deleted_at IS NULL, deleted_at FROM tasks FORCE INDEX (PRIMARY) "
        << "WHERE id>" << from << " AND id<" << before << " ORDER BY id LIMIT " << limit);
    out.done_to = from;
    std::vector<TaskId> looked_at;
    while (rows.next()) {
      out.last = rows.id<TaskId>(1);
      looked_at.push_back(out.last);
      if (rows.i64(3) == 0) {
        ++out.kept;
      } else if (!rows.is_null(2)) {
        files.push_back({.task = out.last, .key = rows.text(2), .noted = !rows.is_null(5)});
        if (rows.i64(4) != 0) {
          unsaid.insert(out.last);
        }
      }
    }
    out.looked_at = looked_at.size();
    for (const TaskId said : say_deleted(session_, unsaid)) {
      unsaid.erase(said);
    }
    std::erase_if(files, [&](const TaskOutput& file) { return unsaid.contains(file.task); });
    out.files = std::move(files);
    for (const TaskId task : looked_at) {
      if (unsaid.contains(task)) {
        break;
      }
      out.done_to = task;
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

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_past_call() {
  return guarded<std::optional<Instant>>("oldest_past_call",
                                         [&] { return oldest(session_, kPastCallRows); });
}

Result<std::size_t, StoreFault> TaskStore::forget_past_calls(std::chrono::seconds age,
                                                             std::size_t limit,
                                                             Instant until) {
  return guarded<std::size_t>("forget_past_calls", [&] {
    const Instant before = std::min(session_.now() - age, until);
    std::size_t forgotten = 0;
    session_.transact([&] {
      // All of a task's at once: whoever counts its calls takes all of them to be here, or none.
      const FreeRows old(session_, kPastCallRows, made_before(before, kPastCallRows), limit);
      forgotten = old.size();
      if (old.empty()) {
        return;
      }
      // Together: whoever counts the calls of a task goes by how far this has come.
      const auto tasks = old.ids<TaskId>();
      const TaskId last = *std::max_element(tasks.begin(), tasks.end());
      session_.later(Sql("UPDATE retention SET attempts_to=")
                     << last << " WHERE id=1 AND attempts_to<" << last);
      old.forget();
    });
    return forgotten;
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_call() {
  return guarded<std::optional<Instant>>("oldest_call",
                                         [&] { return oldest(session_, kCallRows); });
}

Result<std::size_t, StoreFault> TaskStore::forget_calls(std::chrono::seconds age,
                                                        std::size_t limit,
                                                        Instant until) {
  return guarded<std::size_t>("forget_calls", [&] {
    return forget_free(
        session_, kCallRows, made_before(std::min(session_.now() - age, until), kCallRows), limit);
  });
}

Result<std::optional<Instant>, StoreFault> TaskStore::oldest_claim() {
  return guarded<std::optional<Instant>>("oldest_claim",
                                         [&] { return oldest(session_, kClaimRows); });
}

Result<std::size_t, StoreFault> TaskStore::forget_claims(std::chrono::seconds age,
                                                         std::size_t limit,
                                                         Instant until) {
  return guarded<std::size_t>("forget_claims", [&] {
    return forget_free(session_,
                       kClaimRows,
                       made_before(std::min(session_.now() - age, until), kClaimRows),
                       limit);
  });
}

Result<DoubtfulOutputs, StoreFault> TaskStore::doubtful_outputs(TaskId from,
                                                                TaskId to,
                                                                std::size_t limit) {
  return guarded<DoubtfulOutputs>("doubtful_outputs", [&] {
    DoubtfulOutputs out;
    Rows part = session_.query(
        Sql("SELECT COUNT(*), MAX(id) FROM (SELECT id FROM tasks FORCE INDEX (PRIMARY) WHERE id>=")
        << from << " AND id<=" << to << " ORDER BY id LIMIT " << limit << ") t");
    if (!part.next() || part.u64(1) == 0) {
      return out;
    }
    const auto last = part.id<TaskId>(2);
    if (part.u64(1) == limit && last < to) {
      out.last = last;
    }
    // Every claim after the first has an epoch above 1. Final only: an open task's output, just
    // written, is not yet named here.
    Rows rows = session_.query(Sql("SELECT id, output_key FROM tasks FORCE INDEX (PRIMARY) WHERE "
                                   "id>=")
                               << from << " AND id<=" << last
                               << " AND charged IS NOT NULL AND (epoch>1 OR output_key IS NULL) "
                                  "ORDER BY id");
    while (rows.next()) {
      out.tasks.push_back({.task = rows.id<TaskId>(1), .key = rows.is_null(2) ? "" : rows.text(2)});
    }
    return out;
  });
}

Result<std::vector<TaskOutput>, StoreFault> TaskStore::deletions(Noted why,
                                                                 TaskId after,
                                                                 std::size_t limit) {
  return guarded<std::vector<TaskOutput>>("deletions", [&] {
    std::vector<TaskOutput> out;
    Rows rows =
        session_.query(Sql("SELECT d.task_id, t.output_key, t.request_id, t.trace FROM deletions d "
                           "FORCE INDEX (PRIMARY) STRAIGHT_JOIN "
                           "tasks t FORCE INDEX (PRIMARY) ON t.id=d.task_id WHERE d.task_id>")
                       << after << " AND (t.deleted_at IS NULL)=" << (why == Noted::kOld ? 1 : 0)
                       << " ORDER BY d.task_id LIMIT " << limit);
    while (rows.next()) {
      out.push_back({.task = rows.id<TaskId>(1),
                     .key = rows.is_null(2) ? "" : rows.text(2),
                     .trail = read_trail(rows, 3)});
    }
    return out;
  });
}

Result<bool, StoreFault> TaskStore::note_deletions(std::span<const TaskId> tasks,
                                                   std::size_t most) {
  return guarded<bool>("note_deletions", [&] {
    if (tasks.empty()) {
      return true;
    }
    Sql has(
        "SELECT COUNT(*), (SELECT COUNT(*) FROM (SELECT d.task_id FROM deletions d STRAIGHT_JOIN "
        "tasks t FORCE INDEX (PRIMARY) ON t.id=d.task_id WHERE t.deleted_at IS NULL LIMIT ");
    has << most << ") o) FROM deletions WHERE task_id IN (";
    Rows rows = session_.query(list(has, tasks, [&](TaskId task) { has << task; }) << ")");
    AG_CHECK(rows.next());
    if (rows.u64(1) < tasks.size()) {
      if (rows.u64(2) >= most) {
        return false;
      }
      Sql notes("INSERT IGNORE INTO deletions (task_id, deleted_at) VALUES ");
      session_.execute(
          list(notes, tasks, [&](TaskId task) { notes << "(" << task << ",UTC_TIMESTAMP(6))"; }));
    }
    return true;
  });
}

Result<Done, StoreFault> TaskStore::deletions_done(std::span<const TaskId> tasks) {
  return guarded<Done>("deletions_done", [&] {
    if (!tasks.empty()) {
      Sql from("deletions FORCE INDEX (PRIMARY) WHERE task_id IN (");
      list(from, tasks, [&](TaskId task) { from << task; }) << ")";
      forget_free(session_, kDeletionRows, from);
    }
    return Done{};
  });
}

Result<Instant, StoreFault> TaskStore::now() {
  return guarded<Instant>("now", [&] { return session_.now(); });
}

}  // namespace audiogen::store
