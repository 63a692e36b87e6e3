#include "worker/audio/sniff.h"

#include <algorithm>

#include "worker/audio/mp3_frames.h"

namespace audiogen {
namespace {

constexpr std::size_t kZeroesMax = 1024;  // bytes; so many the decoder of MP3 passes over

bool is_riff(std::string_view bytes, std::string_view form) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == form;
}

// Whether the last of `count` MP3 frames on end begins within `bytes`.
bool has_frames(std::string_view bytes, int count) {
  for (; count > 0; --count) {
    const auto header = read_mp3_header(bytes);
    if (!header) {
      return false;
    }
    bytes.remove_prefix(std::min(header->size, bytes.size()));
  }
  return true;
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
  if (bytes.starts_with("ID3")) {
    return without_id3v2(bytes).starts_with("fLaC") ? AudioType::kFlac : AudioType::kMp3;
  }
  // Samples begin with zeroes as well, so that these call for one frame more.
  const std::size_t zeroes = bytes.substr(0, kZeroesMax).find_first_not_of('\0');
  if (zeroes == std::string_view::npos || !has_frames(bytes.substr(zeroes), zeroes == 0 ? 2 : 3)) {
    return std::nullopt;
  }
  return AudioType::kMp3;
}

std::optional<ImageType> sniff_image(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\x89PNG\r\n\x1A\n"sv)) {
    return ImageType::kPng;
  }
  if (bytes.starts_with("\xFF\xD8\xFF"sv)) {
    return ImageType::kJpeg;
  }
  if (is_riff(bytes, "WEBP")) {
    return ImageType::kWebp;
  }
  return std::nullopt;
}

}  // namespace audiogen
