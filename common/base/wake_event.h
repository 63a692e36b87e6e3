// Wakes a thread that sleeps in poll() or epoll_wait(). Under load it is awake anyway: then ringing
// costs no system call.
#pragma once

#include <atomic>

#include <sys/eventfd.h>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace audiogen {

class WakeEvent {
 public:
  WakeEvent() { AG_CHECK(fd_); }
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // To be polled for reading.
  int fd() const { return fd_.get(); }

  // Ends the present or the next sleep. Any thread, never blocks. First do what the sleeper is to
  // find.
  void ring() {
    // Rung and not yet answered: whoever answers will look after this.
    if (!rung_.exchange(true)) {
      // Fails only when the counter is at its limit, and then the other side wakes anyway.
      static_cast<void>(::eventfd_write(fd_.get(), 1));
    }
  }

  // The sleeper's, after every sleep and before it looks; `readable` as its poll said of fd().
  void answer(bool readable) {
    if (readable) {
      eventfd_t ignored = 0;
      static_cast<void>(::eventfd_read(fd_.get(), &ignored));
    }
    // A ring from here on writes again. An exchange, not a store: it sees what came before the ring
    // that it takes back.
    rung_.exchange(false);
  }

 private:
  const UniqueFd fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::atomic<bool> rung_{false};
};

}  // namespace audiogen
