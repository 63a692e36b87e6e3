#include "worker/audio/mp3_frames.h"

#include <algorithm>
#include <array>

#include "worker/audio/bytes.h"

namespace audiogen {
namespace {

constexpr std::size_t kHeaderSize = 4, kId3v2Header = 10, kId3v1Size = 128;
constexpr std::uint32_t kHasFrames = 1, kHasBytes = 2, kHasToc = 4, kHasQuality = 8;

// What the tag in the first frame says (Xing; LAME's extension of it).
struct Tag {
  std::optional<std::uint32_t> frames;  // this one not counted
  std::uint64_t trimmed = 0;            // samples that a player drops at both ends
};

std::optional<Tag> read_tag(std::string_view frame, const Mp3Header& header) {
  std::string_view tag = frame.substr(std::min(header.tag_at, frame.size()));
  if ((!tag.starts_with("Xing") && !tag.starts_with("Info")) || tag.size() < 8) {
    return std::nullopt;
  }
  const std::uint32_t flags = big32(tag.substr(4));
  Tag out;
  std::size_t at = 8;
  if ((flags & kHasFrames) != 0 && tag.size() >= at + 4) {
    out.frames = big32(tag.substr(at));
    at += 4;
  }
  at += (flags & kHasBytes) != 0 ? 4 : 0;
  at += (flags & kHasToc) != 0 ? 100 : 0;
  at += (flags & kHasQuality) != 0 ? 4 : 0;
  constexpr std::size_t kDelays = 21;  // from the start of LAME's part
  if (tag.size() >= at + kDelays + 3 && tag[at] != '\0') {
    const std::string_view delays = tag.substr(at + kDelays, 3);
    const unsigned middle = byte_of(delays[1]);
    out.trimmed =
        (byte_of(delays[0]) << 4U | middle >> 4U) + ((middle & 0xFU) << 8U | byte_of(delays[2]));
  }
  return out;
}

}  // namespace

std::string_view without_id3v2(std::string_view bytes) {
  if (!bytes.starts_with("ID3") || bytes.size() < kId3v2Header) {
    return bytes;
  }
  std::size_t size = 0;  // Seven bits of each byte (ID3v2.4 section 6.2).
  for (const char c : bytes.substr(6, 4)) {
    size = size << 7U | (byte_of(c) & 0x7FU);
  }
  const bool footer = (byte_of(bytes[5]) & 0x10U) != 0;
  size += kId3v2Header + (footer ? kId3v2Header : 0);
  return bytes.substr(std::min(size, bytes.size()));
}

std::optional<Mp3Header> read_mp3_header(std::string_view bytes) {
  if (bytes.size() < kHeaderSize) {
    return std::nullopt;
  }
  const std::uint32_t bits = big32(bytes);
  const auto field = [bits](unsigned shift, std::uint32_t mask) { return bits >> shift & mask; };
  const std::uint32_t version = field(19, 3), layer = field(17, 3);
  const std::uint32_t kbps_index = field(12, 15), rate_index = field(10, 3);
  if (field(21, 0x7FF) != 0x7FF || version == 1 || layer != 1 || kbps_index == 0 ||
      kbps_index == 15 || rate_index == 3) {
    return std::nullopt;
  }
  static constexpr std::array<int, 3> kRates = {44100, 48000, 32000};
  static constexpr std::array<std::array<int, 15>, 2> kKbps = {
      {{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
       {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}}};
  const bool first = version == 3;  // MPEG 1; 2 is MPEG 2, 0 is MPEG 2.5
  Mp3Header out;
  out.rate = kRates[rate_index] / (first ? 1 : version == 2 ? 2 : 4);
  out.channels = field(6, 3) == 3 ? 1 : 2;
  out.samples = first ? 1152 : 576;
  out.size = static_cast<std::size_t>(out.samples / 8 * 1000 * kKbps[first ? 0 : 1][kbps_index] /
                                      out.rate) +
             field(9, 1);
  const std::size_t side = first ? (out.channels == 1 ? 17 : 32) : (out.channels == 1 ? 9 : 17);
  const bool checksum = field(16, 1) == 0;
  out.tag_at = 4 + (checksum ? 2 : 0) + side;
  return out;
}

std::optional<std::uint64_t> count_mp3_samples(std::string_view bytes) {
  bytes = without_id3v2(bytes);
  if (bytes.size() >= kId3v1Size && bytes.substr(bytes.size() - kId3v1Size).starts_with("TAG")) {
    bytes.remove_suffix(kId3v1Size);
  }
  const std::optional<Mp3Header> first = read_mp3_header(bytes);
  if (!first) {
    return std::nullopt;
  }
  const std::optional<Tag> tag = read_tag(bytes.substr(0, first->size), *first);
  std::uint64_t frames = 0;
  for (bool tagged = tag.has_value(); !bytes.empty(); tagged = false) {
    const std::optional<Mp3Header> header = read_mp3_header(bytes);
    if (!header || header->size > bytes.size() || header->rate != first->rate ||
        header->channels != first->channels) {
      return std::nullopt;
    }
    // A second tag is a second file, whose padding some players play and others do not.
    if (!tagged && read_tag(bytes.substr(0, header->size), *header)) {
      return std::nullopt;
    }
    frames += tagged ? 0 : 1;
    bytes.remove_prefix(header->size);
  }
  const std::uint64_t samples = frames * static_cast<std::uint64_t>(first->samples);
  if (!tag) {
    return samples;
  }
  if (tag->frames != frames || tag->trimmed > samples) {
    return std::nullopt;
  }
  return samples - tag->trimmed;
}

bool is_cut_mp3(std::string_view bytes) {
  constexpr std::uint64_t kMiscounted = 2;
  bytes = without_id3v2(bytes);
  std::optional<Mp3Header> header = read_mp3_header(bytes);
  const std::optional<Tag> tag =
      header ? read_tag(bytes.substr(0, header->size), *header) : std::nullopt;
  if (!tag || !tag->frames) {
    return false;
  }
  std::uint64_t read = 0;  // the tag's own counted
  while (header && header->size <= bytes.size()) {
    ++read;
    bytes.remove_prefix(header->size);
    header = read_mp3_header(bytes);
  }
  // Where something else stands between frames, they may go on behind it.
  const bool ended = header || bytes.size() < kHeaderSize;
  return ended && read + kMiscounted <= *tag->frames;
}

}  // namespace audiogen
