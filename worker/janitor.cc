#include "worker/janitor.h"

#include <algorithm>
#include <string_view>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::worker {
namespace {

constexpr std::chrono::minutes kFirst{1}, kEvery{10};
constexpr std::size_t kPurgeBatch = 500;
constexpr std::size_t kDeleteBatch = 100;  // Files; what an interrupted run repeats.
constexpr auto kOrphanAge = std::chrono::hours(24);
constexpr std::size_t kWindowsARun = 1000;  // 9 h of tasks.
constexpr std::size_t kDoubtfulBatch = 10'000;

// Deletes what a window's tasks left besides their output, and counts it. A file of a task that the
// database does not have stays: tasks are never deleted, so it must be another database's. False:
// the window is not done.
bool delete_orphans_of(const BlobWindow& window,
                       store::TaskStore& store,
                       DirectoryStore& blobs,
                       std::size_t& count) {
  static auto& deleted =
      metrics::counter("orphans_deleted_total", "Files deleted that no task knows of");
  for (TaskId from = window.first;;) {
    const auto tasks = store.doubtful_outputs(from, window.last, kDoubtfulBatch);
    if (!tasks) {
      return false;
    }
    if (tasks->empty()) {
      return true;
    }
    const auto removed = blobs.remove_if(window, [&](TaskId task, std::string_view key) {
      const auto it = std::lower_bound(
          tasks->begin(), tasks->end(), task, [](const store::TaskOutput& output, TaskId id) {
            return output.task < id;
          });
      return it != tasks->end() && it->task == task && it->key != key;
    });
    if (!removed) {
      log::error("files of no task could not be deleted", {{"why", removed.error().message}});
      return false;
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
  std::size_t count = 0;
  for (;;) {
    const auto old = store.take_old_outputs(age, kDeleteBatch);
    if (!old || old->looked_at == 0) {
      return count;
    }
    for (const std::string& key : old->keys) {
      if (const auto removed = blobs.remove(key); !removed) {
        log::error("an old file could not be deleted", {{"why", removed.error().message}});
        return count;
      }
      ++count;
      deleted.Increment();
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
  const TaskId end{first_uuid_at(*now - kOrphanAge)};
  for (const BlobWindow& window : blobs.unchecked(end, kWindowsARun)) {
    if (stopping() || !delete_orphans_of(window, store, blobs, count)) {
      return count;
    }
    if (const auto marked = blobs.mark_checked(window); !marked) {
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
  if (auto* const folder = dynamic_cast<DirectoryStore*>(&blobs_)) {
    const std::size_t files = delete_orphans(store, *folder, [this] { return stopping(); });
    if (files > 0) {
      log::info("files of no task deleted", {{"files", files}});
    }
  }
  if (retention_.count() > 0) {
    const std::size_t files = delete_old_outputs(store, blobs_, retention_);
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
