#include "common/base/base64.h"

#include <cstddef>

namespace audiogen {
namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::string encode_base64url(std::span<const std::uint8_t> bytes) {
  std::string out;
  out.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int waiting = 0;  // Bits that are not written yet: below 6 between two bytes.
  for (const std::uint8_t byte : bytes) {
    bits = bits << 8U | byte;
    for (waiting += 8; waiting >= 6; waiting -= 6) {
      out += kBase64Alphabet[bits >> static_cast<unsigned>(waiting - 6) & 63U];
    }
  }
  if (waiting > 0) {
    out += kBase64Alphabet[bits << static_cast<unsigned>(6 - waiting) & 63U];
  }
  return out;
}

std::optional<std::vector<std::uint8_t>> decode_base64url(std::string_view text) {
  std::vector<std::uint8_t> out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int waiting = 0;
  for (const char c : text) {
    const auto value = kBase64Alphabet.find(c);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    waiting += 6;
    if (waiting >= 8) {
      waiting -= 8;
      out.push_back(static_cast<std::uint8_t>(bits >> static_cast<unsigned>(waiting)));
    }
  }
  // Of a whole text at most four bits are left over, and those are zero.
  if (waiting >= 6 || (bits & ((1U << static_cast<unsigned>(waiting)) - 1U)) != 0) {
    return std::nullopt;
  }
  return out;
}

}  // namespace audiogen
