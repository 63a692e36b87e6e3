// Wakes a thread that sleeps in poll() on its connection.
#pragma once

#include <chrono>

#include "common/base/wake_event.h"

namespace audiogen::queue {

// Rounded up, so that who sleeps for it is never early; negative when `at` is over.
inline std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point at) {
  return std::chrono::ceil<std::chrono::milliseconds>(at - std::chrono::steady_clock::now());
}

class Wakeup {
 public:
  // Ends the present or the next wait(). Thread-safe, never blocks.
  void signal() { event_.ring(); }

  // Sleeps until signal(), until `socket` has something to read (with `until_writable`: or takes
  // more), or for `limit`. A negative `socket` is left out. One thread only.
  void wait(int socket, bool until_writable, std::chrono::milliseconds limit);

 private:
  WakeEvent event_;
};

}  // namespace audiogen::queue
