#include "worker/eraser.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"

namespace audiogen::worker {
namespace {

constexpr std::chrono::seconds kEvery{5};
constexpr std::size_t kBatch = 200;  // Files; what an interrupted run repeats.

void tell(const Error& error) {
  static Occasionally line;
  if (line.due()) {
    log::error("the file of a deleted task cannot be removed", {{"why", error.message}});
  }
}

bool remove_one(BlobStore& blobs, const std::string& key) {
  if (key.empty()) {
    return true;
  }
  const auto removed = blobs.remove(key);
  if (!removed) {
    tell(removed.error());
  }
  return static_cast<bool>(removed);
}

// Those of `tasks` whose files are gone now, for good. As many at once as the store is written to
// best.
std::vector<TaskId> remove_files(BlobStore& blobs, const std::vector<store::TaskOutput>& tasks) {
  std::vector<char> gone(tasks.size(), 0);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = 0; (i = next.fetch_add(1)) < tasks.size();) {
      gone[i] = remove_one(blobs, tasks[i].key) ? 1 : 0;
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t threads = std::min(blobs.put_shape().threads, tasks.size());
    for (std::size_t i = 1; i < threads; ++i) {
      helpers.emplace_back(work);
    }
    work();
  }
  std::vector<TaskId> out;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (gone[i] != 0) {
      out.push_back(tasks[i].task);
      keys.push_back(tasks[i].key);
    }
  }
  // The note goes to the disk of a database, which must not be faster than that of the files.
  if (const auto flushed = blobs.flush_removed(keys); !flushed) {
    tell(flushed.error());
    return {};
  }
  return out;
}

}  // namespace

std::size_t erase_deleted(store::TaskStore& store, BlobStore& blobs) {
  static auto& erased = metrics::counter("deletions_done_total",
                                         "Tasks deleted by their owners whose files are gone");
  std::size_t count = 0;
  for (TaskId after;;) {
    const auto tasks = store.deletions(after, kBatch);
    if (!tasks || tasks->empty()) {
      return count;
    }
    const std::vector<TaskId> done = remove_files(blobs, *tasks);
    AG_CRASH_POINT("erase.removed");
    if (!store.deletions_done(done)) {
      return count;
    }
    count += done.size();
    erased.Increment(static_cast<double>(done.size()));
    if (tasks->size() < kBatch) {
      return count;
    }
    after = tasks->back().task;
  }
}

Eraser::Eraser(const Config& config, BlobStore& blobs)
    : blobs_(blobs), thread_([this, url = config.database] { run(url); }) {}

void Eraser::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Eraser::run(const DatabaseUrl& url) {
  store::TaskStore store(url);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kEvery, [this] { return stopping_; })) {
    lock.unlock();
    erase_deleted(store, blobs_);
    lock.lock();
  }
}

}  // namespace audiogen::worker
