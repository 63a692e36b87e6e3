// Watches whether the database answers, for readiness: one small query a second on a thread of its
// own.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/mutex.h"
#include "common/store/task_store.h"

namespace audiogen::store {

class Probe {
 public:
  explicit Probe(const DatabaseUrl& url) : thread_([this, url] { watch(url); }) {}
  ~Probe() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Did the database answer the last time it was asked?
  bool ok() const { return ok_.load(); }

 private:
  void watch(const DatabaseUrl& url) {
    TaskStore store(url);
    MutexLock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      ok_.store(store.ping());
      lock.lock();
      changed_.wait_for(
          lock, std::chrono::seconds(1), [&]() LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
  }

  std::atomic<bool> ok_{false};
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace audiogen::store
