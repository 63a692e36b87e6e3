// What answers of the operations port have in common.
#pragma once

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/json.h"
#include "common/domain/pricing.h"
#include "common/http/ops_server.h"

namespace audiogen::api {

// At most three decimals; null: not known.
inline JsonWriter& decimal(JsonWriter& json, std::string_view name, std::optional<double> value) {
  constexpr double kThousand = 1000;
  json.key(name);
  return value ? json.raw(format_credits(Units{std::llround(*value * kThousand)})) : json.null();
}

// The same of a time, in seconds.
template <class Rep, class Period>
JsonWriter& decimal(JsonWriter& json,
                    std::string_view name,
                    std::chrono::duration<Rep, Period> time) {
  return decimal(json, name, std::chrono::duration<double>(time).count());
}

inline http::Response ops_json(std::string json) {
  return http::ops_answer(200, std::move(json) + "\n", "application/json");
}
// `message` is a sentence of our own, with nothing to escape.
inline http::Response ops_error(int status, std::string_view message) {
  return http::ops_answer(
      status, "{\"error\":\"" + std::string(message) + "\"}\n", "application/json");
}
inline http::Response database_away() {
  return ops_error(503, "The database does not answer");
}

}  // namespace audiogen::api
