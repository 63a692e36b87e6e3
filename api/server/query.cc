#include "api/server/query.h"

#include <algorithm>
#include <charconv>

#include "common/base/percent.h"
#include "common/base/utf8.h"

namespace audiogen::api {
namespace {

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

ApiError unknown_parameter(std::string_view name) {
  if (!may_be_shown(name)) {
    return invalid_request("The query has a parameter that this path does not know.");
  }
  return invalid_parameter(std::string(name),
                           std::string(name) + " is not a query parameter of this path.");
}

ApiError wrong(std::string_view name, std::string_view rule) {
  return invalid_parameter(std::string(name), std::string(name) + " " + std::string(rule));
}

}  // namespace

Result<Query, ApiError> Query::parse(std::string_view text,
                                     std::span<const std::string_view> known) {
  Query out;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(piece.size() + 1, text.size()));
    if (piece.empty()) {
      continue;
    }
    const auto equals = std::min(piece.find('='), piece.size());
    const auto name = form_decode(piece.substr(0, equals));
    const auto parameter = name ? std::find(known.begin(), known.end(), *name) : known.end();
    if (parameter == known.end()) {
      return unknown_parameter(name.value_or(""));
    }
    if (out.text(*parameter)) {
      return wrong(*parameter, "may be given once only.");
    }
    auto value = form_decode(piece.substr(std::min(equals + 1, piece.size())));
    if (!value || value->size() > kValueMax || !is_plain_text(*value)) {
      return wrong(*parameter,
                   "must be text in percent encoding, of at most " + std::to_string(kValueMax) +
                       " bytes of UTF-8 without control characters.");
    }
    out.values_.emplace_back(*parameter, *std::move(value));
  }
  return out;
}

std::optional<std::string_view> Query::text(std::string_view name) const {
  const auto found = std::find_if(
      values_.begin(), values_.end(), [&](const auto& value) { return value.first == name; });
  return found == values_.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

Result<std::int64_t, ApiError> Query::number(std::string_view name,
                                             std::int64_t low,
                                             std::int64_t high,
                                             std::int64_t fallback) const {
  const auto digits = text(name);
  if (!digits) {
    return fallback;
  }
  std::int64_t value = 0;
  const auto* const last = digits->data() + digits->size();
  const auto [end, error] = std::from_chars(digits->data(), last, value);
  if (error != std::errc() || end != last || value < low || value > high) {
    return wrong(
        name,
        "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ".");
  }
  return value;
}

Result<std::optional<Instant>, ApiError> Query::time(std::string_view name) const {
  using std::chrono::sys_days;
  const auto given = text(name);
  if (!given) {
    return std::optional<Instant>();
  }
  const auto at = parse_iso(*given);
  if (!at) {
    return wrong(name, "must be an RFC 3339 time such as 2026-11-01T00:00:00Z.");
  }
  return std::optional(
      std::clamp(*at, Instant(sys_days(1970y / 1 / 1)), Instant(sys_days(9999y / 1 / 1))));
}

}  // namespace audiogen::api
