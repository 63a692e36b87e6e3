// What callbacks on other threads have received, and waiting for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/queue/consumer.h"

namespace audiogen::test {

inline constexpr std::chrono::seconds kLong{40};  // For what happens soon on an idle machine.

// Asks `done` every few milliseconds, for things that announce nothing.
inline bool eventually(const std::function<bool()>& done, std::chrono::milliseconds limit = kLong) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable never;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    never.wait_for(lock, std::chrono::milliseconds(10));
  }
  return true;
}

// What the broker says of its queues, which a busy machine may be too slow for once.
inline queue::Depth depth_of(const AmqpUrl& url, const queue::Topology& topology = {}) {
  std::optional<queue::Depth> out;
  eventually([&] { return (out = queue::read_depth(url, topology)).has_value(); });
  return out.value();
}

inline std::vector<Hint> make_hints(std::size_t count) {
  std::vector<Hint> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({TaskId::make(), static_cast<std::uint32_t>(i % 7)});
  }
  return out;
}

// Counts hints by task.
class Collector {
 public:
  void add(std::span<const Hint> hints) {
    const std::scoped_lock lock(mutex_);
    for (const Hint& hint : hints) {
      ++counts_[hint.task];
    }
    ++batches_;
    changed_.notify_all();
  }
  // Waits until `count` different tasks are there.
  bool wait_for(std::size_t count, std::chrono::milliseconds limit = kLong) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return counts_.size() >= count; });
  }
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return counts_.size();
  }
  std::size_t batches() const {
    const std::scoped_lock lock(mutex_);
    return batches_;
  }
  std::map<TaskId, int> counts() const {
    const std::scoped_lock lock(mutex_);
    return counts_;
  }
  bool contains_all_of(const Collector& other) const {
    const auto mine = counts();
    for (const auto& [task, count] : other.counts()) {
      if (!mine.contains(task)) {
        return false;
      }
    }
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<TaskId, int> counts_;  // Guarded by mutex_.
  std::size_t batches_ = 0;       // Guarded by mutex_.
};

// A consumer that notes what it gets and, unless told otherwise, acknowledges at once.
class TestConsumer {
 public:
  TestConsumer(const AmqpUrl& url, queue::ConsumerOptions options, bool acknowledge = true)
      : consumer_(url, std::move(options), [this, acknowledge](std::vector<queue::Delivery> batch) {
          std::vector<Hint> hints;
          for (const queue::Delivery& delivery : batch) {
            hints.push_back(delivery.hint);
            if (acknowledge) {
              consumer_.ack(delivery);
            }
          }
          const std::size_t size = batch.size();
          {
            const std::scoped_lock lock(mutex_);
            largest_ = std::max(largest_, size);
            deliveries_.insert(deliveries_.end(), batch.begin(), batch.end());
          }
          received_.add(hints);
        }) {
    consumer_.start();
  }

  queue::Consumer& operator*() { return consumer_; }
  queue::Consumer* operator->() { return &consumer_; }
  Collector& received() { return received_; }
  std::vector<queue::Delivery> deliveries() const {
    const std::scoped_lock lock(mutex_);
    return deliveries_;
  }
  std::size_t largest_batch() const {
    const std::scoped_lock lock(mutex_);
    return largest_;
  }

 private:
  Collector received_;
  mutable std::mutex mutex_;
  std::vector<queue::Delivery> deliveries_;  // Guarded by mutex_.
  std::size_t largest_ = 0;                  // Guarded by mutex_.
  queue::Consumer consumer_;                 // Last: it ends before what it uses.
};

}  // namespace audiogen::test
