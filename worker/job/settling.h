// Where jobs end: writes what became of their tasks, until the database has it or the lease is
// lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "common/base/config.h"
#include "common/blob/blob_store.h"
#include "common/store/group_commit.h"
#include "worker/job/removals.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

class Settling {
 public:
  using Send = std::function<void(std::span<const Hint>)>;

  // Jobs leave `roster` when they are settled, or lost. `send` gets the hints of tasks that were
  // released thereby, on a thread that it must not block.
  Settling(const DatabaseUrl& database,
           BlobStore& blobs,
           Roster& roster,
           Scheduler& scheduler,
           Send send);
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;

  // Once for each job, the last thing that is done with it. Thread-safe, never blocks.
  void settle(const JobPtr& job, store::SettleCommand command) {
    settle(job, std::move(command), 0);
  }

  // Tasks that have become final by this, but for want of time: with more than can be done many of
  // those end at once, which says nothing of how much can. Thread-safe, never blocks.
  std::uint64_t ended() const { return ended_.load(std::memory_order_relaxed); }

  // Waits for what was asked for.
  void stop();

 private:
  void settle(const JobPtr& job, store::SettleCommand command, int tries);
  void settle_later(const JobPtr& job, const store::SettleCommand& command, int tries);
  void settled(const JobPtr& job,
               const store::SettleCommand& command,
               store::SettleOutcome outcome);

  Removals removals_;  // Outputs that came too late.
  Roster& roster_;
  Scheduler& scheduler_;
  std::atomic<std::uint64_t> ended_{0};
  store::GroupCommit<store::SettleCommand, store::SettleOutcome> settlements_;
};

}  // namespace audiogen::worker
