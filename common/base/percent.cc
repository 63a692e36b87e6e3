#include "common/base/percent.h"

#include <cstddef>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

std::optional<std::string> decode(std::string_view text, char plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? plus : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? ascii::hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? ascii::hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return std::nullopt;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  return decode(text, '+');
}

std::optional<std::string> form_decode(std::string_view text) {
  return decode(text, ' ');
}

}  // namespace audiogen
