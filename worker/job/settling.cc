#include "worker/job/settling.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/local_clocks.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
metrics::Histogram& runs = metrics::histogram(
    "task_run_seconds", "From a task's claim here to its end or its way back to the queue");
prometheus::Counter& leases_lost = metrics::counter(
    "leases_lost_total", "Tasks whose lease was lost while this worker worked on them");
prometheus::Counter& requeued =
    metrics::counter("tasks_requeued_total", "Tasks that this worker gave back to the queue");

TaskEnd end_of(const Job& job, const store::SettleCommand& command, Job::Clock::time_point now) {
  using std::chrono::milliseconds;
  const bool succeeded = command.kind == ClaimEnd::Kind::kSucceed;
  const TaskTime time = time_of(job.claim);
  return {.failure = succeeded ? std::nullopt : std::optional(command.failure),
          .provider = job.called ? job.chain->at(job.provider).name() : "",
          .took = std::chrono::duration_cast<milliseconds>(now - job.began_at),
          .waited = std::max(time.whole - time.left, milliseconds(0)),
          .charged =
              succeeded ? std::min(charge_for(command.duration_ms), command.charge_max) : Units{}};
}

// What was to be delivered is not.
std::vector<store::CallRecord> undelivered(std::vector<store::CallRecord> calls) {
  for (store::CallRecord& call : calls) {
    if (call.outcome == CallOutcome::kDelivered) {
      call.outcome = CallOutcome::kUndelivered;
    }
  }
  return calls;
}

// Its provider is paid for what nobody gets.
void not_delivered(const Job& job, const store::SettleCommand& command) {
  if (command.kind == ClaimEnd::Kind::kSucceed) {
    job.chain->at(job.provider).undelivered();
  }
}

}  // namespace

Settling::Settling(const DatabaseUrl& database,
                   BlobStore& blobs,
                   Roster& roster,
                   Scheduler& scheduler,
                   CallRecords& records,
                   Send send)
    : removals_(blobs),
      roster_(roster),
      scheduler_(scheduler),
      records_(records),
      settlements_(database,
                   {.use = "settle",
                    .threads = 1,
                    .batch_max = kBatchMax,
                    .capacity = kWaitingMax,
                    .spacing = kSpacing},
                   [send = std::move(send)](store::TaskStore& store,
                                            std::span<const store::SettleCommand> commands) {
                     auto outcomes = store.settle(commands);
                     if (const auto released = store.released(); !released.empty()) {
                       send(released);
                     }
                     return outcomes;
                   }) {}

std::uint64_t Settling::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

MinuteEnded Settling::ended_in_last_minute() const {
  const MutexLock lock(mutex_);
  return watch_.last(Job::Clock::now());
}

WholeMinutes Settling::ended_by_minute() const {
  const MutexLock lock(mutex_);
  return watch_.whole(LocalClocks().wall());
}

void Settling::stop() {
  settlements_.stop();
  removals_.stop();
}

void Settling::settle(const JobPtr& job, store::SettleCommand command) {
  command.calls = job->take_calls();
  if (command.kind == ClaimEnd::Kind::kSucceed) {
    for (store::CallRecord& call : command.calls) {
      if (call.n == command.call) {
        call.outcome = CallOutcome::kDelivered;
        call.counted.audio_ms = command.duration_ms;
      }
    }
  }
  settle(job, std::make_shared<store::SettleCommand>(std::move(command)), {});
}

void Settling::settle(const JobPtr& job, const CommandPtr& command, Tries tries) {
  if (job->is_lost()) {
    leases_lost.Increment();
    // Where it may have been committed the file may be the task's.
    if (!tries.may_be_done) {
      not_delivered(*job, *command);
      static_cast<void>(removals_.post(command->output_key));
    }
    // Where it was committed, what it wrote stays.
    records_.write(undelivered(std::move(command->calls)));
    roster_.leave(job);
    return;
  }
  const bool taken = settlements_.submit(
      *command,
      [this, job, command, tries](
          const Result<store::SettleOutcome, store::StoreFault>& outcome) mutable {
        tries.may_be_done = tries.may_be_done ||
                            (!outcome && outcome.error() == store::StoreFault::kUnknownOutcome);
        if (!outcome && outcome.error() == store::StoreFault::kLocked) {
          roster_.step_aside(job);
        }
        if (!outcome || *outcome == store::SettleOutcome::kFailed) {
          settle_later(job, command, tries);
        } else {
          settled(job, *command, *outcome);
        }
      });
  if (!taken) {
    settle_later(job, command, tries);
  }
}

// Until the lease runs out: whoever watches it marks the job lost then.
void Settling::settle_later(const JobPtr& job, const CommandPtr& command, Tries tries) {
  command->held.reset();  // Else a row that stays held makes others of its batch be written twice.
  const auto pause = store_pause(tries.count++);
  scheduler_.after(pause, [this, job, command, tries] { settle(job, command, tries); });
}

void Settling::settled(const JobPtr& job,
                       const store::SettleCommand& command,
                       store::SettleOutcome outcome) {
  AG_CRASH_POINT("worker.settled");
  const auto now = Job::Clock::now();
  if (outcome != store::SettleOutcome::kNotOurs) {
    count_costs(command.calls);
  }
  if (outcome == store::SettleOutcome::kNotOurs) {
    log::warn("lease lost, result dropped", about(*job));
    leases_lost.Increment();
    not_delivered(*job, command);
    static_cast<void>(removals_.post(command.output_key));
    records_.write(undelivered(command.calls));
  } else if (outcome == store::SettleOutcome::kRequeued) {
    log::info("task requeued", about(*job), {{"claims", job->claim.claims}});
    requeued.Increment();
    runs.observe(std::chrono::duration<double>(now - job->began_at).count());
  } else {
    const bool succeeded = command.kind == ClaimEnd::Kind::kSucceed;
    const auto failure = succeeded ? std::nullopt : std::optional(command.failure);
    {
      const MutexLock lock(mutex_);
      if (failure != FailureCode::kDeadlineExceeded) {
        ++ended_;
      }
      watch_.ended(end_of(*job, command, now), now, LocalClocks().wall());
    }
    log::info(succeeded ? "task succeeded" : "task failed",
              about(*job),
              {{"duration_ms", command.duration_ms},
               {"seconds", std::chrono::duration<double>(now - job->began_at).count()}});
    runs.observe(std::chrono::duration<double>(now - job->began_at).count());
  }
  roster_.leave(job);
}

}  // namespace audiogen::worker
