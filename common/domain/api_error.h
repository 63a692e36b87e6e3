// Every error the HTTP interface can answer (interface 7, DESIGN 1), and its status: one table.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

enum class ApiErrorCode : std::uint8_t {
  kInvalidRequest,       // 400
  kInvalidApiKey,        // 401
  kInsufficientCredits,  // 402
  kApiAccessRequired,    // 403
  kTaskNotFound,         // 404
  kNotFound,             // 404, outside the two endpoints
  kMethodNotAllowed,     // 405, outside the two endpoints
  kIdempotencyConflict,  // 409
  kRateLimitExceeded,    // 429
  kServiceUnavailable,   // 503
};

struct ApiError {
  ApiErrorCode code;
  std::string message;
  std::optional<std::chrono::seconds> retry_after;
};

// The status and the `error.code` of the interface.
int http_status(ApiErrorCode code);
std::string_view error_name(ApiErrorCode code);

// One maker per code: the messages of the interface. `message` is a sentence for the client.
ApiError invalid_request(std::string message);
ApiError invalid_api_key();
ApiError insufficient_credits();
ApiError api_access_required();
ApiError task_not_found();
ApiError not_found();
ApiError method_not_allowed();
ApiError idempotency_conflict();
ApiError rate_limit_exceeded(std::chrono::seconds retry_after);
ApiError service_unavailable();

}  // namespace audiogen
