// The jobs of this worker, and the places that they take of those the configuration gives.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/domain/shares.h"
#include "worker/job/job.h"

namespace audiogen::worker {

// Thread-safe; nothing but wait_empty() blocks.
class Roster {
 public:
  // An eighth more than `places` may be taken by the express lane, whose jobs take these first:
  // whoever has little under way does not wait until one of somebody else's long jobs ends, and
  // however many they are, what ends makes room for both lanes. `freed` is called, without a lock,
  // whenever there may be a place again.
  Roster(std::size_t places, std::function<void()> freed);
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  std::size_t places() const { return places_; }
  // How many times reserve() would give a place.
  Room room(std::size_t callable) const;
  // Reserves a place for a task of this lane that is asked for, if there is one, and somebody to be
  // called: for no more than `callable` tasks, among which those count that are asked for, or here,
  // and have not begun. Of those that are free `spoken_for` are somebody else's. False: there is
  // none.
  bool reserve(Lane lane, std::size_t callable, std::size_t spoken_for = 0);
  // For one that was reserved, and there is no job.
  void unreserve(Lane lane);
  // A job, in the place that was reserved for one of its lane.
  void enter(const JobPtr& job, Lane lane);
  // Somebody is called for it, or it is certain that in this claim nobody will be.
  void begin(const JobPtr& job);

  // Its references are fetched: it waits for servers of its user's choice, so it takes nobody's
  // place; the fetcher bounds how many do.
  void go_out(const JobPtr& job);
  void come_in(const JobPtr& job);
  // The work is done, and only somebody who holds its row or its user's balance is waited for: that
  // takes nobody else's place, as far as there are not more of them than there are places.
  void step_aside(const JobPtr& job);

  void leave(const JobPtr& job);

  // From close() to open() there are no places, however many are free; what is here, or asked for,
  // stays.
  void close();
  void open();
  enum class Company { kGone, kOthers, kAlone };
  // Whether `job` is here and has not stepped aside, and anything else is, or was asked for.
  Company company_of(const JobPtr& job) const;

  std::vector<JobPtr> all() const;
  std::size_t size() const;

  // Waits until there is neither a job nor a reservation. False: not within `limit`.
  bool wait_empty(std::chrono::milliseconds limit);

 private:
  struct Entry {
    JobPtr job;
    Lane lane = Lane::kBulk;
    bool begun = false, out = false, aside = false;

    bool takes_place() const { return !out && !aside; }
  };

  std::size_t left(Lane lane, std::size_t callable) const LOCKS_REQUIRED(mutex_);
  std::size_t& taken(Lane lane) LOCKS_REQUIRED(mutex_) {
    return lane == Lane::kExpress ? express_ : bulk_;
  }
  Entry* entry_of(const JobPtr& job) LOCKS_REQUIRED(mutex_);
  bool has(const JobPtr& job) const LOCKS_REQUIRED(mutex_);
  void uncount(const Entry& entry) LOCKS_REQUIRED(mutex_);

  static constexpr std::size_t kExpressPart = 8;

  const std::size_t places_;
  const std::function<void()> freed_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::unordered_map<TaskId, Entry> jobs_ GUARDED_BY(mutex_);
  std::size_t reserved_ GUARDED_BY(mutex_) = 0;  // Asked for, no answer yet.
  std::size_t bulk_ GUARDED_BY(mutex_) = 0;      // Places taken, or reserved.
  std::size_t express_ GUARDED_BY(mutex_) = 0;   // The same.
  std::size_t begun_ GUARDED_BY(mutex_) = 0;     // Of jobs_.
  std::size_t aside_ GUARDED_BY(mutex_) = 0;     // Of jobs_.
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace audiogen::worker
