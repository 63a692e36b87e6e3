// One I/O thread of the server, as those see it who have something to be done there: most answers
// are rendered and written by the thread that read their request, so what they consist of is freed
// where it was allocated, and whoever found it (a store's thread) goes on at once with the next
// batch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace audiogen::http {

class Loop {
 public:
  // Called with `subject`; must not throw and not block.
  using Run = void (*)(void* subject);

  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Has `run(subject)` run on the loop's thread, once, in the order of the calls; on this thread
  // once the loop has ended. `subject` may own what owns the loop. Any thread, never blocks.
  void post(Run run, void* subject);

  // Readable when something is to be run.
  int fd() const { return wake_.get(); }
  // Runs what was posted. On the loop's thread.
  void run_posted();
  // Of its looks at what is ready, each has a number. On the loop's thread.
  void begin_turn() { ++turn_; }
  std::uint64_t turn() const { return turn_; }
  // The loop's thread has gone: runs what is left.
  void end();

 private:
  struct Posted {
    Run run;
    void* subject;
  };

  const UniqueFd wake_;
  Mutex mutex_;
  std::vector<Posted> posted_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  std::vector<Posted> running_;  // Of the loop's thread: what it took last.
  std::uint64_t turn_ = 0;       // Likewise.
};

}  // namespace audiogen::http
