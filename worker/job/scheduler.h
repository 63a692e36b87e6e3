// Runs functions at points in time, on one thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace audiogen::worker {

class Scheduler {
 public:
  using Clock = std::chrono::steady_clock;

  Scheduler() : thread_([this] { run(); }) {}
  ~Scheduler() { stop(); }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `what` must be quick and must not throw. Thread-safe. Nothing runs after stop().
  void after(std::chrono::milliseconds delay, std::function<void()> what);

  // Drops what is still to come.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> due_;  // Guarded by mutex_.
  bool stopping_ = false;                                        // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace audiogen::worker
