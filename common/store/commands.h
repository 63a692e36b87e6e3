// The commands the store takes and what it answers. Every use case takes many commands at once,
// runs them in as few statements as it can inside one transaction, and answers each: what happens
// to one user's command never happens to another's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/checksum.h"
#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_key.h"
#include "common/domain/ledger.h"
#include "common/domain/lifecycle.h"
#include "common/domain/operator_action.h"
#include "common/domain/provider_price.h"
#include "common/domain/route.h"
#include "common/domain/task.h"
#include "common/domain/trace.h"

namespace audiogen::store {

// Why a command could not be done.
enum class StoreFault {
  kUnavailable,     // The database is away: nothing was done; worth trying again later.
  kLocked,          // Another session holds its row: nothing was done; worth trying again soon.
  kUnknownOutcome,  // It may have been done; read before deciding.
};

// Result i answers command i.
template <class Outcome>
using Batch = std::vector<Result<Outcome, StoreFault>>;

// Of provider_overrides.
inline constexpr std::uint32_t kHeldOpen = 1, kHeldClosed = 2;

// How often a worker tells about itself, and what: so often that people see within seconds what
// has befallen one.
inline constexpr std::chrono::seconds kWorkersReport{1};
// One that was not seen for so long is none.
inline constexpr std::chrono::seconds kWorkerSeenWithin{15};
// Where all of them have had room for so long, more tasks are released: by then each has told of
// itself again.
inline constexpr std::chrono::seconds kRoomFor{5};
static_assert(kRoomFor > 2 * kWorkersReport);
struct WorkerReport {
  std::size_t in_flight = 0;      // Tasks in hand.
  std::size_t places = 0;         // It can work on so many at once,
  std::size_t room = 0;           // and would take so many more now.
  std::uint64_t ended = 0;        // Tasks so far, but for want of time.
  std::chrono::seconds needs{0};  // See WorkersSeen.
  RouteLines lines{};             // Of its own.
  std::string status_json = "{}";
};

// --- creating tasks
// -------------------------------------------------------------------------------------------

struct CreateCommand {
  TaskId id{};
  UserId user{};
  std::optional<KeyId> key{};  // That asks for it; nullopt: none does.
  bool limited = false;        // It has a spend limit, as far as the caller knows.
  std::optional<std::string> idempotency_key{};
  Sha256 fingerprint{};   // Of `request`; with an idempotency key.
  std::string request{};  // Canonical JSON.
  OutputFormat output_format = OutputFormat::kMp3;
  Route route{};                       // Of `request`.
  std::chrono::seconds deadline{900};  // From creation.
  // By the plan of its user; 0: no limit. Tasks open at once, and those of them that are released.
  std::uint32_t open_max = 0, released_max = 0;
  Trail trail{};
  bool only_again = false;  // Only what its idempotency key stands for: nothing new is made.
};

struct CreateOutcome {
  enum class Kind {
    kCreated,
    kReplayed,      // The key's first task, as it stands now.
    kConflict,      // The key was used with another request.
    kInsufficient,  // Less than the hold is available.
    kOverLimit,     // The hold would go beyond the key's spend limit.
    kKeyGone,       // The key was deleted since it was looked up.
    kTooManyOpen,   // The user has as many open tasks as he may have.
    kTooLate,       // Behind what waits before it, it would not end before its deadline.
    kNothingNew,    // Its idempotency key stands for nothing yet, and it is `only_again`.
    kFailed,        // This command alone could not be done (logged); nothing was written for it.
  };
  Kind kind = Kind::kFailed;
  TaskView task{};          // For kCreated and kReplayed.
  Lane lane = Lane::kBulk;  // For kCreated: by which its hint is to be sent, unless it is parked.
  std::chrono::seconds again_in{0};  // For kTooLate: it is worth trying again then.
  // For kOverLimit: what was spent of it before.
  SpendLimit limit{};
  Units spent{};
};

// --- reading
// --------------------------------------------------------------------------------------------------

struct FindCommand {
  TaskId id{};
  UserId user{};
};
// Nullopt: there is no such task of this user.
using FindOutcome = std::optional<TaskView>;

// Who asks, as a key that is shown tells, or a session of the console: that has all scopes and API
// access, whatever the plan, because its owner sits before it.
struct KeyRecord {
  KeyId id{};  // Nobody's when it is a session.
  UserId user{};
  bool api_access = false;  // A paid plan or a purchase.
  Scopes scopes{};
  bool limited = false;  // It has a spend limit.
  bool paid = false;     // Its user is on a paid plan.
  Sha256 secret{};       // The hash of what was shown.
  std::optional<SessionId> session{};

  // Whose requests count together: a key's, or those of all of a user's sessions.
  Uuid counted_as() const { return session ? user.uuid : id.uuid; }
};
// Nullopt: no such key, or it was deleted, has expired, or got another secret; no such session, or
// it has ended.
using KeyOutcome = std::optional<KeyRecord>;

// --- working
// --------------------------------------------------------------------------------------------------

// A claimed task: ours until the lease runs out, proven by the epoch.
struct Claim {
  TaskId task{};
  UserId user{};
  std::uint32_t epoch = 0;   // After the claim.
  std::uint32_t claims = 0;  // Attempts used, this one included.
  std::uint32_t lost_leases = 0;
  std::uint32_t calls = 0;  // Provider calls before this claim.
  Units held{};
  std::string provider{};  // Will be called first: the row of its call is written. Empty: none yet.
  std::string request{};   // Canonical JSON.
  Instant created_at{}, deadline_at{};
  // By the database's clock at the claim: what is left of its time, and since when it was due.
  std::chrono::microseconds until_deadline{0}, due_for{0};
  bool hinted_once = false;  // See is_hinted_once().
  Trail trail{};
};
// What its worker says of a task that it may claim.
struct ClaimVerdict {
  enum class Kind {
    kClaim,
    kLeave,   // It is left as it is: whoever asks again may have it.
    kPutOff,  // It is due again in a few seconds.
  };
  ClaimVerdict(Kind what) : kind(what) {}
  // It is claimed; `named`: Claim::provider.
  ClaimVerdict(std::string named) : provider(std::move(named)) {}
  ClaimVerdict(const char* named) : provider(named) {}

  Kind kind = Kind::kClaim;
  std::string provider{};
};
// Nullopt: nothing to do for this hint (final, claimed by another, not due, another epoch,
// unknown, left, put off).
using ClaimOutcome = std::optional<Claim>;

struct Lease {
  TaskId task{};
  std::uint32_t epoch = 0;
};

enum class Renewal {
  kRenewed,
  kEnded,  // The task is final, or gone: nobody needs what its worker does.
  kTaken,  // The lease was taken: somebody else may go on with what its worker has begun.
};

// States of a call, as stored: under way, and how it ended.
inline constexpr std::uint8_t kCallStarted = 1;
inline constexpr std::uint8_t kCallSucceeded = 2;
inline constexpr std::uint8_t kCallFailed = 3;
inline constexpr std::uint8_t kCallUnknown = 4;  // Nobody can tell.
// The detail of a call that ended before its provider was called.
inline constexpr char kNotCalled[] = "not called";

// How a claim ended, as stored.
enum class ClaimEndedAs : std::uint8_t {
  kSettled = 1,     // Its task was final.
  kTriedAgain = 2,  // Put back: what was called had failed.
  kGivenBack = 3,   // Put back by its worker, which stopped or had nobody to call.
  kTakenAway = 4,   // Nobody renewed it, or the task's time was over.
};

// What a provider call was, once it has ended.
struct CallRecord {
  TaskId task{};
  std::uint32_t n = 0;  // Of the task's calls.
  std::string provider{};
  CallOutcome outcome = CallOutcome::kUnknown;
  std::chrono::steady_clock::time_point sent = std::chrono::steady_clock::now();
  bool waited = false;  // For its turn, so that it was sent well after its row was written.
  std::chrono::milliseconds took{0};
  std::optional<std::chrono::milliseconds> first_byte{};
  std::optional<ProviderPrice> price{};
  std::optional<PriceUnit> reports{};  // What counted.reported is of, where there is no price.
  CallQuantities counted{};

  std::optional<PriceUnit> unit() const {
    return price ? std::optional(price->unit) : counted.reported ? reports : std::nullopt;
  }
  // Nullopt: not known.
  std::optional<Thousandths> quantity() const {
    const auto of = unit();
    return of ? billed(outcome, *of, counted) : std::nullopt;
  }
  std::optional<Micros> cost() const {
    const auto of = quantity();
    return price && of ? std::optional(cost_of(*price, *of)) : std::nullopt;
  }
};

// How a claimed task ends, or goes back; and what is written with it.
struct SettleCommand : ClaimEnd {
  TaskId task{};
  UserId user{};
  // What the task holds, as its claim said: with it, and where nothing but a first call that went
  // well is to be told, its row need not be read again. Nullopt: it is read.
  std::optional<Units> held{};
  Trail trail{};  // For logs.
  // kSucceed
  std::uint64_t output_bytes = 0;
  Checksum output_checksum{};
  // How the newest call of this claim ended, if there was one: written in the same transaction.
  std::uint32_t call = 0;       // 0: none
  std::uint8_t call_state = 0;  // One of kCall…, but not started.
  std::string call_detail{};
  // The calls of this claim that have ended: written in the same transaction, too.
  std::vector<CallRecord> calls{};
};

enum class SettleOutcome {
  kSettled,   // Final now, by this command (or by an earlier try of it whose answer was lost).
  kRequeued,  // Back to queued.
  kNotOurs,   // The lease was lost, or the task is final already: discard the work.
  kFailed,    // This command alone could not be done (logged).
};

struct CallStart {
  TaskId task{};
  std::uint32_t epoch = 0;
  std::uint32_t n = 0;  // 1, 2, 3 … over all claims of the task
  std::string provider{};
  // The call before it, if it ended in this claim.
  std::uint32_t previous = 0;  // 0: none
  std::uint8_t previous_state = 0;
  std::string previous_detail{};
  Trail trail{};  // For logs.
};

// What a provider that is polled gave for a call: by it anybody may ask for the audio.
inline constexpr std::size_t kTicketMax = 2000;  // Characters.
struct TicketCommand {
  enum class Kind : std::uint8_t { kKeep, kForget, kFind };
  Kind kind = Kind::kFind;
  TaskId task{};
  std::uint32_t n = 0;     // kKeep, kForget: of the call.
  std::string provider{};  // kKeep
  std::string ticket{};    // kKeep: of at most kTicketMax.
};
struct StoredTicket {
  std::uint32_t n = 0;
  std::string provider{};
  std::string ticket{};
};
// kFind: of the newest call that has one. Nullopt: there is none.
using TicketOutcome = std::optional<StoredTicket>;

struct CancelCommand {
  TaskId task{};
  std::optional<UserId> user{};  // Whose it must be. Nullopt: anybody's, for operators.
};
enum class CancelOutcome {
  kCanceled,
  kAlreadyFinal,
  kNotFound,
  kFailed,  // The database refuses a row of it (logged); nothing was done.
};
struct Cancellation {
  CancelOutcome outcome = CancelOutcome::kFailed;
  TaskView task{};  // As it stands now, for kCanceled and kAlreadyFinal.
  Trail trail{};    // For kCanceled.
};

// Whose file is noted as one that may still be there: of a task that its owner deleted, or of one
// past its retention whose file could not be removed.
enum class Noted : std::uint8_t { kDeleted, kOld };

// A final task of which more files may lie about than its own.
struct TaskOutput {
  TaskId task{};
  std::string key{};   // Its file; empty: none.
  Trail trail{};       // Of deletions() alone.
  bool noted = false;  // Of take_old_outputs(): it was deleted, so its removal has, or had, a note.
};

// Tasks past their retention.
struct OldOutputs {
  std::vector<TaskOutput> files{};  // That are to go.
  std::size_t looked_at = 0;        // As many as asked for: there may be more.
  std::size_t kept = 0;             // Of them, by their rows not old: their files stay for good.
  TaskId last{};                    // The newest of them.
  TaskId done_to{};                 // The same, or the one before the first that somebody holds.
};

// An idempotency key that may be forgotten.
struct OldKey {
  UserId user{};
  std::string key{};
  TaskId task{};      // That it stands for.
  Instant used_at{};  // First.
};

struct DoubtfulOutputs {
  std::vector<TaskOutput> tasks{};
  std::optional<TaskId> last{};  // Nullopt: all were looked at. Else there is more after it.
};

// A task that a look of the sweeper has put back, or ended.
struct Swept {
  TaskId task{};
  Trail trail{};
  std::optional<WorkerId> worker{};  // Whose lease was lost, if one was.
  enum class Kind : std::uint8_t { kReaped, kExpired, kExhausted } kind = Kind::kReaped;
};

// What one look of the sweeper did.
struct SweepResult {
  std::vector<Hint> publish{};                         // Send these to the queue.
  std::size_t tried = 0;                               // The first of them: they had a turn.
  std::size_t looked_at = 0;                           // Those left as they are do not count.
  bool more = false;                                   // There may be.
  std::size_t kept = 0;                                // Not judged: the clock has just jumped.
  std::size_t reaped = 0, expired = 0, exhausted = 0;  // Lost leases; deadlines; claims used up.
  std::vector<Swept> swept{};                          // Those, one by one.
};

// A transaction that follows another of the same process on some of its rows. The rows that one
// hands over when its last packet is about to leave, COMMIT at its end, are the only ones that a
// transaction of ours waits for: from then on only the server has them, and it frees them before it
// has written its log. So two transactions on one row overlap, with nobody's wake-up in between.
// Should the packet be lost, whoever follows waits 100 ms in vain, once; then the rows are like any
// others that somebody holds.
struct Turn {
  std::vector<Uuid> follows{};  // Rows that were handed over to this transaction.
  // To be called, at most once, before the last packet leaves, with the rows that may go on.
  std::function<void(std::span<const Uuid>)> ends{};
};

}  // namespace audiogen::store
