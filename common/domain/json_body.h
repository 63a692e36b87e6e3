// What must hold of the bytes of a JSON body before a parser sees them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

inline constexpr std::size_t kJsonDepthMax = 32;  // A valid body needs 2.

// What is wrong with `body`, as a sentence for the client; nullopt when a parser may have it. For
// what RapidJSON would let through: it takes NUL for the end of the text and skips a byte order
// mark; nesting is bounded before anything can recurse on it. One pass.
std::optional<std::string> json_body_fault(std::string_view body);

}  // namespace audiogen
