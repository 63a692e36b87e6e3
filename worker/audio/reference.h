// What a client's reference file is, and whether it can be used. No I/O but the decoder's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/result.h"
#include "worker/audio/decoder.h"

namespace audiogen {

enum class MediaFault : std::uint8_t {
  kNotThisKind,  // not wav, mp3, ogg, flac; not png, jpeg, webp
  kUndecodable,
  kTooShort,         // below 0.5 s
  kTooLong,          // above 30 s
  kTooManyChannels,  // above two
  kRate,             // outside kRateMin to kRateMax
  kSilent,           // never above -60 dBFS
  kTooLarge,         // above 8192 pixels a side, 40 million in all, or kMediaBytesMax
  kUnavailable,      // our decoder is down: says nothing of the file
};

struct SoundTraits {
  double seconds = 0;
  std::optional<double> pitch_hz;  // median of the voiced parts, 60-400 Hz; none when unvoiced
  std::optional<double> syllables_per_second;  // by the peaks of the energy; none when it is steady
  double loudness_lufs = 0;                    // ITU-R BS.1770
};

struct AudioReference {
  std::string bytes;
  AudioType type = AudioType::kWav;
  SoundTraits traits;
};

struct ImageReference {
  std::string bytes;
  ImageType type = ImageType::kPng;
  int width = 0, height = 0;  // pixels
};

// Looks at all of a file: kind by its bytes, then decodes it. Block as the decoder does, sound some
// 100 ms more per 30 s. Thread-safe.
Result<AudioReference, MediaFault> inspect_audio_reference(std::string bytes, Decoder& decoder);
Result<ImageReference, MediaFault> inspect_image_reference(std::string bytes, Decoder& decoder);

// Measures mono sound of at least one sample; `rate` in Hz. Pure.
SoundTraits sound_traits(std::span<const float> mono, int rate);

}  // namespace audiogen
