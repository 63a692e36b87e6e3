#include "worker/job/scheduler.h"

#include <utility>

namespace audiogen::worker {

void Scheduler::after(std::chrono::milliseconds delay, std::function<void()> what) {
  {
    const std::scoped_lock lock(mutex_);
    due_.emplace(Clock::now() + delay, std::move(what));
  }
  changed_.notify_one();
}

void Scheduler::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    due_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Scheduler::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (due_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto at = due_.begin()->first;
    if (at > Clock::now()) {
      changed_.wait_until(lock, at);
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
