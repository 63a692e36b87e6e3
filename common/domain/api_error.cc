#include "common/domain/api_error.h"

#include <array>

#include "common/base/check.h"
#include "common/domain/pricing.h"

namespace audiogen {
namespace {

struct Row {
  int status;
  std::string_view name;
};

// In the order of ApiErrorCode.
constexpr std::array<Row, 10> kRows = {Row{400, "invalid_request"},
                                       Row{401, "invalid_api_key"},
                                       Row{402, "insufficient_credits"},
                                       Row{403, "api_access_required"},
                                       Row{404, "task_not_found"},
                                       Row{404, "not_found"},
                                       Row{405, "method_not_allowed"},
                                       Row{409, "idempotency_conflict"},
                                       Row{429, "rate_limit_exceeded"},
                                       Row{503, "service_unavailable"}};

const Row& row(ApiErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  AG_CHECK(index < kRows.size());
  return kRows[index];
}

// Long enough for a restarted dependency to answer again, short enough for a waiting person.
constexpr std::chrono::seconds kRetryUnavailable{2};

}  // namespace

int http_status(ApiErrorCode code) {
  return row(code).status;
}

std::string_view error_name(ApiErrorCode code) {
  return row(code).name;
}

ApiError invalid_request(std::string message) {
  return {ApiErrorCode::kInvalidRequest, std::move(message), std::nullopt};
}

ApiError invalid_api_key() {
  return {
      ApiErrorCode::kInvalidApiKey, "The API key is missing, invalid or deleted.", std::nullopt};
}

ApiError insufficient_credits() {
  return {
      ApiErrorCode::kInsufficientCredits,
      "At least " + format_credits(kHoldAmount) + " credits are required to create a generation.",
      std::nullopt};
}

ApiError api_access_required() {
  return {ApiErrorCode::kApiAccessRequired,
          "API access requires a paid plan or a credit purchase.",
          std::nullopt};
}

ApiError task_not_found() {
  return {ApiErrorCode::kTaskNotFound, "There is no such task.", std::nullopt};
}

ApiError not_found() {
  return {ApiErrorCode::kNotFound, "There is nothing at this path.", std::nullopt};
}

ApiError method_not_allowed() {
  return {ApiErrorCode::kMethodNotAllowed, "This path does not answer this method.", std::nullopt};
}

ApiError idempotency_conflict() {
  return {ApiErrorCode::kIdempotencyConflict,
          "This Idempotency-Key was already used with a different request.",
          std::nullopt};
}

ApiError rate_limit_exceeded(std::chrono::seconds retry_after) {
  return {ApiErrorCode::kRateLimitExceeded,
          "Requests are too frequent; send the next one in " + std::to_string(retry_after.count()) +
              " s.",
          retry_after};
}

ApiError service_unavailable() {
  return {ApiErrorCode::kServiceUnavailable,
          "The service is temporarily unavailable; send the request again.",
          kRetryUnavailable};
}

}  // namespace audiogen
