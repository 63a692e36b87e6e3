// Slow chores on a thread of their own, so that they never delay the sweeper: forgotten idempotency
// keys, sessions that have ended, files no task knows of, files past their retention. Any number of
// workers may do them at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/store/task_store.h"

namespace audiogen::worker {

// Deletes the files of tasks created longer than `age` ago; the tasks stay and say so from before
// their file goes. Interrupted anywhere, the next run goes on. Stops at the first failure. The
// number of files. Blocks.
std::size_t delete_old_outputs(store::TaskStore& store, BlobStore& blobs, std::chrono::seconds age);

// Deletes the files that crashes left: of final tasks, more than a day old, and not their output.
// Looks at each slot of segments once, at no more than some hours of them a call, and ends early
// when `stopping` says so; the next run, of any worker, goes on. The number of files. Blocks.
std::size_t delete_orphans(store::TaskStore& store,
                           DirectoryStore& blobs,
                           const std::function<bool()>& stopping);

class Janitor {
 public:
  Janitor(const Config& config, BlobStore& blobs);
  ~Janitor() { stop(); }
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  void stop();

 private:
  void run(const DatabaseUrl& url);
  void do_chores(store::TaskStore& store);
  bool stopping();

  BlobStore& blobs_;
  const std::chrono::seconds retention_;  // 0: files stay for ever
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace audiogen::worker
