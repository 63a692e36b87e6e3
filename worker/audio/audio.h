// Sound as a provider hands it over: still encoded, not yet shaped to the request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace audiogen {

enum class AudioType : std::uint8_t { kPcmS16Le, kWav, kMp3, kFlac, kOgg };

struct Audio {
  std::string bytes;
  AudioType type = AudioType::kPcmS16Le;
  int rate = 0;      // Hz; kPcmS16Le only, the other types carry theirs
  int channels = 1;  // kPcmS16Le only
  // What the provider has already done of the request; the pipeline does the rest.
  double speed_applied = 1.0;
  double pitch_applied = 0.0;  // semitones
  // The level carries no intent (a synthesiser's raw output): bring it to this loudness.
  std::optional<double> target_lufs;
};

// Mono sound; full scale is -1..1.
struct Pcm {
  std::vector<float> samples;
  int rate = 0;  // Hz
};

struct Decoded {
  Pcm pcm;
  int channels = 1;  // of the source
  // What a player would play is exactly this: the header is honest, nothing is left over, and of a
  // container with several kinds of content (WAV, Ogg) it is the kind that we deliver: 16-bit PCM,
  // Opus whose header names `pcm.rate`.
  bool exact = false;
};

}  // namespace audiogen
