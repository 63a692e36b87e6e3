// The one extra thread of a server: writes responses that did not fit the socket at once, continues
// pipelined requests, and enforces deadlines. A connection that behaves never wakes it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace audiogen::http {

class Connection;

class Housekeeper {
 public:
  Housekeeper();

  // Starts the thread; `tick` runs on it about every `interval`.
  void start(std::chrono::milliseconds interval,
             std::function<void(std::chrono::steady_clock::time_point)> tick);
  void stop();

  // Calls connection->resume() on the thread, soon. Any thread.
  void post(std::shared_ptr<Connection> connection);

  // On the thread only. Calls connection->on_writable() once, when `fd` can take bytes or has
  // failed; watch again for more. False: the kernel has no room.
  bool watch(int fd, std::shared_ptr<Connection> connection);
  // Before `fd` is closed.
  void unwatch(int fd);

 private:
  void run(std::chrono::milliseconds interval,
           const std::function<void(std::chrono::steady_clock::time_point)>& tick);

  UniqueFd epoll_, wakeup_;
  std::unordered_map<int, std::shared_ptr<Connection>> watched_;  // The thread's own.
  Mutex mutex_;
  std::vector<std::shared_ptr<Connection>> posted_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace audiogen::http
