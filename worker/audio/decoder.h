// Foreign bytes to samples or to the measures of an image. Two implementations: in this process
// (tests, fuzzing) and behind the walls of a sandboxed helper (the worker).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "worker/audio/audio.h"

namespace audiogen {

enum class ImageType : std::uint8_t { kPng, kJpeg, kWebp };

struct ImageInfo {
  ImageType type = ImageType::kPng;
  int width = 0, height = 0;  // pixels
};

inline constexpr int kImageSideMax = 8192;
inline constexpr std::int64_t kImagePixelsMax = 40'000'000;

struct DecodeFault {
  enum class Kind : std::uint8_t {
    kBad,          // these bytes are not what they should be, or took the decoder down
    kUnavailable,  // no decoder: nobody's fault but ours, worth another try later
  };
  Kind kind = Kind::kBad;
  std::string detail;  // for operators; no text of the bytes
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Decodes at most `seconds_max` of `audio`. Refuses: more than 32 MiB, more than two channels, a
  // rate outside 8-96 kHz, samples that are no numbers, nothing inside, a second stream chained to
  // the first. Blocks; thread-safe.
  virtual Result<Decoded, DecodeFault> decode(const Audio& audio, double seconds_max) = 0;

  // Decodes a whole image (png, jpeg, webp) to see that it is one. Above kImageSideMax or
  // kImagePixelsMax only its size is read. Blocks; thread-safe.
  virtual Result<ImageInfo, DecodeFault> inspect_image(std::string_view bytes) = 0;
};

// Decodes sound in this process, whatever comes: for tests, fuzzing and bytes of our own.
class LocalDecoder final : public Decoder {
 public:
  Result<Decoded, DecodeFault> decode(const Audio& audio, double seconds_max) override;
  // kUnavailable: the image libraries live in the sandboxed helper.
  Result<ImageInfo, DecodeFault> inspect_image(std::string_view bytes) override;
};

}  // namespace audiogen
