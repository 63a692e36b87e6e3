// Hashing and randomness, by OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace audiogen {

using Sha256 = std::array<std::uint8_t, 32>;

// SHA-256 (FIPS 180-4) of `data`.
Sha256 sha256(std::string_view data);

// HMAC-SHA-256 (RFC 2104). Aborts without a key.
Sha256 hmac_sha256(std::string_view key, std::string_view data);

// Fills `out` from the operating system's generator. Aborts if there is none. Thread-safe; buffered
// per thread.
void random_bytes(std::span<std::uint8_t> out);

// Random bytes that are not all zero.
template <std::size_t N>
std::array<std::uint8_t, N> random_number() {
  std::array<std::uint8_t, N> out{};
  do {
    random_bytes(out);
  } while (out == std::array<std::uint8_t, N>{});
  return out;
}

// Compares without a timing side channel. Different lengths are unequal.
bool constant_time_equal(std::string_view a, std::string_view b);

// CRC-32 (ISO 3309), the checksum in API keys: it finds typing errors, it is no secret.
std::uint32_t crc32(std::string_view data);

// Lower-case hexadecimal.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace audiogen
