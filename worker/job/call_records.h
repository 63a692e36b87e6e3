// Writes what calls were, and cost, that no settlement tells of: their tasks had ended before them,
// or were lost. All others are written with the settlement (Settling), without a transaction more.
#pragma once

#include <span>
#include <vector>

#include "common/base/config.h"
#include "common/store/group_commit.h"
#include "worker/job/scheduler.h"

namespace audiogen::worker {

// Counts what these cost, for metrics: once they are written. Thread-safe.
void count_costs(std::span<const store::CallRecord> calls);

class CallRecords {
 public:
  CallRecords(const DatabaseUrl& database, Scheduler& scheduler);
  CallRecords(const CallRecords&) = delete;
  CallRecords& operator=(const CallRecords&) = delete;

  // Never blocks. While the database is away it is tried again, for some minutes; what is not
  // written by then, or when this worker ends, stays as whoever took the task away wrote it.
  void write(const std::vector<store::CallRecord>& calls);

  // Waits for what was asked for.
  void stop();

 private:
  void write(const store::CallRecord& call, int tries);

  Scheduler& scheduler_;
  store::GroupCommit<store::CallRecord, bool> records_;
};

}  // namespace audiogen::worker
