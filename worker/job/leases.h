// Keeps the leases of all jobs: renews them, and ends the jobs whose lease is over.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/config.h"
#include "common/store/group_commit.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

// The lease of `job` is somebody else's from now on: its calls are ended, and whoever carries it
// drops it. Any thread.
void lose(Job& job, const char* why, bool withdraw = false);

class Leases {
 public:
  // Watches all jobs of `roster`, every second, until `scheduler` stops.
  Leases(const DatabaseUrl& database, WorkerId worker, const Roster& roster, Scheduler& scheduler);
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // By how much the latest renewal of all is late, as of the last second. Thread-safe, never
  // blocks.
  std::chrono::milliseconds lag() const { return std::chrono::milliseconds(lag_ms_.load()); }

  // Waits for what was asked for.
  void stop();

 private:
  void watch();
  void renew(const JobPtr& job);

  const Roster& roster_;
  Scheduler& scheduler_;
  std::atomic<std::int64_t> lag_ms_ = 0;
  store::GroupCommit<store::Lease, store::Renewal> renewals_;
};

}  // namespace audiogen::worker
