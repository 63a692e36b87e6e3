// The jobs of this worker, and the places that they take of those the configuration gives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "worker/job/job.h"

namespace audiogen::worker {

// Thread-safe; nothing but wait_empty() blocks.
class Roster {
 public:
  // `freed` is called, without a lock, whenever there may be a place again.
  Roster(std::size_t places, std::function<void()> freed);
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // How many reserve() would give at most.
  std::size_t free(std::size_t spoken_for = 0) const;
  // Reserves up to `most` places for tasks that are asked for; the number. Of those that are free
  // `spoken_for` are somebody else's.
  std::size_t reserve(std::size_t most, std::size_t spoken_for = 0);
  // For one that was reserved, and there is no job.
  void unreserve();
  // A job, in the place that was reserved for it.
  void enter(const JobPtr& job);

  // Its references are fetched: it waits for servers of its user's choice, so it takes nobody's
  // place; the fetcher bounds how many do.
  void go_out(const JobPtr& job);
  void come_in(const JobPtr& job);
  // The work is done, and only somebody who holds its row or its user's balance is waited for: that
  // takes nobody else's place, as far as there are not more of them than there are places.
  void step_aside(const JobPtr& job);

  void leave(const JobPtr& job);

  std::vector<JobPtr> all() const;
  std::size_t size() const;

  // Waits until there is neither a job nor a reservation. False: not within `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  struct Entry {
    JobPtr job;
    bool out = false, aside = false;
  };

  // mutex_ is held.
  std::size_t left(std::size_t spoken_for) const {
    const std::size_t used = taken() + spoken_for;
    return used >= places_ ? 0 : places_ - used;
  }
  std::size_t taken() const { return jobs_.size() - out_ - aside_ + reserved_; }
  Entry* entry_of(const JobPtr& job);
  void uncount(const Entry& entry);

  const std::size_t places_;
  const std::function<void()> freed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<TaskId, Entry> jobs_;  // Guarded by mutex_.
  std::size_t reserved_ = 0;                // Guarded by mutex_: asked for, no answer yet.
  std::size_t out_ = 0, aside_ = 0;         // Guarded by mutex_: of jobs_.
};

}  // namespace audiogen::worker
