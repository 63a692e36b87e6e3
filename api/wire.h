// The JSON that clients read (interface 2.1-2.6) and the header lines around it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/blob/link_signer.h"
#include "common/domain/api_error.h"
#include "common/domain/task.h"
#include "common/http/server.h"

namespace audiogen::api {

struct WireNames {
  std::string model;                               // svc-audio-1.0
  std::string cdn_url;                             // Without a trailing slash.
  std::optional<LinkSigner> links = std::nullopt;  // Set: output.url is signed and expires.
  std::chrono::seconds retention{0};               // 0: files stay for ever.
};

// The generation resource of a task.
std::string render_task(const TaskView& task, const WireNames& names);

// {"error":{"code","message","request_id"}}
std::string render_error(const ApiError& error, std::string_view request_id);

// An error reply with its status, X-Request-Id and, where it applies, Retry-After.
http::Response error_response(const ApiError& error, std::string_view request_id);

// 403 link_expired: a file's signed address was good once. Outside the interface's error table.
http::Response link_expired_response(std::string_view request_id);

// Bytes of the headers of most answers: room to make once.
inline constexpr std::size_t kHeadersUsual = 384;

// Appends "Name: value\r\n". `value` must be safe for a header line.
void append_header(std::string& out, std::string_view name, std::string_view value);

// The client's X-Request-Id when it is well-formed ([A-Za-z0-9._-]{1,64}), else a new one.
std::string request_id_of(const http::Request* request);

}  // namespace audiogen::api
