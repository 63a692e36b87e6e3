// Threads for what may stand still in the kernel: a file on a disk that is slow, or on a file
// system whose server is gone. Whoever must not wait for that gives it away.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace audiogen {

class BlockingPool {
 public:
  using Job = std::function<void()>;

  // The threads begin with the first job. `capacity`: jobs that may wait.
  BlockingPool(std::size_t threads, std::size_t capacity);
  ~BlockingPool();  // stop(), for two seconds.
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Has `job` run on one of the threads; what it throws is dropped with it. False: as many wait as
  // may, it was stopped, or there can be no thread. Any thread, never blocks.
  bool run(Job job);

  // Takes nothing more, and waits up to `limit` for what is there. A thread that stands still then
  // is left as it is, until the process ends: what its job refers to must stay until then, or own
  // itself. False: there is such a thread. Again and again, if need be.
  bool stop(std::chrono::milliseconds limit);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // Of the threads, too.
};

}  // namespace audiogen
