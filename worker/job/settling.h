// Where jobs end: writes what became of their tasks, until the database has it or the lease is
// lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/blob/blob_store.h"
#include "common/domain/worker_status.h"
#include "common/store/group_commit.h"
#include "worker/job/call_records.h"
#include "worker/job/removals.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

class Settling {
 public:
  using Send = std::function<void(std::span<const Hint>)>;

  // Jobs leave `roster` when they are settled, or lost; then `records` gets their calls. `send`
  // gets the hints of tasks that were released thereby, on a thread that it must not block.
  Settling(const DatabaseUrl& database,
           BlobStore& blobs,
           Roster& roster,
           Scheduler& scheduler,
           CallRecords& records,
           Send send);
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;

  // Once for each job, the last thing that is done with it. Thread-safe, never blocks.
  void settle(const JobPtr& job, store::SettleCommand command);

  // Tasks that have become final by this, but for want of time: with more than can be done many of
  // those end at once, which says nothing of how much can. Thread-safe, never blocks.
  std::uint64_t ended() const;
  // All of the last minute, and how they ended. Thread-safe, never blocks.
  MinuteEnded ended_in_last_minute() const;
  // The same of this minute, by the clock of the wall, and of the one before.
  WholeMinutes ended_by_minute() const;

  // Waits for what was asked for.
  void stop();

 private:
  using CommandPtr = std::shared_ptr<store::SettleCommand>;
  struct Tries {
    int count = 0;
    bool may_be_done = false;  // One of them was sent, and its answer lost.
  };

  void settle(const JobPtr& job, const CommandPtr& command, Tries tries);
  void settle_later(const JobPtr& job, const CommandPtr& command, Tries tries);
  void settled(const JobPtr& job,
               const store::SettleCommand& command,
               store::SettleOutcome outcome);

  Removals removals_;  // Outputs that came too late.
  Roster& roster_;
  Scheduler& scheduler_;
  CallRecords& records_;
  mutable Mutex mutex_;
  std::uint64_t ended_ GUARDED_BY(mutex_) = 0;
  MinuteWatch watch_ GUARDED_BY(mutex_);
  store::GroupCommit<store::SettleCommand, store::SettleOutcome> settlements_;
};

}  // namespace audiogen::worker
