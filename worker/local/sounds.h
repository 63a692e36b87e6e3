// The sounds that cues name, made of noise, tones and their envelopes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/domain/cues.h"

namespace audiogen {

inline constexpr int kSoundRate = 24000;  // Hz

// Of a duration that is not negative, rounded.
constexpr std::size_t samples_in(double seconds) {
  return static_cast<std::size_t>(seconds * kSoundRate + 0.5);
}

// `count` samples of an ambience: it neither begins nor ends in them. At its own level.
std::vector<float> make_ambience(Cue cue, std::uint64_t seed, std::size_t count);

// One sound of a cue that is no ambience, from its attack until it has died away: sound_length()
// samples. At its own level.
std::vector<float> make_sound(Cue cue, std::uint64_t seed);

// Samples: of one second to four; none for Cue::kSilence.
std::size_t sound_length(Cue cue);

}  // namespace audiogen
