// Sounds that a prompt asks for by name, in brackets of their own: "[rain]", "( Door )". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace audiogen {

enum class Cue : std::uint8_t {
  kApplause,
  kBell,
  kBirds,
  kClock,
  kCrickets,
  kDoor,
  kFire,
  kFootsteps,
  kHeartbeat,
  kKnock,
  kRain,
  kSilence,
  kSiren,
  kThunder,
  kWaves,
  kWind,
};

struct CueName {
  std::string_view name;  // in lower case
  Cue cue;
  // Goes on under what follows it. What does not stands between the words.
  bool ambience = false;
};

// All of them, by name.
std::span<const CueName> cue_names();

// Of a cue that is one of cue_names(), which all are.
bool is_ambience(Cue cue);

// A piece of a prompt: words as they stand there, or a cue.
struct ScriptPart {
  std::string_view words;  // empty where there is a cue
  std::optional<Cue> cue{};
  friend bool operator==(const ScriptPart&, const ScriptPart&) = default;
};

// Cuts a prompt at its cues. A cue is a name of cue_names(), in either case and with spaces or tabs
// around it, that has a pair of brackets or parentheses to itself; whatever else brackets hold are
// words, and so is all of it where another pair encloses them. A prompt without cues is one part.
// Parts point into `prompt`. Takes time by its length alone.
std::vector<ScriptPart> split_cues(std::string_view prompt);

// Whether split_cues() finds any.
bool has_cues(std::string_view prompt);

}  // namespace audiogen
