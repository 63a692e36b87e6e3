#include "worker/audio/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "worker/audio/codec.h"
#include "worker/audio/levels.h"
#include "worker/audio/limiter.h"
#include "worker/audio/stretch.h"
#include "worker/audio/tags.h"

namespace audiogen {
namespace {

// Here, so that they are told from the start.
metrics::Histogram& times(const char* step) {
  return metrics::histogram(
      "codec_seconds", "What the steps took by which audio is shaped", {{"step", step}});
}
metrics::Histogram& decoding = times("decode");
metrics::Histogram& stretching = times("stretch");
metrics::Histogram& leveling = times("level");
metrics::Histogram& limiting = times("limit");
metrics::Histogram& resampling = times("resample");
metrics::Histogram& encoding = times("encode");
metrics::Histogram& checking = times("check");

// `step`, timed.
template <class Step>
auto timed(metrics::Histogram& time, const Step& step) {
  const auto began = std::chrono::steady_clock::now();
  auto result = step();
  time.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return result;
}

constexpr double kFadeSeconds = 0.015;
constexpr int kEncodingsMax = 4;
constexpr double kQuieter = 0.97;  // of full scale, where an encoder had passed it

// How high peaks may come before they are encoded. What MP3 and Opus leave out makes some of them
// higher, at their bit rates by so much (README.md, "Peaks").
double ceiling_for(OutputFormat format) {
  constexpr double kExact = 0.891, kMp3 = 0.841, kOpus = 0.708;  // -1, -1.5 and -3 dBTP
  switch (format) {
    case OutputFormat::kMp3:
      return kMp3;
    case OutputFormat::kOggOpus:
      return kOpus;
    case OutputFormat::kWav:
    case OutputFormat::kPcm:
      break;
  }
  return kExact;
}

void amplify(std::span<float> samples, double factor) {
  for (float& sample : samples) {
    sample *= static_cast<float>(factor);
  }
}

// Brings a synthesiser's sound to `lufs` with its peaks under `ceiling`. Returns how loud it was;
// nullopt when it cannot be measured.
std::optional<double> normalise(std::span<float> samples, int rate, double lufs, double ceiling) {
  constexpr double kCloseEnough = 0.2;  // LU
  constexpr int kRounds = 4;
  remove_dc(samples, rate);
  std::optional<double> was;
  // Turning peaks down takes loudness away: what is missing is given once more.
  for (int round = 0; round < kRounds; ++round) {
    const std::optional<Loudness> loudness = measure_loudness(samples, rate);
    if (!loudness) {
      return std::nullopt;
    }
    was = was.value_or(loudness->lufs);
    const double missing = lufs - loudness->lufs;
    if (round > 0 && std::abs(missing) < kCloseEnough) {
      break;
    }
    amplify(samples, std::pow(10.0, missing / 20.0));
    if (!limit_peaks(samples, rate, ceiling)) {
      return std::nullopt;
    }
  }
  return was;
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

bool is_too_short(std::uint64_t samples, int rate) {
  return samples * 1000 <
         static_cast<std::uint64_t>(kDurationMinMilliseconds) * static_cast<std::uint64_t>(rate);
}

// The most samples that are delivered.
std::uint64_t samples_max(const RenderSpec& spec) {
  return static_cast<std::uint64_t>(spec.duration_max_ms) *
         static_cast<std::uint64_t>(spec.sample_rate) / 1000;
}

// Headerless samples are mono by promise: nothing in them could say otherwise.
bool may_have(int channels, const RenderSpec& spec) {
  return channels == 1 || (channels == 2 && spec.stereo && spec.format != OutputFormat::kPcm);
}

// The file is what was asked for, to the last byte, and every player agrees on its length.
bool is_ready(const std::optional<ExactFile>& file, const RenderSpec& spec) {
  return file && file->format == spec.format && file->rate == spec.sample_rate &&
         may_have(file->channels, spec) && !needs_stretch(spec) && spec.volume == 1.0 &&
         !spec.target_lufs && !is_too_short(file->samples, file->rate) &&
         file->samples <= samples_max(spec);
}

// `bare` is the part of `bytes` that a client may have; `bytes` may be moved from.
Rendered pass_through(std::string& bytes, std::string_view bare, const ExactFile& file) {
  Rendered out;
  out.bytes = bare.size() == bytes.size() ? std::move(bytes) : std::string(bare);
  out.samples = file.samples;
  out.rate = file.rate;
  out.passed_through = true;
  out.checksum = checksum(out.bytes);
  return out;
}

bool is_all_silent(const PlainSound& sound) {
  std::array<float, 512> block;
  for (std::size_t at = 0, count = 0; (count = read_samples(sound, at, block)) > 0; at += count) {
    if (!is_silent(std::span(block).first(count))) {
      return false;
    }
  }
  return true;
}

PipelineFault silence() {
  return {PipelineFault::Kind::kSilent, "silence"};
}

}  // namespace

RenderSpec render_spec(const GenerationRequest& request, const Audio& audio) {
  return RenderSpec{.format = request.output_format,
                    .sample_rate = request.sample_rate,
                    .speed_remaining = request.speed / audio.speed_applied,
                    .pitch_remaining = request.pitch - audio.pitch_applied,
                    .volume = request.volume,
                    .target_lufs = audio.target_lufs,
                    .stereo = audio.stereo,
                    .duration_max_ms = longest_ms(request.max_credits)};
}

bool needs_stretch(const RenderSpec& spec) {
  return std::abs(spec.speed_remaining - 1.0) > 0.001 || std::abs(spec.pitch_remaining) > 0.01;
}

Result<Rendered, PipelineFault> render(Audio&& audio, const RenderSpec& spec, Decoder& decoder) {
  using Kind = PipelineFault::Kind;
  if (const auto plain = plain_of(audio)) {
    const auto file = exact_file(audio, *plain);
    const auto bare = is_ready(file, spec) ? without_tags(audio) : std::nullopt;
    if (bare) {
      return is_all_silent(*plain) ? Result<Rendered, PipelineFault>(silence())
                                   : pass_through(audio.bytes, *bare, *file);
    }
  }
  // One second more than can be delivered is enough to see that there is more, whatever the source
  // holds.
  const double seconds_needed =
      (static_cast<double>(spec.duration_max_ms) / 1000 + 1) * spec.speed_remaining;
  Result<Decoded, DecodeFault> decoded =
      timed(decoding, [&] { return decoder.decode(audio, seconds_needed); });
  if (!decoded) {
    return PipelineFault{decoded.error() == DecodeFault::kUnavailable ? Kind::kNoDecoder
                         : decoded.error() == DecodeFault::kEmpty     ? Kind::kEmpty
                                                                      : Kind::kUndecodable,
                         describe(decoded.error())};
  }
  const int source_rate = decoded->pcm.rate;
  std::vector<float> samples = std::move(decoded->pcm.samples);
  const float heard_from = spec.target_lufs ? kUnspokenPeak : kSilencePeak;
  if (is_silent(samples, heard_from)) {
    return silence();
  }

  if (is_ready(decoded->exact, spec)) {
    if (const auto bare = without_tags(audio)) {
      return pass_through(audio.bytes, *bare, *decoded->exact);
    }
  }
  if (needs_stretch(spec)) {
    samples = timed(stretching, [&] {
      return stretch(std::move(samples), source_rate, spec.speed_remaining, spec.pitch_remaining);
    });
  }

  Rendered out;
  if (source_rate != spec.sample_rate) {
    Result<std::vector<float>> resampled =
        timed(resampling, [&] { return resample(samples, source_rate, spec.sample_rate); });
    if (!resampled) {
      return PipelineFault{Kind::kInternal, resampled.error().message};
    }
    samples = *std::move(resampled);
  }
  if (const std::uint64_t most = samples_max(spec); samples.size() > most) {
    cut(samples, most, spec.sample_rate);
    out.truncated = true;
  }
  if (is_too_short(samples.size(), spec.sample_rate)) {
    return PipelineFault{Kind::kTooShort, "too short"};
  }
  // Once more: all that was heard may have been in what was cut off, or above what this rate holds.
  if (is_silent(samples, heard_from)) {
    return silence();
  }

  // At the rate that is delivered: resampling moves peaks, and takes away what was heard of others.
  const double ceiling = ceiling_for(spec.format);
  if (spec.target_lufs) {
    out.loudness_lufs = timed(
        leveling, [&] { return normalise(samples, spec.sample_rate, *spec.target_lufs, ceiling); });
    if (!out.loudness_lufs) {
      return PipelineFault{Kind::kInternal, "loudness not measurable"};
    }
  }
  if (spec.volume != 1.0) {
    amplify(samples, spec.volume);
  }
  if (!timed(limiting, [&] { return limit_peaks(samples, spec.sample_rate, ceiling); })) {
    return PipelineFault{Kind::kInternal, "peaks not measurable"};
  }

  out.samples = samples.size();
  // Where an encoder has moved peaks past full scale all the same, once more a little quieter.
  for (int tries = 1;; ++tries) {
    Result<std::string> encoded =
        timed(encoding, [&] { return encode(spec.format, samples, spec.sample_rate); });
    if (!encoded) {
      return PipelineFault{Kind::kInternal, encoded.error().message};
    }
    out.bytes = *std::move(encoded);
    // The client pays for what a decoder finds, so a decoder is asked.
    double peak = 0;
    const Result<std::uint64_t> check = timed(
        checking, [&] { return decoded_samples(spec.format, out.bytes, spec.sample_rate, &peak); });
    if (!check) {
      return PipelineFault{Kind::kInternal, check.error().message};
    }
    if (*check != out.samples) {
      return PipelineFault{Kind::kInternal, "the encoded file has another length"};
    }
    if (peak <= 1.0 || tries == kEncodingsMax) {
      break;
    }
    amplify(samples, kQuieter / peak);
  }
  out.rate = spec.sample_rate;
  out.checksum = checksum(out.bytes);
  return out;
}

}  // namespace audiogen
