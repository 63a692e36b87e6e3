#include "worker/audio/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "worker/audio/loudness.h"

namespace audiogen {
namespace {

constexpr double kPitchLow = 60, kPitchHigh = 400;  // Hz: a deep man to a small child
constexpr double kPitchRate = 8000;                 // Hz; enough for it, and cheap
constexpr double kFrameSeconds = 0.040, kHopSeconds = 0.020;
constexpr double kVoiced = 0.5;   // of the energy repeats after one period
constexpr double kOctave = 0.85;  // a shorter period this nearly as good is the true one
constexpr std::size_t kVoicedFramesMin = 5;

constexpr double kEnvelopeHop = 0.010;
constexpr std::size_t kEnvelopeSmooth = 5;  // hops to each side: syllables are slower
constexpr double kActive = 0.08;            // of the loudest: less is a pause
constexpr double kDip = 0.75;               // of the lower peak: a shallower valley parts nothing

double level_of(std::span<const float> samples) {
  double energy = 0;
  for (const float sample : samples) {
    energy += static_cast<double>(sample) * static_cast<double>(sample);
  }
  return samples.empty() ? 0 : std::sqrt(energy / static_cast<double>(samples.size()));
}

// Means of groups of samples, near kPitchRate. `rate` becomes theirs.
std::vector<float> thinned(std::span<const float> samples, double& rate) {
  const auto group = static_cast<std::size_t>(std::max(1.0, std::floor(rate / kPitchRate)));
  std::vector<float> out(samples.size() / group);
  for (std::size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    for (const float sample : samples.subspan(i * group, group)) {
      sum += sample;
    }
    out[i] = sum / static_cast<float>(group);
  }
  rate /= static_cast<double>(group);
  return out;
}

// The normalised autocorrelation of `frame` at `lag`.
double likeness(std::span<const float> frame, std::size_t lag) {
  double product = 0, one = 1e-12, other = 1e-12;
  for (std::size_t i = 0; i + lag < frame.size(); ++i) {
    const double a = static_cast<double>(frame[i]), b = static_cast<double>(frame[i + lag]);
    product += a * b;
    one += a * a;
    other += b * b;
  }
  return product / std::sqrt(one * other);
}

// The pitch of one frame in Hz, or nothing when it is not voiced.
std::optional<double> frame_pitch(std::span<const float> frame, double rate) {
  const auto first = static_cast<std::size_t>(rate / kPitchHigh);
  const auto last = std::min(static_cast<std::size_t>(rate / kPitchLow), frame.size() / 2);
  if (first < 2 || last <= first + 1) {
    return std::nullopt;
  }
  std::vector<double> like(last + 2);
  for (std::size_t lag = first - 1; lag <= last + 1; ++lag) {
    like[lag] = likeness(frame, lag);
  }
  const double best = *std::max_element(like.begin() + static_cast<std::ptrdiff_t>(first),
                                        like.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  if (best < kVoiced) {
    return std::nullopt;
  }
  for (std::size_t lag = first; lag <= last; ++lag) {
    const double left = like[lag - 1], here = like[lag], right = like[lag + 1];
    if (here >= kOctave * best && here >= left && here >= right) {
      // A parabola through the three says where between the samples the top is.
      const double bend = left - 2 * here + right;
      const double shift = bend < -1e-9 ? 0.5 * (left - right) / bend : 0;
      return rate / (static_cast<double>(lag) + shift);
    }
  }
  return std::nullopt;
}

std::optional<double> median_pitch(std::span<const float> samples, double rate) {
  const std::vector<float> thin = thinned(samples, rate);
  const auto size = static_cast<std::size_t>(kFrameSeconds * rate);
  const auto hop = static_cast<std::size_t>(kHopSeconds * rate);
  const double floor = 0.3 * level_of(thin);
  std::vector<double> found;
  for (std::size_t at = 0; at + size <= thin.size(); at += hop) {
    const auto frame = std::span<const float>(thin).subspan(at, size);
    if (level_of(frame) < floor) {
      continue;
    }
    if (const auto pitch = frame_pitch(frame, rate)) {
      found.push_back(*pitch);
    }
  }
  if (found.size() < kVoicedFramesMin) {
    return std::nullopt;
  }
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

// Tops of the smoothed envelope with clear valleys between them, per second of sound.
std::optional<double> syllable_rate(std::span<const float> samples, int rate) {
  const auto hop = static_cast<std::size_t>(kEnvelopeHop * rate);
  std::vector<double> raw;
  for (std::size_t at = 0; at + hop <= samples.size(); at += hop) {
    raw.push_back(level_of(samples.subspan(at, hop)));
  }
  std::vector<double> envelope(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::size_t from = i - std::min(i, kEnvelopeSmooth);
    const std::size_t to = std::min(raw.size(), i + kEnvelopeSmooth + 1);
    for (std::size_t j = from; j < to; ++j) {
      envelope[i] += raw[j] / static_cast<double>(to - from);
    }
  }
  const double top = envelope.empty() ? 0 : *std::max_element(envelope.begin(), envelope.end());
  std::size_t active = 0, count = 0;
  double peak = 0, valley = 0;  // since the last syllable counted
  bool rising = true;
  for (const double level : envelope) {
    active += level > kActive * top ? 1U : 0U;
    if (rising) {
      peak = std::max(peak, level);
      if (level < kDip * peak && peak > kActive * top) {
        ++count;
        rising = false;
        valley = level;
      }
    } else {
      valley = std::min(valley, level);
      if (level * kDip > valley && level > kActive * top) {
        rising = true;
        peak = level;
      }
    }
  }
  if (count < 2) {
    return std::nullopt;
  }
  return static_cast<double>(count) / (static_cast<double>(active) * kEnvelopeHop);
}

MediaFault fault_of(const DecodeFault& fault) {
  return fault.kind == DecodeFault::Kind::kUnavailable ? MediaFault::kUnavailable
                                                       : MediaFault::kUndecodable;
}

bool is_riff(std::string_view bytes, std::string_view form) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == form;
}

}  // namespace

std::optional<AudioType> sniff_audio(std::string_view bytes) {
  if (is_riff(bytes, "WAVE")) {
    return AudioType::kWav;
  }
  if (bytes.starts_with("OggS")) {
    return AudioType::kOgg;
  }
  if (bytes.starts_with("fLaC")) {
    return AudioType::kFlac;
  }
  // An MPEG frame header: the sync word, and layer bits that are not those of AAC (00).
  const bool frame = bytes.size() >= 4 && static_cast<unsigned char>(bytes[0]) == 0xFF &&
                     (static_cast<unsigned char>(bytes[1]) & 0xE0U) == 0xE0U &&
                     (static_cast<unsigned char>(bytes[1]) & 0x06U) != 0;
  return bytes.starts_with("ID3") || frame ? std::optional(AudioType::kMp3) : std::nullopt;
}

std::optional<ImageType> sniff_image(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    return ImageType::kPng;
  }
  if (bytes.starts_with("\xFF\xD8\xFF")) {
    return ImageType::kJpeg;
  }
  return is_riff(bytes, "WEBP") ? std::optional(ImageType::kWebp) : std::nullopt;
}

SoundTraits sound_traits(std::span<const float> samples, int rate) {
  const auto loudness = measure_loudness(samples, rate);
  return {.seconds = static_cast<double>(samples.size()) / rate,
          .pitch_hz = median_pitch(samples, rate),
          .syllables_per_second = syllable_rate(samples, rate),
          .loudness_lufs = loudness ? loudness->lufs : -70.0};
}

Result<AudioReference, MediaFault> inspect_audio_reference(std::string bytes, Decoder& decoder) {
  const auto type = sniff_audio(bytes);
  if (!type) {
    return MediaFault::kNotThisKind;
  }
  Audio audio;
  audio.bytes = std::move(bytes);
  audio.type = *type;
  // A little more, to see that there is more.
  const auto decoded = decoder.decode(audio, kReferenceMaxSeconds + 0.1);
  if (!decoded) {
    return fault_of(decoded.error());
  }
  const double seconds =
      static_cast<double>(decoded->pcm.samples.size()) / static_cast<double>(decoded->pcm.rate);
  if (seconds < kReferenceMinSeconds) {
    return MediaFault::kTooShort;
  }
  if (seconds > kReferenceMaxSeconds) {
    return MediaFault::kTooLong;
  }
  if (peak_of(decoded->pcm.samples) < kSilencePeak) {
    return MediaFault::kSilent;
  }
  return AudioReference{.bytes = std::move(audio.bytes),
                        .type = *type,
                        .traits = sound_traits(decoded->pcm.samples, decoded->pcm.rate)};
}

Result<ImageReference, MediaFault> inspect_image_reference(std::string bytes, Decoder& decoder) {
  if (!sniff_image(bytes)) {
    return MediaFault::kNotThisKind;
  }
  const auto image = decoder.inspect_image(bytes);
  if (!image) {
    return fault_of(image.error());
  }
  if (image->width > kImageSideMax || image->height > kImageSideMax ||
      std::int64_t{image->width} * image->height > kImagePixelsMax) {
    return MediaFault::kTooLarge;
  }
  return ImageReference{.bytes = std::move(bytes),
                        .type = image->type,
                        .width = image->width,
                        .height = image->height};
}

}  // namespace audiogen
