#include "worker/audio/tags.h"

#include <algorithm>
#include <array>

#include "worker/audio/bytes.h"
#include "worker/audio/mp3_frames.h"

namespace audiogen {
namespace {

constexpr std::size_t kId3v1 = 128;

std::string_view mp3_frames_of(std::string_view bytes) {
  bytes = without_id3v2(bytes);
  if (bytes.size() >= kId3v1 && bytes.substr(bytes.size() - kId3v1).starts_with("TAG")) {
    bytes.remove_suffix(kId3v1);
  }
  return bytes;
}

// "RIFF" size "WAVE" "fmt " 16 … "data" size, and samples.
bool is_bare_wav(std::string_view bytes) {
  constexpr std::size_t kHeader = 44;
  return bytes.size() >= kHeader && bytes.substr(12, 4) == "fmt " &&
         little32(bytes.substr(16)) == 16 && bytes.substr(36, 4) == "data" &&
         little32(bytes.substr(40)) == bytes.size() - kHeader;
}

bool is_encoder_name(std::string_view text) {
  constexpr std::array<std::string_view, 5> kKnown = {
      "libopus ", "Lavf", "Lavc", "encoder=Lavc", "ENCODER=opusenc"};
  constexpr std::size_t kNameMax = 80;
  return text.size() <= kNameMax &&
         std::any_of(kKnown.begin(), kKnown.end(), [&](std::string_view known) {
           return text.starts_with(known);
         });
}

// The second packet of an Opus file (RFC 7845 section 5.2) says nothing but which encoder made it.
bool is_bare_opus(std::string_view bytes) {
  const auto at = bytes.find("OpusTags");
  if (at == std::string_view::npos) {
    return false;
  }
  std::string_view rest = bytes.substr(at + 8);
  // Takes the next length and text.
  const auto next = [&rest]() -> std::optional<std::string_view> {
    if (rest.size() < 4 || little32(rest) > rest.size() - 4) {
      return std::nullopt;
    }
    const std::string_view text = rest.substr(4, little32(rest));
    rest.remove_prefix(4 + text.size());
    return text;
  };
  const auto vendor = next();
  if (!vendor || !(vendor->empty() || is_encoder_name(*vendor)) || rest.size() < 4) {
    return false;
  }
  const std::uint32_t count = little32(rest);
  rest.remove_prefix(4);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto comment = next();
    if (!comment || !is_encoder_name(*comment)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<std::string_view> without_tags(const Audio& audio) {
  const std::string_view bytes = audio.bytes;
  switch (audio.type) {
    case AudioType::kPcmS16Le:
      return bytes;
    case AudioType::kMp3:
      return mp3_frames_of(bytes);
    case AudioType::kWav:
      return is_bare_wav(bytes) ? std::optional(bytes) : std::nullopt;
    case AudioType::kOgg:
      return is_bare_opus(bytes) ? std::optional(bytes) : std::nullopt;
    case AudioType::kFlac:
      break;
  }
  return std::nullopt;
}

}  // namespace audiogen
