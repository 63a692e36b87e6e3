#include "worker/job/next_step.h"

#include <algorithm>
#include <optional>

#include "common/base/jitter.h"

namespace audiogen::worker {
namespace {

// Whoever could serve it, after the one that has failed it.
std::optional<std::size_t> another_than(const Job& job, bool called, const TaskTime& time) {
  // A race leaves out those between the two, which are not of their tier.
  const std::size_t from = job.raced_from.value_or(job.provider) + 1;
  std::optional<std::size_t> out;
  // What has waited for its turn long enough does not wait for another's while a third is free.
  if (job.passed_on && !called) {
    out = job.choose_unraced(&Chain::choose_free, from, time);
  }
  return out ? out : job.choose_unraced(&Chain::choose, from, time);
}

}  // namespace

Next after_fault(const Job& job, const ProviderFault& fault) {
  const TaskTime time = job.time(Job::Clock::now());
  const auto another = another_than(job, fault.fault != Fault::kNotCalled, time);
  const Nobody nobody = job.chain->nobody(*job.request, time, job.unable, job.later);
  const Decision decision =
      after_fault(fault,
                  {.tries = job.tries,
                   .called = job.called,
                   .another = another.has_value(),
                   .nobody = nobody.trouble,
                   .time_left = time.left,
                   .call_time = job.chain->at(job.provider).needed().value_or(kCallNeeds),
                   .closed = job.chain->closed_to_calls(job.provider),
                   .jitter = jitter()});
  Next next{.step = decision.step, .trouble = decision.trouble, .wait = decision.wait};
  switch (decision.step) {
    case NextStep::kNextProvider:
      next.provider = *another;
      break;
    case NextStep::kSameProvider:
      break;
    case NextStep::kFail:
      break;
    case NextStep::kRetryLater:
      // Not by the breakers of this worker, which this very call may have shut: another may have it
      // at once, and what would wait beyond its end fails.
      next.wait =
          nobody.passes() ? nobody.said : fault.retry_after.value_or(std::chrono::seconds(0));
      break;
    case NextStep::kGiveBack:
      if (decision.trouble == nobody.trouble) {
        next.wait = nobody.wait;
      }
      if (decision.trouble == Trouble::kNotTaken) {
        next.wait = std::max(next.wait, not_taken_delay(time.left, time.whole));
      }
      break;
  }
  return next;
}

}  // namespace audiogen::worker
