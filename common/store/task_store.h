// Tasks, holds and leases in the database: one method per use case, each one transaction
// (reliability 8).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/store/books.h"
#include "common/store/commands.h"
#include "common/store/session.h"

namespace audiogen::store {

template <class T>
using Batch = Result<std::vector<T>, StoreFault>;  // Outcome i answers command i.

// For one thread at a time (it owns one connection). Every method blocks: about 5 s at the longest
// when the database hangs, 10 s when it hangs in the middle of a COMMIT. None throws.
//
// Lock order: balance rows sorted by user, then task rows sorted by id, then the rest.
//
// A command whose row another session does not let go of (kLockWait) gets kFailed, or the whole
// call StoreFault::kUnavailable when it is alone; the others go on without it.
class TaskStore {
 public:
  explicit TaskStore(const DatabaseUrl& url);

  // Holds credits and writes tasks. Replays and conflicts of idempotency keys are decided under the
  // users' balance locks, so equal keys sent at once give one task, within a batch too. A lost
  // COMMIT reply is resolved by reading the tasks back on a new connection.
  Batch<CreateOutcome> create(std::span<const CreateCommand> commands);

  // One indexed read for all of them.
  Batch<FindOutcome> find(std::span<const FindCommand> commands);
  Batch<KeyOutcome> find_keys(std::span<const Sha256> hashes);
  // Notes that these keys were used (last_used_at = now).
  Result<Done, StoreFault> touch_keys(std::span<const KeyId> keys);

  // Takes the tasks that are queued, due, at the hinted epoch and before their deadline. For each
  // of them `first_provider` names the provider that will be called first (empty: none yet): its
  // attempt is written in the same transaction. It must be quick and pure; it may run more than
  // once.
  Batch<ClaimOutcome> claim(std::span<const Hint> hints,
                            WorkerId worker,
                            const std::function<std::string(const Claim&)>& first_provider);

  // Extends leases by kLease. False: that lease is lost.
  Batch<bool> renew(std::span<const Lease> leases, WorkerId worker);

  // Writes the next attempt before the next provider is called. False: the lease is lost.
  Batch<bool> start_attempts(std::span<const AttemptStart> attempts);

  Batch<SettleOutcome> settle(std::span<const SettleCommand> commands);

  Result<CancelOutcome, StoreFault> cancel(TaskId task);

  // Looks at rows whose wake_at has come and changes up to `limit` of them: puts back tasks with
  // expired leases (or fails them when their claims are used up), fails those past the deadline,
  // and names those whose hint must be sent (again). New tasks whose hint was confirmed are left as
  // they are, and seen again in a minute. Any number of workers may sweep at once: rows another one
  // holds are skipped, and so are those another one has left.
  Result<SweepResult, StoreFault> sweep(std::size_t limit);

  // An API process is alive, and the first hints of its tasks before `unsent_from` were confirmed.
  // Forgets processes not seen for a day.
  Result<Done, StoreFault> report_api(ApiId api, TaskId unsent_from);

  // Deletes up to `limit` idempotency rows older than 7 days whose task is final. The number
  // deleted.
  Result<std::size_t, StoreFault> purge_idempotency(std::size_t limit);

  // Marks up to `limit` further tasks created longer than `age` ago as having lost their files, and
  // names the files. Call old_outputs_deleted() once they are gone: until then the same tasks come
  // again. `age` must be longer than a task can be open.
  Result<OldOutputs, StoreFault> take_old_outputs(std::chrono::seconds age, std::size_t limit);
  Result<Done, StoreFault> old_outputs_deleted(TaskId last);

  // The final tasks with from <= id <= to that were claimed more than once or have no output, by id
  // and up to `limit`: any other task can have left no file but its output.
  Result<std::vector<TaskOutput>, StoreFault> doubtful_outputs(TaskId from,
                                                               TaskId to,
                                                               std::size_t limit);

  // The database's clock.
  Result<Instant, StoreFault> now();

  // Upserts this worker's row in `workers`, and forgets rows not seen for a day.
  Result<Done, StoreFault> report_worker(WorkerId worker,
                                         const std::string& host,
                                         int pid,
                                         std::size_t in_flight,
                                         const std::string& status_json);

  // True when the database answers (readiness).
  bool ping();

 private:
  // How often a transaction's body has been called before, and how it should lock.
  struct Round {
    bool again = false;  // The earlier run may have been committed; its outcomes are in the output.
    Locking balances = Locking::kWait;
  };

  // Runs `body` for all commands in one transaction. What one command's row does to it is found by
  // running them one by one: that one's outcome is `failed`.
  template <class Command, class Outcome>
  Batch<Outcome> in_batch(
      const char* what,
      std::span<const Command> commands,
      const Outcome& failed,
      const std::function<void(std::span<const Command>, Round, std::vector<Outcome>&)>& body);

  // Runs `use`, which changes no money, and turns its failures into faults.
  template <class T>
  Result<T, StoreFault> guarded(const char* what, const std::function<T()>& use);

  void log_fault(const char* what, const DbError& error, std::size_t commands);

  void create_in(std::span<const CreateCommand> commands,
                 Round round,
                 std::vector<CreateOutcome>& outcomes);
  void settle_in(std::span<const SettleCommand> commands,
                 Round round,
                 std::vector<SettleOutcome>& outcomes);
  SweepResult sweep_rows(std::size_t limit);
  SweepResult change_rows(const std::vector<TaskId>& ids, const std::vector<UserId>& users);
  SweepResult sweep_locked(const std::vector<TaskId>& ids,
                           const std::vector<UserId>& users,
                           Locking balances);

  Session session_;
  std::chrono::steady_clock::time_point logged_at_;  // The last fault of the whole database.
};

}  // namespace audiogen::store
