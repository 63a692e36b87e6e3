#include "common/domain/json_body.h"

#include <array>
#include <climits>

#include "common/base/utf8.h"

namespace audiogen {
namespace {

// What neither ends nor escapes anything within a string, and is a whole character: nearly all of a
// body, so it is passed over with one look each.
constexpr auto kPlain = [] {
  std::array<bool, UCHAR_MAX + 1> out{};
  for (unsigned c = 1; c < 0x80; ++c) {
    out[c] = c != '"' && c != '\\';
  }
  return out;
}();

}  // namespace

std::optional<std::string> json_body_fault(std::string_view body) {
  if (body.starts_with("\xEF\xBB\xBF")) {
    return "The body must not start with a byte order mark.";
  }
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(body[i]); };
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    while (in_string && i < body.size() && kPlain[at(i)]) {
      ++i;
    }
    if (i == body.size()) {
      break;
    }
    const unsigned char c = at(i);
    if (c >= 0x80) {
      const std::size_t length = utf8_sequence_length(body.substr(i));
      if (length == 0) {
        return "The body must be valid UTF-8.";
      }
      i += length - 1;
    } else if (c == '\0') {
      return "The body must not contain NUL bytes.";
    } else if (in_string) {
      const bool escapes = c == '\\' && i + 1 < body.size() && at(i + 1) > 0 && at(i + 1) < 0x80;
      in_string = c != '"';
      i += escapes ? 1 : 0;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kJsonDepthMax) {
        return "The body must not nest deeper than " + std::to_string(kJsonDepthMax) + " levels.";
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace audiogen
