#include "worker/job/settling.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

void count_settled(const char* outcome) {
  metrics::counter(
      "worker_tasks_total", "Tasks that left this worker, by how", {{"outcome", outcome}})
      .Increment();
}

}  // namespace

Settling::Settling(
    const DatabaseUrl& database, BlobStore& blobs, Roster& roster, Scheduler& scheduler, Send send)
    : removals_(blobs),
      roster_(roster),
      scheduler_(scheduler),
      settlements_(database,
                   {.threads = 1, .batch_max = kBatchMax, .capacity = kWaitingMax},
                   [send = std::move(send)](store::TaskStore& store,
                                            std::span<const store::SettleCommand> commands) {
                     auto outcomes = store.settle(commands);
                     if (const auto released = store.released(); !released.empty()) {
                       send(released);
                     }
                     return outcomes;
                   }) {}

void Settling::stop() {
  settlements_.stop();
  removals_.stop();
}

void Settling::settle(const JobPtr& job, store::SettleCommand command, int tries) {
  if (job->is_lost()) {
    // Once it was sent it may have been committed, its answer lost: then the file is the task's.
    if (tries == 0) {
      static_cast<void>(removals_.post(command.output_key));
    }
    roster_.leave(job);
    return;
  }
  const bool taken = settlements_.submit(
      command,
      [this, job, command, tries](const Result<store::SettleOutcome, store::StoreFault>& outcome) {
        if (!outcome && outcome.error() == store::StoreFault::kLocked) {
          roster_.step_aside(job);
        }
        if (!outcome || *outcome == store::SettleOutcome::kFailed) {
          settle_later(job, command, tries);
        } else {
          settled(job, command, *outcome);
        }
      });
  if (!taken) {
    settle_later(job, command, tries);
  }
}

// Until the lease runs out: whoever watches it marks the job lost then.
void Settling::settle_later(const JobPtr& job, const store::SettleCommand& command, int tries) {
  scheduler_.after(store_pause(tries),
                   [this, job, command, tries] { settle(job, command, tries + 1); });
}

void Settling::settled(const JobPtr& job,
                       const store::SettleCommand& command,
                       store::SettleOutcome outcome) {
  AG_CRASH_POINT("worker.settled");
  if (outcome == store::SettleOutcome::kNotOurs) {
    log::warn("lease lost, result dropped", {{"task_id", job->claim.task}});
    count_settled("fenced");
    static_cast<void>(removals_.post(command.output_key));
  } else if (outcome == store::SettleOutcome::kRequeued) {
    log::info("task requeued", {{"task_id", job->claim.task}, {"claims", job->claim.claims}});
    count_settled("requeued");
  } else {
    const bool succeeded = command.kind == ClaimEnd::Kind::kSucceed;
    if (succeeded || command.failure != FailureCode::kDeadlineExceeded) {
      ended_.fetch_add(1, std::memory_order_relaxed);
    }
    log::info(
        succeeded ? "task succeeded" : "task failed",
        {{"task_id", job->claim.task},
         {"duration_ms", command.duration_ms},
         {"seconds", std::chrono::duration<double>(Job::Clock::now() - job->began_at).count()}});
    count_settled(succeeded ? "succeeded" : "failed");
  }
  roster_.leave(job);
}

}  // namespace audiogen::worker
