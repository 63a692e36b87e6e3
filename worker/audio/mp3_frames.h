// The frames of an MP3 file (ISO 11172-3 and 13818-3, layer III), without decoding them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace audiogen {

struct Mp3Header {
  int rate = 0;            // Hz
  int channels = 0;        // 1 or 2
  int samples = 0;         // of one channel
  std::size_t size = 0;    // bytes of the frame, the header included
  std::size_t tag_at = 0;  // where a Xing or Info tag would be
};

// What follows the ID3v2 tag at the start; all of `bytes` without one.
std::string_view without_id3v2(std::string_view bytes);

// The header at the start of `bytes`; nullopt when there is none, or one of free format.
std::optional<Mp3Header> read_mp3_header(std::string_view bytes);

// How many samples of one channel players play: of a file that is nothing but frames of one rate
// and channel count between an ID3v2 tag and an ID3v1 tag, and whose Xing tag, if any, counts them
// right. Nullopt for every other file.
std::optional<std::uint64_t> count_mp3_samples(std::string_view bytes);

// True when the file ends before the frames that its Xing tag promises. One or two fewer are no
// matter: some writers count the tag's own.
bool is_cut_mp3(std::string_view bytes);

}  // namespace audiogen
