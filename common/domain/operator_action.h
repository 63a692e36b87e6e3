// What operators tell the running service to do, by the operations port or the command line, and
// how long it holds. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_error.h"

namespace audiogen {

enum class OperatorAction : std::uint8_t {
  kCancelTask,
  kDrainWorker,
  kOpenBreaker,   // Of a provider: it is left alone, whatever its calls come to.
  kCloseBreaker,  // Calls to it pass, whatever they come to.
  kClearBreaker,  // Its breaker is its own again.
  kPauseIntake,   // Creations are refused; all else goes on.
  kResumeIntake,
  kDisableKey,
};
std::string_view action_name(OperatorAction action);  // cancel_task …

inline constexpr std::size_t kReasonMax = 500;       // Characters.
inline constexpr std::size_t kProviderNameMax = 64;  // Bytes.
inline constexpr std::chrono::seconds kOverrideUsual{600}, kOverrideMax{86'400};

// 1 to kReasonMax characters of valid UTF-8, no control characters among them.
bool is_reason(std::string_view text);

struct ActionRequest {
  OperatorAction action = OperatorAction::kCancelTask;
  // A task's id, a worker's, a provider's name, a key's id or its prefix; "" for the intake.
  std::string target{};
  std::string reason{};
  std::chrono::seconds lasts = kOverrideUsual;  // Of an override.
};

// {"action":…,"target":…,"reason":…,"seconds":…}. The error is 400 and names the member at fault;
// it never repeats a value.
Result<ActionRequest, ApiError> parse_action(std::string_view body);
// What is wrong with one that is made otherwise; nullopt: nothing.
std::optional<ApiError> action_fault(const ActionRequest& request);

// What a worker is told of a provider's breaker.
struct BreakerOrder {
  std::string provider{};
  bool open = false;                  // Else it is held closed.
  std::chrono::milliseconds left{0};  // Until it is the breaker's own again.
};
struct WorkerOrders {
  bool drain = false;
  std::uint64_t workers = 1;  // How many take tasks and are not asked to drain; 1 at the least.
  std::vector<BreakerOrder> breakers{};
};

// What operators see of these, as long as they hold.
struct BreakerOverride {
  std::string provider{};
  bool open = false;
  Instant until{};
};
struct IntakePause {
  Instant since{};
  std::string by{}, reason{};
};

}  // namespace audiogen
