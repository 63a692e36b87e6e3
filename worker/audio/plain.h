// Sound that needs no decoder: headerless PCM and the plain kinds of WAV. Reads foreign bytes in
// the worker's own process: bounds-checked, no third-party code. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace audiogen {

enum class SampleKind { kS16, kS24, kS32, kF32 };  // little-endian

std::size_t sample_size(SampleKind kind);  // bytes

struct PlainSound {
  SampleKind kind = SampleKind::kS16;
  int rate = 0;  // Hz
  int channels = 0;
  std::string_view data;  // whole frames
  // The file's sizes are right, nothing is left over and its samples are 16 bit.
  bool honest = false;
};

// What a RIFF/WAVE file holds; nullopt when it has no format or no data. Forgives what writers to a
// pipe do: a data size of 0, of 0x7FFFFFFF and more, or larger than the file means all the rest.
struct WavView {
  std::uint32_t encoding = 0;  // of WAVE_FORMAT_EXTENSIBLE its sub-format
  std::uint32_t channels = 0, rate = 0, block = 0, bits = 0;
  std::size_t data_at = 0, data_size = 0;
  bool honest = false;  // every size is right and nothing is left over
  // Behind its data stands what may be more sound, of which nothing is in it: other data, another
  // file, or much that is no chunk.
  bool goes_on = false;
};
std::optional<WavView> view_wav(std::string_view bytes);

// The sound of a WAV file of a plain kind; nullopt for the others, which take a codec.
std::optional<PlainSound> plain_sound(const WavView& view, std::string_view bytes);

// Turns as many samples as `out` has room for; returns how many there were.
std::size_t read_samples(const PlainSound& sound, std::size_t from, std::span<float> out);

}  // namespace audiogen
