#include "worker/audio/in_process_decoder.h"

#include "worker/audio/foreign.h"

namespace audiogen {

Result<Unpacked, DecodeFault> InProcessDecoder::unpack(std::string_view bytes,
                                                       AudioType type,
                                                       const Sink& sink) {
  return unpack_foreign(bytes, type, sink);
}

Result<ImageInfo, DecodeFault> InProcessDecoder::unpack_image(std::string_view bytes,
                                                              ImageType type) {
  return unpack_foreign_image(bytes, type);
}

}  // namespace audiogen
