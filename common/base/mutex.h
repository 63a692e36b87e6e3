// Mutexes whose rules a compiler checks: what each guards stands behind GUARDED_BY, and a function
// that expects its caller to hold one says LOCKS_REQUIRED. The lint has clang prove that nothing
// guarded is touched without its mutex (clang's documentation, "Thread Safety Analysis"). The
// standard library's own types carry no such annotations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#ifdef __clang__
#define AUDIOGEN_CLANG(attribute) __attribute__((attribute))
#else
#define AUDIOGEN_CLANG(attribute)
#endif

#define GUARDED_BY(mutex) AUDIOGEN_CLANG(guarded_by(mutex))
#define LOCKS_REQUIRED(...) AUDIOGEN_CLANG(requires_capability(__VA_ARGS__))

namespace audiogen {

// std::mutex. Held by a MutexLock.
class AUDIOGEN_CLANG(capability("mutex")) Mutex {
 public:
  void lock() AUDIOGEN_CLANG(acquire_capability()) { mutex_.lock(); }
  void unlock() AUDIOGEN_CLANG(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;

  std::mutex mutex_;
};

// Holds a mutex from here to the end of the block, but for where it is unlocked in between.
class AUDIOGEN_CLANG(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) AUDIOGEN_CLANG(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() AUDIOGEN_CLANG(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() AUDIOGEN_CLANG(acquire_capability()) { lock_.lock(); }
  void unlock() AUDIOGEN_CLANG(release_capability()) { lock_.unlock(); }

 private:
  friend class ConditionVariable;

  std::unique_lock<std::mutex> lock_;
};

// Lets go of a mutex that the caller holds, to the end of the block. (Clang's word for the end of
// what a constructor began is "release", for this one as well.)
class AUDIOGEN_CLANG(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) AUDIOGEN_CLANG(release_capability(mutex)) : mutex_(mutex) {
    mutex_.unlock();
  }
  ~MutexUnlock() AUDIOGEN_CLANG(release_capability()) { mutex_.lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

// std::condition_variable. What a condition reads is guarded, so it says LOCKS_REQUIRED as well:
// [&]() LOCKS_REQUIRED(mutex_) { return stopping_; }
class ConditionVariable {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  void wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  template <typename Condition>
  void wait(MutexLock& lock, Condition condition) {
    changed_.wait(lock.lock_, std::move(condition));
  }

  // Whether the condition holds: the others end by the clock, too.
  template <typename Rep, typename Period, typename Condition>
  bool wait_for(MutexLock& lock,
                const std::chrono::duration<Rep, Period>& longest,
                Condition condition) {
    return changed_.wait_for(lock.lock_, longest, std::move(condition));
  }
  template <typename Clock, typename Duration>
  std::cv_status wait_until(MutexLock& lock,
                            const std::chrono::time_point<Clock, Duration>& until) {
    return changed_.wait_until(lock.lock_, until);
  }
  template <typename Clock, typename Duration, typename Condition>
  bool wait_until(MutexLock& lock,
                  const std::chrono::time_point<Clock, Duration>& until,
                  Condition condition) {
    return changed_.wait_until(lock.lock_, until, std::move(condition));
  }

 private:
  std::condition_variable changed_;
};

}  // namespace audiogen
