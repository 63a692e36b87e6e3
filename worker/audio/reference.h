// What a request refers to: is it what the interface allows, and what can be said of its sound
// (audio 4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "worker/audio/audio.h"
#include "worker/audio/decoder.h"

namespace audiogen {

enum class MediaFault : std::uint8_t {
  kNotThisKind,  // not wav, mp3, ogg or flac; not png, jpeg or webp
  kUndecodable,  // damaged, more than two channels, a rate outside 8-96 kHz
  kTooShort,     // under kReferenceMinSeconds
  kTooLong,      // over kReferenceMaxSeconds
  kSilent,       // never above -60 dBFS
  kTooLarge,     // more pixels than kImageSideMax a side or kImagePixelsMax
  kUnavailable,  // our decoder is down
};

inline constexpr double kReferenceMinSeconds = 0.5;
inline constexpr double kReferenceMaxSeconds = 30.0;

// What can be imitated of a voice without knowing it.
struct SoundTraits {
  double seconds = 0;
  std::optional<double> pitch_hz;              // median; none where nothing is voiced
  std::optional<double> syllables_per_second;  // none in less than two syllables
  double loudness_lufs = 0;                    // EBU R128 integrated; plain level below 0.4 s
};

// Of mono samples at `rate` Hz. Pure.
SoundTraits sound_traits(std::span<const float> samples, int rate);

struct AudioReference {
  std::string bytes;
  AudioType type = AudioType::kWav;
  SoundTraits traits;
};

struct ImageReference {
  std::string bytes;
  ImageType type = ImageType::kPng;
  int width = 0, height = 0;
};

// What the first bytes say; nullopt: none of the allowed kinds. Nobody's word for it but theirs.
std::optional<AudioType> sniff_audio(std::string_view bytes);
std::optional<ImageType> sniff_image(std::string_view bytes);

// Both decode the whole file. Block; thread-safe.
Result<AudioReference, MediaFault> inspect_audio_reference(std::string bytes, Decoder& decoder);
Result<ImageReference, MediaFault> inspect_image_reference(std::string bytes, Decoder& decoder);

}  // namespace audiogen
