// Well-formed UTF-8 (Unicode 15, table 3-7).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace audiogen {

// The length in bytes (1-4) of the well-formed sequence `text` starts with; 0 when it starts with
// none (overlong, surrogate, beyond U+10FFFF, cut) or is empty.
constexpr std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return text.empty() ? 0 : 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return continues(1) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return !overlong && !surrogate && continues(1) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return !overlong && !beyond && continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

// The character of a well-formed sequence, of which `sequence` is the whole.
constexpr char32_t utf8_code_point(std::string_view sequence) {
  constexpr unsigned kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t out = static_cast<unsigned char>(sequence[0]) & kLeadBits[sequence.size()];
  for (const char byte : sequence.substr(1)) {
    out = out << 6U | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  return out;
}

// How many characters `text` has; a byte that is no part of a well-formed sequence counts as one.
std::size_t utf8_length(std::string_view text);

// The first `max` characters of `text`, every byte that is no part of a well-formed sequence
// replaced by "?".
std::string clip_utf8(std::string_view text, std::size_t max);

}  // namespace audiogen
