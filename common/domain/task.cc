#include "common/domain/task.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace audiogen {
namespace {

constexpr std::array<std::string_view, 5> kStateNames = {
    "queued", "running", "succeeded", "failed", "canceled"};

struct Failure {
  std::string_view name;
  std::string_view message;
  bool retriable;
};

// In the order of FailureCode.
constexpr std::array<Failure, 7> kFailures = {
    Failure{"provider_unavailable",
            "Audio generation is temporarily unavailable; send the request again later.",
            true},
    Failure{"provider_rejected",
            "The request could not be generated as it is; change it before sending it again.",
            false},
    Failure{"content_rejected",
            "The prompt or a reference was refused by the content rules; change it before sending "
            "it again.",
            false},
    Failure{"unsupported_input",
            "Nothing in the prompt can be made audible, or this combination of prompt, voice, "
            "references, image and parameters cannot be generated at present.",
            false},
    Failure{"reference_unavailable",
            "A reference or the image could not be fetched; check that its address is public and "
            "serves a supported file.",
            true},
    Failure{"deadline_exceeded",
            "The generation did not finish in time; send the request again.",
            true},
    Failure{"internal_error", "The generation failed; send the request again.", true}};

const Failure& failure(FailureCode code) {
  const auto index = static_cast<std::size_t>(code) - 1;
  AG_CHECK(index < kFailures.size());
  return kFailures[index];
}

}  // namespace

std::string_view public_status(TaskState state, std::uint32_t claims) {
  switch (state) {
    case TaskState::kQueued:
      return claims == 0 ? "processing" : "queued";
    case TaskState::kRunning:
      return "processing";
    case TaskState::kSucceeded:
    case TaskState::kFailed:
    case TaskState::kCanceled:
      break;
  }
  return state_name(state);
}

std::string_view state_name(TaskState state) {
  const auto index = static_cast<std::size_t>(state) - 1;
  AG_CHECK(index < kStateNames.size());
  return kStateNames[index];
}

std::optional<TaskState> parse_state(std::string_view name) {
  const auto found = std::find(kStateNames.begin(), kStateNames.end(), name);
  if (found == kStateNames.end()) {
    return std::nullopt;
  }
  return static_cast<TaskState>(found - kStateNames.begin() + 1);
}

std::string_view failure_code_name(FailureCode code) {
  return failure(code).name;
}

std::string_view failure_message(FailureCode code) {
  return failure(code).message;
}

bool failure_retriable(FailureCode code) {
  return failure(code).retriable;
}

}  // namespace audiogen
