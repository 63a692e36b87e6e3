// Validators and conditional requests (RFC 9110 sections 8.8.3 and 13.1.2). Not for the generation
// resource: its table of statuses has no 304.
#pragma once

#include <string>
#include <string_view>

#include "common/http/server.h"

namespace audiogen::api {

// A strong validator of `content`, with its quotes: equal for equal bytes only.
std::string strong_etag(std::string_view content);

// True when If-None-Match names `etag` (or "*"): the client has this already, and 304 is the answer
// to GET and HEAD.
bool none_match(const http::Request& request, std::string_view etag);

}  // namespace audiogen::api
