// Base64 with padding (RFC 4648 section 4), and with the alphabet that is safe in URLs and file
// names, without it (RFC 4648 section 5).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen {

std::string encode_base64(std::string_view bytes);

// The reverse, with its padding and nothing else; nullopt for everything else.
std::optional<std::string> decode_base64(std::string_view text);

std::string encode_base64url(std::span<const std::uint8_t> bytes);

// The reverse. Nothing but exactly what encode_base64url writes is accepted: no padding, no white
// space, no bits left over.
std::optional<std::vector<std::uint8_t>> decode_base64url(std::string_view text);

}  // namespace audiogen
