// The states of a task and every rule about moving between them.
//
//   create ──> queued ──claim──> running ──succeed──> succeeded   (charge captured, rest returned)
//                │ ^                │ └─────fail────> failed      (full return)
//                │ └──retry, reap───┘
//                └──cancel (also from running)──> canceled        (full return)
//                └──deadline (also from running)──> failed
//
// Final states never change. The hold exists exactly while a task is queued or running.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/pricing.h"
#include "common/domain/request.h"

namespace audiogen {

enum class TaskState : std::uint8_t {
  kQueued = 1,
  kRunning = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCanceled = 5
};
enum class TaskEvent : std::uint8_t { kClaim, kRetry, kReap, kSucceed, kFail, kCancel, kDeadline };

constexpr bool is_final(TaskState state) {
  return state >= TaskState::kSucceeded;
}

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

// What a client sees: `processing` from creation; `queued` only for a task put back to wait for
// another attempt.
std::string_view public_status(TaskState state, std::uint32_t claims);
// All that there are of these.
inline constexpr std::array<std::string_view, 5> kPublicStatuses = {
    "queued", "processing", "succeeded", "failed", "canceled"};
std::string_view state_name(TaskState state);
std::optional<TaskState> parse_state(std::string_view name);

// Why a task failed: the `error` object of a generation. Never a provider's name or text: which
// providers there are is no part of the interface.
enum class FailureCode : std::uint8_t {
  kProviderUnavailable = 1,
  kProviderRejected = 2,
  kContentRejected = 3,
  kUnsupportedInput = 4,
  kReferenceUnavailable = 5,
  kDeadlineExceeded = 6,
  kInternalError = 7,
};
std::string_view failure_code_name(FailureCode code);
std::string_view failure_message(
    FailureCode code);                     // For codes whose task carries no message of its own.
bool failure_retriable(FailureCode code);  // May the same request succeed when sent again?

// Attempts, leases and retries (common/domain/README.md, "Leases"). Only the database's clock is
// ever compared.
inline constexpr std::uint32_t kClaimsMax = 5;  // The fifth lost lease ends the task.
inline constexpr std::chrono::seconds kLease =
    30s;  // Renewed every 10 s; a worker stops itself at 25 s.
inline constexpr std::chrono::seconds kLeaseRenew = 10s;
inline constexpr std::chrono::seconds kLeaseSelfStop = 25s;
static_assert(kLeaseRenew * 2 < kLeaseSelfStop, "one lost renewal must not end a job");
static_assert(kLeaseSelfStop < kLease, "a worker must stop before another may start");

// Wait before attempt `claims + 1` (claims >= 1): 2, 8, 30, 90 s, spread by `jitter` in [-1, 1]
// times 20 %.
std::chrono::milliseconds retry_delay(std::uint32_t claims, double jitter);

// What a queue message says: task `task` may be ready at epoch `epoch`. Only a hint; the database
// decides.
struct Hint {
  TaskId task;
  std::uint32_t epoch = 0;
  friend bool operator==(const Hint&, const Hint&) = default;
};

// The user-facing picture of one task: what the API renders.
struct TaskView {
  TaskId id;
  TaskState state = TaskState::kQueued;
  std::uint32_t claims = 0;
  Instant created_at, updated_at;
  Units held;                    // Reserved at creation.
  std::optional<Units> charged;  // Set exactly when final.
  std::string output_key;        // Blob key, set exactly when succeeded.
  OutputFormat output_format = OutputFormat::kMp3;
  std::int64_t duration_ms = 0;
  std::optional<Instant> output_deleted_at{};  // Past its retention: the file is gone.
  std::optional<FailureCode> failure;          // Set exactly when failed.
  std::string failure_message;                 // Empty: the code's own.
  std::uint32_t epoch = 0;                     // Grows with every change of an open task.
  Instant next_run_at{};                       // Open, and put back: not taken before.
  // Open, and what it refers to is being fetched, or it was put back because that cannot be yet.
  bool waits_for_reference = false;
};

}  // namespace audiogen
