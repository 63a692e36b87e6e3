// The commands the store takes and what it answers. Every use case takes many commands at once,
// runs them in as few statements as it can inside one transaction, and answers each: one user's
// failure never fails another's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"

namespace audiogen::store {

// A whole batch could not be done: the database is away, or did not say whether it committed.
enum class StoreFault {
  kUnavailable,     // Nothing was done; worth trying again later.
  kUnknownOutcome,  // It may have been done; read before deciding.
};

// --- creating tasks
// -------------------------------------------------------------------------------------------

struct CreateCommand {
  TaskId id{};
  UserId user{};
  std::optional<std::string> idempotency_key{};
  Sha256 fingerprint{};
  std::string request{};  // Canonical JSON.
  OutputFormat output_format = OutputFormat::kMp3;
  std::chrono::seconds deadline{900};  // From creation.
};

struct CreateOutcome {
  enum class Kind {
    kCreated,
    kReplayed,      // The key's first task, as it stands now.
    kConflict,      // The key was used with another request.
    kInsufficient,  // Less than the hold is available.
    kFailed,        // This command alone could not be done (logged); nothing was written for it.
  };
  Kind kind = Kind::kFailed;
  TaskView task{};  // For kCreated and kReplayed.
};

// --- reading
// --------------------------------------------------------------------------------------------------

struct FindCommand {
  TaskId id{};
  UserId user{};
};
// Nullopt: there is no such task of this user.
using FindOutcome = std::optional<TaskView>;

struct KeyRecord {
  KeyId id{};
  UserId user{};
  bool api_access = false;  // A paid plan or a purchase.
};
// Nullopt: no such key, or it was deleted.
using KeyOutcome = std::optional<KeyRecord>;

// --- working
// --------------------------------------------------------------------------------------------------

// A claimed task: ours until the lease runs out, proven by the epoch.
struct Claim {
  TaskId task{};
  UserId user{};
  std::uint32_t epoch = 0;     // After the claim.
  std::uint32_t claims = 0;    // Attempts used, this one included.
  std::uint32_t attempts = 0;  // Provider calls before this claim.
  std::string provider{};      // Named by first_provider: its attempt is written.
  std::string request{};       // Canonical JSON.
  Instant created_at{}, deadline_at{};
  std::chrono::microseconds until_deadline{0};  // By the database's clock at the claim.
};
// Nullopt: nothing to do for this hint (final, claimed by another, not due, another epoch,
// unknown).
using ClaimOutcome = std::optional<Claim>;

struct Lease {
  TaskId task{};
  std::uint32_t epoch = 0;
};

// States of an attempt, as stored: a provider call under way, and how it ended.
inline constexpr std::uint8_t kAttemptStarted = 1;
inline constexpr std::uint8_t kAttemptSucceeded = 2;
inline constexpr std::uint8_t kAttemptFailed = 3;
inline constexpr std::uint8_t kAttemptUnknown = 4;  // Nobody can tell.

// How a claimed task ends, or goes back.
struct SettleCommand {
  enum class Kind {
    kSucceed,  // Captures the charge of duration_ms, returns the rest.
    kFail,     // Full return.
    kRetry,  // Back to queued, due after retry_after. Ends as kFail with `failure` when claims are
             // used up.
    kRelease,  // Back to queued at once without using up an attempt (shutdown).
  };
  Kind kind = Kind::kFail;
  TaskId task{};
  UserId user{};
  std::uint32_t epoch = 0;
  // kSucceed
  std::string output_key{};
  std::uint64_t output_bytes = 0;
  Sha256 output_sha256{};
  std::int64_t duration_ms = 0;
  // kFail, kRetry
  FailureCode failure = FailureCode::kInternalError;
  std::string failure_message{};  // For the client; empty: the code's own.
  std::chrono::milliseconds retry_after{0};
  // The outcome of the running provider attempt, if any: written in the same transaction.
  std::uint32_t attempt = 0;       // 0: none
  std::uint8_t attempt_state = 0;  // One of kAttempt…, but not started.
  std::string attempt_detail{};
};

enum class SettleOutcome {
  kSettled,   // Final now, by this command (or by an earlier try of it whose answer was lost).
  kRequeued,  // Back to queued.
  kNotOurs,   // The lease was lost, or the task is final already: discard the work.
  kFailed,    // This command alone could not be done (logged).
};

struct AttemptStart {
  TaskId task{};
  std::uint32_t epoch = 0;
  std::uint32_t n = 0;  // 1, 2, 3 … over all claims of the task
  std::string provider{};
  // The attempt before it, if it ended in this claim.
  std::uint32_t previous = 0;  // 0: none
  std::uint8_t previous_state = 0;
  std::string previous_detail{};
};

enum class CancelOutcome { kCanceled, kAlreadyFinal, kNotFound };

// Tasks past their retention.
struct OldOutputs {
  std::vector<std::string> keys{};  // Their files.
  std::size_t looked_at = 0;        // As many as asked for: there may be more.
  TaskId last{};                    // The newest of them.
};

// A final task of which more files may lie about than its own.
struct TaskOutput {
  TaskId task{};
  std::string key{};  // Its file; empty: none.
};

// What one look of the sweeper did.
struct SweepResult {
  std::vector<Hint> publish{};                         // Send these to the queue.
  std::size_t looked_at = 0;                           // Those left as they are do not count.
  bool more = false;                                   // There may be.
  std::size_t reaped = 0, expired = 0, exhausted = 0;  // Lost leases; deadlines; claims used up.
};

}  // namespace audiogen::store
