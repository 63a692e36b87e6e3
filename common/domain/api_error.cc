#include "common/domain/api_error.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/domain/pricing.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

struct Row {
  int status;
  std::string_view name;
};

// In the order of ApiErrorCode.
constexpr std::array<Row, 19> kRows = {Row{400, "invalid_request"},
                                       Row{401, "invalid_api_key"},
                                       Row{402, "insufficient_credits"},
                                       Row{403, "api_access_required"},
                                       Row{404, "task_not_found"},
                                       Row{404, "not_found"},
                                       Row{405, "method_not_allowed"},
                                       Row{409, "idempotency_conflict"},
                                       Row{429, "rate_limit_exceeded"},
                                       Row{503, "service_unavailable"},
                                       Row{403, "insufficient_scope"},
                                       Row{409, "already_final"},
                                       Row{409, "not_final"},
                                       Row{409, "limit_reached"},
                                       Row{401, "invalid_login"},
                                       Row{403, "step_up_required"},
                                       Row{403, "cross_site_request"},
                                       Row{409, "other_account"},
                                       Row{409, "last_way_in"}};

const Row& row(ApiErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  AG_CHECK(index < kRows.size());
  return kRows[index];
}

// Long enough for a restarted dependency to answer again, short enough for a waiting person.
constexpr std::chrono::seconds kRetryUnavailable{2};
// Nobody knows when it ends.
constexpr std::chrono::seconds kRetryPaused{30};

constexpr std::size_t kShownNameMax = 32;

// Until something of the caller's own has ended, which nobody can foretell.
constexpr std::chrono::seconds kSomeEnd{5};

}  // namespace

int http_status(ApiErrorCode code) {
  return row(code).status;
}

std::string_view error_name(ApiErrorCode code) {
  return row(code).name;
}

bool retry_is_pointless(ApiErrorCode code) {
  return code == ApiErrorCode::kAlreadyFinal || code == ApiErrorCode::kNotFinal ||
         code == ApiErrorCode::kLimitReached || code == ApiErrorCode::kOtherAccount ||
         code == ApiErrorCode::kLastWayIn;
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

ApiError spend_limit_reached(const SpendLimit& limit, Units spent) {
  return {ApiErrorCode::kInsufficientCredits,
          "The spend limit of this API key is " + spend_limit_text(limit) + " (UTC), and " +
              format_credits(spent) + " are spent or reserved; at least " +
              format_credits(kHoldAmount) + " credits are required to create a generation.",
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

ApiError method_not_allowed(std::string_view allowed) {
  return {ApiErrorCode::kMethodNotAllowed,
          "This path answers " + std::string(allowed) + " only.",
          std::nullopt};
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

ApiError too_many_open(std::uint64_t max) {
  return {ApiErrorCode::kRateLimitExceeded,
          "There are " + std::to_string(max) +
              " generations that have not ended, as many as the plan allows; wait until some have, "
              "or cancel some.",
          kSomeEnd};
}

ApiError too_many_streams() {
  return {ApiErrorCode::kRateLimitExceeded,
          "Too many streams of events are open at once; end one, or read the generation instead.",
          kSomeEnd};
}

ApiError too_much_waits(std::chrono::seconds wait) {
  return {ApiErrorCode::kServiceUnavailable,
          "So many generations are waiting that a further one would not end in time.",
          std::clamp(wait, std::chrono::seconds(1), std::chrono::seconds(3600))};
}

ApiError service_unavailable() {
  return {ApiErrorCode::kServiceUnavailable,
          "The service is temporarily unavailable; send the request again.",
          kRetryUnavailable};
}

ApiError intake_paused() {
  return {
      ApiErrorCode::kServiceUnavailable,
      "New generations are not accepted at the moment; those that were accepted go on. Send the "
      "request again later.",
      kRetryPaused};
}

ApiError invalid_parameter(std::string param, std::string message) {
  return {ApiErrorCode::kInvalidRequest, std::move(message), std::nullopt, std::move(param)};
}

bool may_be_shown(std::string_view name) {
  return !name.empty() && name.size() <= kShownNameMax &&
         std::all_of(
             name.begin(), name.end(), [](char c) { return ascii::is_lower(c) || c == '_'; });
}

ApiError unknown_member(std::string_view name) {
  if (!may_be_shown(name)) {
    return invalid_request("The body has a member that this path does not know.");
  }
  return invalid_parameter(std::string(name), "There is no member " + std::string(name) + ".");
}

ApiError insufficient_scope(std::string_view scope) {
  return {ApiErrorCode::kInsufficientScope,
          "This API key lacks the scope " + std::string(scope) + ".",
          std::nullopt};
}

ApiError generate_scope_required() {
  return {ApiErrorCode::kApiAccessRequired,
          "This API key may not create generations: it lacks the scope generate.",
          std::nullopt};
}

ApiError scope_not_own(std::string_view scope) {
  return {ApiErrorCode::kInsufficientScope,
          "An API key cannot give the scope " + std::string(scope) + ", which it lacks.",
          std::nullopt,
          "scopes"};
}

ApiError expiry_not_own(std::string_view own) {
  return {ApiErrorCode::kInsufficientScope,
          "An API key cannot give a later expiry than its own, " + std::string(own) + ".",
          std::nullopt,
          "expires_at"};
}

ApiError spending_not_own() {
  return {ApiErrorCode::kInsufficientScope,
          "An API key with a spend limit cannot let another one create generations: both together "
          "would spend more than its limit.",
          std::nullopt,
          "scopes"};
}

ApiError limit_not_own(std::string_view own) {
  return {ApiErrorCode::kInsufficientScope,
          "An API key cannot raise its own spend limit, " + std::string(own) + ".",
          std::nullopt,
          "spend_limit"};
}

ApiError key_not_found() {
  return {ApiErrorCode::kNotFound, "There is no such API key.", std::nullopt};
}

ApiError already_final(TaskState state) {
  return {ApiErrorCode::kAlreadyFinal,
          "The task has already " + std::string(state_name(state)) + ".",
          std::nullopt};
}

ApiError not_final() {
  return {ApiErrorCode::kNotFinal, "The task is not final yet; cancel it first.", std::nullopt};
}

ApiError limit_reached(std::string message) {
  return {ApiErrorCode::kLimitReached, std::move(message), std::nullopt};
}

ApiError invalid_login() {
  return {ApiErrorCode::kInvalidLogin,
          "Nobody can sign in with this: a link works once and for " +
              std::to_string(kLoginLinkLife.count()) +
              " minutes, a password with its mail address.",
          std::nullopt};
}

ApiError not_signed_in() {
  return {ApiErrorCode::kInvalidApiKey, "You are not signed in, or no longer.", std::nullopt};
}

ApiError step_up_required() {
  return {ApiErrorCode::kStepUpRequired,
          "Sign in again to do this: the last time was more than " +
              std::to_string(kFreshFor.count()) + " minutes ago.",
          std::nullopt};
}

ApiError cross_site_request() {
  return {ApiErrorCode::kCrossSiteRequest,
          "Only pages of this service may ask for this.",
          std::nullopt};
}

ApiError session_not_found() {
  return {ApiErrorCode::kNotFound, "There is no such session.", std::nullopt};
}

ApiError other_account() {
  return {ApiErrorCode::kOtherAccount,
          "Somebody else has signed in here meanwhile; load the page again.",
          std::nullopt};
}

ApiError passkey_not_found() {
  return {ApiErrorCode::kNotFound, "There is no such passkey.", std::nullopt};
}

ApiError issuer_link_not_found() {
  return {ApiErrorCode::kNotFound, "There is no such linked issuer.", std::nullopt};
}

ApiError last_way_in() {
  return {ApiErrorCode::kLastWayIn,
          "This is the only way into the account: set a password or add a passkey first.",
          std::nullopt};
}

}  // namespace audiogen
