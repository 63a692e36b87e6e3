// Characters of US-ASCII. Unlike <cctype>, nothing here knows a locale, and every byte above 0x7F
// belongs to no class and is its own lower case.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace audiogen::ascii {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

constexpr bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
constexpr bool is_alnum(char c) {
  return is_digit(c) || is_upper(c) || is_lower(c);
}

// A character that leaves ink: no space, no control character.
constexpr bool is_visible(char c) {
  return c > ' ' && c < 0x7F;
}

// The C0 control characters and DEL.
constexpr bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == 0x7F;
}

constexpr char lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

// Whether `text` is `word` but for case; `word` is in lower case.
constexpr bool equals_ignoring_case(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(), [](char a, char b) {
    return lower(a) == b;
  });
}

// Without the spaces and tabs at either end (OWS, RFC 9110 section 5.6.3).
constexpr std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The value of a hexadecimal digit of either case; -1 for anything else.
constexpr int hex_value(char c) {
  const char l = lower(c);
  return is_digit(c) ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// Lower-case hexadecimal digits by value.
inline constexpr char kHexDigits[] = "0123456789abcdef";

}  // namespace audiogen::ascii
