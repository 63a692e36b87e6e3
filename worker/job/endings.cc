#include "worker/job/endings.h"

#include <utility>

#include "common/base/jitter.h"
#include "common/base/log.h"

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

Trouble trouble_of(ReferenceFault::Kind kind) {
  switch (kind) {
    case ReferenceFault::Kind::kUnusable:
      return Trouble::kBadReference;
    case ReferenceFault::Kind::kOurs:
      break;
    case ReferenceFault::Kind::kBusy:
      return Trouble::kNoRoom;
    case ReferenceFault::Kind::kCanceled:
      return Trouble::kStopping;
  }
  return Trouble::kOursUncalled;
}

Trouble trouble_of(OutputFault::Kind kind) {
  switch (kind) {
    case OutputFault::Kind::kTooLarge:
      return Trouble::kTooLarge;
    case OutputFault::Kind::kStopping:
      return Trouble::kStopping;
    case OutputFault::Kind::kOurs:
    case OutputFault::Kind::kBadAudio:
    case OutputFault::Kind::kLost:
      break;
  }
  return Trouble::kOurs;
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
  tell_call(*job, call, command);
  if (trouble == Trouble::kStopping && job->chain->gives_tickets()) {
    // A call may have got its ticket just now: it is kept before anybody else has the task, who
    // would not find it.
    tickets_.find(
        job, [this, job, command](const store::TicketOutcome&) { settling_.settle(job, command); });
  } else {
    settling_.settle(job, std::move(command));
  }
}

void Endings::tell_call(const Job& job, const CallEnd& call, store::SettleCommand& command) {
  if (job.row > job.claim.calls) {  // Else it is of an earlier claim.
    command.call = job.row;
    command.call_state = call.state;
    command.call_detail = call.detail;
  }
}

void Endings::give_up_unreferenced(const JobPtr& job,
                                   const ReferenceFault& fault,
                                   const CallEnd& call) {
  if (fault.kind != ReferenceFault::Kind::kCanceled) {
    log::info(
        "references refused", about(*job), {{"why", fault.message}, {"detail", fault.detail}});
  }
  const Trouble trouble = trouble_of(fault.kind);
  ClaimEnd claim_end = end_of_claim(*job, trouble, fault.after);
  if (trouble == Trouble::kBadReference) {
    claim_end.failure_message = fault.message;
  }
  roster_.begin(job);
  auto command = job->command(std::move(claim_end));
  tell_call(*job, call, command);
  settling_.settle(job, std::move(command));
}

void Endings::give_up_undelivered(const JobPtr& job, const OutputFault& fault) {
  if (fault.kind == OutputFault::Kind::kLost) {
    drop(job);
    return;
  }
  if (fault.kind != OutputFault::Kind::kStopping) {
    log::error(fault.what, about(*job), {{"why", fault.why}});
  }
  give_up(job, trouble_of(fault.kind), {.state = store::kCallSucceeded, .detail = fault.what});
}

void Endings::give_up_uncalled(const JobPtr& job, ClaimEnd claim_end) {
  roster_.begin(job);
  settling_.settle(job, job->command(std::move(claim_end)));
}

}  // namespace audiogen::worker
