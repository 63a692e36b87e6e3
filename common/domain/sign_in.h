// Signing in to the console: how long sessions and links live, the cookie of a session, and which
// requests may use it.
//
// The text of a link and of a cookie is 256 random bits in base64url; only the SHA-256 is stored.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"
#include "common/base/time.h"

namespace audiogen {

// A session ends when it has not been used for two weeks (a holiday, not a forgotten computer), and
// after a month in any case.
inline constexpr std::chrono::days kSessionIdleMax{14}, kSessionLifeMax{30};
// So long after signing in, what would outlive the session may be made: a key that makes others, a
// password. A cookie that somebody stole is older.
inline constexpr std::chrono::minutes kFreshFor{10};
// A session of somebody who has not shown who he is: it is never fresh.
inline constexpr std::chrono::seconds kNeverFresh{0};
// It is handed over at once or made again; what lies in a chat's history is worth nothing.
inline constexpr std::chrono::minutes kLoginLinkLife{10};
inline constexpr std::size_t kSessionsMax = 50;    // Of a user; for one more the oldest ends.
inline constexpr std::size_t kUserAgentMax = 200;  // Characters of it that are kept.

struct NewToken {
  std::string text;  // 43 characters that need no escaping anywhere. Told once.
  Sha256 hash;
};

NewToken make_token();

// The hash to look a token up by; nullopt when its form is wrong: no look-up needed.
std::optional<Sha256> token_hash(std::string_view presented);

// When a session ends unless it is used before.
Instant session_end(Instant created_at, Instant last_seen_at);

// Until when it is a fresh one that is so for `fresh_for` after its beginning.
Instant fresh_until(Instant created_at, std::chrono::seconds fresh_for = kFreshFor);

// Is it a fresh one at `now` that is so until `until`? One of a time to come is not: the clock was
// set back since, and it would be fresh until that time has come.
bool is_fresh(Instant created_at, Instant until, Instant now);

// How long a session that begins `now` is fresh, of somebody who showed elsewhere who he is at
// `shown_at`, or nobody knows when.
std::chrono::seconds fresh_for(std::optional<Instant> shown_at, Instant now);

// The value of the first cookie of that name in a Cookie header (RFC 6265 section 4.2): of those
// with one name, browsers send the one with the longest path first.
std::optional<std::string_view> cookie_value(std::string_view header, std::string_view name);

// The cookie's name. With `secure`, over https, it carries the promise that this host alone has set
// it (the prefix __Host-); other programs on a loopback address can have no such.
std::string_view session_cookie_name(bool secure);

// The Set-Cookie header's value that keeps `token`, and the one that takes it away.
std::string session_cookie(bool secure, std::string_view token);
std::string ended_session_cookie(bool secure);

// Whether a request by `method` may act on a cookie. One that changes something must come from a
// page of our own: cookies go along with what other sites' pages send, too. `fetch_site` and
// `origin` are what the browser says in Sec-Fetch-Site and Origin, nullopt when it does not;
// the first is believed alone where it is there, for no page can set it. `own_origin` as
// parse_origin() writes it. Whoever says neither is no browser, and has no business here.
bool is_own_request(std::string_view method,
                    std::optional<std::string_view> fetch_site,
                    std::optional<std::string_view> origin,
                    std::string_view own_origin);

}  // namespace audiogen
