// Tasks, holds and leases in the database: one method per use case, each one transaction, so that
// no caller can hold a lock while it does something else.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/local_clocks.h"
#include "common/base/result.h"
#include "common/domain/clock_trust.h"
#include "common/domain/refusals.h"
#include "common/domain/shares.h"
#include "common/store/books.h"
#include "common/store/commands.h"
#include "common/store/session.h"

namespace audiogen::store {

template <class Command, class Outcome>
struct BatchItem;

// For one thread at a time (it owns one connection). Every method blocks: about 5 s at the longest
// when the database hangs, 10 s when it hangs in the middle of a COMMIT. None throws.
//
// No transaction here waits for a lock of another, so nobody can hold up more than what he holds: a
// command whose row another session has locked gets StoreFault::kLocked at once, and the others of
// its batch go on without it. Trying again, and when, is the caller's part (GroupCommit's). The one
// exception are rows handed over within the process, which only the server still has (Turn).
//
// Lock order, for those elsewhere that wait: balance rows sorted by user, then task rows sorted by
// id, then the rest.
class TaskStore {
 public:
  // A place in the order in which the sweeper looks at tasks.
  struct SweepPosition {
    Instant wake_at;
    TaskId id;
    friend auto operator<=>(const SweepPosition&, const SweepPosition&) = default;
  };

  // What is concluded from the database's clock alone is first compared with `clocks`.
  // `turns_kept`: for so long the turns that a process took remain its own when it freezes, or has
  // nothing to do in between. Nullopt: MySQL takes them after a second.
  explicit TaskStore(const DatabaseUrl& url,
                     LocalClocks clocks = {},
                     std::optional<std::chrono::seconds> turns_kept = {});

  // From now on the release window is read again only when what was read is older than this.
  void keep_window(std::chrono::milliseconds age) { seen_window_ = SeenWindow(age); }

  // Holds credits and writes tasks. Replays and conflicts of idempotency keys are decided under the
  // users' balance locks, so equal keys sent at once give one task, within a batch too. A lost
  // COMMIT reply is resolved by reading the tasks back on a new connection. `turn` is about the
  // users' balances. The requests go in one statement: a few megabytes of them at most
  // (GroupOptions::batch_bytes). Only keys with a spend limit are asked after what they have spent;
  // a command whose key cannot be counted at once gets kLocked, as though its row were held.
  Batch<CreateOutcome> create(std::span<const CreateCommand> commands, const Turn& turn = {});

  // One indexed read for all of them.
  Batch<FindOutcome> find(std::span<const FindCommand> commands);
  Batch<KeyOutcome> find_keys(std::span<const Sha256> hashes);
  // Notes that these keys were used (last_used_at = now), and of which their newest secret was.
  Batch<Done> touch_keys(std::span<const KeyRecord> used);
  // The same for sessions, by the hashes of their tokens. What is noted makes them live longer.
  Batch<KeyOutcome> find_sessions(std::span<const Sha256> hashes);
  Batch<Done> touch_sessions(std::span<const SessionId> sessions);

  // Takes the tasks that are queued, due, at the hinted epoch and before their deadline, but for
  // those of which `judge` says otherwise. It must be quick and pure; it may run more than once.
  using ClaimJudge = std::function<ClaimVerdict(const Claim&)>;
  // Whether that lease may be of an earlier claim by this hint of which nobody has heard
  // (kUnknownOutcome). Where it is, the task is put back: nobody works on it.
  using Unheard = std::function<bool(const Hint&, Instant lease_until)>;
  Batch<ClaimOutcome> claim(std::span<const Hint> hints,
                            WorkerId worker,
                            const ClaimJudge& judge,
                            const Unheard& unheard = {});
  // Until when the newest claim() has, or may have, claimed: one for each of its tries.
  const std::vector<Instant>& claimed_until() const { return claimed_until_; }

  // Extends leases by kLease, past a deadline too, until the sweeper ends the task.
  Batch<Renewal> renew(std::span<const Lease> leases, WorkerId worker);

  // Writes the next call before the next provider is called. False: the lease is lost. kLocked,
  // too, when the call before it is not written yet.
  Batch<bool> start_calls(std::span<const CallStart> calls);

  // Keeps, forgets and finds tickets, in this order. A ticket of an older call takes no newer one's
  // place.
  Batch<TicketOutcome> tickets(std::span<const TicketCommand> commands);
  // Deletes up to `limit` tickets that are older than `age`. The number.
  Result<std::size_t, StoreFault> forget_tickets(std::chrono::seconds age, std::size_t limit);

  // Writes what calls were that settle() was not told of: their tasks had ended before they did, or
  // were lost. What is already written of them as lost gives way. False: the database refuses it.
  Batch<bool> record_calls(std::span<const CallRecord> calls);

  // Where this ends tasks of users who have parked ones, it releases those: released() has their
  // hints.
  Batch<SettleOutcome> settle(std::span<const SettleCommand> commands);

  // Ends open tasks and returns all of their holds; whoever works on them is fenced, and told so at
  // the next renewal. What is final, or not that user's, needs no lock and waits for nobody.
  Batch<Cancellation> cancel(std::span<const CancelCommand> commands);

  // For operators: waits up to `patience` for rows that others hold, without holding any itself.
  // `also` writes more in the same transaction.
  Result<CancelOutcome, StoreFault> cancel(TaskId task,
                                           const std::function<void(Session&)>& also = {},
                                           std::chrono::seconds patience = std::chrono::seconds(3));

  // Looks at rows whose wake_at has come and changes up to `limit` of them: puts back tasks with
  // expired leases (or fails them when their claims are used up), fails those past the deadline,
  // and names those whose hint must be sent (again). New tasks whose hint was confirmed are left as
  // they are, and seen again in a minute, and so are those whose hint waits in the broker still,
  // as far as `queues` tells, or with the caller itself, as `has_hint` says, which must not block.
  // Any number of workers may sweep at once: rows another one holds are skipped, and so are those
  // another one has left. `hints_go_out` false: the broker takes no hints, so tasks that wait for
  // their first turn are left as they are for whoever asks for them with ready(). However many are
  // left, what has become due since the last look is seen by this one, up to the limit. After a
  // jump of the database's clock leases and deadlines are not judged for a while, and what lies in
  // its future is brought back (common/domain/README.md, "Clocks that jump").
  using HasHint = std::function<bool(const Hint&)>;
  Result<SweepResult, StoreFault> sweep(std::size_t limit,
                                        bool hints_go_out = true,
                                        const QueuesSeen& queues = {},
                                        const HasHint& has_hint = {});

  // Sets the release window by the workers and crowds there are, and releases parked tasks of those
  // of the next crowds, up to `limit` in a round of all, who have fewer released than they may:
  // what nobody else has seen to. True: all crowds were looked at since this was true last. The
  // pace is what has ended in the last `pace_over` and a little more. While workers are full, tells
  // how long a further task waits: that is counted in pieces, of 10,000 released tasks or a part of
  // more, and takes a tenth of the time, at most.
  Result<bool, StoreFault> look_after_crowds(
      std::size_t limit, std::chrono::seconds pace_over = std::chrono::seconds(20));

  // The hints to be sent for what settle() and look_after_crowds() have released since this was
  // asked last, as far as is known: what an unknown outcome has released is found by whoever looks.
  std::vector<Hint> released();

  // Up to `limit` tasks that could be claimed now and could have been for `age`, the oldest first,
  // but none of `without`. Reads, locks nothing and writes nothing: whether a task is still free
  // its claim decides. Workers that ask at the same time get different ones where there are more
  // than a few. What others work on, or is not due, hides what comes after it beyond the first
  // 5,000 rows, until that is first in turn, 15 s later at most. Those of the express lane come
  // first, with some of the bulk lane between them.
  Result<std::vector<Hint>, StoreFault> ready(std::size_t limit,
                                              std::chrono::seconds age,
                                              const std::unordered_set<TaskId>& without = {},
                                              bool express_only = false);

  // An API process is alive, the first hints of its tasks before `unsent_from` were confirmed, and
  // `last_minute` is what it did with creations.
  Result<Done, StoreFault> report_api(ApiId api,
                                      TaskId unsent_from,
                                      const std::optional<CreationCount>& last_minute = {});

  // Whether this store, and no other one of this database, has the turn with a chore. It has it for
  // as long as it goes on asking.
  enum class Chore : std::uint8_t {
    kIdempotency = 1,
    kSessions = 2,
    kOrphans = 3,
    kOutputs = 4,
    kCrowds = 5,
    kPass = 6,
    kMinutes = 7,
    kPastCalls = 8,
    kTickets = 9,
    kCalls = 10,
    kClaims = 11,
    kSilent = 12,
    kOldMinutes = 13
  };
  Result<bool, StoreFault> take_turn(Chore chore);

  // All clocks at once.
  Result<ClockLook, StoreFault> look_at_clocks();

  // When the oldest idempotency key that is kept was first used; nullopt: there is none.
  Result<std::optional<Instant>, StoreFault> oldest_idempotency();
  // Up to `limit` idempotency keys, oldest first, that were first used from `from` until before
  // `until`, more than 7 days ago, and whose tasks are final.
  Result<std::vector<OldKey>, StoreFault> old_idempotency(std::size_t limit,
                                                          Instant from,
                                                          Instant until);
  // Deletes those of them that still stand for the same task and that nobody holds. The number.
  // Here as in all that forgets: a row that somebody holds waits for a later time, and keeps no
  // other.
  Result<std::size_t, StoreFault> forget_idempotency(std::span<const OldKey> keys);

  // Deletes sessions that have ended, and links of all kinds whose time is over, up to `limit` at a
  // time.
  // The largest number of a kind: when it is `limit`, there may be more.
  Result<std::size_t, StoreFault> purge_sessions(std::size_t limit);

  // Deletes the rows of workers and of API processes that have said nothing for a day, up to
  // `limit` of each at a time; the larger number. Whoever still lives comes again.
  Result<std::size_t, StoreFault> forget_silent(std::size_t limit);

  // When the oldest minute began that is written; nullopt: there is none.
  Result<std::optional<Instant>, StoreFault> oldest_minute();
  // Deletes up to `limit` of each kind of rows of minutes that began longer than `age` ago and
  // before `until`. The larger number.
  Result<std::size_t, StoreFault> forget_minutes(std::chrono::seconds age,
                                                 std::size_t limit,
                                                 Instant until);

  // When the oldest task was made of which take_old_outputs() has not told yet, by its id; nullopt:
  // there is none.
  Result<std::optional<Instant>, StoreFault> oldest_output();
  // Marks up to `limit` further tasks created longer than `age` ago, and made before `until`, as
  // having lost their files, and names the files. Call old_outputs_deleted() once they are gone,
  // or noted: until then the same tasks come again, but for those up to `after`. `age` must be
  // longer than a task can be open. A task whose id says that it is old, but its row that it is
  // not, keeps its file for good: whoever made its id had a wrong clock. A task that somebody holds
  // keeps its file, and is the first to come again.
  Result<OldOutputs, StoreFault> take_old_outputs(std::chrono::seconds age,
                                                  std::size_t limit,
                                                  Instant until,
                                                  TaskId after = {});
  Result<Done, StoreFault> old_outputs_deleted(TaskId last);

  // When the oldest task was made of which provider calls before its newest are kept, by its id;
  // nullopt: there is none.
  Result<std::optional<Instant>, StoreFault> oldest_past_call();
  // Deletes provider calls before their task's newest: of tasks made, by their ids, longer than
  // `age` ago and before `until`, the oldest first, up to `limit` and what is left of the last
  // task. The number. `age` must be longer than a task can be open.
  Result<std::size_t, StoreFault> forget_past_calls(std::chrono::seconds age,
                                                    std::size_t limit,
                                                    Instant until);

  // When the oldest task was made of which calls are recorded, by its id; nullopt: there is none.
  Result<std::optional<Instant>, StoreFault> oldest_call();
  // Deletes up to `limit` records of calls, the oldest tasks' first, with `age` and `until` as
  // above. The number.
  Result<std::size_t, StoreFault> forget_calls(std::chrono::seconds age,
                                               std::size_t limit,
                                               Instant until);
  // The same of claims that are over.
  Result<std::optional<Instant>, StoreFault> oldest_claim();
  Result<std::size_t, StoreFault> forget_claims(std::chrono::seconds age,
                                                std::size_t limit,
                                                Instant until);

  // The final tasks that were claimed more than once or have no output, by id: any other task can
  // have left no file but its output. Of the first `limit` tasks of any kind with from <= id <= to.
  Result<DoubtfulOutputs, StoreFault> doubtful_outputs(TaskId from, TaskId to, std::size_t limit);

  // Of the tasks that are noted so, those after `after`, by id and up to `limit`; an empty key: it
  // never had a file.
  Result<std::vector<TaskOutput>, StoreFault> deletions(Noted why, TaskId after, std::size_t limit);
  // Notes old ones whose files could not be removed; once more does no harm. False: there are
  // `most` notes of such already, and nothing was done.
  Result<bool, StoreFault> note_deletions(std::span<const TaskId> tasks, std::size_t most);
  // Their files are gone.
  Result<Done, StoreFault> deletions_done(std::span<const TaskId> tasks);

  // The database's clock.
  Result<Instant, StoreFault> now();

  // Upserts this worker's row in `workers`. What operators want of it.
  Result<WorkerOrders, StoreFault> report_worker(WorkerId worker,
                                                 const std::string& host,
                                                 int pid,
                                                 const WorkerReport& report);

  // Writes how the service did in the last minute (service_minutes.h).
  Result<bool, StoreFault> write_service_minute();

  // This worker has ended and holds nothing.
  Result<Done, StoreFault> report_worker_ended(WorkerId worker);

  // This API process has ended, and the hints of all its tasks were confirmed: it keeps no other
  // process's tasks from counting as hinted.
  Result<Done, StoreFault> report_api_ended(ApiId api);

  // True when the database answers.
  bool ping();

 private:
  // Runs `body` for all commands in one transaction, again after a lost reply to COMMIT. What one
  // command's row does to it is found by running them one by one: that one's outcome is `failed`.
  template <class Command, class Outcome>
  Batch<Outcome> in_batch(
      const char* what,
      std::span<const Command> commands,
      const Outcome& failed,
      const std::function<void(std::vector<BatchItem<Command, Outcome>>&, bool again)>& body);

  // Runs `use`, which changes no money, and turns its failures into faults.
  template <class T>
  Result<T, StoreFault> guarded(const char* what, const std::function<T()>& use);

  void log_fault(const char* what, const DbError& error, std::size_t commands);

  void create_in(std::vector<BatchItem<CreateCommand, CreateOutcome>>& entries,
                 const Turn& turn,
                 bool again,
                 std::set<UserId>& behind);
  // What became of a settlement, and the hints of what its transaction released, with one of those
  // that did.
  struct Settled {
    SettleOutcome outcome = SettleOutcome::kFailed;
    std::vector<Hint> released{};
  };
  // `look`: the tasks' rows are read before they are written.
  void settle_in(std::vector<BatchItem<SettleCommand, Settled>>& entries, bool look);
  // The number of tasks that this run ends.
  std::size_t cancel_in(std::vector<BatchItem<CancelCommand, Cancellation>>& entries, bool again);
  SweepResult sweep_rows(std::size_t limit,
                         bool hints_go_out,
                         const QueuesSeen& queues,
                         const HasHint& has_hint);
  std::vector<Hint> ready_rows(std::size_t limit,
                               std::chrono::seconds age,
                               const std::unordered_set<TaskId>& without,
                               bool express_only);
  bool count_page();
  const QueueSeen* count_queue(const WorkersSeen& workers);
  WorkersSeen look_at_workers();
  std::uint32_t set_window(std::chrono::seconds pace_over);
  bool look_after_some_crowds(std::size_t limit, std::chrono::seconds pace_over);
  void watch_clock(const ClockLook& look, bool marks_ahead);
  bool pull_back(Instant now);
  bool try_pull_back(Instant now);
  // A row that a look has found to be due.
  struct Due {
    SweepPosition at;
    UserId user;
    bool ends = false;  // So its user's balance is needed.
  };
  // What a look goes by.
  struct SweepLook {
    Instant now;
    TaskId unsent_from;
    QueuesSeen queues;
  };
  // Adds to `result` and to `held`, the rows that others hold.
  void sweep_due(std::span<const Due> due,
                 const SweepLook& look,
                 SweepResult& result,
                 std::unordered_set<TaskId>& held);
  void sweep_each(std::span<const Due> due,
                  const SweepLook& look,
                  SweepResult& result,
                  std::unordered_set<TaskId>& held);
  SweepResult sweep_locked(std::span<const Due> due,
                           const SweepLook& look,
                           std::unordered_set<TaskId>& held);

  Session session_;
  std::vector<Instant> claimed_until_;
  SeenWindow seen_window_;
  const LocalClocks clocks_;
  ClockWatch watch_;                        // Of sweep().
  bool pulling_back_ = false;               // There may be rows that a clock put into the future.
  std::optional<SweepPosition> pulled_to_;  // How far down a search for them has come.
  bool pull_again_ = false;                 // It has met some that others hold.
  std::uint32_t pulls_ = 0;                 // By ready().
  // The last fault of the whole database.
  std::optional<std::chrono::steady_clock::time_point> logged_at_;
  std::vector<Hint> released_;      // Until somebody asks for them.
  std::optional<UserId> crowd_at_;  // How far look_after_crowds() has come.
  EndsCount ends_;                  // Of the same.
  PaceWatch pace_;                  // Of the same.
  WindowWatch window_;              // Of the same.
  // A count under way.
  struct QueueCount {
    Instant until{};                    // What is looked at later than this is not counted.
    std::optional<SweepPosition> at{};  // How far it has come,
    std::uint64_t read = 0;             // by so many rows.
    std::map<std::chrono::seconds, std::uint64_t> express{}, bulk{};  // By the time that is left.
    std::uint64_t called_express = 0, called_bulk = 0;
    QueueSeen seen() const;
  };
  std::optional<QueueCount> counting_;
  std::optional<QueueSeen> queue_;  // As the last whole count saw it, while somebody has to wait.
  std::optional<Instant> full_at_;  // When a look last came by here and found all places taken.
  std::uint32_t queue_part_ = 1;    // One of so many tasks is counted the next time,
  std::optional<std::chrono::steady_clock::time_point> count_at_;  // not before this.
  std::uint32_t crowd_window_ = 0;  // As it was when the round of crowd_at_ began.
  // Where the next look of sweep() begins: after rows that another session holds.
  std::optional<SweepPosition> resume_at_;
  // How far sweep() has seen what became due, and whether the pass has not come so far.
  std::optional<SweepPosition> seen_to_;
  bool lags_ = false;
};

}  // namespace audiogen::store
