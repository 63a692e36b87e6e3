#include "worker/upkeep/janitor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"
#include "common/blob/blob_key.h"

namespace audiogen::worker {
namespace {

constexpr std::chrono::minutes kFirst{1}, kEvery{10};
constexpr std::size_t kPurgeBatch = 500;
constexpr std::size_t kDeleteBatch = 100;  // Files; what an interrupted run repeats.
constexpr auto kOrphanAge = std::chrono::hours(24);
constexpr std::size_t kSlotsARun = 32;  // 9 h of segments.
constexpr std::size_t kDoubtfulBatch = 10'000;
// A file is not served any more once its task is past its retention; it goes when nobody can still
// be reading it.
constexpr auto kReadersGrace = std::chrono::hours(1);

// From the creation of a task to its last blob, and from one slot to the next.
constexpr auto kTaskAgeMax = std::chrono::hours(25);

struct TaskRange {
  TaskId first, last;
};

// The tasks whose blobs lie in `slot`. Nullopt: there are none. Not those of an API whose clock was
// off by a day: the range would be far too long to look at.
Result<std::optional<TaskRange>> tasks_in(const DirectoryStore& blobs, const BlobSlot& slot) {
  std::optional<TaskRange> out;
  const auto seen = blobs.for_each(slot, [&](const std::string& key) {
    const TaskId task = blob_task(key);
    if (std::chrono::abs(made_at(task.uuid) - slot.begin) > kTaskAgeMax) {
      return;
    }
    out = out ? TaskRange{std::min(out->first, task), std::max(out->last, task)}
              : TaskRange{task, task};
  });
  return seen ? Result<std::optional<TaskRange>>(out) : seen.error();
}

// Removes the blobs in `slot` that are of one of `tasks`, sorted, and not its output. The number.
Result<std::size_t> remove_orphans(DirectoryStore& blobs,
                                   const BlobSlot& slot,
                                   const std::vector<store::TaskOutput>& tasks) {
  std::vector<std::string> orphans;
  const auto seen = blobs.for_each(slot, [&](const std::string& key) {
    const TaskId task = blob_task(key);
    const auto it = std::lower_bound(
        tasks.begin(), tasks.end(), task, [](const store::TaskOutput& output, TaskId id) {
          return output.task < id;
        });
    if (it != tasks.end() && it->task == task && it->key != key) {
      orphans.push_back(key);
    }
  });
  if (!seen) {
    return seen.error();
  }
  for (const std::string& key : orphans) {
    if (const auto removed = blobs.remove(key); !removed) {
      return removed.error();
    }
  }
  return orphans.size();
}

// Deletes what the tasks of a slot left besides their output, and counts it. A blob of a task that
// the database does not have stays: tasks are never deleted, so it must be another database's.
// False: the slot is not done.
bool delete_orphans_of(const BlobSlot& slot,
                       store::TaskStore& store,
                       DirectoryStore& blobs,
                       std::size_t& count) {
  static auto& deleted =
      metrics::counter("orphans_deleted_total", "Files deleted that no task knows of");
  const auto failed = [](const Error& error) {
    log::error("files of no task could not be deleted", {{"why", error.message}});
    return false;
  };
  const auto range = tasks_in(blobs, slot);
  if (!range) {
    return failed(range.error());
  }
  if (!*range) {
    return true;
  }
  for (TaskId from = (*range)->first;;) {
    const auto tasks = store.doubtful_outputs(from, (*range)->last, kDoubtfulBatch);
    if (!tasks) {
      return false;
    }
    const auto removed = remove_orphans(blobs, slot, *tasks);
    if (!removed) {
      return failed(removed.error());
    }
    count += *removed;
    deleted.Increment(static_cast<double>(*removed));
    if (tasks->size() < kDoubtfulBatch) {
      return true;
    }
    from = tasks->back().task;  // Comes again, which does no harm.
  }
}

}  // namespace

std::size_t delete_old_outputs(store::TaskStore& store,
                               BlobStore& blobs,
                               std::chrono::seconds age) {
  static auto& deleted =
      metrics::counter("retention_deleted_total", "Files deleted after their retention");
  static auto& not_ours = metrics::counter(
      "retention_not_ours_total", "Old files that stay, because their key is not known here");
  std::size_t count = 0;
  for (;;) {
    const auto old = store.take_old_outputs(age, kDeleteBatch);
    if (!old || old->looked_at == 0) {
      return count;
    }
    for (const std::string& key : old->keys) {
      const auto removed = blobs.remove(key);
      if (!removed) {
        log::error("an old file could not be deleted", {{"why", removed.error().message}});
        return count;
      }
      if (*removed == Removal::kNotOurs) {
        // Nobody can wait for it: everything that is older than the mark counts as done.
        static Occasionally line;
        if (line.due()) {
          log::error(
              "an old file stays for good: its key is sealed neither with BLOB_SIGNING_KEY "
              "nor with BLOB_SIGNING_KEY_OLD");
        }
        not_ours.Increment();
        continue;
      }
      ++count;
      deleted.Increment();
    }
    // What is marked as done is never looked at again.
    if (const auto flushed = blobs.flush_removed(old->keys); !flushed) {
      log::error("old files could not be deleted for good", {{"why", flushed.error().message}});
      return count;
    }
    if (!store.old_outputs_deleted(old->last) || old->looked_at < kDeleteBatch) {
      return count;
    }
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
    if (stopping() || !delete_orphans_of(slot, store, blobs, count)) {
      return count;
    }
    if (const auto marked = blobs.mark_checked(slot); !marked) {
      log::error("a folder that was checked could not be marked",
                 {{"why", marked.error().message}});
      return count;
    }
  }
  return count;
}

Janitor::Janitor(const Config& config, BlobStore& blobs)
    : blobs_(blobs),
      retention_(std::chrono::days(config.output_retention_days)),
      thread_([this, url = config.database] { run(url); }) {}

void Janitor::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool Janitor::stopping() {
  const std::scoped_lock lock(mutex_);
  return stopping_;
}

void Janitor::do_chores(store::TaskStore& store) {
  for (auto purged = store.purge_idempotency(kPurgeBatch); purged && *purged == kPurgeBatch;
       purged = store.purge_idempotency(kPurgeBatch)) {
  }
  for (auto purged = store.purge_sessions(kPurgeBatch); purged && *purged == kPurgeBatch;
       purged = store.purge_sessions(kPurgeBatch)) {
  }
  if (auto* const folder = dynamic_cast<DirectoryStore*>(&blobs_)) {
    const std::size_t files = delete_orphans(store, *folder, [this] { return stopping(); });
    if (files > 0) {
      log::info("files of no task deleted", {{"files", files}});
    }
  }
  if (retention_.count() > 0) {
    const std::size_t files = delete_old_outputs(store, blobs_, retention_ + kReadersGrace);
    if (files > 0) {
      log::info("old files deleted", {{"files", files}});
    }
  }
}

void Janitor::run(const DatabaseUrl& url) {
  store::TaskStore store(url);
  std::unique_lock lock(mutex_);
  for (auto pause = kFirst; !changed_.wait_for(lock, pause, [this] { return stopping_; });
       pause = kEvery) {
    lock.unlock();
    do_chores(store);
    lock.lock();
  }
}

}  // namespace audiogen::worker
