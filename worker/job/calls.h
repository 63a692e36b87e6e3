// Calls providers: writes a call's row, opens the call, asks the next provider as well when the
// first is slow, and tells the job's one answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "common/base/config.h"
#include "common/store/group_commit.h"
#include "worker/job/call_records.h"
#include "worker/job/job.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"
#include "worker/job/tickets.h"

namespace audiogen::worker {

class Calls {
 public:
  using Answer = Result<Audio, ProviderFault>;
  using Answered = std::function<void(const JobPtr&, Answer)>;

  // `records` gets what calls were that ended after their jobs. `answered` gets the answer of each
  // step, once, on any thread; the job's provider and row are those that it came from, where two
  // failed the last one's, and its ticket is left only where it is the answer of what was to go on.
  // It must not block. A job that was lost meanwhile may be answered with any fault.
  Calls(const DatabaseUrl& database,
        Roster& roster,
        Scheduler& scheduler,
        Tickets& tickets,
        CallRecords& records,
        Answered answered);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Calls the provider at job->provider, whose row is written. Never blocks.
  void call(const JobPtr& job);
  // Writes its row first. `previous` is how the call before it ended, if it was of this claim.
  // Never blocks; as long as the database is away, it asks again.
  void write_and_call(const JobPtr& job, const CallEnd& previous);

  // Begins no call any more that would still be under way at `until`. Thread-safe, never blocks.
  void close(Job::Clock::time_point until) { leaves_at_->store(until); }
  // Would a call of this provider, so that whoever has the task next pays again? Not what has a
  // ticket: that is gone on with. Thread-safe, never blocks.
  bool would_be_cut_off(const Job& job, std::size_t provider) const;

  // Waits for the rows that were to be written.
  void stop();

 private:
  // Of what lost a race nobody waits for the answer, so it may come when this object is gone.
  struct Late {
    Late(CallRecords* to, Tickets* of) : records(to), tickets(of) {}
    Mutex mutex;
    CallRecords* records GUARDED_BY(mutex);  // Null: gone.
    Tickets* tickets GUARDED_BY(mutex);      // The same.
    void write(store::CallRecord record);
    void forget_ticket(const JobPtr& job, const Call& call);
  };

  void write(const JobPtr& job, const store::CallStart& start);
  void write_later(const JobPtr& job, const store::CallStart& start);
  std::shared_ptr<ProviderCall> open(const JobPtr& job, const Call& call);
  void pass_on(const JobPtr& job, const Call& call, const std::shared_ptr<ProviderCall>& waiting);
  void hedge_later(const JobPtr& job,
                   const Call& call,
                   const std::shared_ptr<ProviderCall>& opened);
  void hedge(const JobPtr& job, const Call& slow, const std::shared_ptr<ProviderCall>& opened);
  void write_hedge(const JobPtr& job, const Call& call);
  void write_hedge_later(const JobPtr& job, const Call& call);
  // Touches no member unless the job waits for the answer.
  void provider_answered(
      const JobPtr& job, const Call& call, const CallFacts& facts, Late& late, Answer answer);
  Job::Race call_ended(const JobPtr& job, const Call& call, Answer answer);

  Roster& roster_;
  Scheduler& scheduler_;
  Tickets& tickets_;
  const std::shared_ptr<Late> late_;
  const Answered answered_;
  const std::shared_ptr<std::atomic<Job::Clock::time_point>> leaves_at_ =
      std::make_shared<std::atomic<Job::Clock::time_point>>(Job::Clock::time_point::max());
  store::GroupCommit<store::CallStart, bool> rows_;
};

}  // namespace audiogen::worker
