#include "worker/audio/loudness.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <ebur128.h>

namespace audiogen {
namespace {

// EBU R128 gates blocks of 400 ms; below one block it has nothing to say.
constexpr double kBlockSeconds = 0.4;

}  // namespace

std::optional<Loudness> measure_loudness(std::span<const float> samples, int rate) {
  struct Destroy {
    void operator()(ebur128_state* state) const { ebur128_destroy(&state); }
  };
  const std::unique_ptr<ebur128_state, Destroy> state(
      ebur128_init(1, static_cast<unsigned long>(rate), EBUR128_MODE_I | EBUR128_MODE_TRUE_PEAK));
  Loudness out{};
  if (samples.empty() || !state ||
      ebur128_add_frames_float(state.get(), samples.data(), samples.size()) != EBUR128_SUCCESS ||
      ebur128_loudness_global(state.get(), &out.lufs) != EBUR128_SUCCESS ||
      ebur128_true_peak(state.get(), 0, &out.true_peak) != EBUR128_SUCCESS) {
    return std::nullopt;
  }
  if (static_cast<double>(samples.size()) < kBlockSeconds * rate || !std::isfinite(out.lufs)) {
    double energy = 0;
    for (const float sample : samples) {
      energy += static_cast<double>(sample) * static_cast<double>(sample);
    }
    // BS.1770's constant, which makes a 1 kHz tone read its own level.
    out.lufs = -0.691 + 10 * std::log10(energy / static_cast<double>(samples.size()));
  }
  return out;
}

float peak_of(std::span<const float> samples) {
  float peak = 0;
  for (const float sample : samples) {
    peak = std::max(peak, std::abs(sample));
  }
  return peak;
}

}  // namespace audiogen
