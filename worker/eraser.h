// Removes the files of what its owners have deleted, seconds after. On a thread of its own: no
// slower chore may keep it from its minute. Any number of workers may do it at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/store/task_store.h"

namespace audiogen::worker {

// Removes the files of all deleted tasks that are noted, and then their notes. What cannot be
// removed keeps its note, and nobody else's waits for it. Interrupted anywhere, the next run goes
// on. Whoever reads such a file meanwhile may be left with a piece of it: it is the owner's wish.
// The number of tasks. Blocks.
std::size_t erase_deleted(store::TaskStore& store, BlobStore& blobs);

class Eraser {
 public:
  Eraser(const Config& config, BlobStore& blobs);
  ~Eraser() { stop(); }
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  void stop();

 private:
  void run(const DatabaseUrl& url);

  BlobStore& blobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace audiogen::worker
