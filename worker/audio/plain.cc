#include "worker/audio/plain.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "worker/audio/bytes.h"

namespace audiogen {
namespace {

constexpr std::size_t kRiffHeader = 12, kChunkHeader = 8, kFormatMin = 16, kExtensible = 40;
constexpr std::uint32_t kUnknownSize = 0x7FFFFFFF;  // and above: the writer did not know
constexpr std::uint32_t kPcm = 1, kFloat = 3, kExtensibleFormat = 0xFFFE;

void read_format(std::string_view chunk, WavView& out) {
  out.encoding = little16(chunk);
  out.channels = little16(chunk.substr(2));
  out.rate = little32(chunk.substr(4));
  out.block = little16(chunk.substr(12));
  out.bits = little16(chunk.substr(14));
  if (out.encoding == kExtensibleFormat && chunk.size() >= kExtensible) {
    out.encoding = little16(chunk.substr(24));
  }
}

// Calls `read` with the bytes of each sample. The caller has counted them: a check per sample would
// cost more than the rest.
template <std::size_t kWidth, class Read>
void read_each(std::string_view data, std::span<float> out, const Read& read) {
  const char* at = data.data();
  for (float& sample : out) {
    sample = read(std::string_view(at, kWidth));
    at += kWidth;
  }
}

float from_s32(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits)) / 2147483648.0F;
}

// Letters, digits and what else can be printed.
bool is_chunk_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// What writers leave behind the last chunk, by mistake; of zeros any number.
constexpr std::size_t kOddRest = 4096;

}  // namespace

std::size_t sample_size(SampleKind kind) {
  switch (kind) {
    case SampleKind::kS16:
      return 2;
    case SampleKind::kS24:
      return 3;
    case SampleKind::kS32:
    case SampleKind::kF32:
      return 4;
  }
  return 4;
}

std::optional<WavView> view_wav(std::string_view bytes) {
  if (bytes.size() < kRiffHeader || !bytes.starts_with("RIFF") || bytes.substr(8, 4) != "WAVE") {
    return std::nullopt;
  }
  WavView out;
  bool has_format = false, has_data = false;
  bool honest = std::uint64_t{little32(bytes.substr(4))} + kChunkHeader == bytes.size();
  std::size_t at = kRiffHeader;
  while (at + kChunkHeader <= bytes.size()) {
    const std::string_view name = bytes.substr(at, 4);
    const std::uint32_t size = little32(bytes.substr(at + 4));
    const std::size_t room = bytes.size() - at - kChunkHeader;
    if (has_data && (name == "RIFF" || !is_chunk_name(name) || size > room)) {
      const std::string_view behind = bytes.substr(at);
      out.goes_on = out.goes_on || name == "RIFF" ||
                    (behind.size() > kOddRest && behind.find_first_not_of('\0') != behind.npos);
      break;
    }
    const std::string_view body = bytes.substr(at + kChunkHeader, size);
    if (name == "fmt " && body.size() >= kFormatMin) {
      honest = honest && !has_format;
      has_format = true;
      read_format(body, out);
    } else if (name == "data") {
      // Of two data chunks players play the first.
      honest = honest && !has_data && has_format;
      const bool rest = size == 0 || size >= kUnknownSize || size > room;
      out.goes_on = out.goes_on || (has_data && size > 0);
      if (!has_data) {
        out.data_at = at + kChunkHeader;
        out.data_size = rest ? room : size;
      }
      has_data = true;
      if (rest) {
        honest = false;
        at = bytes.size();
        break;
      }
    }
    if (size > room) {
      break;
    }
    at += kChunkHeader + size + (size & 1U);
  }
  out.honest = honest && at == bytes.size();
  if (!has_format || !has_data) {
    return std::nullopt;
  }
  return out;
}

std::optional<PlainSound> plain_sound(const WavView& view, std::string_view bytes) {
  PlainSound out;
  if (view.encoding == kPcm && (view.bits == 16 || view.bits == 24 || view.bits == 32)) {
    out.kind = view.bits == 16   ? SampleKind::kS16
               : view.bits == 24 ? SampleKind::kS24
                                 : SampleKind::kS32;
  } else if (view.encoding == kFloat && view.bits == 32) {
    out.kind = SampleKind::kF32;
  } else {
    return std::nullopt;
  }
  const std::size_t frame = sample_size(out.kind) * view.channels;
  if (view.channels < 1 || view.channels > 2 || view.block != frame || view.rate > INT32_MAX) {
    return std::nullopt;
  }
  out.rate = static_cast<int>(view.rate);
  out.channels = static_cast<int>(view.channels);
  out.data = bytes.substr(view.data_at, view.data_size / frame * frame);
  out.honest = view.honest && out.kind == SampleKind::kS16 && out.data.size() == view.data_size;
  return out;
}

std::size_t read_samples(const PlainSound& sound, std::size_t from, std::span<float> out) {
  const std::size_t width = sample_size(sound.kind);
  const std::size_t total = sound.data.size() / width;
  const std::size_t count = std::min(out.size(), total - std::min(from, total));
  const std::string_view data = sound.data.substr(std::min(from, total) * width, count * width);
  out = out.first(count);
  switch (sound.kind) {
    case SampleKind::kS16:
      read_each<2>(data, out, [](std::string_view at) {
        return static_cast<float>(static_cast<std::int16_t>(little16(at))) / 32768.0F;
      });
      break;
    case SampleKind::kS24:
      // In the upper three bytes, so that the sign is where it belongs.
      read_each<3>(data, out, [](std::string_view at) {
        return from_s32(little16(at) << 8U | byte_of(at[2]) << 24U);
      });
      break;
    case SampleKind::kS32:
      read_each<4>(data, out, [](std::string_view at) { return from_s32(little32(at)); });
      break;
    case SampleKind::kF32:
      read_each<4>(
          data, out, [](std::string_view at) { return std::bit_cast<float>(little32(at)); });
      break;
  }
  return count;
}

}  // namespace audiogen
