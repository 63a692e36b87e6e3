// Integers in file headers. The caller has checked that the bytes are there.
#pragma once

#include <cstdint>
#include <string_view>

namespace audiogen {

inline std::uint32_t byte_of(char c) {
  return static_cast<unsigned char>(c);
}

inline std::uint32_t little16(std::string_view bytes) {
  return byte_of(bytes[0]) | byte_of(bytes[1]) << 8U;
}

inline std::uint32_t little32(std::string_view bytes) {
  return little16(bytes) | byte_of(bytes[2]) << 16U | byte_of(bytes[3]) << 24U;
}

inline std::uint64_t little64(std::string_view bytes) {
  return little32(bytes) | std::uint64_t{little32(bytes.substr(4))} << 32U;
}

inline std::uint32_t big32(std::string_view bytes) {
  return byte_of(bytes[0]) << 24U | byte_of(bytes[1]) << 16U | byte_of(bytes[2]) << 8U |
         byte_of(bytes[3]);
}

}  // namespace audiogen
