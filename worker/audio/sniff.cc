#include "worker/audio/sniff.h"

#include "worker/audio/mp3_frames.h"

namespace audiogen {
namespace {

bool is_riff(std::string_view bytes, std::string_view form) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == form;
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
    return AudioType::kMp3;
  }
  if (const auto first = read_mp3_header(bytes)) {
    if (first->size <= bytes.size() && read_mp3_header(bytes.substr(first->size))) {
      return AudioType::kMp3;
    }
  }
  return std::nullopt;
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
