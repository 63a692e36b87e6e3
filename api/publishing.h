// After the commit: hints go to the broker, and tasks whose hint was confirmed but which nobody has
// taken for a while are marked, so that the sweeper does not send them again soon.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/config.h"
#include "common/queue/publisher.h"
#include "common/store/task_store.h"

namespace audiogen::api {

class TaskPublisher {
 public:
  explicit TaskPublisher(const Config& config);
  ~TaskPublisher();
  TaskPublisher(const TaskPublisher&) = delete;
  TaskPublisher& operator=(const TaskPublisher&) = delete;

  // Thread-safe, never blocks, promises nothing: the sweeper finds what is lost here.
  void publish(TaskId task);

  bool connected() const { return publisher_.connected(); }

  // Sends what waits, up to `limit`, and stops.
  void stop(std::chrono::milliseconds limit);

 private:
  struct Confirmed {
    std::chrono::steady_clock::time_point at;
    std::vector<TaskId> tasks;
  };
  void mark(const DatabaseUrl& url);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Confirmed> confirmed_;  // Guarded by mutex_.
  bool stopping_ = false;            // Guarded by mutex_.
  queue::Publisher publisher_;
  std::thread marker_;
};

}  // namespace audiogen::api
