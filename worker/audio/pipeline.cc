#include "worker/audio/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include <SoundTouch.h>
#include <soxr.h>

#include "worker/audio/codec.h"
#include "worker/audio/loudness.h"

namespace audiogen {
namespace {

constexpr std::size_t kBlockSamples = 8192;
constexpr double kTruePeakMax = 0.891;  // -1 dBTP
constexpr double kFadeSeconds = 0.015;

// Changes length by 1/speed and pitch by `semitones`, each without the other.
std::vector<float> stretch(std::vector<float> samples, int rate, double speed, double semitones) {
  const auto expected =
      static_cast<std::size_t>(std::llround(static_cast<double>(samples.size()) / speed));
  soundtouch::SoundTouch touch;
  touch.setSampleRate(static_cast<unsigned>(rate));
  touch.setChannels(1);
  touch.setTempo(speed);
  touch.setPitchSemiTones(semitones);
  // Lengths in milliseconds that keep speech intact (audio 2.5).
  touch.setSetting(SETTING_SEQUENCE_MS, 40);
  touch.setSetting(SETTING_SEEKWINDOW_MS, 15);
  touch.setSetting(SETTING_OVERLAP_MS, 8);

  std::vector<float> out;
  out.reserve(expected + kBlockSamples);
  const auto drain = [&] {
    while (const unsigned ready = touch.numSamples()) {
      const std::size_t at = out.size();
      out.resize(at + ready);
      touch.receiveSamples(out.data() + at, ready);
    }
  };
  for (std::size_t at = 0; at < samples.size(); at += kBlockSamples) {
    touch.putSamples(samples.data() + at,
                     static_cast<unsigned>(std::min(kBlockSamples, samples.size() - at)));
    drain();
  }
  touch.flush();
  drain();
  out.resize(expected);
  return out;
}

// Multiplies; where that would pass full scale, bends the peaks smoothly instead of cutting them.
void amplify(std::span<float> samples, double factor) {
  constexpr float kKnee = 0.7F, kCeiling = 0.98F;
  const auto gain = static_cast<float>(factor);
  const bool limit = gain > 1.0F && peak_of(samples) * gain > kCeiling;
  for (float& sample : samples) {
    sample *= gain;
    const float level = std::abs(sample);
    if (limit && level > kKnee) {
      const float room = kCeiling - kKnee;
      sample = std::copysign(kKnee + room * std::tanh((level - kKnee) / room), sample);
    }
  }
}

// Exactly round(n * to / from) samples, band-limited to the lower of both rates.
Result<std::vector<float>> resample(std::vector<float> samples, int from, int to) {
  if (from == to) {
    return samples;
  }
  const auto expected = static_cast<std::size_t>(std::llround(
      static_cast<double>(samples.size()) * static_cast<double>(to) / static_cast<double>(from)));
  std::vector<float> out(expected);
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

// Cuts to `count` samples, ending in a short fade so that the cut does not click.
void cut(std::vector<float>& samples, std::size_t count, int rate) {
  samples.resize(count);
  const auto fade = std::min(count, static_cast<std::size_t>(kFadeSeconds * rate));
  for (std::size_t i = 0; i < fade; ++i) {
    const double left = static_cast<double>(fade - 1 - i) / static_cast<double>(fade);
    const double gain = 0.5 - 0.5 * std::cos(std::numbers::pi * left);
    samples[count - fade + i] *= static_cast<float>(gain);
  }
}

}  // namespace

namespace {

// Differences that nobody hears (rounding of what the provider applied) are not worth a pass.
bool stretches(const RenderSpec& spec) {
  return std::abs(spec.speed_remaining - 1.0) > 0.001 || std::abs(spec.pitch_remaining) > 0.01;
}

bool is_format(AudioType type, OutputFormat format) {
  switch (format) {
    case OutputFormat::kMp3:
      return type == AudioType::kMp3;
    case OutputFormat::kWav:
      return type == AudioType::kWav;
    case OutputFormat::kPcm:
      return type == AudioType::kPcmS16Le;
    case OutputFormat::kOggOpus:
      return type == AudioType::kOgg;
  }
  return false;
}

// Is the provider's file what the client asked for, as it is?
bool passes_through(const Audio& audio, const Decoded& decoded, const RenderSpec& spec) {
  const std::size_t samples = decoded.pcm.samples.size();
  const auto rate = static_cast<std::size_t>(spec.sample_rate);
  return is_format(audio.type, spec.format) && decoded.exact && decoded.channels == 1 &&
         decoded.pcm.rate == spec.sample_rate && !stretches(spec) && spec.volume == 1.0 &&
         !spec.target_lufs && samples <= kDurationMaxSeconds * rate &&
         samples * 1000 >= kDurationMinMilliseconds * rate;
}

}  // namespace

RenderSpec render_spec(const GenerationRequest& request, const Audio& audio) {
  return RenderSpec{.format = request.output_format,
                    .sample_rate = request.sample_rate,
                    .speed_remaining = request.speed / audio.speed_applied,
                    .pitch_remaining = request.pitch - audio.pitch_applied,
                    .volume = request.volume,
                    .target_lufs = audio.target_lufs};
}

Result<Rendered, PipelineFault> render(Audio audio, const RenderSpec& spec, Decoder& decoder) {
  using Kind = PipelineFault::Kind;
  // One second more than can be delivered is enough to see that there is more, whatever the source
  // holds.
  const double seconds_needed = (kDurationMaxSeconds + 1) * spec.speed_remaining;
  auto decoded = decoder.decode(audio, seconds_needed);
  if (!decoded) {
    const bool ours = decoded.error().kind == DecodeFault::Kind::kUnavailable;
    return PipelineFault{ours ? Kind::kNoDecoder : Kind::kUndecodable, decoded.error().detail};
  }
  if (peak_of(decoded->pcm.samples) < kSilencePeak) {
    return PipelineFault{Kind::kSilent, "silence"};
  }
  if (passes_through(audio, *decoded, spec)) {
    Rendered out;
    out.samples = decoded->pcm.samples.size();
    out.rate = spec.sample_rate;
    out.passed_through = true;
    out.bytes = std::move(audio.bytes);
    out.sha256 = sha256(out.bytes);
    return out;
  }
  audio = {};
  const int source_rate = decoded->pcm.rate;
  std::vector<float> samples = std::move(decoded->pcm.samples);
  if (stretches(spec)) {
    samples = stretch(std::move(samples), source_rate, spec.speed_remaining, spec.pitch_remaining);
  }

  Rendered out;
  if (spec.target_lufs) {
    const std::optional<Loudness> loudness = measure_loudness(samples, source_rate);
    if (!loudness) {
      return PipelineFault{Kind::kInternal, "loudness not measurable"};
    }
    out.loudness_lufs = loudness->lufs;
    amplify(samples,
            std::min(std::pow(10.0, (*spec.target_lufs - loudness->lufs) / 20.0),
                     kTruePeakMax / loudness->true_peak));
  }
  if (spec.volume != 1.0) {
    amplify(samples, spec.volume);
  }

  Result<std::vector<float>> resampled =
      resample(std::move(samples), source_rate, spec.sample_rate);
  if (!resampled) {
    return PipelineFault{Kind::kInternal, resampled.error().message};
  }
  samples = *std::move(resampled);
  const auto samples_max =
      static_cast<std::size_t>(kDurationMaxSeconds) * static_cast<std::size_t>(spec.sample_rate);
  if (samples.size() > samples_max) {
    cut(samples, samples_max, spec.sample_rate);
    out.truncated = true;
  }
  if (samples.size() * 1000 < static_cast<std::size_t>(kDurationMinMilliseconds) *
                                  static_cast<std::size_t>(spec.sample_rate)) {
    return PipelineFault{Kind::kTooShort, "too short"};
  }

  Result<std::string> encoded = encode(spec.format, samples, spec.sample_rate);
  if (!encoded) {
    return PipelineFault{Kind::kInternal, encoded.error().message};
  }
  out.samples = samples.size();
  samples = {};
  out.bytes = *std::move(encoded);
  // The client pays for what a decoder finds, so a decoder is asked.
  const Result<std::uint64_t> check = decoded_samples(spec.format, out.bytes, spec.sample_rate);
  if (!check) {
    return PipelineFault{Kind::kInternal, check.error().message};
  }
  if (*check != out.samples) {
    return PipelineFault{Kind::kInternal, "the encoded file has another length"};
  }
  out.rate = spec.sample_rate;
  out.sha256 = sha256(out.bytes);
  return out;
}

}  // namespace audiogen
