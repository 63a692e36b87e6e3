// Why a call to a provider failed, as far as its owner may know: what the provider said is for
// operators, and may name it.
#pragma once

#include <cstdint>
#include <string_view>

namespace audiogen {

enum class CallFailure : std::uint8_t {
  kOther,
  kBusy,      // Asked too much, or no room: it may have some later.
  kRefused,   // Not as it was asked for.
  kTrouble,   // A fault of its own.
  kUnusable,  // What it sent cannot be delivered.
};

// How the detail of a call begins whose audio cannot be delivered.
inline constexpr std::string_view kBadAudio = "bad audio: ";

// By the detail that the call was recorded with, which begins with "HTTP <status>" or with
// kBadAudio where one of these was why. RFC 9110, 15.5 and 15.6; RFC 6585, 4; 529 is what some
// say when all of them are too many.
CallFailure call_failure(std::string_view detail);

}  // namespace audiogen
