#include "worker/audio/wav.h"

#include <bit>
#include <cstring>

namespace audiogen {
namespace {

constexpr std::size_t kRiffHeader = 12, kChunkHeader = 8;
constexpr std::size_t kFormatMin = 16, kExtensibleMin = 40;
constexpr std::uint32_t kUnknownSize = 0x7FFFFFFF;  // and above: the writer did not know
constexpr std::uint32_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;
constexpr std::uint32_t kChannelsMax = 255;

std::uint32_t little(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t out = 0;
  for (std::size_t i = count; i > 0; --i) {
    out = out << 8U | static_cast<unsigned char>(bytes[at + i - 1]);
  }
  return out;
}

std::size_t width(WavFile::Sample sample) {
  return sample == WavFile::Sample::kInt16 ? 2 : sample == WavFile::Sample::kInt24 ? 3 : 4;
}

// The "fmt " chunk's content.
std::optional<WavFile> read_format(std::string_view chunk) {
  if (chunk.size() < kFormatMin) {
    return std::nullopt;
  }
  std::uint32_t tag = little(chunk, 0, 2);
  const std::uint32_t channels = little(chunk, 2, 2), rate = little(chunk, 4, 4),
                      block = little(chunk, 12, 2), bits = little(chunk, 14, 2);
  if (tag == kExtensible && chunk.size() >= kExtensibleMin) {
    tag = little(chunk, 24, 2);  // the first field of the sub-format's GUID
  }
  WavFile out;
  if (tag == kPcm && (bits == 16 || bits == 24 || bits == 32)) {
    out.sample = bits == 16   ? WavFile::Sample::kInt16
                 : bits == 24 ? WavFile::Sample::kInt24
                              : WavFile::Sample::kInt32;
  } else if (tag == kFloat && bits == 32) {
    out.sample = WavFile::Sample::kFloat32;
  } else {
    return std::nullopt;
  }
  if (channels == 0 || channels > kChannelsMax || rate == 0 || rate > 0x7FFFFFFF ||
      block != channels * bits / 8) {
    return std::nullopt;
  }
  out.channels = static_cast<int>(channels);
  out.rate = static_cast<int>(rate);
  return out;
}

}  // namespace

std::optional<WavFile> read_wav(std::string_view bytes) {
  if (bytes.size() < kRiffHeader || !bytes.starts_with("RIFF") || bytes.substr(8, 4) != "WAVE") {
    return std::nullopt;
  }
  std::optional<WavFile> out;
  for (std::size_t at = kRiffHeader; at + kChunkHeader <= bytes.size();) {
    const std::string_view name = bytes.substr(at, 4);
    const std::uint32_t size = little(bytes, at + 4, 4);
    const std::size_t start = at + kChunkHeader, left = bytes.size() - start;
    if (name == "data") {
      if (!out) {
        return std::nullopt;
      }
      const bool unknown = size == 0 || size >= kUnknownSize;
      if (!unknown && size > left) {
        return std::nullopt;  // cut short
      }
      const std::size_t frame = width(out->sample) * static_cast<std::size_t>(out->channels);
      const std::size_t held = unknown ? left : size;
      out->frames = bytes.substr(start, held / frame * frame);
      out->honest =
          !unknown && size == left && held % frame == 0 && little(bytes, 4, 4) == bytes.size() - 8;
      return out;
    }
    if (size > left) {
      return std::nullopt;
    }
    if (name == "fmt ") {
      out = read_format(bytes.substr(start, size));
      if (!out) {
        return std::nullopt;
      }
    }
    at = start + size + (size & 1U);  // chunks start at even places
  }
  return std::nullopt;
}

std::size_t wav_frame_count(const WavFile& wav) {
  return wav.frames.size() / (width(wav.sample) * static_cast<std::size_t>(wav.channels));
}

float wav_sample(const WavFile& wav, std::size_t i, int c) {
  const std::size_t size = width(wav.sample);
  const std::size_t at =
      (i * static_cast<std::size_t>(wav.channels) + static_cast<std::size_t>(c)) * size;
  const std::uint32_t raw = little(wav.frames, at, size);
  switch (wav.sample) {
    case WavFile::Sample::kInt16:
      return static_cast<float>(static_cast<std::int16_t>(raw)) / 32768.0F;
    case WavFile::Sample::kInt24:
      return static_cast<float>(static_cast<std::int32_t>(raw << 8U)) / 2147483648.0F;
    case WavFile::Sample::kInt32:
      return static_cast<float>(static_cast<std::int32_t>(raw)) / 2147483648.0F;
    case WavFile::Sample::kFloat32:
      return std::bit_cast<float>(raw);
  }
  return 0;
}

}  // namespace audiogen
