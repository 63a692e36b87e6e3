// Where jobs end: writes what became of their tasks, until the database has it or the lease is
// lost.
#pragma once

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
  // Jobs leave `roster` when they are settled, or lost.
  Settling(const DatabaseUrl& database, BlobStore& blobs, Roster& roster, Scheduler& scheduler);
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;

  // Once for each job, the last thing that is done with it. Thread-safe, never blocks.
  void settle(const JobPtr& job, store::SettleCommand command) {
    settle(job, std::move(command), 0);
  }

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
  store::GroupCommit<store::SettleCommand, store::SettleOutcome> settlements_;
};

}  // namespace audiogen::worker
