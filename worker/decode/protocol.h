// What the worker and the decoding helper say to each other, within worker/sandbox/wire.h: a packet
// is a Request, with the pipe and a memory file of the foreign bytes; the answer is kSound,
// kSamples…, kEnd, or kImage, or kBad.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/sandbox/sandbox.h"

namespace audiogen::decoding {

inline constexpr std::uint32_t kProtocolVersion = 1;

// Ten minutes of sound at 48 kHz need 270 MiB and two seconds.
inline constexpr sandbox::Limits kLimits{.memory_mib = 384, .cpu_seconds = 10, .wall_seconds = 20};

inline constexpr std::size_t kBytesDescriptor = 1;  // among the packet's descriptors

enum class What : std::uint32_t { kSound = 1, kImage = 2 };

struct Request {
  What what = What::kSound;
  // As in Audio, for kSound.
  std::uint32_t type = 0, rate = 0, channels = 0;
  std::uint64_t seconds_max = 0;  // the bits of a double
};

enum class BlockKind : std::uint32_t {
  kSound = 1,    // a SoundHeader
  kSamples = 2,  // 32-bit floats, mono
  kEnd = 3,      // of the samples; empty
  kImage = 4,    // an ImageHeader
  kBad = 5,      // why, in at most kReasonMax bytes of printable ASCII
};

struct SoundHeader {
  std::uint32_t rate = 0, channels = 0, exact = 0;
};
struct ImageHeader {
  std::uint32_t type = 0, width = 0, height = 0;
};
inline constexpr std::size_t kReasonMax = 120;

}  // namespace audiogen::decoding
