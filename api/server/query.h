// The query of a request: its parameters, decoded, and only those that the route knows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_error.h"

namespace audiogen::api {

class Query {
 public:
  static constexpr std::size_t kValueMax = 512;  // Bytes, decoded.

  // Reads `text`, what is behind the "?", as forms write it: name=value joined by "&", in percent
  // encoding, "+" for a space. 400 naming the parameter: one that is not in `known`, twice the
  // same, a broken encoding, a value of more than kValueMax bytes, that is not UTF-8 or has control
  // characters. A name is told only when it looks like one, and a value never: either may be a
  // secret that was pasted at the wrong place. An empty piece ("a=1&") counts for nothing.
  static Result<Query, ApiError> parse(std::string_view text,
                                       std::span<const std::string_view> known);
  static Result<Query, ApiError> parse(std::string_view text,
                                       std::initializer_list<std::string_view> known) {
    return parse(text, std::span(known.begin(), known.size()));
  }

  // The value of a parameter; nullopt when it is not there.
  std::optional<std::string_view> text(std::string_view name) const;
  // A whole number from `low` to `high`, or `fallback` when it is not there. 400 else.
  Result<std::int64_t, ApiError> number(std::string_view name,
                                        std::int64_t low,
                                        std::int64_t high,
                                        std::int64_t fallback) const;
  // A time (RFC 3339), moved to the years 1970 to 9998, what a column of the database can hold;
  // nullopt when it is not there. 400 when it is none.
  Result<std::optional<Instant>, ApiError> time(std::string_view name) const;
  // `limit` of a list: 1 to 100, 20 when it is not there.
  Result<std::int64_t, ApiError> page_limit() const { return number("limit", 1, 100, 20); }

 private:
  std::vector<std::pair<std::string_view, std::string>> values_;  // By the names the route knows.
};

}  // namespace audiogen::api
