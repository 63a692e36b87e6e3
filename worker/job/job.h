// A job: a task while this worker has it. Its data, how long its lease lasts, and the race of the
// calls that are made for it; what becomes of it is for the rooms it walks through.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/domain/lifecycle.h"
#include "common/domain/request.h"
#include "common/store/commands.h"
#include "worker/chain/chain.h"
#include "worker/chain/provider.h"

namespace audiogen::worker {

// The task's time, as the claim found it.
TaskTime time_of(const store::Claim& claim);

class Job;
// The members with which each log line about it begins.
std::array<log::Field, 3> about(const Job& job);

// Does what the request refers to have to be fetched, before anybody is called for it anew?
bool needs_references(const GenerationRequest& request);

// What a claim brought.
struct Claimed {
  store::Claim claim;
  std::shared_ptr<const GenerationRequest> request;  // Null: it cannot be read.
  bool in_time = true;                               // Else nobody is called for it.
  std::shared_ptr<const Chain> chain{};              // That it was claimed under.
  std::size_t first = 0;  // Who was chosen there; those before it had no time for one more.
};

// One call to a provider.
struct Call {
  std::uint64_t step = 0;    // of the job; later steps make its answer meaningless
  std::size_t provider = 0;  // position in the chain
  std::uint32_t row = 0;     // its number among the task's calls
  int tries = 0;         // calls to its provider in this claim, with it; 0: a hedge, the only one
  std::string ticket{};  // what it goes on with; empty: it is a new one
  std::chrono::steady_clock::time_point opened = std::chrono::steady_clock::now();
};

// How a call ended, as its row says.
struct CallEnd {
  std::uint8_t state = 0;  // One of store::kCall…, but not started.
  std::string detail{};
};

class Job {
 public:
  using Clock = std::chrono::steady_clock;

  // The claim was asked for at `asked_at` and granted by `now`.
  Job(Claimed claimed,
      std::shared_ptr<const Chain> in_force,
      Clock::time_point asked_at,
      Clock::time_point now);

  // --- given with the claim

  const store::Claim claim;  // Without the text of its request.
  const std::shared_ptr<const GenerationRequest> request;
  const std::shared_ptr<const Chain> chain;  // The one in force at the claim, to the end.
  const std::size_t first;  // Position at which to begin choosing (Claimed::first).
  const Clock::time_point began_at;
  const Clock::time_point deadline;
  // The row of its first call was written with the claim. Not so when nobody could be named there.
  const bool call_written;

  // --- of the step under way: there is only one at a time, and only its end changes them

  std::string ticket;  // Of the call that is to be made next; empty: it is a new one.
  std::shared_ptr<const References> references;  // fetched before the first call that needs them
  std::shared_ptr<KeptSlot> slot;  // of its provider, until they are there and it is called
  std::size_t provider = 0;        // Position in the chain.
  int tries = 0;                   // Calls to this provider in this claim.
  std::uint32_t row = 0;           // Number of its call's row.
  // What providers have said in this claim: who cannot, by position; and who later.
  std::vector<std::size_t> unable;
  std::vector<SaidLater> later;
  // Keeps what the one at `position` has said by failing it.
  void note(std::size_t position, const ProviderFault& fault);
  // After a race that both have lost: where it began, as the chain goes on behind that. Until
  // another is asked.
  std::optional<std::size_t> raced_from;
  std::shared_ptr<void> audio_kept;  // While its audio waits for a codec or for the disk.

  // What is held against the provider at `position`, which has failed it so; the chain remembers
  // it, for the claims after this one, too. `comes_again`: it is asked again in a moment, so it has
  // not failed yet, and nothing is remembered. Any thread.
  Failing failing(std::size_t position, Fault fault, bool comes_again = false) const;

  // --- of its calls, which may be two: any thread

  // Tickets that are to be kept and are not yet.
  std::atomic<int> tickets_unwritten = 0;
  // Somebody was called in this claim and took the task, whatever came of it.
  std::atomic<bool> called = false;
  // It waited too long for its turn, and another had a free slot. Until it has had a turn.
  std::atomic<bool> passed_on = false;

  TaskTime time(Clock::time_point now) const;
  // To settle it as `claim_end` says. Nothing is said of a call.
  store::SettleCommand command(ClaimEnd claim_end) const;

  // All from here on: any thread.

  // --- the lease

  // It is somebody else's, or nobody's: stop, discard, say nothing.
  bool is_lost() const;
  bool is_given_back() const;
  enum class LeaseIs { kGood, kDue, kOver };
  // kDue: to be renewed, said once until renewal_ended(). kOver: this worker must stop, before
  // another may start. kGood also when it is lost already.
  LeaseIs look_at_lease(Clock::time_point now);
  // For how long its renewal has been due; none, or less, while it is not.
  Clock::duration renewal_lag(Clock::time_point now) const;
  // Nobody may be called for it any more, whether or not that look was taken.
  bool lease_is_over(Clock::time_point now) const;
  // Asked for at `renewed_from`, since when it lasts anew. Nullopt: nobody could tell.
  void renewal_ended(std::optional<Clock::time_point> renewed_from);
  // Ends its calls; what has a ticket is withdrawn, unless somebody else may go on with it. False
  // when it was lost before.
  bool lose(bool withdraw);
  // Ends its calls, whose answers, kCanceled, give the task back. Whoever has it next may go on
  // with what has a ticket.
  void give_back();

  // --- calls, and the race of two of them

  // The number of the next call's row.
  std::uint32_t next_row();
  // Before a step's first call is opened.
  std::uint64_t begin_step();
  // A call beside `slow`, which is still awaited, to the provider at `second`; nullopt when it is
  // too late for that.
  std::optional<Call> hedge(const Call& slow, std::size_t second);
  // Would anybody take an answer for step `of`?
  bool awaits(std::uint64_t of) const;
  // Keeps a call of step `of`, so that it can be ended from outside; ends it when it is too late
  // for it already.
  void hold(std::uint64_t of, std::shared_ptr<ProviderCall> call);
  enum class Race { kOver, kGoesOn, kEnds };
  // One call of step `of` has answered. kOver: the step had ended before. kEnds: by audio, or
  // because nobody else is awaited; what loses the race is ended.
  Race answered(std::uint64_t of, bool audio);
  // One that has failed.
  struct FailedCall {
    Call call;
    ProviderFault fault;
  };
  // The same as answered(), without audio.
  Race failed(FailedCall failed);
  // Ends a step of which none has brought audio. Of two that have failed one counts: a refusal of
  // the content, a ticket that leads nowhere, else the later one that was made. Its provider is at
  // hand from here on; what the other says is kept.
  FailedCall end_without_audio();
  // Was the provider at `position` asked beside another, in this claim? Any thread.
  bool was_raced(std::size_t position) const;
  // What its chain chooses from `from` on, without those. Any thread.
  using Choose = std::optional<std::size_t> (Chain::*)(const GenerationRequest&,
                                                       std::size_t,
                                                       TaskTime) const;
  std::optional<std::size_t> choose_unraced(Choose choose, std::size_t from, TaskTime at) const;

  // --- what its calls were

  // Keeps it for take_calls(). False: those have been taken.
  bool keep(store::CallRecord ended);
  // The call with this row is to be gone on with by another, though it has brought its audio.
  void goes_on(std::uint32_t ended_row);
  // All of this claim that have ended, once.
  std::vector<store::CallRecord> take_calls();

 private:
  using OpenCalls = std::vector<std::shared_ptr<ProviderCall>>;

  // lease_is_over(). What is to end then is left, and not withdrawn: another worker may go on with
  // the job there.
  bool is_over(Clock::time_point now) const LOCKS_REQUIRED(mutex_);
  Race ended(std::uint64_t of, bool audio, std::optional<FailedCall> failed);

  struct Lease {
    Clock::time_point from;  // Asked for at this time: it runs at least kLease from here.
    bool renewing = false;
  };

  mutable Mutex mutex_;
  Lease lease_ GUARDED_BY(mutex_);
  bool lost_ GUARDED_BY(mutex_) = false;
  bool giving_back_ GUARDED_BY(mutex_) = false;
  std::uint32_t rows_ GUARDED_BY(mutex_);  // Number of the newest call's row.
  // What may still answer for step `step_`: one call, or two where it is hedged.
  std::uint64_t step_ GUARDED_BY(mutex_) = 0;
  int awaited_ GUARDED_BY(mutex_) = 0;
  std::size_t reached_ GUARDED_BY(mutex_) = 0;
  std::vector<FailedCall> failed_ GUARDED_BY(mutex_);  // Of this step.
  std::vector<std::size_t> raced_ GUARDED_BY(mutex_);  // Positions, in this claim.
  OpenCalls calls_ GUARDED_BY(mutex_);
  std::vector<store::CallRecord> ended_ GUARDED_BY(mutex_);
  bool ended_taken_ GUARDED_BY(mutex_) = false;
};

using JobPtr = std::shared_ptr<Job>;

}  // namespace audiogen::worker
