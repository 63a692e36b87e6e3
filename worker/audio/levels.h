// Measuring and resampling mono sound. Pure functions, thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ebur128.h>

#include "common/base/result.h"

namespace audiogen {

inline constexpr float kSilencePeak = 0.001F;  // -60 dBFS
// Of a synthesiser's raw output, before it is brought to its level: what an engine puts out that
// has nothing to say stays below (flite 0.0034), and the quietest voice is far above (0.2).
inline constexpr float kUnspokenPeak = 0.005F;

// Nothing reaches `peak`.
bool is_silent(std::span<const float> samples, float peak = kSilencePeak);

// The largest absolute value.
float peak_of(std::span<const float> samples);

// Takes a constant part away, as a filter that lets everything above 20 Hz pass.
void remove_dc(std::span<float> samples, int rate);

// Finds true peaks: those between the samples, too (ITU-R BS.1770, annex 2).
class TruePeakMeter {
 public:
  explicit TruePeakMeter(int rate);  // Hz

  // The peak of what `samples` end; the filter answers a few samples late. Nullopt when it cannot
  // be measured.
  std::optional<double> add(std::span<const float> samples);

 private:
  struct Destroy {
    void operator()(ebur128_state* state) const;
  };
  std::unique_ptr<ebur128_state, Destroy> state_;
};

struct Loudness {
  double lufs;
  double true_peak;  // 1 is full scale
};

// ITU-R BS.1770 integrated loudness; of clips too short or too quiet for its gate, the plain level.
// `rate` in Hz. Nullopt when it cannot be measured, as of zeros alone.
std::optional<Loudness> measure_loudness(std::span<const float> samples, int rate);

// Exactly round(n * to / from) samples, band-limited to the lower of both rates (Hz).
Result<std::vector<float>> resample(std::span<const float> samples, int from, int to);

}  // namespace audiogen
