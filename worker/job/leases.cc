#include "worker/job/leases.h"

#include <algorithm>
#include <chrono>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

constexpr auto kWatchEvery = std::chrono::seconds(1);
// At 1,000 values MariaDB turns IN into a subquery (in_predicate_conversion_threshold), which may
// lock every row of a small table.
constexpr std::size_t kRenewalsMax = 500;

// Here, so that it is told from the start.
prometheus::Gauge& longest_lag =
    metrics::gauge("lease_renew_lag_seconds",
                   "For how long the renewal of a lease has been due that is latest; 0: none is");

}  // namespace

void lose(Job& job, const char* why, bool withdraw) {
  if (job.lose(withdraw)) {
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
                {.use = "renew", .threads = 1, .batch_max = kRenewalsMax, .capacity = kWaitingMax},
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
  auto most = Job::Clock::duration::zero();
  for (const JobPtr& job : roster_.all()) {
    most = std::max(most, job->renewal_lag(now));
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
  longest_lag.Set(std::chrono::duration<double>(most).count());
  lag_ms_ = std::chrono::duration_cast<std::chrono::milliseconds>(most).count();
  scheduler_.after(kWatchEvery, [this] { watch(); });
}

void Leases::renew(const JobPtr& job) {
  const auto asked_at = Job::Clock::now();
  const bool taken =
      renewals_.submit({.task = job->claim.task, .epoch = job->claim.epoch},
                       [job, asked_at](const Result<store::Renewal, store::StoreFault>& out) {
                         const bool ours = out && *out == store::Renewal::kRenewed;
                         job->renewal_ended(ours ? std::optional(asked_at) : std::nullopt);
                         if (out && !ours) {
                           // Canceled, as a rule. But the next one may have gone on with what this
                           // one has begun: whatever this machine's clock says, it may have stood
                           // still with it.
                           lose(*job, "taken back", *out == store::Renewal::kEnded);
                         }
                       });
  if (!taken) {
    job->renewal_ended(std::nullopt);
  }
}

}  // namespace audiogen::worker
