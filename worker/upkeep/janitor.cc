#include "worker/upkeep/janitor.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"
#include "common/base/rest.h"
#include "common/blob/blob_errors.h"
#include "common/blob/blob_key.h"
#include "common/store/service_minutes.h"
#include "worker/upkeep/eraser.h"
#include "worker/upkeep/share_out.h"

namespace audiogen::worker {
namespace {

using store::TaskStore;
using Chore = TaskStore::Chore;

// Here, so that they are told from the start.
prometheus::Counter& orphans_deleted =
    metrics::counter("orphans_deleted_total", "Files deleted that no task knows of");
prometheus::Counter& outputs_deleted =
    metrics::counter("retention_deleted_total", "Files deleted after their retention");
prometheus::Counter& outputs_kept = metrics::counter(
    "retention_kept_total", "Files that stay, because only their tasks' ids say that they are old");
prometheus::Gauge& distrusted = metrics::gauge(
    "clocks_distrusted", "1 while nothing old is deleted, because clocks cannot be believed");

constexpr std::size_t kPurgeBatch = 500;
// Files of polled providers last no longer.
constexpr std::chrono::hours kTicketsKept{1};
constexpr std::size_t kDeleteBatch = 100;  // Files; what an interrupted run repeats.
// A run that has met a batch of which nothing could be removed ends after so long.
constexpr auto kInVainFor = std::chrono::minutes(1);
// Of what cannot be removed: fewer than an eraser remembers. With as many the store is what is
// wrong, and nothing is said to be done any more.
constexpr std::size_t kNotedMax = 8'000;
static_assert(kNotedMax < Postponed::kMost);
constexpr auto kOrphanAge = std::chrono::hours(24);
constexpr std::size_t kSlotsARun = 32;  // 9 h of segments.
constexpr std::size_t kDoubtfulBatch = 10'000;
constexpr std::size_t kLookedAt = 20'000;  // Tasks, by one statement: a small part of a second.
// A file is not served any more once its task is past its retention; it goes when nobody can still
// be reading it.
constexpr auto kReadersGrace = std::chrono::hours(1);

// From the creation of a task to its last blob, and from one slot to the next.
constexpr auto kTaskAgeMax = std::chrono::hours(25);

struct TaskRange {
  TaskId first, last;
};

// The tasks whose blobs lie in `slot`, into `range`. Nullopt: there are none. Not those of an API
// whose clock was off by a day: the range would be far too long to look at. An error tells that
// there may be more.
Result<Done> tasks_in(const DirectoryStore& blobs,
                      const BlobSlot& slot,
                      const std::function<bool()>& stopping,
                      std::optional<TaskRange>& range) {
  return blobs.for_each(slot, [&](const std::string& key) {
    const TaskId task = blob_task(key);
    if (std::chrono::abs(made_at(task.uuid) - slot.begin) <= kTaskAgeMax) {
      range = range ? TaskRange{std::min(range->first, task), std::max(range->last, task)}
                    : TaskRange{task, task};
    }
    return !stopping();
  });
}

// Removes the blobs in `slot` that are of one of `tasks`, sorted, and not its output. Adds the
// number to `count`. What cannot be read or removed keeps nothing else; the first of it is the
// error.
Result<Done> remove_orphans(DirectoryStore& blobs,
                            const BlobSlot& slot,
                            const std::vector<store::TaskOutput>& tasks,
                            const std::function<bool()>& stopping,
                            std::size_t& count) {
  std::vector<std::string> orphans;
  auto out = blobs.for_each(slot, [&](const std::string& key) {
    const TaskId task = blob_task(key);
    const auto it = std::lower_bound(
        tasks.begin(), tasks.end(), task, [](const store::TaskOutput& output, TaskId id) {
          return output.task < id;
        });
    if (it != tasks.end() && it->task == task && it->key != key) {
      orphans.push_back(key);
    }
    return !stopping();
  });
  for (const std::string& key : orphans) {
    if (stopping()) {
      break;
    }
    if (const auto removed = counted(BlobOp::kRemove, blobs.remove(key)); removed) {
      ++count;
      orphans_deleted.Increment();
    } else if (out) {
      out = removed.error();
    }
  }
  return out;
}

enum class SlotLook {
  kDone,
  kFailed,       // Not all of it could be read, or removed.
  kInterrupted,  // The database is away, or this run is to end.
};

// Deletes what the tasks of a slot left besides their output, and counts it. A blob of a task that
// the database does not have stays: tasks are never deleted, so it must be another database's.
SlotLook delete_orphans_of(const BlobSlot& slot,
                           store::TaskStore& store,
                           DirectoryStore& blobs,
                           const std::function<bool()>& stopping,
                           std::size_t& count) {
  SlotLook out = SlotLook::kDone;
  const auto failed = [&](const Error& error) {
    out = SlotLook::kFailed;
    log::error("files of no task could not be deleted",
               {{"slot", slot.folder}, {"why", error.message}});
  };
  std::optional<TaskRange> range;
  if (const auto seen = tasks_in(blobs, slot, stopping, range); !seen) {
    failed(seen.error());
    if (slot.left) {
      return out;  // What could be read was looked at when it was left.
    }
  }
  std::optional<TaskId> from = range ? std::optional(range->first) : std::nullopt;
  std::vector<store::TaskOutput> doubtful;
  while (from && !stopping()) {
    const auto more = store.doubtful_outputs(*from, range->last, kLookedAt);
    if (!more) {
      return SlotLook::kInterrupted;
    }
    doubtful.insert(doubtful.end(), more->tasks.begin(), more->tasks.end());
    from = more->last;  // Comes again, which does no harm.
    // The blobs of a slot are gone through once for all of them, or for many.
    if (doubtful.empty() || (from && doubtful.size() < kDoubtfulBatch)) {
      continue;
    }
    const auto removed = remove_orphans(blobs, slot, doubtful, stopping, count);
    if (!removed && out == SlotLook::kDone) {
      failed(removed.error());
    }
    doubtful.clear();
  }
  // What has just begun to stop may have cut the last of these short.
  return stopping() ? SlotLook::kInterrupted : out;
}

// Removes the file of `key`, past its retention. Nullopt: it could not be removed.
std::optional<Removal> remove_old(BlobStore& blobs,
                                  const std::string& key,
                                  const std::stop_token& stop) {
  static Occasionally failed;
  const auto removed = counted(BlobOp::kRemove, blobs.remove(key, stop));
  if (!removed) {
    if (!stop.stop_requested() && failed.due()) {
      log::error("an old file could not be deleted", {{"why", removed.error().message}});
    }
    return std::nullopt;
  }
  if (*removed == Removal::kNotOurs) {
    stays_for_good();  // Nobody can wait for it: what is older than the mark counts as done.
  } else {
    outputs_deleted.Increment();
  }
  return *removed;
}

// The same for all of `files`, as many at once as the store is written to best. Adds the number of
// those that are gone to `count`. The tasks of those that could not be removed; nullopt: not all
// were tried.
std::optional<std::vector<TaskId>> remove_old(BlobStore& blobs,
                                              const std::vector<store::TaskOutput>& files,
                                              const std::stop_token& stop,
                                              std::size_t& count) {
  std::atomic<std::size_t> tried{0}, gone{0};
  std::vector<std::uint8_t> failed(files.size(), 0);
  share_out(files.size(), blobs.put_shape().threads, stop, [&](std::size_t i) {
    const auto removed = remove_old(blobs, files[i].key, stop);
    failed[i] = removed ? 0 : 1;
    gone += removed == Removal::kGone ? 1U : 0U;
    ++tried;
    return true;
  });
  count += gone;
  if (tried < files.size() || stop.stop_requested()) {
    return std::nullopt;
  }
  std::vector<TaskId> out;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (failed[i] != 0) {
      out.push_back(files[i].task);
    }
  }
  return out;
}

// Purges as much as there is by `step`, which says how many it deleted of at most kPurgeBatch, or
// nullopt when it failed. Half of the time the database is left alone. The number.
std::size_t purge(const Rest& rest, const std::function<std::optional<std::size_t>()>& step) {
  std::size_t count = 0;
  for (;;) {
    const auto began = std::chrono::steady_clock::now();
    const auto purged = step();
    count += purged.value_or(0);
    if (!purged || *purged < kPurgeBatch || rest(std::chrono::steady_clock::now() - began)) {
      return count;
    }
  }
}

// What is kept of tasks for as long as somebody may ask what became of them.
struct Kept {
  Chore chore;
  Result<std::optional<Instant>, store::StoreFault> (TaskStore::*oldest)();
  Result<std::size_t, store::StoreFault> (TaskStore::*forget)(std::chrono::seconds age,
                                                              std::size_t limit,
                                                              Instant until);
};

std::size_t purge_kept(TaskStore& store,
                       const Kept& kept,
                       std::chrono::seconds age,
                       const Rest& rest) {
  const auto oldest = (store.*kept.oldest)();
  if (!oldest || !*oldest) {
    return 0;
  }
  const Instant until = **oldest + kDeletedARun;
  return purge(rest, [&]() -> std::optional<std::size_t> {
    const auto turn = store.take_turn(kept.chore);
    const auto forgotten = turn && *turn ? (store.*kept.forget)(age, kPurgeBatch, until)
                                         : Result<std::size_t, store::StoreFault>(std::size_t{0});
    return forgotten ? std::optional(*forgotten) : std::nullopt;
  });
}

}  // namespace

std::size_t purge_keys(store::TaskStore& store, const Rest& rest) {
  const auto oldest = store.oldest_idempotency();
  if (!oldest || !*oldest) {
    return 0;
  }
  Instant from = **oldest;
  const Instant until = from + kDeletedARun;
  std::size_t count = 0;
  purge(rest, [&]() -> std::optional<std::size_t> {
    const auto turn = store.take_turn(Chore::kIdempotency);
    const auto old = turn && *turn ? store.old_idempotency(kPurgeBatch, from, until)
                                   : std::vector<store::OldKey>();
    if (!old || old->empty()) {
      return std::nullopt;
    }
    const auto forgotten = store.forget_idempotency(*old);
    // Where all are held, and were first used at once, the same would come again.
    if (!forgotten || (*forgotten == 0 && from == old->back().used_at)) {
      return std::nullopt;
    }
    from = old->back().used_at;
    count += *forgotten;
    return old->size();
  });
  return count;
}

std::size_t purge_past_calls(store::TaskStore& store, std::chrono::seconds age, const Rest& rest) {
  return purge_kept(
      store,
      {Chore::kPastCalls, &TaskStore::oldest_past_call, &TaskStore::forget_past_calls},
      age,
      rest);
}

std::size_t purge_calls(store::TaskStore& store, std::chrono::seconds age, const Rest& rest) {
  return purge_kept(
      store, {Chore::kCalls, &TaskStore::oldest_call, &TaskStore::forget_calls}, age, rest);
}

std::size_t purge_claims(store::TaskStore& store, std::chrono::seconds age, const Rest& rest) {
  return purge_kept(
      store, {Chore::kClaims, &TaskStore::oldest_claim, &TaskStore::forget_claims}, age, rest);
}

std::size_t purge_minutes(store::TaskStore& store, const Rest& rest) {
  return purge_kept(store,
                    {Chore::kOldMinutes, &TaskStore::oldest_minute, &TaskStore::forget_minutes},
                    store::kMinutesKept,
                    rest);
}

std::size_t delete_old_outputs(store::TaskStore& store,
                               BlobStore& blobs,
                               std::chrono::seconds age,
                               const std::stop_token& stop) {
  std::size_t count = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto oldest = store.oldest_output();
  if (!oldest || !*oldest) {
    return count;
  }
  const Instant until = **oldest + kDeletedARun;
  TaskId after;
  bool in_vain = false;  // Of a batch nothing could be removed.
  // Behind a task that somebody holds the files go, but what is marked as done ends before it.
  bool marks = true;
  for (;;) {
    const auto turn = store.take_turn(Chore::kOutputs);
    if (!turn || !*turn || stop.stop_requested()) {
      return count;
    }
    const auto old = store.take_old_outputs(age, kDeleteBatch, until, after);
    if (!old || old->looked_at == 0) {
      return count;
    }
    const auto failed = remove_old(blobs, old->files, stop, count);
    if (!failed) {
      return count;
    }
    // What is marked as done is never looked at again.
    std::vector<std::string> keys;
    for (const store::TaskOutput& file : old->files) {
      if (std::find(failed->begin(), failed->end(), file.task) == failed->end()) {
        keys.push_back(file.key);
      }
    }
    if (const auto flushed = counted(BlobOp::kFlush, blobs.flush_removed(keys)); !flushed) {
      log::error("old files could not be deleted for good", {{"why", flushed.error().message}});
      return count;
    }
    outputs_kept.Increment(static_cast<double>(old->kept));
    // One that nobody can remove keeps no other: the eraser goes on with it. It has been there for
    // what an owner deleted, though that may have come back, with a folder that was not mounted.
    std::vector<TaskId> to_note = *failed;
    for (const store::TaskOutput& file : old->files) {
      if (file.noted) {
        std::erase(to_note, file.task);
      }
    }
    const auto noted = store.note_deletions(to_note, kNotedMax);
    if (!noted || !*noted) {
      static Occasionally many;
      if (noted && many.due()) {
        log::error("old files stay: of too many others the removal fails");
      }
      return count;
    }
    if (marks && !store.old_outputs_deleted(old->done_to)) {
      return count;
    }
    marks = marks && old->done_to == old->last;
    // The store may be away, or these lie together and share what is wrong with them.
    in_vain = in_vain || (keys.empty() && !failed->empty());
    if (old->looked_at < kDeleteBatch ||
        (in_vain && std::chrono::steady_clock::now() - began > kInVainFor)) {
      return count;
    }
    after = old->last;
  }
}

std::size_t delete_orphans(store::TaskStore& store,
                           DirectoryStore& blobs,
                           const std::function<bool()>& stopping) {
  std::size_t count = 0;
  const auto now = store.now();
  if (!now) {
    return count;
  }
  for (const BlobSlot& slot : blobs.unchecked(*now - kOrphanAge, kSlotsARun)) {
    if (stopping()) {
      return count;
    }
    SlotLook look = delete_orphans_of(slot, store, blobs, stopping, count);
    if (look == SlotLook::kInterrupted) {
      return count;
    }
    if (const auto dropped = blobs.drop_empty(slot); !dropped) {
      log::error("a file without audio could not be deleted",
                 {{"slot", slot.folder}, {"why", dropped.error().message}});
      look = SlotLook::kFailed;
    }
    // One that fails keeps none of those after it.
    const bool done = look == SlotLook::kDone;
    if (const auto marked = done ? blobs.mark_checked(slot) : blobs.leave_for_later(slot);
        !marked) {
      log::error("a folder that was checked could not be marked",
                 {{"why", marked.error().message}});
      return count;
    }
  }
  return count;
}

bool Chores::believes(store::TaskStore& store) {
  const auto look = store.look_at_clocks();
  if (!look) {
    return false;
  }
  const DeletionTrust::Verdict verdict = trust_.look(*look);
  const bool trusted = verdict == DeletionTrust::Verdict::kTrusted;
  distrusted.Set(trusted ? 0 : 1);
  if (!trusted) {
    log::error(verdict == DeletionTrust::Verdict::kDisagree
                   ? "nothing old is deleted: the clocks of the database and of this machine differ"
                   : "nothing old is deleted for a day: a clock was set",
               {{"database_ahead_seconds",
                 std::chrono::duration_cast<std::chrono::seconds>(ahead_of_local(*look)).count()}});
  }
  return trusted;
}

bool Chores::run(store::TaskStore& store, const Rest& rest, const std::stop_token& stop) {
  if (!believes(store)) {
    return false;
  }
  const auto stopping = [&] { return rest(std::chrono::steady_clock::duration::zero()); };
  const auto has_turn = [&](Chore chore) {
    const auto turn = store.take_turn(chore);
    return turn && *turn && !stopping();
  };
  // Of what goes by the database's clock as it is at each batch: a run may take long, and a clock
  // may be set in the middle of it. All else goes by what the clock was when the run began.
  const auto may_go_on = [&](Chore chore) { return has_turn(chore) && believes(store); };
  purge_keys(store, rest);
  purge_minutes(store, rest);
  purge(rest, [&]() -> std::optional<std::size_t> {
    if (!may_go_on(Chore::kSilent)) {
      return std::nullopt;
    }
    const auto forgotten = store.forget_silent(kPurgeBatch);
    return forgotten ? std::optional(*forgotten) : std::nullopt;
  });
  purge(rest, [&]() -> std::optional<std::size_t> {
    if (!may_go_on(Chore::kSessions)) {
      return std::nullopt;
    }
    const auto purged = store.purge_sessions(kPurgeBatch);
    return purged ? std::optional(*purged) : std::nullopt;
  });
  purge(rest, [&]() -> std::optional<std::size_t> {
    if (!may_go_on(Chore::kTickets)) {
      return std::nullopt;
    }
    const auto forgotten = store.forget_tickets(kTicketsKept, kPurgeBatch);
    return forgotten ? std::optional(*forgotten) : std::nullopt;
  });
  if (calls_retention_.count() > 0) {
    purge_past_calls(store, calls_retention_, rest);
    purge_calls(store, calls_retention_, rest);
    purge_claims(store, calls_retention_, rest);
  }
  auto* const folder = dynamic_cast<DirectoryStore*>(&blobs_);
  if (folder != nullptr && has_turn(Chore::kOrphans)) {
    const std::size_t files = delete_orphans(store, *folder, stopping);
    if (files > 0) {
      log::info("files of no task deleted", {{"files", files}});
    }
  }
  if (retention_.count() > 0) {
    const std::size_t files = delete_old_outputs(store, blobs_, retention_ + kReadersGrace, stop);
    if (files > 0) {
      log::info("old files deleted", {{"files", files}});
    }
  }
  return true;
}

Janitor::Janitor(const Config& config, BlobStore& blobs, JanitorOptions options)
    : options_(std::move(options)),
      chores_(blobs,
              std::chrono::days(config.output_retention_days),
              std::chrono::days(config.attempts_retention_days)),
      thread_([this, url = config.database](const std::stop_token& stop) { run(stop, url); }) {}

void Janitor::stop() {
  stop_and_join(thread_);
}

void Janitor::run(const std::stop_token& stop, const DatabaseUrl& url) {
  store::TaskStore store(url, options_.clocks);
  const Rest rest = [&stop](std::chrono::steady_clock::duration pause) {
    return stopped_within(stop, pause);
  };
  chores_.believes(store);  // Where the clocks are now, so that the first run sees if they jump.
  for (auto pause = options_.first; !rest(pause); pause = options_.every) {
    chores_.run(store, rest, stop);
  }
}

}  // namespace audiogen::worker
