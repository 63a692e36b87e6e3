// The door to the store for routes that few ask for, but that may take long: lists, usage,
// accounts. A few threads, each with a store object (one connection) of its own, run whatever is
// asked for as plain blocking calls. What is asked for all the time has a group commit instead
// (asking.h).
//
// Who can fill it, and what the others feel:
//  - A user with very many requests, or slow ones: runs one at a time, and has per_user waiting;
//    what is more is refused, and only his. Users who wait are served in turn, one request each, so
//    the others wait for what is running and for one request of each user before them, however many
//    requests he has.
//  - As many users as there are threads, with slow ones: the others wait until the first of those
//    ends, at most as long as a call of a store blocks. Whoever has waited for wait_max is refused
//    instead of run: his client has given up or will.
//  - A great many users: total waiting, and no more. Those who come then are refused at once.
// Creating and polling never come here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/server/handling.h"
#include "common/base/mutex.h"

namespace audiogen::api {

struct StorePoolOptions {
  std::size_t threads = 2;
  std::size_t per_user = 8;  // Waiting, as is `total`; what runs does not count.
  std::size_t total = 1'000;
  std::chrono::milliseconds wait_max{2'000};
};

template <class Store>
class StorePool {
 public:
  using Clock = std::chrono::steady_clock;
  using Make = std::function<std::unique_ptr<Store>()>;
  // With null: it has waited for too long and is not to run.
  using Job = std::function<void(Store*)>;

  // `make` makes each thread's store, on that thread. It must not throw.
  explicit StorePool(Make make, StorePoolOptions options = {})
      : make_(std::move(make)), options_(options) {
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~StorePool() { stop(); }
  StorePool(const StorePool&) = delete;
  StorePool& operator=(const StorePool&) = delete;

  // Has `job` run on a thread of the pool, once, before or after this returns; it must not throw.
  // False, and `job` is dropped, when the user or all together have too many waiting, or the pool
  // is stopped. `user` is a hash: two users who share one share a turn. Any thread, never blocks.
  bool submit(std::uint64_t user, Job job) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ || waiting_ >= options_.total) {
        return false;
      }
      User& theirs = users_[user];
      if (theirs.jobs.size() >= options_.per_user) {
        return false;
      }
      theirs.jobs.push_back({std::move(job), Clock::now()});
      ++waiting_;
      if (theirs.running || theirs.jobs.size() > 1) {
        return true;  // In the queue of users already, or to be put there by what runs.
      }
      turns_.push_back(user);
    }
    changed_.notify_one();
    return true;
  }

  // Finishes what was accepted (what has waited for too long is told so), then ends the threads.
  // What has not begun after `within` is not run, and told that it has waited for too long. Nothing
  // more is accepted. For one thread at a time.
  void stop(std::chrono::milliseconds within = std::chrono::hours(1)) {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      give_up_at_ = Clock::now() + within;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }

 private:
  struct Waiting {
    Job job;
    Clock::time_point since;
  };
  struct User {
    std::deque<Waiting> jobs;
    bool running = false;
  };

  void work() {
    const std::unique_ptr<Store> store = make_();
    MutexLock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&]() LOCKS_REQUIRED(mutex_) {
        return !turns_.empty() || (stopping_ && waiting_ == 0);
      });
      if (turns_.empty()) {
        return;
      }
      const std::uint64_t user = turns_.front();
      turns_.pop_front();
      Waiting next = take(user);
      const auto now = Clock::now();
      const bool late = now - next.since > options_.wait_max || now >= give_up_at_;
      lock.unlock();
      next.job(late ? nullptr : store.get());
      next.job = nullptr;
      lock.lock();
      ended(user);
    }
  }

  Waiting take(std::uint64_t user) LOCKS_REQUIRED(mutex_) {
    User& theirs = users_[user];
    theirs.running = true;
    Waiting out = std::move(theirs.jobs.front());
    theirs.jobs.pop_front();
    --waiting_;
    return out;
  }

  void ended(std::uint64_t user) LOCKS_REQUIRED(mutex_) {
    const auto theirs = users_.find(user);
    theirs->second.running = false;
    if (theirs->second.jobs.empty()) {
      users_.erase(theirs);
    } else {
      turns_.push_back(user);
    }
    // One for the turn, or all for the end.
    if (stopping_) {
      changed_.notify_all();
    } else if (!turns_.empty()) {
      changed_.notify_one();
    }
  }

  const Make make_;
  const StorePoolOptions options_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_map<std::uint64_t, User> users_ GUARDED_BY(mutex_);  // Who runs or waits.
  std::deque<std::uint64_t> turns_ GUARDED_BY(mutex_);  // Who waits and does not run; each once.
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;          // Jobs of all users.
  bool stopping_ GUARDED_BY(mutex_) = false;
  Clock::time_point give_up_at_ GUARDED_BY(mutex_) = Clock::time_point::max();
  std::vector<std::thread> threads_;
};

// See on_store().
template <class Store, class Use>
class OnStore {
 public:
  using Value = std::invoke_result_t<Use&, Store&>;

  OnStore(StorePool<Store>& pool, std::uint64_t user, Use&& use)
      : pool_(pool), user_(user), use_(std::move(use)) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(Handling::Frame frame) {
    // This object may be gone before submit() returns.
    return pool_.submit(user_, [this, waiting = Handling::Share(frame)](Store* store) {
      run(store);
      waiting.resume();
    });
  }
  std::optional<Value> await_resume() {
    if (thrown_) {
      std::rethrow_exception(thrown_);
    }
    return std::move(value_);
  }

 private:
  void run(Store* store) noexcept {
    if (store == nullptr) {
      return;
    }
    try {
      value_.emplace(use_(*store));
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }

  StorePool<Store>& pool_;
  std::uint64_t user_;
  Use use_;
  std::optional<Value> value_;
  std::exception_ptr thrown_;
};

// `const auto keys = co_await on_store(pool, call.holder(), list);` where `list` is a callable that
// takes Store& and may block: what it returned, on a thread of the pool, which the handler is not
// to keep for long; what it threw is thrown here. Nullopt when the pool is full or it has waited
// for too long: answer 503. A lambda may refer to the handler's variables.
template <class Store, class Use>
OnStore<Store, Use> on_store(StorePool<Store>& pool, std::uint64_t user, Use use) {
  return {pool, user, std::move(use)};
}

}  // namespace audiogen::api
