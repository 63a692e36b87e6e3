// Third-party parsers of sound and pictures. On foreign bytes these run in the sandbox of
// audio-decode only (worker/decode); else in tests, and on what our own encoder has made.
// Thread-safe, no I/O.
#pragma once

#include <string_view>

#include "worker/audio/decoder.h"

namespace audiogen {

// Decodes MP3, FLAC, Ogg Vorbis and Ogg Opus, and WAV of every kind that libsndfile knows.
Result<Unpacked, DecodeFault> unpack_foreign(std::string_view bytes,
                                             AudioType type,
                                             const Sink& sink);

// Decodes a PNG, a JPEG or a WebP that is no animation.
Result<ImageInfo, DecodeFault> unpack_foreign_image(std::string_view bytes, ImageType type);

}  // namespace audiogen
