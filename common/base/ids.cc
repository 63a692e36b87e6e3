#include "common/base/ids.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/base/crypto.h"

namespace audiogen {
namespace {

constexpr std::string_view kIdAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";

constexpr auto kValueOf = [] {
  std::array<std::int8_t, 256> table{};
  for (auto& value : table) {
    value = -1;
  }
  for (std::size_t i = 0; i < kIdAlphabet.size(); ++i) {
    table[static_cast<std::uint8_t>(kIdAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return table;
}();

}  // namespace

std::uint64_t next_stamp(std::uint64_t last, std::chrono::microseconds now) {
  constexpr std::uint64_t kSmallStep = std::uint64_t{2'000} << 12U;
  const auto us = static_cast<std::uint64_t>(now.count());
  const std::uint64_t stamp = (us / 1000) << 12U | (us % 1000) * 4096 / 1000;
  return last > stamp + kSmallStep ? stamp : std::max(stamp, last + 1);
}

Uuid new_uuid() {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  // Ids of one process grow within a millisecond too, and append to their index.
  thread_local std::uint64_t last = 0;
  const std::uint64_t stamp = last = next_stamp(
      last, duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch()));
  Uuid id;
  random_bytes(id.bytes);
  for (std::size_t i = 0; i < 6; ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(stamp >> (52 - 8 * i));
  }
  id.bytes[6] = static_cast<std::uint8_t>(0x70U | ((stamp >> 8U) & 0x0FU));
  id.bytes[7] = static_cast<std::uint8_t>(stamp & 0xFFU);
  id.bytes[8] = static_cast<std::uint8_t>(0x80U | (id.bytes[8] & 0x3FU));
  return id;
}

Uuid first_uuid_at(Instant at) {
  const auto stamp = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch().count());
  Uuid id;
  for (std::size_t i = 0; i < 6; ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(stamp >> (40 - 8 * i));
  }
  return id;
}

Instant made_at(const Uuid& id) {
  std::int64_t stamp = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    stamp = stamp << 8 | id.bytes[i];
  }
  return Instant(std::chrono::milliseconds(stamp));
}

std::string encode_base32(const Uuid& id) {
  std::string out(26, '0');
  std::uint32_t bits = 0;
  int count = 2;  // 130 bits for 128: two zero bits lead.
  std::size_t at = 0;
  for (const std::uint8_t byte : id.bytes) {
    bits = bits << 8U | byte;
    count += 8;
    while (count >= 5) {
      count -= 5;
      out[at++] = kIdAlphabet[(bits >> static_cast<unsigned>(count)) & 31U];
    }
  }
  return out;
}

std::optional<Uuid> decode_base32(std::string_view text) {
  if (text.size() != 26 || text[0] > '7') {
    return std::nullopt;
  }
  Uuid id;
  std::uint32_t bits = 0;
  int count = -2;
  std::size_t at = 0;
  for (const char c : text) {
    const int value = kValueOf[static_cast<std::uint8_t>(c)];
    if (value < 0) {
      return std::nullopt;
    }
    bits = bits << 5U | static_cast<std::uint32_t>(value);
    count += 5;
    if (count >= 8) {
      count -= 8;
      id.bytes[at++] = static_cast<std::uint8_t>(bits >> static_cast<unsigned>(count));
    }
  }
  return id;
}

std::string random_base32(std::size_t count) {
  std::vector<std::uint8_t> raw(count);
  random_bytes(raw);
  std::string out(count, '0');
  std::transform(
      raw.begin(), raw.end(), out.begin(), [](std::uint8_t b) { return kIdAlphabet[b & 31U]; });
  return out;
}

}  // namespace audiogen
