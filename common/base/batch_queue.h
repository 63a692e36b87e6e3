// A bounded queue from many threads to few, emptied in batches: whatever arrived while the last
// batch was worked on is the next one, so batches grow with load and nobody waits for company when
// idle.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "common/base/mutex.h"

namespace audiogen {

template <class T>
class BatchQueue {
 public:
  explicit BatchQueue(std::size_t capacity) : capacity_(capacity) {}

  // Adds `item`. False, with `item` untouched, when the queue is full or closed. Never blocks.
  bool push(T&& item) {
    {
      const MutexLock lock(mutex_);
      if (closed_ || items_.size() >= capacity_) {
        return false;
      }
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Waits for work and takes up to `max` items, oldest first. Empty only when closed and drained.
  std::vector<T> pop_batch(std::size_t max) {
    MutexLock lock(mutex_);
    ready_.wait(lock, [&]() LOCKS_REQUIRED(mutex_) { return closed_ || !items_.empty(); });
    return take(max);
  }

  // No more pushes; poppers drain what is left.
  void close() {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

  std::size_t size() const {
    const MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  std::vector<T> take(std::size_t max) LOCKS_REQUIRED(mutex_) {
    std::vector<T> out;
    const std::size_t count = items_.size() < max ? items_.size() : max;
    out.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(std::move(items_.front()));
      items_.pop_front();
    }
    return out;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  ConditionVariable ready_;
  std::deque<T> items_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace audiogen
