// For what may happen a thousand times a second and deserves one log line: a line each would make
// it worse.
#pragma once

#include <atomic>
#include <chrono>

namespace audiogen {

class Occasionally {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Occasionally(std::chrono::milliseconds every = std::chrono::seconds(1))
      : every_(every) {}

  // True once in a period, for the first who asks. Any thread, never blocks.
  bool due(Clock::time_point now = Clock::now()) {
    auto next = next_.load(std::memory_order_relaxed);
    return now.time_since_epoch().count() >= next &&
           next_.compare_exchange_strong(next, (now + every_).time_since_epoch().count());
  }

 private:
  const Clock::duration every_;
  std::atomic<Clock::rep> next_{Clock::time_point::min().time_since_epoch().count()};
};

}  // namespace audiogen
