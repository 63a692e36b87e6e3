#include "common/domain/operator_action.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/ids.h"
#include "common/base/utf8.h"
#include "common/domain/json_object.h"

namespace audiogen {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"cancel_task",
                                                    "drain_worker",
                                                    "open_breaker",
                                                    "close_breaker",
                                                    "clear_breaker",
                                                    "pause_intake",
                                                    "resume_intake",
                                                    "disable_key"};
constexpr std::array<std::string_view, 4> kMembers = {"action", "target", "reason", "seconds"};

bool is_text(std::string_view text, std::size_t characters_max) {
  return !text.empty() && text == clip_utf8(text, characters_max) &&
         std::none_of(text.begin(), text.end(), ascii::is_control);
}

bool overrides(OperatorAction action) {
  return action == OperatorAction::kOpenBreaker || action == OperatorAction::kCloseBreaker;
}

// What the target must be; "" where it is that.
std::string_view target_rule(OperatorAction action, std::string_view target) {
  constexpr std::size_t kPrefixMax = 40;
  switch (action) {
    case OperatorAction::kCancelTask:
      return TaskId::parse(target) ? "" : "must be a task's id (aud_...).";
    case OperatorAction::kDrainWorker:
      return WorkerId::parse(target) ? "" : "must be a worker's id, as admin queue shows it.";
    case OperatorAction::kOpenBreaker:
    case OperatorAction::kCloseBreaker:
    case OperatorAction::kClearBreaker:
      return is_text(target, kProviderNameMax) ? "" : "must be the name of a provider.";
    case OperatorAction::kDisableKey:
      return KeyId::parse(target) || is_text(target, kPrefixMax)
                 ? ""
                 : "must be a key's id (key_...) or its prefix.";
    case OperatorAction::kPauseIntake:
    case OperatorAction::kResumeIntake:
      break;
  }
  return target.empty() ? "" : "must be left out: there is one intake.";
}

}  // namespace

std::string_view action_name(OperatorAction action) {
  return kNames[static_cast<std::size_t>(action)];
}

bool is_reason(std::string_view text) {
  return is_text(text, kReasonMax);
}

std::optional<ApiError> action_fault(const ActionRequest& request) {
  if (const auto rule = target_rule(request.action, request.target); !rule.empty()) {
    return wrong_member("target", rule);
  }
  if (!is_reason(request.reason)) {
    return wrong_member("reason",
                        "must be 1 to " + std::to_string(kReasonMax) +
                            " characters of UTF-8, no control characters among them.");
  }
  if (request.lasts < std::chrono::seconds(1) || request.lasts > kOverrideMax) {
    return wrong_member(
        "seconds",
        "must be a whole number from 1 to " + std::to_string(kOverrideMax.count()) + ".");
  }
  return std::nullopt;
}

Result<ActionRequest, ApiError> parse_action(std::string_view body) {
  const auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  std::array<const rapidjson::Value*, kMembers.size()> found{};
  for (const auto& member : document->GetObject()) {
    const auto at = std::find(kMembers.begin(), kMembers.end(), text_of(member.name));
    if (at == kMembers.end()) {
      return unknown_member(text_of(member.name));
    }
    auto& value = found[static_cast<std::size_t>(at - kMembers.begin())];
    if (value != nullptr) {
      return wrong_member(*at, "must be there only once.");
    }
    value = &member.value;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (found[i] != nullptr && !found[i]->IsString()) {
      return wrong_member(kMembers[i], "must be a string.");
    }
  }
  const auto text = [&](std::size_t i) {
    return found[i] == nullptr ? std::string() : std::string(text_of(*found[i]));
  };
  const auto name = std::find(kNames.begin(), kNames.end(), text(0));
  if (name == kNames.end()) {
    std::string rule = "must be one of";
    for (const std::string_view one : kNames) {
      rule += " " + std::string(one);
    }
    return wrong_member("action", rule + ".");
  }
  ActionRequest out{.action = static_cast<OperatorAction>(name - kNames.begin()),
                    .target = text(1),
                    .reason = text(2)};
  if (const auto* const seconds = found[3]; seconds != nullptr) {
    if (!overrides(out.action)) {
      return wrong_member("seconds", "must be left out: what is done does not end by itself.");
    }
    // What is no such number is none of those that are allowed.
    out.lasts = std::chrono::seconds(seconds->IsInt() ? seconds->GetInt() : 0);
  }
  if (auto fault = action_fault(out)) {
    return *std::move(fault);
  }
  return out;
}

}  // namespace audiogen
