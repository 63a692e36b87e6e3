// Tells kinds of media by their bytes; what a server or a file name says is not asked. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "worker/audio/audio.h"

namespace audiogen {

enum class ImageType : std::uint8_t { kPng, kJpeg, kWebp };

// By the first bytes: WAV, MP3, FLAC or Ogg; the middle two also behind an ID3v2 tag, and MP3
// behind a few zeroes. Nothing for headerless PCM, for text, for ADTS AAC without such a tag, which
// looks much like MP3, and for an MP3 whose first frame no second one follows.
std::optional<AudioType> sniff_audio(std::string_view bytes);

std::optional<ImageType> sniff_image(std::string_view bytes);

}  // namespace audiogen
