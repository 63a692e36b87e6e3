// The request header Prefer (RFC 7240).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace audiogen {

// The longest that an answer is held back.
inline constexpr std::chrono::seconds kWaitMax{25};

// How long the client prefers to wait for an answer: "wait" in `prefer`, all Prefer lines joined by
// commas, between 1 and kWaitMax; more counts as kWaitMax, and of several the first counts. Nullopt
// when there is none or it is none of that: a preference is never an error. Pure.
std::optional<std::chrono::seconds> preferred_wait(std::string_view prefer);

}  // namespace audiogen
