#include "common/http/loop.h"

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>

namespace audiogen::http {

Loop::Loop() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
}

void Loop::post(Run run, void* subject) {
  {
    const MutexLock lock(mutex_);
    if (!ended_) {
      posted_.push_back({run, subject});
      if (posted_.size() == 1) {
        // Under the lock: `subject` may hold the last reference to this loop, and run at once.
        static_cast<void>(::eventfd_write(wake_.get(), 1));
      }
      return;
    }
  }
  run(subject);
}

void Loop::run_posted() {
  running_.clear();
  {
    const MutexLock lock(mutex_);
    if (posted_.empty()) {
      return;
    }
    eventfd_t count = 0;
    static_cast<void>(::eventfd_read(wake_.get(), &count));
    running_.swap(posted_);
  }
  for (const Posted& posted : running_) {
    posted.run(posted.subject);
  }
}

void Loop::end() {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
  }
  run_posted();
}

}  // namespace audiogen::http
