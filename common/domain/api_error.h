// Every error the HTTP interface can answer, and its status: one table, published in
// schema/openapi.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/domain/spend_limit.h"
#include "common/domain/task.h"

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
  // Those below are of other paths than the two endpoints of generations.
  kInsufficientScope,  // 403
  kAlreadyFinal,       // 409
  kNotFinal,           // 409
  kLimitReached,       // 409
  // Of the console alone.
  kInvalidLogin,      // 401
  kStepUpRequired,    // 403
  kCrossSiteRequest,  // 403
  kOtherAccount,      // 409
  kLastWayIn,         // 409
};

struct ApiError {
  ApiErrorCode code;
  std::string message;
  std::optional<std::chrono::seconds> retry_after;
  // The member or parameter at fault, where the path tells it. Never of the two endpoints.
  std::optional<std::string> param = std::nullopt;
};

// The status and the `error.code` of the interface.
int http_status(ApiErrorCode code);
std::string_view error_name(ApiErrorCode code);

// Is it a conflict that the same request sent again meets again? Clients of the OpenAI kind repeat
// every 409 unless they are told (x-should-retry: false).
bool retry_is_pointless(ApiErrorCode code);

// One maker per code: the messages of the interface. `message` is a sentence for the client.
ApiError invalid_request(std::string message);
ApiError invalid_api_key();
ApiError insufficient_credits();
// The key has no room left under its limit: 402 too, and the message names both.
ApiError spend_limit_reached(const SpendLimit& limit, Units spent);
ApiError api_access_required();
ApiError task_not_found();
ApiError not_found();
ApiError method_not_allowed(std::string_view allowed);  // "GET, POST"
ApiError idempotency_conflict();
ApiError rate_limit_exceeded(std::chrono::seconds retry_after);
// The user has as many open generations as his plan allows, `max`.
ApiError too_many_open(std::uint64_t max);
// A key, or a user with all of them, has as many streams as there may be.
ApiError too_many_streams();
ApiError service_unavailable();
// Operators take no new generations in.
ApiError intake_paused();
// A generation that were created now would not end in time; one that is created after `wait` may.
ApiError too_much_waits(std::chrono::seconds wait);
// 400 that names the member or query parameter at fault. `param` is a name of ours, or one that may
// be shown.
ApiError invalid_parameter(std::string param, std::string message);
// A name that a client made up may be shown to it only when it looks like one of a member: it may
// be a secret that was pasted at the wrong place, and keys and tokens have digits or capitals, or
// are longer.
bool may_be_shown(std::string_view name);
// 400 for a member of a body that nobody knows.
ApiError unknown_member(std::string_view name);
// `scope`: the one that the key lacks.
ApiError insufficient_scope(std::string_view scope);
// A key may not create generations: 403 api_access_required, the one 403 that creation has.
ApiError generate_scope_required();
// Nobody gives what he lacks: a key that lacks `scope`, or expires at `own` (RFC 3339), was asked
// to give more. 403 insufficient_scope.
ApiError scope_not_own(std::string_view scope);
ApiError expiry_not_own(std::string_view own);
// A key with a spend limit was asked to let another one spend, or to raise its own, `own` as
// spend_limit_text() has it. 403 insufficient_scope.
ApiError spending_not_own();
ApiError limit_not_own(std::string_view own);
ApiError key_not_found();
ApiError already_final(TaskState state);  // kSucceeded or kFailed.
ApiError not_final();
// `message` names the limit.
ApiError limit_reached(std::string message);
// Whatever was wrong: nobody learns which accounts there are.
ApiError invalid_login();
// No cookie, or none of a session that lives: what a missing key is elsewhere, code
// invalid_api_key.
ApiError not_signed_in();
ApiError step_up_required();
ApiError cross_site_request();
ApiError session_not_found();
// The page that asks was shown to somebody else than who is signed in by now.
ApiError other_account();
ApiError passkey_not_found();
// Whoever lost it could not sign in any more.
ApiError issuer_link_not_found();
ApiError last_way_in();

}  // namespace audiogen
