#include "common/base/utf8.h"

#include <algorithm>

namespace audiogen {

std::size_t utf8_length(std::string_view text) {
  std::size_t out = 0;
  for (; !text.empty(); ++out) {
    text.remove_prefix(std::max<std::size_t>(utf8_sequence_length(text), 1));
  }
  return out;
}

std::string clip_utf8(std::string_view text, std::size_t max) {
  std::string out;
  for (std::size_t count = 0; count < max && !text.empty(); ++count) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) {
      out += '?';
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace audiogen
