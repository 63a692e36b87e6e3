#include "common/base/blocking_pool.h"

#include <thread>
#include <utility>

#include "common/base/batch_queue.h"
#include "common/base/mutex.h"

namespace audiogen {

struct BlockingPool::State {
  State(std::size_t thread_count, std::size_t capacity) : threads(thread_count), jobs(capacity) {}

  const std::size_t threads;
  BatchQueue<Job> jobs;
  Mutex mutex;
  ConditionVariable ended;
  bool begun GUARDED_BY(mutex) = false;
  std::size_t running GUARDED_BY(mutex) = 0;  // Threads.
};

BlockingPool::BlockingPool(std::size_t threads, std::size_t capacity)
    : state_(std::make_shared<State>(threads, capacity)) {}

BlockingPool::~BlockingPool() {
  stop(std::chrono::seconds(2));
}

bool BlockingPool::run(Job job) {
  {
    const MutexLock lock(state_->mutex);
    if (!std::exchange(state_->begun, true)) {
      for (; state_->running < state_->threads; ++state_->running) {
        // Nobody joins them: one may stand still for ever.
        std::thread([state = state_] {
          for (bool more = true; more;) {
            const auto jobs = state->jobs.pop_batch(1);
            more = !jobs.empty();
            if (more) {
              jobs.front()();
            }
          }
          const MutexLock ending(state->mutex);
          --state->running;
          state->ended.notify_all();
        }).detach();
      }
    }
  }
  return state_->jobs.push(std::move(job));
}

void BlockingPool::stop(std::chrono::milliseconds limit) {
  state_->jobs.close();
  const auto end = std::chrono::steady_clock::now() + limit;
  MutexLock lock(state_->mutex);
  state_->begun = true;  // None begins any more.
  state_->ended.wait_until(
      lock, end, [this]() LOCKS_REQUIRED(state_->mutex) { return state_->running == 0; });
}

}  // namespace audiogen
