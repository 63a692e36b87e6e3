#include "worker/job/scheduler.h"

#include <utility>

namespace audiogen::worker {

void Scheduler::after(std::chrono::milliseconds delay, std::function<void()> what) {
  {
    const MutexLock lock(mutex_);
    due_.emplace(Clock::now() + delay, std::move(what));
  }
  changed_.notify_one();
}

void Scheduler::stop() {
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
  const MutexLock lock(mutex_);
  due_.clear();
}

void Scheduler::run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    if (due_.empty()) {
      changed_.wait(lock, stop, [this]() LOCKS_REQUIRED(mutex_) { return !due_.empty(); });
      continue;
    }
    const auto at = due_.begin()->first;
    if (at > Clock::now()) {
      changed_.wait_until(
          lock, stop, at, [this, at]() LOCKS_REQUIRED(mutex_) { return due_.begin()->first < at; });
      continue;
    }
    auto what = std::move(due_.begin()->second);
    due_.erase(due_.begin());
    lock.unlock();
    what();
    lock.lock();
  }
}

}  // namespace audiogen::worker
