#include "common/base/blocking_pool.h"

#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/batch_queue.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace audiogen {

struct BlockingPool::State {
  State(std::size_t thread_count, std::size_t capacity) : threads(thread_count), jobs(capacity) {}

  const std::size_t threads;
  BatchQueue<Job> jobs;
  Mutex mutex;
  ConditionVariable ended;
  bool stopped GUARDED_BY(mutex) = false;
  std::size_t running GUARDED_BY(mutex) = 0;  // Threads.

  void work() {
    for (bool more = true; more;) {
      const auto some = jobs.pop_batch(1);
      more = !some.empty();
      try {
        if (more) {
          some.front()();
        }
      } catch (const std::exception& e) {
        log::error("a job of a disk failed", {{"why", e.what()}});
      }
    }
    const MutexLock lock(mutex);
    --running;
    ended.notify_all();
  }
};

BlockingPool::BlockingPool(std::size_t threads, std::size_t capacity)
    : state_(std::make_shared<State>(threads, capacity)) {}

BlockingPool::~BlockingPool() {
  stop(std::chrono::seconds(2));
}

bool BlockingPool::run(Job job) {
  {
    const MutexLock lock(state_->mutex);
    try {
      // Nobody joins them: one may stand still for ever.
      for (; state_->running < state_->threads && !state_->stopped; ++state_->running) {
        std::thread([state = state_] { state->work(); }).detach();
      }
    } catch (const std::system_error&) {
      // With fewer, then, and more at the next time.
    }
    if (state_->running == 0) {
      return false;
    }
  }
  return state_->jobs.push(std::move(job));
}

bool BlockingPool::stop(std::chrono::milliseconds limit) {
  state_->jobs.close();
  const auto end = std::chrono::steady_clock::now() + limit;
  MutexLock lock(state_->mutex);
  state_->stopped = true;
  return state_->ended.wait_until(
      lock, end, [this]() LOCKS_REQUIRED(state_->mutex) { return state_->running == 0; });
}

}  // namespace audiogen
