// How the built-in engine speaks each preset voice.
#pragma once

#include <cstdint>
#include <string_view>

namespace audiogen {

// English is spoken by flite, of whose voices each is a recorded person.
struct EnglishVoice {
  std::string_view name;  // "slt" and "rms" are Americans, a woman and a man; "awb" is a Scotsman
  double pitch = 0.0;     // semitones from the voice's own
  double breath = 0.0;    // 0 to 1: how much of its tone gives way to noise
};

struct LocalVoice {
  std::string_view id;        // common/domain/voices.h
  std::string_view language;  // espeak-ng voice
  std::string_view variant;   // espeak-ng variant, kept when a text changes language; may be empty
  EnglishVoice english;
  double rate = 1.0;        // times the normal speed
  std::int32_t pitch = 50;  // espeak-ng's parameter, 0 to 99
};

// Null for an id that is not in the catalogue.
const LocalVoice* find_local_voice(std::string_view id);

}  // namespace audiogen
