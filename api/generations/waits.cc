#include "api/generations/waits.h"

#include <vector>

namespace audiogen::api {
namespace {

// A database that does not answer keeps nobody for much longer than he asked for.
constexpr std::chrono::seconds kLookMax{2};

}  // namespace

// One reading of all tasks that are waited for. Whoever reads for it may answer when it is over.
struct Waits::Look {
  Mutex mutex;
  ConditionVariable changed;
  std::unordered_map<TaskId, std::optional<TaskView>> tasks GUARDED_BY(mutex);
  std::size_t left GUARDED_BY(mutex) = 0;  // Reads that have not answered.
};

Waits::Waits(Find find, WaitsOptions options)
    : find_(std::move(find)),
      options_(options),
      places_(options.places),
      thread_([this] { work(); }) {}

Waits::~Waits() {
  release();
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Waits::Wait Waits::until_final(const Call& call, TaskView& task, std::chrono::milliseconds limit) {
  return {*this, call, task, limit, false};
}

Waits::Wait Waits::until_changed(const Call& call,
                                 TaskView& task,
                                 std::chrono::milliseconds limit) {
  return {*this, call, task, limit, true};
}

void Waits::release() {
  {
    const MutexLock lock(mutex_);
    released_ = true;
  }
  changed_.notify_all();
}

bool Waits::add(Waiter waiter) {
  {
    const MutexLock lock(mutex_);
    if (released_) {
      return false;
    }
    if (!waiter.for_change) {
      auto place = places_.take(waiter.call->key());
      if (!place) {
        return false;
      }
      waiter.place.emplace(*std::move(place));
    }
    waiters_.push_back(std::move(waiter));
  }
  changed_.notify_all();
  return true;
}

void Waits::work() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() LOCKS_REQUIRED(mutex_) { return stopping_ || !waiters_.empty(); });
    if (waiters_.empty()) {
      return;
    }
    changed_.wait_for(
        lock, options_.look_every, [this]() LOCKS_REQUIRED(mutex_) { return released_; });
    const auto seen = look();
    std::list<Waiter> ended = take_ended(*seen, Clock::now() + options_.look_every);
    lock.unlock();
    for (const Waiter& waiter : ended) {
      waiter.share.resume();
    }
    ended.clear();  // May destroy handlers.
    lock.lock();
  }
}

// Reads each task once; the lock is not held meanwhile.
std::shared_ptr<Waits::Look> Waits::look() {
  auto out = std::make_shared<Look>();
  if (released_) {
    return out;
  }
  std::vector<store::FindCommand> commands;
  {
    const MutexLock inner(out->mutex);
    for (const Waiter& waiter : waiters_) {
      if (out->tasks.try_emplace(waiter.task->id).second) {
        commands.push_back({.id = waiter.task->id, .user = waiter.call->key().user});
      }
    }
    out->left = commands.size();
  }
  const MutexUnlock unlocked(mutex_);
  for (const store::FindCommand& command : commands) {
    const bool asked = find_(
        command, [out, id = command.id](Result<store::FindOutcome, store::StoreFault> outcome) {
          const MutexLock inner(out->mutex);
          if (outcome) {
            out->tasks[id] = *std::move(outcome);
          }
          --out->left;
          out->changed.notify_all();
        });
    if (!asked) {
      const MutexLock inner(out->mutex);
      --out->left;
    }
  }
  MutexLock inner(out->mutex);
  out->changed.wait_for(
      inner, kLookMax, [&]() LOCKS_REQUIRED(out->mutex) { return out->left == 0; });
  return out;
}

// Tells the waiters what was seen, and takes out those that wait no longer.
std::list<Waits::Waiter> Waits::take_ended(Look& look, Clock::time_point next) {
  const MutexLock inner(look.mutex);
  const auto ended = [&](const Waiter& waiter) LOCKS_REQUIRED(mutex_, look.mutex) {
    bool changed = false;
    // Who came while the look was under way may know more than it has seen.
    if (const auto seen = look.tasks.find(waiter.task->id);
        seen != look.tasks.end() && seen->second && seen->second->epoch >= waiter.task->epoch) {
      changed =
          seen->second->state != waiter.task->state || seen->second->epoch != waiter.task->epoch;
      *waiter.task = *seen->second;
    }
    return released_ || (waiter.for_change && changed) || is_final(waiter.task->state) ||
           waiter.deadline < next || waiter.call->exchange().client_ended();
  };
  std::list<Waiter> out;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const auto waiter = it++;
    if (ended(*waiter)) {
      out.splice(out.end(), waiters_, waiter);
    }
  }
  for (Waiter& waiter : out) {
    waiter.place.reset();  // Before its client can tell.
  }
  return out;
}

}  // namespace audiogen::api
