#include "api/server/answer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/ids.h"
#include "common/base/json.h"

namespace audiogen::api {
namespace {

constexpr std::string_view kRequestIdHeader = "x-request-id";

std::string error_body(std::string_view code,
                       std::string_view message,
                       std::string_view request_id,
                       const std::optional<std::string>& param = std::nullopt) {
  std::string out;
  out.reserve(64 + code.size() + message.size() + request_id.size());
  out += "{\"error\":{";
  append_json_member(out, "code", code);
  out += ',';
  append_json_member(out, "message", message);
  out += ',';
  append_json_member(out, "request_id", request_id);
  if (param) {
    out += ',';
    append_json_member(out, "param", *param);
  }
  out += "}}";
  return out;
}

http::Response error_shell(int status, std::string body, std::string_view request_id) {
  http::Response response;
  response.status = status;
  response.headers.reserve(kHeadersUsual);
  response.headers += "Content-Type: application/json\r\nCache-Control: no-store\r\n";
  append_header(response.headers, "X-Request-Id", request_id);
  response.body = std::move(body);
  return response;
}

}  // namespace

std::string render_error(const ApiError& error, std::string_view request_id) {
  return error_body(error_name(error.code), error.message, request_id, error.param);
}

http::Response error_response(const ApiError& error, std::string_view request_id) {
  http::Response response =
      error_shell(http_status(error.code), render_error(error, request_id), request_id);
  if (error.retry_after) {
    append_header(response.headers, "Retry-After", std::to_string(error.retry_after->count()));
  }
  if (error.code == ApiErrorCode::kInvalidApiKey) {
    response.headers += "WWW-Authenticate: Bearer\r\n";
  }
  if (retry_is_pointless(error.code)) {
    response.headers += "x-should-retry: false\r\n";
  }
  return response;
}

http::Response link_expired_response(std::string_view request_id) {
  return error_shell(
      403,
      error_body("link_expired",
                 "This link has expired. Reading the generation again gives a new one.",
                 request_id),
      request_id);
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

std::string set_cookie(std::string_view cookie) {
  std::string out;
  append_header(out, "Set-Cookie", cookie);
  return out;
}

void append_cross_origin(std::string& headers, const http::Request& request) {
  if (request.has_header("origin")) {
    headers +=
        "Access-Control-Allow-Origin: *\r\n"
        "Access-Control-Expose-Headers: Location, Retry-After, X-Request-Id, RateLimit, "
        "RateLimit-Policy, Idempotent-Replayed, Preference-Applied, ETag, Content-Range\r\n";
  }
}

void append_own_only(std::string& headers) {
  headers += "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n";
}

std::string request_id_of(const http::Request* request) {
  if (request != nullptr && request->header_count(kRequestIdHeader) == 1) {
    const std::string_view given = request->header(kRequestIdHeader);
    const bool well_formed =
        !given.empty() && given.size() <= 64 && std::all_of(given.begin(), given.end(), [](char c) {
          return ascii::is_alnum(c) || c == '.' || c == '_' || c == '-';
        });
    if (well_formed) {
      return std::string(given);
    }
  }
  return "req_" + encode_base32(new_uuid());
}

}  // namespace audiogen::api
