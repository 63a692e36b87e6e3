// A task: its states, why it failed, what a queue message says of it, and what a client sees. How
// it moves from state to state: lifecycle.h.
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

constexpr bool is_final(TaskState state) {
  return state >= TaskState::kSucceeded;
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
// All that there are of these.
inline constexpr std::array kFailureCodes = {FailureCode::kProviderUnavailable,
                                             FailureCode::kProviderRejected,
                                             FailureCode::kContentRejected,
                                             FailureCode::kUnsupportedInput,
                                             FailureCode::kReferenceUnavailable,
                                             FailureCode::kDeadlineExceeded,
                                             FailureCode::kInternalError};
std::string_view failure_code_name(FailureCode code);
std::string_view failure_message(
    FailureCode code);  // For codes whose task carries no message of its own.
// The message of an unsupported input of which it is known that it is the prompt's script.
inline constexpr std::string_view kNoVoiceMessage =
    "The prompt has parts in a script or language that no voice reads; write them in one that has "
    "a voice, or leave them out.";
bool failure_retriable(FailureCode code);  // May the same request succeed when sent again?

// How an open task comes to the workers (shares.h). Stored.
enum class Lane : std::uint8_t {
  kBulk = 0,     // In turn with everybody else's.
  kExpress = 1,  // Before those: its user has little under way.
  kParked = 2,   // Not yet: its user has enough under way.
};

// What a queue message says: task `task` may be ready at epoch `epoch`. Only a hint; the database
// decides.
struct Hint {
  TaskId task;
  std::uint32_t epoch = 0;
  Lane lane = Lane::kBulk;  // By which it is sent; no part of what it says.
  friend bool operator==(const Hint& a, const Hint& b) {
    return a.task == b.task && a.epoch == b.epoch;
  }
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
  Lane lane = Lane::kBulk;                     // Open: how it comes to the workers.
  // Open, and what it refers to is being fetched, or it was put back because that could not be.
  bool waits_for_reference = false;
};

}  // namespace audiogen
