// How the built-in engine speaks each preset voice.
#pragma once

#include <string_view>

namespace audiogen {

struct LocalVoice {
  std::string_view id;        // common/domain/voices.h
  std::string_view language;  // espeak-ng voice
  std::string_view variant;   // espeak-ng variant, kept when a text changes language; may be empty
  double rate = 1.0;          // times the normal speed
  double pitch = 0.0;         // semitones from the voice's own
};

// Null for an id that is not in the catalogue.
const LocalVoice* find_local_voice(std::string_view id);

}  // namespace audiogen
