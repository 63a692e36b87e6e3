#include "worker/job/leases.h"

#include <algorithm>

#include "common/base/log.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

constexpr auto kWatchEvery = std::chrono::seconds(1);
// At 1,000 values MariaDB turns IN into a subquery (in_predicate_conversion_threshold), which may
// lock every row of a small table.
constexpr std::size_t kRenewalsMax = 500;

}  // namespace

void lose(Job& job, const char* why) {
  if (job.lose()) {
    log::warn("lease lost", about(job), {{"why", why}});
  }
}

Leases::Leases(const DatabaseUrl& database,
               WorkerId worker,
               const Roster& roster,
               Scheduler& scheduler)
    : roster_(roster),
      scheduler_(scheduler),
      renewals_(database,
                {.threads = 1, .batch_max = kRenewalsMax, .capacity = kWaitingMax},
                [worker](store::TaskStore& store, std::span<const store::Lease> leases) {
                  return store.renew(leases, worker);
                }) {
  scheduler_.after(kWatchEvery, [this] { watch(); });
}

void Leases::stop() {
  renewals_.stop();
}

// A worker measures its own lease from before it asked, and stops itself before another may start.
void Leases::watch() {
  const auto now = Job::Clock::now();
  std::chrono::milliseconds lag{0};
  for (const JobPtr& job : roster_.all()) {
    lag = std::max(lag, job->renewal_late(now));
    switch (job->look_at_lease(now)) {
      case Job::LeaseIs::kGood:
        break;
      case Job::LeaseIs::kDue:
        renew(job);
        break;
      case Job::LeaseIs::kOver:
        lose(*job, "not renewed in time");
        break;
    }
  }
  lag_ms_ = lag.count();
  scheduler_.after(kWatchEvery, [this] { watch(); });
}

void Leases::renew(const JobPtr& job) {
  const auto asked_at = Job::Clock::now();
  const bool taken =
      renewals_.submit({.task = job->claim.task, .epoch = job->claim.epoch},
                       [job, asked_at](const Result<bool, store::StoreFault>& ours) {
                         job->renewal_ended(ours && *ours ? std::optional(asked_at) : std::nullopt);
                         if (ours && !*ours) {
                           lose(*job, "taken back");
                         }
                       });
  if (!taken) {
    job->renewal_ended(std::nullopt);
  }
}

}  // namespace audiogen::worker
