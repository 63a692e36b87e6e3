#include "worker/audio/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "worker/audio/levels.h"

namespace audiogen {
namespace {

constexpr double kSecondsMin = 0.5, kSecondsMax = 30;

// Pitch needs no more than the first harmonics, and pays for the rate twice.
constexpr int kPitchRate = 8000;  // Hz
constexpr double kPitchMin = 60, kPitchMax = 400;
constexpr std::size_t kLagMin = kPitchRate / 400 - 1, kLagMax = kPitchRate / 60 + 1;
constexpr std::size_t kPitchWindow = kPitchRate / 20, kPitchHop = kPitchRate / 50;
constexpr double kVoiced = 0.6;        // correlation of a window with itself one period later
constexpr double kNearlyBest = 0.9;    // the shortest lag nearly as good as the best is the period
constexpr float kAudiblePart = 0.05F;  // of the loudest window's level
constexpr std::size_t kVoicedMin = 4;  // windows

constexpr double kEnvelopeHop = 0.01, kEnvelopeWindow = 0.06;  // seconds
constexpr double kPeakRise = 1.5;  // times the amplitude of the valleys on both sides: 3.5 dB
constexpr float kPeakPart = 0.1F;  // of the loudest

double energy_of(std::span<const float> samples) {
  double sum = 0;
  for (const float sample : samples) {
    sum += static_cast<double>(sample) * static_cast<double>(sample);
  }
  return sum;
}

float level_of(std::span<const float> samples) {
  return static_cast<float>(std::sqrt(energy_of(samples) / static_cast<double>(samples.size())));
}

// Correlation of the window at `at` with the one `lag` later, -1 to 1.
double correlate(std::span<const float> sound, std::size_t at, std::size_t lag, double energy) {
  const auto one = sound.subspan(at, kPitchWindow), two = sound.subspan(at + lag, kPitchWindow);
  float sum = 0;
  for (std::size_t i = 0; i < kPitchWindow; ++i) {
    sum += one[i] * two[i];
  }
  const double both = std::sqrt(energy * energy_of(two));
  return both > 0 ? static_cast<double>(sum) / both : 0;
}

// The pitch in Hz of the window at `at`; nullopt when it is unvoiced.
std::optional<double> window_pitch(std::span<const float> sound, std::size_t at) {
  const double energy = energy_of(sound.subspan(at, kPitchWindow));
  std::vector<double> match(kLagMax + 2);
  for (std::size_t lag = kLagMin - 1; lag < match.size(); ++lag) {
    match[lag] = correlate(sound, at, lag, energy);
  }
  const auto is_peak = [&](std::size_t lag) {
    return match[lag] >= match[lag - 1] && match[lag] > match[lag + 1];
  };
  double best = kVoiced;
  for (std::size_t lag = kLagMin; lag <= kLagMax; ++lag) {
    best = is_peak(lag) ? std::max(best, match[lag]) : best;
  }
  for (std::size_t lag = kLagMin; lag <= kLagMax; ++lag) {
    if (!is_peak(lag) || match[lag] < kVoiced || match[lag] < kNearlyBest * best) {
      continue;
    }
    // Between the samples: the top of the parabola through three points.
    const double low = match[lag - 1], top = match[lag], high = match[lag + 1];
    const double shift = 0.5 * (low - high) / (low - 2 * top + high);
    const double hertz = kPitchRate / (static_cast<double>(lag) + shift);
    return hertz >= kPitchMin && hertz <= kPitchMax ? std::optional(hertz) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> median_pitch(std::span<const float> mono, int rate) {
  const Result<std::vector<float>> slow = resample(mono, rate, kPitchRate);
  if (!slow) {
    return std::nullopt;
  }
  const std::span<const float> sound = *slow;
  std::vector<std::pair<std::size_t, float>> windows;
  float loudest = 0;
  for (std::size_t at = 0; at + kPitchWindow + kLagMax + 2 <= sound.size(); at += kPitchHop) {
    windows.emplace_back(at, level_of(sound.subspan(at, kPitchWindow)));
    loudest = std::max(loudest, windows.back().second);
  }
  std::vector<double> pitches;
  for (const auto& [at, level] : windows) {
    if (level <= loudest * kAudiblePart) {
      continue;
    }
    if (const auto pitch = window_pitch(sound, at)) {
      pitches.push_back(*pitch);
    }
  }
  // A few windows of noise look voiced by chance.
  if (pitches.size() < std::max(kVoicedMin, windows.size() / 20)) {
    return std::nullopt;
  }
  const auto middle = pitches.begin() + static_cast<std::ptrdiff_t>(pitches.size() / 2);
  std::nth_element(pitches.begin(), middle, pitches.end());
  return *middle;
}

// Peaks that rise from a valley and fall into one.
std::size_t count_peaks(const std::vector<float>& envelope) {
  const float audible = *std::max_element(envelope.begin(), envelope.end()) * kPeakPart;
  const auto rise = static_cast<float>(kPeakRise);
  std::size_t peaks = 0;
  float low = 0, high = 0;  // since the last turn
  bool rising = true;
  for (const float level : envelope) {
    if (rising) {
      high = std::max(high, level);
      if (level * rise < high) {
        peaks += high > audible ? 1 : 0;
        rising = false;
        low = level;
      }
    } else {
      low = std::min(low, level);
      if (level > std::max(low, audible / rise) * rise) {
        rising = true;
        high = level;
      }
    }
  }
  return peaks + (rising && high > audible ? 1 : 0);
}

std::optional<double> syllable_rate(std::span<const float> mono, int rate) {
  const auto hop = static_cast<std::size_t>(kEnvelopeHop * rate);
  const auto window = static_cast<std::size_t>(kEnvelopeWindow * rate);
  std::vector<float> envelope;
  for (std::size_t at = 0; at + window <= mono.size(); at += hop) {
    envelope.push_back(level_of(mono.subspan(at, window)));
  }
  const std::size_t peaks = envelope.empty() ? 0 : count_peaks(envelope);
  if (peaks < 2) {
    return std::nullopt;
  }
  return static_cast<double>(peaks) * rate / static_cast<double>(mono.size());
}

MediaFault fault_of(DecodeFault fault) {
  switch (fault) {
    case DecodeFault::kNotThisType:
      return MediaFault::kNotThisKind;
    case DecodeFault::kChannels:
      return MediaFault::kTooManyChannels;
    case DecodeFault::kRate:
      return MediaFault::kRate;
    case DecodeFault::kTooLong:
      return MediaFault::kTooLong;
    case DecodeFault::kTooManyBytes:
    case DecodeFault::kImageTooLarge:
      return MediaFault::kTooLarge;
    case DecodeFault::kEmpty:
      return MediaFault::kTooShort;
    case DecodeFault::kUnavailable:
      return MediaFault::kUnavailable;
    case DecodeFault::kCorrupt:
    case DecodeFault::kNotFinite:
    case DecodeFault::kChained:
    case DecodeFault::kCrashed:
    case DecodeFault::kTimedOut:
      return MediaFault::kUndecodable;
  }
  return MediaFault::kUndecodable;
}

}  // namespace

Result<AudioReference, MediaFault> inspect_audio_reference(std::string bytes, Decoder& decoder) {
  const std::optional<AudioType> type = sniff_audio(bytes);
  if (!type) {
    return MediaFault::kNotThisKind;
  }
  Audio audio;
  audio.bytes = std::move(bytes);
  audio.type = *type;
  // A little more shows that there is more.
  const Result<Decoded, DecodeFault> decoded = decoder.decode(audio, kSecondsMax + 1);
  if (!decoded) {
    return fault_of(decoded.error());
  }
  const Pcm& pcm = decoded->pcm;
  const double seconds = static_cast<double>(pcm.samples.size()) / pcm.rate;
  if (seconds < kSecondsMin) {
    return MediaFault::kTooShort;
  }
  if (seconds > kSecondsMax) {
    return MediaFault::kTooLong;
  }
  if (is_silent(pcm.samples)) {
    return MediaFault::kSilent;
  }
  return AudioReference{std::move(audio.bytes), *type, sound_traits(pcm.samples, pcm.rate)};
}

Result<ImageReference, MediaFault> inspect_image_reference(std::string bytes, Decoder& decoder) {
  const Result<ImageInfo, DecodeFault> image = decoder.inspect_image(bytes);
  if (!image) {
    return fault_of(image.error());
  }
  return ImageReference{std::move(bytes), image->type, image->width, image->height};
}

SoundTraits sound_traits(std::span<const float> mono, int rate) {
  SoundTraits out;
  out.seconds = static_cast<double>(mono.size()) / rate;
  out.pitch_hz = median_pitch(mono, rate);
  out.syllables_per_second = syllable_rate(mono, rate);
  if (const auto loudness = measure_loudness(mono, rate)) {
    out.loudness_lufs = loudness->lufs;
  }
  return out;
}

}  // namespace audiogen
