// Runs functions at points in time, on one thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>

#include "common/base/mutex.h"

namespace audiogen::worker {

class Scheduler {
 public:
  using Clock = std::chrono::steady_clock;

  Scheduler() : thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~Scheduler() { stop(); }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `what` must be quick and must not throw. Thread-safe. Nothing runs after stop().
  void after(std::chrono::milliseconds delay, std::function<void()> what);

  // Drops what is still to come.
  void stop();

 private:
  void run(const std::stop_token& stop);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::multimap<Clock::time_point, std::function<void()>> due_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace audiogen::worker
