#include "common/domain/preference.h"

#include <algorithm>
#include <charconv>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

// Takes what is before the next `separator` off `text`; one inside a quoted string is none.
std::string_view take(std::string_view& text, char separator) {
  bool quoted = false;
  std::size_t i = 0;
  for (; i < text.size() && (quoted || text[i] != separator); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    }
  }
  const std::string_view out = text.substr(0, std::min(i, text.size()));
  text.remove_prefix(std::min(i + 1, text.size()));
  return ascii::trim(out);
}

std::optional<std::chrono::seconds> seconds_of(std::string_view value) {
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  if (value.empty() || !std::all_of(value.begin(), value.end(), ascii::is_digit)) {
    return std::nullopt;
  }
  long long seconds = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (read.ec == std::errc::result_out_of_range || seconds > kWaitMax.count()) {
    return kWaitMax;
  }
  return seconds == 0 ? std::nullopt : std::optional(std::chrono::seconds(seconds));
}

}  // namespace

std::optional<std::chrono::seconds> preferred_wait(std::string_view prefer) {
  while (!prefer.empty()) {
    std::string_view preference = take(prefer, ',');
    std::string_view value = take(preference, ';');  // What follows are its parameters.
    const std::string_view name = take(value, '=');
    if (ascii::lower(name) == "wait") {
      return seconds_of(ascii::trim(value));
    }
  }
  return std::nullopt;
}

}  // namespace audiogen
