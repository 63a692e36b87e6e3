// Runs the parsers in this process. For tests, fuzzing and measurements only: foreign bytes are the
// sandboxed decoder's (worker/decode).
#pragma once

#include "worker/audio/decoder.h"

namespace audiogen {

class InProcessDecoder : public Decoder {
 private:
  Result<Unpacked, DecodeFault> unpack(std::string_view bytes,
                                       AudioType type,
                                       const Sink& sink) override;
  Result<ImageInfo, DecodeFault> unpack_image(std::string_view bytes, ImageType type) override;
};

}  // namespace audiogen
