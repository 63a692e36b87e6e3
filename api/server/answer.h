// What every answer has: its header lines, and the body of an error.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/domain/api_error.h"
#include "common/http/server.h"

namespace audiogen::api {

// {"error":{"code","message","request_id"}}, and "param" where the error names one.
std::string render_error(const ApiError& error, std::string_view request_id);

// An error reply with its status, X-Request-Id and, where they apply, Retry-After, WWW-Authenticate
// and x-should-retry.
http::Response error_response(const ApiError& error, std::string_view request_id);

// 403 link_expired: a file's signed address was good once. Outside the interface's error table.
http::Response link_expired_response(std::string_view request_id);

// Bytes of the headers of most answers: room to make once.
inline constexpr std::size_t kHeadersUsual = 384;

// Appends "Name: value\r\n". `value` must be safe for a header line.
void append_header(std::string& out, std::string_view name, std::string_view value);

// The header line that gives a browser `cookie`, which has its attributes.
std::string set_cookie(std::string_view cookie);

// To a page of another site: it may read this answer and the headers named here (Fetch
// standard, 3.2 CORS protocol). For anybody's page, without credentials: whoever asks shows a key
// of his own, and no cookie of ours goes with it. Appends nothing unless the request says that it
// comes from a page.
void append_cross_origin(std::string& headers, const http::Request& request);

// For pages of our own alone: no page of another site gets to load it as anything, and it is never
// taken for another type than it says.
void append_own_only(std::string& headers);

// The client's X-Request-Id when it is well-formed ([A-Za-z0-9._-]{1,64}), else a new one.
std::string request_id_of(const http::Request* request);

}  // namespace audiogen::api
