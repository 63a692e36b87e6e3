// A fixed number of threads working through a bounded queue of jobs.
#pragma once

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/batch_queue.h"

namespace audiogen::worker {

class Pool {
 public:
  Pool(std::size_t threads, std::size_t capacity) : queue_(capacity) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] {
        for (;;) {
          auto jobs = queue_.pop_batch(1);
          if (jobs.empty()) {
            return;
          }
          jobs.front()();
        }
      });
    }
  }
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // False when the queue is full or the pool is stopped; `job` was not taken then. `job` must not
  // throw.
  bool post(std::function<void()> job) { return queue_.push(std::move(job)); }

  // Finishes what was posted.
  void stop() {
    queue_.close();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }

 private:
  BatchQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace audiogen::worker
