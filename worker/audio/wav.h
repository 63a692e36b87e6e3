// Our own reader of plain WAV files, in bounds whatever the bytes are: the kinds that providers
// send need no third-party parser, and so no sandbox.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace audiogen {

struct WavFile {
  enum class Sample : std::uint8_t { kInt16, kInt24, kInt32, kFloat32 };
  Sample sample = Sample::kInt16;
  int channels = 1;
  int rate = 0;               // Hz
  std::string_view frames{};  // interleaved, little-endian, whole frames
  // The sizes in the header are those of the file, and nothing follows the samples.
  bool honest = false;
};

// Reads the header of a plain WAV file (PCM of 16, 24 or 32 bits, or 32-bit float; any number of
// channels). Writers that did not know the length yet left 0 or a huge size: then the samples go to
// the end of `bytes` (audio 2.2). Nullopt: not such a file, or one cut short.
std::optional<WavFile> read_wav(std::string_view bytes);

// Frame `i`, channel `c`, as -1..1.
float wav_sample(const WavFile& wav, std::size_t i, int c);

std::size_t wav_frame_count(const WavFile& wav);

}  // namespace audiogen
