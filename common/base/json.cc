#include "common/base/json.h"

#include <algorithm>

#include "common/base/ascii.h"

namespace audiogen {

void append_json_escaped(std::string& out, std::string_view text) {
  const auto plain = [](char c) {
    return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
  };
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), plain);
    out.append(text.begin(), end);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (!text.empty()) {
      const auto byte = static_cast<unsigned char>(text.front());
      if (byte < 0x20) {
        out += "\\u00";
        out += ascii::kHexDigits[byte >> 4U];
        out += ascii::kHexDigits[byte & 0xFU];
      } else {
        out += '\\';
        out += text.front();
      }
      text.remove_prefix(1);
    }
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_member(std::string& out, std::string_view name, std::string_view text) {
  out += '"';
  out += name;
  out += "\":";
  append_json_string(out, text);
}

}  // namespace audiogen
