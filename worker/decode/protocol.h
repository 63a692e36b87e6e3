// What the worker and the decoder helper say to each other, over worker/sandbox/channel.h. A packet
// is one Request and brings a sealed memory file with the bytes to decode. The answer for sound is
// the blocks kStart, kSamples…, kSound, for a picture kImage; kFault ends either.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "worker/sandbox/sandbox.h"

namespace audiogen::decode {

inline constexpr std::uint32_t kProtocolVersion = 2;

enum class Media : std::uint32_t { kAudio = 0, kImage = 1 };

struct Request {
  std::uint32_t version = kProtocolVersion;
  sandbox::Limits limits;
  Media media = Media::kAudio;
  std::uint32_t type = 0;  // an AudioType or an ImageType
  std::uint32_t size = 0;  // bytes in the memory file
};

enum class BlockKind : std::uint32_t {
  kStart = 1,    // the sample rate in Hz, 32 bits
  kSamples = 2,  // mono, 32-bit float
  kSound = 3,    // Sound
  kImage = 4,    // Image
  kFault = 5,    // a DecodeFault, 32 bits
};
struct Sound {
  std::uint32_t exact = 0;   // 1: the file is an ExactFile, as the fields below say
  std::uint32_t format = 0;  // an OutputFormat
  std::uint32_t rate = 0;    // Hz
  std::uint32_t channels = 0;
};
struct Image {
  std::uint32_t width = 0, height = 0;  // pixels
};

template <class T>
std::string_view bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Nullopt when there are more or fewer bytes than a T has.
template <class T>
std::optional<T> read_as(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T out{};
  if (bytes.size() != sizeof(out)) {
    return std::nullopt;
  }
  std::memcpy(&out, bytes.data(), sizeof(out));
  return out;
}

}  // namespace audiogen::decode
