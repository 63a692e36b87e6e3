#include "common/domain/api_key.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace audiogen {
namespace {

constexpr std::string_view kBase62 =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kRandomLength = 43;   // 256 bits.
constexpr std::size_t kChecksumLength = 6;  // 62^6 > 2^32.
constexpr std::size_t kPrefixRandom = 4;    // Random characters that may be shown.

bool is_base62(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

std::string key_start(std::string_view brand) {
  return std::string(brand) + "_live_";
}

std::string random_base62(std::size_t length) {
  // Bytes from here up would make the first characters of the alphabet likelier.
  constexpr std::uint8_t kFair = 256 / kBase62.size() * kBase62.size();
  std::string out;
  while (out.size() < length) {
    std::array<std::uint8_t, 64> raw;
    random_bytes(raw);
    for (const std::uint8_t byte : raw) {
      if (byte < kFair && out.size() < length) {
        out += kBase62[byte % kBase62.size()];
      }
    }
  }
  return out;
}

std::string checksum(std::string_view text) {
  std::string out(kChecksumLength, kBase62[0]);
  std::uint32_t rest = crc32(text);
  for (auto at = out.rbegin(); at != out.rend(); ++at) {
    *at = kBase62[rest % kBase62.size()];
    rest /= static_cast<std::uint32_t>(kBase62.size());
  }
  return out;
}

}  // namespace

NewApiKey make_api_key(std::string_view brand) {
  const std::string start = key_start(brand);
  NewApiKey key;
  key.text = start + random_base62(kRandomLength);
  key.text += checksum(key.text);
  key.prefix = key.text.substr(0, start.size() + kPrefixRandom);
  key.hash = sha256(key.text);
  return key;
}

std::optional<Sha256> api_key_hash(std::string_view presented, std::string_view brand) {
  const std::string start = key_start(brand);
  if (presented.size() != start.size() + kRandomLength + kChecksumLength ||
      !presented.starts_with(start)) {
    return std::nullopt;
  }
  const auto end = presented.size() - kChecksumLength;
  const std::string_view random = presented.substr(start.size());
  if (!std::all_of(random.begin(), random.end(), is_base62) ||
      presented.substr(end) != checksum(presented.substr(0, end))) {
    return std::nullopt;
  }
  return sha256(presented);
}

}  // namespace audiogen
