#include "common/domain/json_body.h"

#include <utility>

#include "common/base/utf8.h"

namespace audiogen {

std::optional<std::string> json_body_fault(std::string_view body) {
  if (body.starts_with("\xEF\xBB\xBF")) {
    return "The body must not start with a byte order mark.";
  }
  std::size_t depth = 0;
  bool in_string = false;
  bool after_backslash = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    const bool escaped = std::exchange(after_backslash, false);
    if (static_cast<unsigned char>(c) >= 0x80) {
      const std::size_t length = utf8_sequence_length(body.substr(i));
      if (length == 0) {
        return "The body must be valid UTF-8.";
      }
      i += length - 1;
    } else if (c == '\0') {
      return "The body must not contain NUL bytes.";
    } else if (in_string) {
      in_string = c != '"' || escaped;
      after_backslash = c == '\\' && !escaped;
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
