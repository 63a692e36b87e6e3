#include "common/base/base64.h"

#include <array>
#include <cstddef>

#include <openssl/evp.h>

namespace audiogen {
namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<std::int8_t, 256> base64_values() {
  std::array<std::int8_t, 256> out{};
  out.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return out;
}
constexpr auto kBase64 = base64_values();

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

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t digits = text.size() - padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int value = kBase64[static_cast<unsigned char>(text[i])];
    if (value < 0) {
      return std::nullopt;
    }
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    if (i % 4 == 3) {
      out += static_cast<char>(bits >> 16U & 0xFFU);
      out += static_cast<char>(bits >> 8U & 0xFFU);
      out += static_cast<char>(bits & 0xFFU);
      bits = 0;
    }
  }
  // The bits that pad the last byte must be zero, or two texts would mean the same.
  if ((padding == 1 && (bits & 0x3U) != 0) || (padding == 2 && (bits & 0xFU) != 0)) {
    return std::nullopt;
  }
  if (padding == 1) {
    out += static_cast<char>(bits >> 10U & 0xFFU);
    out += static_cast<char>(bits >> 2U & 0xFFU);
  } else if (padding == 2) {
    out += static_cast<char>(bits >> 4U & 0xFFU);
  }
  return out;
}

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '\0');
  // Writes a zero after the text, too: where the string keeps its own.
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return out;
}

}  // namespace audiogen
