#include "api/server/call.h"

#include "api/server/answer.h"
#include "api/server/etag.h"
#include "api/server/security_events.h"
#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"

namespace audiogen::api {
namespace {

// "application/json", optionally with charset=utf-8.
bool is_json(std::string_view type) {
  std::string lower;
  for (const char c : type) {
    if (c != ' ' && c != '\t' && c != '"') {
      lower += ascii::lower(c);
    }
  }
  return lower == "application/json" || lower == "application/json;charset=utf-8";
}

}  // namespace

Call::Call(http::Exchange exchange, const Route& route, const PathParameters& parameters)
    : exchange_(std::move(exchange)),
      route_(&route),
      parameters_(parameters),
      request_id_(request_id_of(&exchange_.request())) {}

std::uint64_t Call::holder() const {
  return route_->access == Access::kPublic ? HashOfIpAddress()(request().client.site())
                                           : std::hash<UserId>()(key_.user);
}

JsonBody Call::json_body(std::size_t bytes_max) const {
  AG_CHECK(route_->body == Body::kJson);
  return {*this, bytes_max};
}

void Call::reply(http::Response&& response) const {
  if (route_->cross_origin) {
    append_cross_origin(response.headers, request());
  } else {
    append_own_only(response.headers);
  }
  reply_refused(exchange_, std::move(response));
}

void Call::answer(int status, std::string json, std::string_view extra_headers) const {
  http::Response response;
  response.status = status;
  response.headers.reserve(kHeadersUsual);
  response.headers += "Content-Type: application/json\r\nCache-Control: no-store\r\n";
  append_header(response.headers, "X-Request-Id", request_id_);
  response.headers += rate_headers_;
  response.headers += extra_headers;
  response.body = std::move(json);
  reply(std::move(response));
}

http::Response Call::tagged(std::string_view cache_control, std::string_view etag) const {
  http::Response response;
  response.headers.reserve(kHeadersUsual);
  append_header(response.headers, "Cache-Control", cache_control);
  append_header(response.headers, "ETag", etag);
  append_header(response.headers, "X-Request-Id", request_id_);
  response.headers += rate_headers_;
  // Also for nobody in particular: a cache must not give a page what was answered to somebody who
  // is none.
  response.headers += "Vary: Origin\r\n";
  if (none_match(request(), etag)) {
    response.status = 304;
  } else {
    response.headers += "Content-Type: application/json\r\n";
  }
  return response;
}

void Call::answer_tagged(std::string json) const {
  // A browser keeps it, and asks each time.
  http::Response response = tagged("private, no-cache", strong_etag(json));
  if (response.status != 304) {
    response.body = std::move(json);
  }
  reply(std::move(response));
}

void Call::answer_public(std::string_view json, std::string_view etag) const {
  http::Response response = tagged("public, max-age=300", etag);
  if (response.status != 304) {
    response.body = json;
  }
  reply(std::move(response));
}

void Call::answer_csv(std::string csv, std::string_view file_name) const {
  http::Response response;
  response.headers.reserve(kHeadersUsual);
  response.headers +=
      "Content-Type: text/csv; charset=utf-8; header=present\r\nCache-Control: no-store\r\n"
      "Vary: Accept\r\n";
  if (route_->cross_origin) {  // The others all have it.
    response.headers += "X-Content-Type-Options: nosniff\r\n";
  }
  append_header(response.headers,
                "Content-Disposition",
                "attachment; filename=\"" + std::string(file_name) + "\"");
  append_header(response.headers, "X-Request-Id", request_id_);
  response.headers += rate_headers_;
  response.body = std::move(csv);
  reply(std::move(response));
}

void Call::begin_events() const {
  http::Response head;
  head.headers.reserve(kHeadersUsual);
  // The last one is for nginx, which keeps answers back until they are long enough.
  head.headers +=
      "Content-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n";
  append_header(head.headers, "X-Request-Id", request_id_);
  head.headers += rate_headers_;
  if (route_->cross_origin) {
    append_cross_origin(head.headers, request());
  } else {
    append_own_only(head.headers);
  }
  exchange_.begin_stream(std::move(head));
}

void Call::answer_nothing(std::string_view extra_headers) const {
  http::Response response;
  response.status = 204;
  append_header(response.headers, "Cache-Control", "no-store");
  append_header(response.headers, "X-Request-Id", request_id_);
  response.headers += rate_headers_;
  response.headers += extra_headers;
  reply(std::move(response));
}

void Call::fail(const ApiError& error) const {
  http::Response response = error_response(error, request_id_);
  response.headers += rate_headers_;
  tell_refusal(response.status, request_id_);
  reply(std::move(response));
}

void tell_refusal(int status, const std::string& request_id) {
  static Occasionally line;  // Under overload a line each would make it worse.
  if (status == 503 && line.due()) {
    log::warn("requests unavailable", {{"request_id", request_id}});
  }
}

Result<std::string_view, ApiError> JsonBody::await_resume() const {
  const http::Request& request = call_.request();
  // A second one would be a second opinion on what the body is.
  if (request.header_count("content-type") > 1) {
    return invalid_request("Content-Type must be given once.");
  }
  if (!is_json(request.header("content-type"))) {
    return invalid_request("Content-Type must be application/json.");
  }
  if (request.has_header("content-encoding") && request.header("content-encoding") != "identity") {
    return invalid_request("Content-Encoding is not supported: send the body as it is.");
  }
  if (request.body.size() > bytes_max_) {
    return invalid_request("The body must be at most " + std::to_string(bytes_max_) + " bytes.");
  }
  return request.body;
}

}  // namespace audiogen::api
