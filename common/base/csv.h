// Writing CSV (RFC 4180) into a string.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "common/base/ascii.h"

namespace audiogen {

// Appends one field. A text that a spreadsheet would take for a formula (it begins with = + - @, a
// tab or a line break) gets an apostrophe before it: nobody's text may become a command on the
// computer of whoever opens the file. A plain number stays one, a negative one too.
inline void append_csv_field(std::string& out, std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool number = !digits.empty() && ascii::is_digit(digits.front()) &&
                      std::all_of(digits.begin(), digits.end(), [](char c) {
                        return ascii::is_digit(c) || c == '.';
                      });
  const bool formula = !text.empty() && !number &&
                       std::string_view("=+-@\t\r\n").find(text.front()) != std::string_view::npos;
  const bool quoted = text.find_first_of("\",\r\n") != std::string_view::npos;
  if (quoted) {
    out += '"';
  }
  if (formula) {
    out += '\'';
  }
  for (const char c : text) {
    if (c == '"') {
      out += '"';
    }
    out += c;
  }
  if (quoted) {
    out += '"';
  }
}

// Appends one line.
template <class Fields>
void append_csv_line(std::string& out, const Fields& fields) {
  bool first = true;
  for (const std::string_view field : fields) {
    if (!first) {
      out += ',';
    }
    first = false;
    append_csv_field(out, field);
  }
  out += "\r\n";
}
inline void append_csv_line(std::string& out, std::initializer_list<std::string_view> fields) {
  append_csv_line<std::initializer_list<std::string_view>>(out, fields);
}

}  // namespace audiogen
