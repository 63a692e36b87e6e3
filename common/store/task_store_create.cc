// Creating tasks: holds, idempotency keys, and the rows of the tasks.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/store/spending.h"
#include "common/store/task_batch.h"
#include "common/store/task_rows.h"
#include "common/store/task_store.h"

namespace audiogen::store {
namespace {

using Kind = CreateOutcome::Kind;

// What a key of a user stands for.
struct KeyUse {
  Sha256 fingerprint{};
  TaskView task;
};
using KeyUses = std::map<std::pair<UserId, std::string>, KeyUse>;

// The uses of these commands' keys. Every writer of a user's keys holds that user's balance, so
// under its lock this is the whole truth.
KeyUses read_keys(Session& session,
                  std::span<const BatchItem<CreateCommand, CreateOutcome>> entries) {
  KeyUses uses;
  Sql sql("SELECT i.user_id, i.idem_key, i.fingerprint, ");
  sql << kViewColumns
      << " FROM idempotency i FORCE INDEX (PRIMARY) STRAIGHT_JOIN tasks t FORCE INDEX (PRIMARY) "
         "ON t.id=i.task_id WHERE ";
  bool any = false;
  for (const auto& entry : entries) {
    const CreateCommand& command = *entry.command;
    if (command.idempotency_key && !entry.held) {
      if (any) {
        sql << " OR ";
      }
      any = true;
      sql << "(i.user_id=" << command.user << " AND i.idem_key=";
      sql.bytes(*command.idempotency_key) << ")";
    }
  }
  if (!any) {
    return uses;
  }
  Rows rows = session.query(sql);
  while (rows.next()) {
    KeyUse use{{}, read_view(rows, 4)};
    const std::string fingerprint = rows.text(3);
    AG_CHECK(fingerprint.size() == use.fingerprint.size());
    std::copy(fingerprint.begin(), fingerprint.end(), use.fingerprint.begin());
    uses.emplace(std::pair(rows.id<UserId>(1), rows.text(2)), std::move(use));
  }
  return uses;
}

// What the limited keys that ask have spent. Creations of a user come one after the other, under
// the lock of his balance, and so do all ends of his tasks: what the ledger says there is exact,
// and stays so until this transaction has added its own.
KeySpendings read_limits(Session& session,
                         std::span<const BatchItem<CreateCommand, CreateOutcome>> entries,
                         Instant now) {
  std::vector<KeyId> keys;
  for (const auto& entry : entries) {
    if (entry.command->limited && entry.command->key && !entry.held) {
      keys.push_back(*entry.command->key);
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return read_spending(session, keys, now, kSpendTailMax);
}

struct Created {
  const CreateCommand* command;
  Lane lane;
};

// The values of request_id and trace.
Sql& write_trail(Sql& sql, const Trail& trail) {
  if (trail.request_id.empty()) {
    sql << "NULL,";
  } else {
    sql.bytes(trail.request_id) << ",";
  }
  return trail.trace ? sql.bytes(pack(*trail.trace)) : sql << "NULL";
}

void insert_rows(Session& session, std::span<const Created> created, Instant now) {
  Sql tasks(
      "INSERT INTO tasks (id, user_id, key_id, request, output_format, held, deadline_at, wake_at, "
      "created_at, lane, route, request_id, trace) VALUES ");
  list(tasks, created, [&](const Created& task) {
    const CreateCommand* const c = task.command;
    const Instant deadline = now + c->deadline;
    tasks << "(" << c->id << "," << c->user << "," << c->key << ",";
    tasks.bytes(c->request) << "," << c->output_format << "," << kHoldAmount << "," << deadline
                            << "," << first_look(task.lane, now, deadline) << "," << now << ","
                            << task.lane << "," << std::uint32_t{c->route.number} << ",";
    write_trail(tasks, c->trail) << ")";
  });
  session.later(tasks);

  Sql keys("INSERT INTO idempotency (user_id, idem_key, fingerprint, task_id, created_at) VALUES ");
  bool any = false;
  for (const auto& [c, lane] : created) {
    if (c->idempotency_key) {
      if (any) {
        keys << ",";
      }
      any = true;
      keys << "(" << c->user << ",";
      keys.bytes(*c->idempotency_key) << ",";
      keys.bytes(c->fingerprint) << "," << c->id << "," << now << ")";
    }
  }
  if (any) {
    session.later(keys);
  }
}

}  // namespace

Batch<CreateOutcome> TaskStore::create(std::span<const CreateCommand> commands, const Turn& turn) {
  const Turn alone;
  bool first = true;
  std::set<UserId> behind;
  auto outcomes = in_batch<CreateCommand, CreateOutcome>(
      "create", commands, CreateOutcome{}, [&](auto& entries, bool again) {
        // A second run says that something is wrong: it takes what is free and hands nothing over.
        create_in(entries, std::exchange(first, false) ? turn : alone, again, behind);
      });
  // Afterwards, when nobody's row is locked. Whoever is refused it now comes again, and whoever has
  // no turn: the others of the batch wait for their answers.
  constexpr int kTurns = 2;
  int turns = 0;
  for (auto user = behind.begin(); user != behind.end() && turns < kTurns; ++user, ++turns) {
    static_cast<void>(guarded<std::uint64_t>(
        "roll_up_spending", [&] { return roll_up_spending(session_, *user, kSpendTailMax); }));
  }
  return outcomes;
}

void TaskStore::create_in(std::vector<BatchItem<CreateCommand, CreateOutcome>>& entries,
                          const Turn& turn,
                          bool again,
                          std::set<UserId>& behind) {
  AG_CRASH_POINT("create.begin");
  std::vector<UserId> users;
  users.reserve(entries.size());
  for (const auto& entry : entries) {
    users.push_back(entry.command->user);
  }
  Books books(session_, seen_window_, std::move(users), Locking::kSkipLocked, turn.follows);
  AG_CRASH_POINT("create.locked");
  for (auto& entry : entries) {
    entry.held = books.is_held(entry.command->user);
  }
  if (!books.now()) {
    return;  // No balance is free; whose user is not there has failed.
  }
  const Instant now = *books.now();

  // An earlier run of this transaction may have been committed: then its tasks are there, and
  // nothing else is left to do for them.
  std::unordered_map<TaskId, TaskView> there;
  if (again) {
    Sql sql("SELECT ");
    sql << kViewColumns << " FROM tasks t FORCE INDEX (PRIMARY) WHERE t.id IN (";
    list(sql, entries, [&](const auto& entry) { sql << entry.command->id; }) << ")";
    Rows rows = session_.query(sql);
    while (rows.next()) {
      TaskView view = read_view(rows, 1);
      there.emplace(view.id, std::move(view));
    }
  }

  KeyUses uses = read_keys(session_, entries);
  KeySpendings limits = read_limits(session_, entries, now);
  std::set<UserId> uncounted;
  std::vector<Created> created;
  for (auto& [asked, outcome, held] : entries) {
    if (held) {
      continue;
    }
    const CreateCommand& command = *asked;
    outcome = CreateOutcome{};
    if (const auto row = there.find(command.id); row != there.end()) {
      outcome = {.kind = Kind::kCreated, .task = row->second, .lane = row->second.lane};
      continue;
    }
    const Balance* balance = books.find(command.user);
    if (balance == nullptr) {
      continue;  // kFailed
    }
    // His plan may have changed since he asked last. What waits goes by it from now on, too,
    // whatever becomes of this.
    OpenTasks& open = *books.open_tasks(command.user);
    if (open.released_max != command.released_max) {
      open.released_max = command.released_max;
      books.touch(command.user);
    }
    if (command.idempotency_key) {
      const auto use = uses.find({command.user, *command.idempotency_key});
      if (use != uses.end()) {
        const bool same = use->second.fingerprint == command.fingerprint;
        outcome.kind = same ? Kind::kReplayed : Kind::kConflict;
        if (same) {
          outcome.task = use->second.task;
        }
        continue;
      }
    }
    if (command.only_again) {
      outcome.kind = Kind::kNothingNew;
      continue;
    }
    const std::optional<Entry> entry = hold(*balance, kHoldAmount);
    if (!entry) {
      outcome.kind = Kind::kInsufficient;
      continue;
    }
    if (command.open_max != 0 && open.count() >= command.open_max) {
      outcome.kind = Kind::kTooManyOpen;
      continue;
    }
    if (const auto again_in = refused_for(
            open, books.window(), command.route, command.deadline, draw_of(command.id))) {
      outcome.kind = Kind::kTooLate;
      outcome.again_in = *again_in;
      continue;
    }
    // Without a limit, or none any more: nobody counts.
    const auto limit = command.limited && command.key ? limits.find(*command.key) : limits.end();
    if (limit != limits.end()) {
      KeySpending& spending = limit->second;
      if (!spending.marked) {  // Its mark ends with it.
        outcome.kind = Kind::kKeyGone;
        continue;
      }
      if (spending.behind > kSpendTailUsual) {
        behind.insert(command.user);
      }
      if (spending.behind > kSpendTailMax) {
        held = true;  // Until its mark has come nearer, which is seen to at once.
        uncounted.insert(command.user);
        continue;
      }
      if (spending.spent + kHoldAmount > spending.limit.amount) {
        outcome = {.kind = Kind::kOverLimit, .limit = spending.limit, .spent = spending.spent};
        continue;
      }
      spending.spent = spending.spent + kHoldAmount;
    }
    outcome.lane = add_task(open, books.window().size, balance->seq);
    books.book(command.user, command.id.uuid, *entry);
    created.push_back({&command, outcome.lane});
    outcome.kind = Kind::kCreated;
    outcome.task.id = command.id;
    outcome.task.created_at = now;
    outcome.task.updated_at = now;
    outcome.task.next_run_at = now;
    outcome.task.held = kHoldAmount;
    outcome.task.output_format = command.output_format;
    if (command.idempotency_key) {
      uses.emplace(std::pair(command.user, *command.idempotency_key),
                   KeyUse{command.fingerprint, outcome.task});
    }
  }
  if (created.empty()) {
    books.write(now);  // Of whom another plan is known now.
    return;
  }
  insert_rows(session_, created, now);
  books.write(now);
  AG_CRASH_POINT("create.inserted");
  if (turn.ends) {
    auto rows = books.locked();
    std::erase_if(rows, [&](const Uuid& user) { return uncounted.contains(UserId{user}); });
    turn.ends(rows);  // What is left to send leaves in one packet with COMMIT.
  }
}

}  // namespace audiogen::store
