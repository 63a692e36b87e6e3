// Measuring and resampling mono sound. Pure functions, thread-safe.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"

namespace audiogen {

// Nothing reaches -60 dBFS.
bool is_silent(std::span<const float> samples);

// The largest absolute value.
float peak_of(std::span<const float> samples);

struct Loudness {
  double lufs;
  double true_peak;  // 1 is full scale
};

// ITU-R BS.1770 integrated loudness; of clips too short or too quiet for its gate, the plain level.
// `rate` in Hz. Nullopt when it cannot be measured.
std::optional<Loudness> measure_loudness(std::span<const float> samples, int rate);

// Exactly round(n * to / from) samples, band-limited to the lower of both rates (Hz).
Result<std::vector<float>> resample(std::span<const float> samples, int from, int to);

}  // namespace audiogen
