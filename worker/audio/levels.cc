#include "worker/audio/levels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>

#include <ebur128.h>
#include <soxr.h>

#include "worker/audio/block.h"

namespace audiogen {
namespace {

// EBU R128 gates blocks of 400 ms; below one block it has nothing to say.
constexpr double kLoudnessBlockSeconds = 0.4;

}  // namespace

bool is_silent(std::span<const float> samples, float peak) {
  // Ends at the first sample that is heard, which is near the beginning of nearly everything.
  return std::none_of(
      samples.begin(), samples.end(), [peak](float sample) { return std::abs(sample) >= peak; });
}

float peak_of(std::span<const float> samples) {
  float peak = 0;
  for (const float sample : samples) {
    peak = std::max(peak, std::abs(sample));
  }
  return peak;
}

void remove_dc(std::span<float> samples, int rate) {
  constexpr double kCornerHz = 20;
  const double kept = std::exp(-2 * std::numbers::pi * kCornerHz / rate);
  double before = 0, out = 0;
  for (float& sample : samples) {
    const auto in = static_cast<double>(sample);
    out = kept * out + (1 + kept) / 2 * (in - before);
    before = in;
    sample = static_cast<float>(out);
  }
}

TruePeakMeter::TruePeakMeter(int rate)
    : state_(ebur128_init(1, static_cast<unsigned long>(rate), EBUR128_MODE_TRUE_PEAK)) {}

void TruePeakMeter::Destroy::operator()(ebur128_state* state) const {
  ebur128_destroy(&state);
}

std::optional<double> TruePeakMeter::add(std::span<const float> samples) {
  double peak = 0;
  if (!state_ ||
      ebur128_add_frames_float(state_.get(), samples.data(), samples.size()) != EBUR128_SUCCESS ||
      ebur128_prev_true_peak(state_.get(), 0, &peak) != EBUR128_SUCCESS) {
    return std::nullopt;
  }
  return peak;
}

std::optional<Loudness> measure_loudness(std::span<const float> samples, int rate) {
  struct Destroy {
    void operator()(ebur128_state* state) const { ebur128_destroy(&state); }
  };
  const std::unique_ptr<ebur128_state, Destroy> state(
      ebur128_init(1, static_cast<unsigned long>(rate), EBUR128_MODE_I | EBUR128_MODE_TRUE_PEAK));
  Loudness out{};
  if (!state ||
      ebur128_add_frames_float(state.get(), samples.data(), samples.size()) != EBUR128_SUCCESS ||
      ebur128_loudness_global(state.get(), &out.lufs) != EBUR128_SUCCESS ||
      ebur128_true_peak(state.get(), 0, &out.true_peak) != EBUR128_SUCCESS) {
    return std::nullopt;
  }
  if (static_cast<double>(samples.size()) < kLoudnessBlockSeconds * rate ||
      !std::isfinite(out.lufs)) {
    double energy = 0;
    for (const float sample : samples) {
      energy += static_cast<double>(sample) * static_cast<double>(sample);
    }
    // BS.1770's constant, which makes a 1 kHz tone read its own level.
    out.lufs = -0.691 + 10 * std::log10(energy / static_cast<double>(samples.size()));
  }
  // Of nothing but zeros there is no level: a gain made of it would turn every sample into no
  // number at all.
  return std::isfinite(out.lufs) ? std::optional(out) : std::nullopt;
}

Result<std::vector<float>> resample(std::span<const float> samples, int from, int to) {
  const auto expected = static_cast<std::size_t>(std::llround(
      static_cast<double>(samples.size()) * static_cast<double>(to) / static_cast<double>(from)));
  std::vector<float> out(expected);
  if (out.empty()) {
    return out;  // soxr would read from the null pointer of nothing
  }
  const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);  // one thread: jobs are the parallelism
  soxr_error_t error = nullptr;
  struct Delete {
    void operator()(soxr* resampler) const { soxr_delete(resampler); }
  };
  const std::unique_ptr<soxr, Delete> resampler(soxr_create(
      static_cast<double>(from), static_cast<double>(to), 1, &error, &io, &quality, &runtime));
  // In blocks: given everything at once, it keeps a copy of everything.
  std::size_t taken = 0, made = 0;
  for (bool more = true; more && error == nullptr;) {
    const std::size_t count = std::min(kBlockSamples, samples.size() - taken);
    std::size_t in = 0, out_count = 0;
    // A null input says that the last sample was given.
    error = soxr_process(resampler.get(),
                         count > 0 ? samples.data() + taken : nullptr,
                         count,
                         &in,
                         out.data() + made,
                         out.size() - made,
                         &out_count);
    taken += in;
    made += out_count;
    more = in > 0 || out_count > 0;
  }
  if (error != nullptr) {
    return Error{error};
  }
  // Rounding inside may leave the last sample unwritten: it stays zero.
  return out;
}

}  // namespace audiogen
