// Wakes a thread that sleeps in poll() on its connection.
#pragma once

#include <chrono>

namespace audiogen::queue {

class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Ends the present or the next wait(). Thread-safe, never blocks.
  void signal();

  // Sleeps until signal(), until `socket` has something to read (with `until_writable`: or takes
  // more), or for `limit`. A negative `socket` is left out. One thread only.
  void wait(int socket, bool until_writable, std::chrono::milliseconds limit);

 private:
  const int event_;
};

}  // namespace audiogen::queue
