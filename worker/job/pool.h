// A fixed number of threads working through a bounded queue, in batches of what has come together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/batch_queue.h"

namespace audiogen::worker {

// At least one.
inline std::size_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

template <class Item>
class BatchPool {
 public:
  // `handle` gets one to `batch_max` items, oldest first, on any of the threads; it must not throw.
  BatchPool(std::size_t threads,
            std::size_t batch_max,
            std::size_t capacity,
            const std::function<void(std::vector<Item>)>& handle)
      : queue_(capacity) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, batch_max, handle] {
        for (auto items = queue_.pop_batch(batch_max); !items.empty();
             items = queue_.pop_batch(batch_max)) {
          handle(std::move(items));
        }
      });
    }
  }
  ~BatchPool() { stop(); }
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  // False, with `item` untouched, when the queue is full or the pool is stopped.
  bool post(Item&& item) { return queue_.push(std::move(item)); }

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
  BatchQueue<Item> queue_;
  std::vector<std::thread> threads_;
};

// For jobs that differ: one at a time, none may throw.
class Pool : public BatchPool<std::function<void()>> {
 public:
  Pool(std::size_t threads, std::size_t capacity)
      : BatchPool(threads, 1, capacity, [](const auto& jobs) { jobs.front()(); }) {}
};

}  // namespace audiogen::worker
