#include "worker/janitor.h"

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::worker {
namespace {

constexpr std::chrono::minutes kFirst{1}, kEvery{10};
constexpr std::size_t kPurgeBatch = 500;
constexpr std::size_t kDeleteBatch = 100;  // Files; what an interrupted run repeats.

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

void Janitor::do_chores(store::TaskStore& store) {
  for (auto purged = store.purge_idempotency(kPurgeBatch); purged && *purged == kPurgeBatch;
       purged = store.purge_idempotency(kPurgeBatch)) {
  }
  if (auto* const folder = dynamic_cast<DirectoryStore*>(&blobs_)) {
    folder->remove_stale_temporaries();
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
