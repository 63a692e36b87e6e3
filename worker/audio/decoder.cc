#include "worker/audio/decoder.h"

#include "worker/audio/codec.h"

namespace audiogen {

Result<Decoded, DecodeFault> LocalDecoder::decode(const Audio& audio, double seconds_max) {
  auto decoded = audiogen::decode(audio, seconds_max);
  if (!decoded) {
    return DecodeFault{DecodeFault::Kind::kBad, decoded.error().message};
  }
  return std::move(*decoded);
}

Result<ImageInfo, DecodeFault> LocalDecoder::inspect_image(std::string_view /*bytes*/) {
  return DecodeFault{DecodeFault::Kind::kUnavailable, "images need the helper"};
}

}  // namespace audiogen
