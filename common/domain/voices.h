// The catalogue of preset voices: stable public ids. Providers map them in configuration.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace audiogen {

// Speaks when a request names none.
inline constexpr std::string_view kDefaultVoice = "aria";
// Asks for what the prompt describes, however it is written, and not for anybody to read it. What
// is read all the same, because nobody can do better, the default voice reads.
inline constexpr std::string_view kSceneVoice = "scene";

struct Voice {
  std::string_view id;
  std::string_view name;         // For people.
  std::string_view language;     // BCP 47: the one it speaks best; empty: it does not speak.
  std::string_view description;  // For people: how it sounds, whoever provides it.
  std::string_view sample;       // What it says to be heard before it is chosen, in its language.
};

// All of them, by id.
std::span<const Voice> voices();
bool is_voice(std::string_view id);
// The voice that a request with this one asks to hear speaking; nullopt: it asks for nobody's.
std::optional<std::string_view> speaker(const std::optional<std::string>& voice);
// "albion, anya, …": for error messages.
std::string voice_list();

}  // namespace audiogen
