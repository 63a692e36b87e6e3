// One row of the route table.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "api/server/rate_limiter.h"
#include "common/base/config.h"
#include "common/domain/api_error.h"
#include "common/domain/api_key.h"

namespace audiogen::api {

class Call;
struct Parts;  // What the handlers work with (api/server/routes.h).

// Who may. Everything there is to say about it is a value here, and decided in one place
// (Dispatcher::judged), the scopes of keys as well.
enum class Access : std::uint8_t {
  kPublic,     // Anybody.
  kBearer,     // Whoever shows a valid key; else 401.
  kApiAccess,  // And has bought API access; else 403 api_access_required.
  kSession,    // Whoever has signed in to the console, by his cookie and never by a key; else 401.
};

enum class Body : std::uint8_t { kNone, kJson };

struct Route {
  std::string_view method;  // Not HEAD or OPTIONS: those follow.
  // Segments as they are written, "{name}" for any one of them (which may be empty), or, at the
  // end,
  // "{name*}" for all the rest. At one place a segment as it is written comes before "{name}", and
  // nobody looks back: with "/keys/current" in the table, nothing of "/keys/{id}/…" is found under
  // "/keys/current/".
  std::string_view path;
  Access access;
  RateClass rate;  // Of a key for all but kPublic; of an address, or none, for kPublic.
  // Takes the call over and answers it, once, now or later; by then the caller may. Runs on an I/O
  // thread or one of the authenticator's and must not block.
  void (*handle)(Parts& parts, Call call);
  // What the key must have; else 403 insufficient_scope, or, of a creation, api_access_required,
  // the one 403 that it has. None for what only reads, and never of kPublic.
  std::optional<Scope> scope = std::nullopt;
  Body body = Body::kNone;  // What Call::json_body() is for.
  bool head = false;        // A GET that answers HEAD as well.
  bool documented = true;   // In schema/openapi.json.
  // Any site's page may call it (append_cross_origin()). If not, none but ours may change anything
  // by it (is_own_request(), 403 cross_site_request).
  bool cross_origin = true;
  // Whether it is there with this configuration; null: always. What is not there is 404.
  bool (*there)(const Config& config) = nullptr;
  bool console = true;  // The console has it, too, by the cookie of a session (console_twin()).
  // Asked before all else with the time the request came: is it to be refused at once, and as what?
  // Under overload most requests end there, and what they cost is taken from those that are served.
  std::optional<ApiError> (*late)(Parts& parts,
                                  std::chrono::steady_clock::time_point received_at) = nullptr;
  // Whether there can be such a last "{name}": if not, this is no path of ours. Of the first route
  // of a path it counts for all.
  bool (*accepts)(std::string_view parameter) = nullptr;
};

}  // namespace audiogen::api
