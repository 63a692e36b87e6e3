// Where a list goes on: what the store needs for it, in a text that means nothing to the client.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen::api {

inline constexpr std::size_t kCursorMax = 128;  // Bytes of a position.

// The cursor of a position. `version` says how the bytes are to be read: a list that changes its
// positions takes another number, and old cursors get 400 instead of a wrong page. It is not
// sealed: a position must give nobody what he could not have by asking for it.
std::string encode_cursor(std::uint8_t version, std::span<const std::uint8_t> position);

// The position of a cursor of this version, 1 to kCursorMax bytes; nullopt for anything else.
std::optional<std::vector<std::uint8_t>> decode_cursor(std::uint8_t version, std::string_view text);

}  // namespace audiogen::api
