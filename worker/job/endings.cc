#include "worker/job/endings.h"

#include <utility>

#include "common/base/jitter.h"

namespace audiogen::worker {
namespace {

// Is somebody to have the task after this end of its claim?
bool comes_back(const Job& job, const ClaimEnd& end) {
  switch (end.kind) {
    case ClaimEnd::Kind::kRelease:
      return true;
    case ClaimEnd::Kind::kRetry:
      return job.claim.claims < kClaimsMax && Job::Clock::now() + end.retry_after < job.deadline;
    default:
      return false;
  }
}

}  // namespace

CallEnd not_called() {
  return {.state = store::kCallFailed, .detail = store::kNotCalled};
}

CallEnd end_of(const ProviderFault& fault) {
  if (fault.fault == Fault::kNotCalled) {
    return not_called();
  }
  const bool unknown = fault.fault == Fault::kUnknownOutcome || fault.fault == Fault::kOutOfTime;
  return {.state = unknown ? store::kCallUnknown : store::kCallFailed, .detail = fault.detail};
}

ClaimEnd end_of_claim(const Job& job, Trouble trouble, std::chrono::milliseconds not_before) {
  return end_by(trouble,
                job.claim.claims,
                job.time(Job::Clock::now()).left,
                jitter(),
                not_before,
                job.request ? job.chain->needed_for(*job.request) : kCallNeeds);
}

Endings::Endings(Roster& roster, Settling& settling, CallRecords& records, Tickets& tickets)
    : roster_(roster), settling_(settling), records_(records), tickets_(tickets) {}

void Endings::succeed(const JobPtr& job, OutputFile file) {
  auto command = job->command({.kind = ClaimEnd::Kind::kSucceed,
                               .output_key = std::move(file.key),
                               .duration_ms = file.duration_ms,
                               .charge_max = job->request->max_credits});
  command.output_bytes = file.bytes;
  command.output_checksum = file.checksum;
  command.call = job->row;
  command.call_state = store::kCallSucceeded;
  settling_.settle(job, std::move(command));
}

void Endings::drop(const JobPtr& job) {
  records_.write(job->take_calls());
  roster_.leave(job);
}

void Endings::give_up(const JobPtr& job,
                      Trouble trouble,
                      const CallEnd& call,
                      std::chrono::milliseconds not_before) {
  roster_.begin(job);
  ClaimEnd claim_end = end_of_claim(*job, trouble, not_before);
  // Its audio, which is not delivered, is there for whoever has the task next: that call counts
  // what it costs.
  if (call.state == store::kCallSucceeded && comes_back(*job, claim_end) &&
      job->chain->at(job->provider).capabilities().gives_tickets) {
    job->goes_on(job->row);
  }
  auto command = job->command(std::move(claim_end));
  if (job->row > job->claim.calls) {  // Else it is of an earlier claim.
    command.call = job->row;
    command.call_state = call.state;
    command.call_detail = call.detail;
  }
  if (trouble == Trouble::kStopping && job->chain->gives_tickets()) {
    // A call may have got its ticket just now: it is kept before anybody else has the task, who
    // would not find it.
    tickets_.find(
        job, [this, job, command](const store::TicketOutcome&) { settling_.settle(job, command); });
  } else {
    settling_.settle(job, std::move(command));
  }
}

void Endings::give_up_uncalled(const JobPtr& job, ClaimEnd claim_end) {
  roster_.begin(job);
  settling_.settle(job, job->command(std::move(claim_end)));
}

}  // namespace audiogen::worker
