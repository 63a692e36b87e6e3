// How a job ends: what is written of its task, of its calls, and when somebody else may have it.
#pragma once

#include <chrono>

#include "common/domain/lifecycle.h"
#include "worker/job/call_records.h"
#include "worker/job/job.h"
#include "worker/job/output.h"
#include "worker/job/references.h"
#include "worker/job/roster.h"
#include "worker/job/settling.h"
#include "worker/job/tickets.h"

namespace audiogen::worker {

// What a call's row says of one that was not made, and of one that failed.
CallEnd not_called();
CallEnd end_of(const ProviderFault& fault);

// What becomes of a claim that ends in `trouble`, with the time that its task has left; nobody has
// it again before `not_before` is over.
ClaimEnd end_of_claim(const Job& job,
                      Trouble trouble,
                      std::chrono::milliseconds not_before = std::chrono::milliseconds(0));

// Each of these is the last step of a job. Thread-safe, never block.
class Endings {
 public:
  Endings(Roster& roster, Settling& settling, CallRecords& records, Tickets& tickets);
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  void succeed(const JobPtr& job, OutputFile file);
  // Without audio; `call` says how its newest call ended.
  void give_up(const JobPtr& job,
               Trouble trouble,
               const CallEnd& call,
               std::chrono::milliseconds not_before = std::chrono::milliseconds(0));
  // Its references cannot be had, so nobody is called; `call` says how its newest call ended
  // before.
  void give_up_unreferenced(const JobPtr& job, const ReferenceFault& fault, const CallEnd& call);
  // Its call has brought audio, which is not delivered for a reason of our own.
  void give_up_undelivered(const JobPtr& job, const OutputFault& fault);
  // Nobody was called.
  void give_up_uncalled(const JobPtr& job, ClaimEnd claim_end);
  // It is lost.
  void drop(const JobPtr& job);

 private:
  // How the newest call of this claim ended, if it made one.
  static void tell_call(const Job& job, const CallEnd& call, store::SettleCommand& command);
  Roster& roster_;
  Settling& settling_;
  CallRecords& records_;
  Tickets& tickets_;
};

}  // namespace audiogen::worker
