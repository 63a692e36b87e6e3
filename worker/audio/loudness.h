// Loudness by EBU R128 (ITU-R BS.1770).
#pragma once

#include <optional>
#include <span>

namespace audiogen {

struct Loudness {
  double lufs = 0;  // integrated; of clips too short or too quiet for its gate, the plain level
  double true_peak = 0;  // amplitude between samples; full scale is 1
};

// Of mono samples at `rate` Hz. Nullopt: cannot be measured (no samples, no memory). Pure.
std::optional<Loudness> measure_loudness(std::span<const float> samples, int rate);

// The highest absolute sample.
float peak_of(std::span<const float> samples);

inline constexpr float kSilencePeak = 0.001F;  // -60 dBFS: below it there is nothing to hear

}  // namespace audiogen
