// Every rule about moving a task. Whoever moves one, in a transaction or on the way through a
// worker, asks here what becomes of it, and decides nothing itself.
//
//   create ──> queued ──claim──> running ──succeed──> succeeded   (charge captured, rest returned)
//                │ ^                │ └─────fail────> failed      (full return)
//                │ └──retry, reap───┘
//                └──cancel (also from running)──> canceled        (full return)
//                └──deadline (also from running)──> failed
//
// Final states never change. The hold exists exactly while a task is queued or running. All
// instants are the database's: no other clock is ever compared.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/pricing.h"
#include "common/domain/task.h"

namespace audiogen {

enum class TaskEvent : std::uint8_t { kClaim, kRetry, kReap, kSucceed, kFail, kCancel, kDeadline };

// The state after `event`, or nullopt when the event is not allowed in `from`.
constexpr std::optional<TaskState> next_state(TaskState from, TaskEvent event) {
  const bool queued = from == TaskState::kQueued;
  const bool running = from == TaskState::kRunning;
  switch (event) {
    case TaskEvent::kClaim:
      return queued ? std::optional(TaskState::kRunning) : std::nullopt;
    case TaskEvent::kRetry:
    case TaskEvent::kReap:
      return running ? std::optional(TaskState::kQueued) : std::nullopt;
    case TaskEvent::kSucceed:
      return running ? std::optional(TaskState::kSucceeded) : std::nullopt;
    case TaskEvent::kFail:
      return running ? std::optional(TaskState::kFailed) : std::nullopt;
    case TaskEvent::kDeadline:
      return queued || running ? std::optional(TaskState::kFailed) : std::nullopt;
    case TaskEvent::kCancel:
      return queued || running ? std::optional(TaskState::kCanceled) : std::nullopt;
  }
  return std::nullopt;
}

// --- numbers (README.md, "Leases")

inline constexpr std::uint32_t kClaimsMax = 5;     // The fifth lost lease ends the task.
inline constexpr std::uint32_t kLostTogether = 2;  // With others beside it; then it runs alone.
inline constexpr std::chrono::seconds kLease =
    30s;  // Renewed every 10 s; a worker stops itself at 25 s.
inline constexpr std::chrono::seconds kLeaseRenew = 10s;
inline constexpr std::chrono::seconds kLeaseSelfStop = 25s;
static_assert(kLeaseRenew * 2 < kLeaseSelfStop, "one lost renewal must not end a job");
static_assert(kLeaseSelfStop < kLease, "a worker must stop before another may start");

// No message was confirmed, or nobody took the task: look again after this long.
inline constexpr std::chrono::seconds kFirstLook{15};
inline constexpr std::chrono::seconds kLookAgain{30};
// No released task is looked at later than this, however long it is to wait: so whoever counts
// those finds them without reading the very many that may be parked, which are looked at when they
// end.
inline constexpr std::chrono::seconds kLookWithin{100};
// A hint that was not taken after this long may have been lost by the broker, unless what comes
// from its queue is older, or not younger by as much: then it waits there still.
inline constexpr std::chrono::seconds kTrustInHint{120};
// A new task is not written to say that its hint was confirmed, so the sweepers pass by it and see
// it again in the next pass, after this long: not shortly before its deadline.
inline constexpr std::chrono::seconds kWholePass{60};

// From when a task is due again until somebody is called for it.
inline constexpr std::chrono::seconds kToBeTaken{15};
// What a call needs, as long as nobody knows better.
inline constexpr std::chrono::seconds kCallNeeds{10};

// Wait before attempt `claims + 1` (claims >= 1): 2 s, 8 s and a third of what is left of the
// task's time, spread by `jitter` in [-1, 1] times 20 %; then until a call that needs so much just
// ends before the deadline, or up to 20 % less. So failures of any length are waited for, as long
// as there is time. 15 and 60 min at the most: of a task with a day's time somebody waits, too. 8 s
// at the least: then there is no time for a call, or hardly.
std::chrono::milliseconds retry_delay(std::uint32_t claims,
                                      std::chrono::milliseconds left,
                                      double jitter,
                                      std::chrono::milliseconds needed = kCallNeeds);

// The least wait of a task that nobody who was asked has taken, whatever they said: a sixteenth of
// what has passed of its time, or of what is left. So they are asked often while that is short, and
// some hundred times in a day.
std::chrono::milliseconds not_taken_delay(std::chrono::milliseconds left,
                                          std::chrono::milliseconds whole);

// Until a suspect for which there is no worker yet comes again: 5 s, spread by `jitter` in [-1, 1]
// times 50 %, so that many of them do not come together.
std::chrono::milliseconds alone_delay(double jitter);

// --- what the rules look at, and what they make of it

struct TaskFacts {
  TaskId id;
  TaskState state = TaskState::kQueued;
  std::uint32_t epoch = 0, claims = 0, lost_leases = 0;
  bool called = true;  // Was anybody, in the claim that gave it `epoch`?
  Units held;
  Lane lane = Lane::kBulk;
  std::optional<WorkerId> worker{};
  std::optional<Instant> lease_until{};
  Instant next_run_at, deadline_at;
  std::optional<Instant> wake_at{};
  std::string output_key{};
};

// What a task is after it left its state. The lease has ended; a final row is never looked at
// again.
struct TaskMove {
  TaskState state = TaskState::kQueued;  // kQueued or a final one
  std::uint32_t epoch = 0, claims = 0, lost_leases = 0;
  Instant next_run_at;
  std::optional<Instant> wake_at{};
  std::optional<Units> charged{};  // Set exactly when final.
  std::optional<FailureCode> failure{};
  std::string failure_message{};
};

// --- beginning

// When the sweepers look at a new task for the first time: at one that is parked not before its
// deadline.
Instant first_look(Lane lane, Instant now, Instant deadline);

// May it be taken, by whoever was hinted to `epoch` of it?
bool may_claim(const TaskFacts& task, std::uint32_t epoch, Instant now);

// Has no sweeper sent a further hint of it, but its creator the only one, as far as the row tells?
bool is_hinted_once(const TaskFacts& task);

// Is it a suspect, to be worked on by a worker that does nothing else meanwhile? Its workers were
// lost so often that it may be what ends them, or one of those beside it.
bool runs_alone(std::uint32_t lost_leases);

// When a task is due again that could have been claimed, and for which no worker is free enough.
Instant put_off(const TaskFacts& task, Instant now, double jitter);

// --- working

// Is it still of the claim that gave it `epoch`? Nobody else may have anybody called for it.
bool is_of(const TaskFacts& task, std::uint32_t epoch);
// May `worker` have the lease of that claim for longer? Past its deadline, too: whether that has
// passed the sweeper judges, which knows of jumps of the clock. It ends the task then, and with it
// the lease.
bool may_renew(const TaskFacts& task, std::uint32_t epoch, WorkerId worker);

// What keeps a claim from bringing audio: all that there is.
enum class Trouble : std::uint8_t {
  kUnreadable,      // What is stored of the request cannot be read.
  kNobodyCan,       // No provider is able to make what is asked for.
  kNobodyReads,     // The same, because of the script or language that the prompt is written in.
  kContentRefused,  // A provider refused what is asked for.
  kBadReference,    // What the request refers to cannot be had, or used.
  kNobodyNow,       // Whoever is able has failed.
  kLeftAlone,       // Whoever is able is left alone at the moment: nobody was called.
  kNotTaken,        // The same, but some were asked: they said "later", or that they cannot.
  kOutOfTime,       // Less time is left than those who are able need: nobody was called, or the
                    // deadline ended the call.
  kOurs,            // Something of ours is away or full: a decoder, a disk, the blob store.
  kTooLarge,        // The blob store does not take its audio, however often it is offered.
  kOursUncalled,    // The same before anybody was called: what the request refers to is not had.
  kNoRoom,          // Too many wait for what it needs: nothing was tried.
  kStopping,        // Its worker stops.
};

// How a claim ends.
struct ClaimEnd {
  enum class Kind {
    kSucceed,  // Captures the charge of duration_ms, charge_max at most, returns the rest.
    kFail,     // Full return.
    kRetry,  // Back to queued, due after retry_after. Ends as kFail with `failure` when claims are
             // used up.
    kRelease,  // Back to queued, due after retry_after, without using up an attempt (shutdown, no
               // room, nobody to call, or nobody who took it)
  };
  Kind kind = Kind::kFail;
  std::uint32_t epoch = 0;  // Of the claim.
  // kSucceed
  std::string output_key{};
  std::int64_t duration_ms = 0;
  Units charge_max = kHoldAmount;  // Of the request: whatever the duration, no more is captured.
  // kFail, kRetry, kRelease
  FailureCode failure = FailureCode::kInternalError;
  std::string failure_message{};  // For the client; empty: the code's own.
  std::chrono::milliseconds retry_after{0};
  // kRelease: somebody was asked, so it does not wait once more behind those that wait for their
  // first turn. (The first time, therefore, does use up an attempt.)
  bool had_turn = false;
};

// What follows a trouble, and what the task fails with if it comes to that.
struct Verdict {
  ClaimEnd::Kind kind;
  FailureCode failure;
};
Verdict verdict_on(Trouble trouble);

// The end of the claim number `claims` (>= 1) of a task with so much time left, by `trouble`. What
// goes back is due after its own wait, spread by `jitter` in [-1, 1], and not before `not_before`
// from now; what was not tried, after that alone, or, where it waits for a provider to be asked
// again, spread after that: one of them finds out whether it works, and the rest had better come
// when it does. `needed`: by a call for it.
ClaimEnd end_by(Trouble trouble,
                std::uint32_t claims,
                std::chrono::milliseconds left,
                double jitter,
                std::chrono::milliseconds not_before = std::chrono::milliseconds(0),
                std::chrono::milliseconds needed = kCallNeeds);

// --- ending

struct SettleDecision {
  std::optional<TaskState> to{};   // What it is from now on. Nullopt: the claim was lost.
  std::optional<TaskMove> move{};  // Nullopt: none is left to make. It is not ours, or an earlier
                                   // try of this one was carried out, its answer lost.
};
SettleDecision decide_settle(const TaskFacts& task, const ClaimEnd& claim_end, Instant now);

// Of an open task: whoever runs it is fenced.
TaskMove cancel_task(const TaskFacts& task);

struct SweepDecision {
  enum class Kind {
    kNothing,  // Not to be looked at yet.
    kHinted,   // The broker has its hint: nothing to do, and nothing to write.
    kLook,     // Only set the next look.
    kPublish,  // Ready: send the hint, and set the next look.
    kReap,     // The lease ran out.
    kExhaust,  // The lease ran out, and so did the claims.
    kExpire,   // Past the deadline.
  };
  Kind kind = Kind::kNothing;
  std::optional<Instant> wake_at{};  // kLook, kPublish. Nullopt: never again.
  std::optional<TaskMove> move{};    // kReap, kExhaust, kExpire. Whoever runs it is fenced.
  // kPublish, kReap: it has had a turn, so it does not wait behind those that wait for their first.
  bool tried = false;
  bool ends() const { return kind == Kind::kExhaust || kind == Kind::kExpire; }
};
// How far the broker has come with its queues, as far as one worker knows: what comes to it next
// was hinted after this. Nullopt: nothing comes, so no hint waits there.
struct QueuesSeen {
  std::optional<Instant> bulk{}, express{};
};
// The first hints of all tasks before `unsent_from` were confirmed. `was_away`: the database was,
// so that no task has to do with a lost lease.
SweepDecision decide_sweep(const TaskFacts& task,
                           Instant now,
                           TaskId unsent_from = {},
                           bool was_away = false,
                           const QueuesSeen& queues = {});

}  // namespace audiogen
