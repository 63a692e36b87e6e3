// The catalogue of preset voices: stable public ids (audio 3). Providers map them in configuration.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace audiogen {

// Speaks when a request names none.
inline constexpr std::string_view kDefaultVoice = "aria";

// Every id, sorted.
std::span<const std::string_view> voice_ids();
bool is_voice(std::string_view id);
// "albion, anya, …": for error messages.
std::string voice_list();

}  // namespace audiogen
