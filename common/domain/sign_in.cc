#include "common/domain/sign_in.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/base/ascii.h"
#include "common/base/base64.h"

namespace audiogen {
namespace {

constexpr std::size_t kTokenBytes = 32;

// SameSite=Lax: a link on another site's page opens the console signed in, and carries nothing that
// changes anything.
std::string cookie(bool secure, std::string_view value, std::chrono::seconds age) {
  std::string out(session_cookie_name(secure));
  out += "=";
  out += value;
  out += secure ? "; Path=/; Secure" : "; Path=/console";
  out += "; HttpOnly; SameSite=Lax; Max-Age=" + std::to_string(age.count());
  return out;
}

}  // namespace

NewToken make_token() {
  std::array<std::uint8_t, kTokenBytes> raw;
  random_bytes(raw);
  std::string text = encode_base64url(raw);
  const Sha256 hash = sha256(text);
  return {.text = std::move(text), .hash = hash};
}

std::optional<Sha256> token_hash(std::string_view presented) {
  const auto raw = decode_base64url(presented);
  return raw && raw->size() == kTokenBytes ? std::optional(sha256(presented)) : std::nullopt;
}

Instant session_end(Instant created_at, Instant last_seen_at) {
  return std::min(created_at + kSessionLifeMax, last_seen_at + kSessionIdleMax);
}

Instant fresh_until(Instant created_at, std::chrono::seconds fresh_for) {
  return created_at + fresh_for;
}

bool is_fresh(Instant created_at, Instant until, Instant now) {
  return until > now && created_at <= now + kClockSlack;
}

std::chrono::seconds fresh_for(std::optional<Instant> shown_at, Instant now) {
  return shown_at
             ? std::clamp(std::chrono::floor<std::chrono::seconds>(*shown_at + kFreshFor - now),
                          kNeverFresh,
                          std::chrono::seconds(kFreshFor))
             : kNeverFresh;
}

std::optional<std::string_view> cookie_value(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const auto end = std::min(header.find(';'), header.size());
    const std::string_view pair = ascii::trim(header.substr(0, end));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return std::nullopt;
}

std::string_view session_cookie_name(bool secure) {
  return secure ? "__Host-session" : "session";
}

std::string session_cookie(bool secure, std::string_view token) {
  return cookie(secure, token, kSessionLifeMax);
}

std::string ended_session_cookie(bool secure) {
  return cookie(secure, "", std::chrono::seconds(0));
}

bool is_own_request(std::string_view method,
                    std::optional<std::string_view> fetch_site,
                    std::optional<std::string_view> origin,
                    std::string_view own_origin) {
  if (method == "GET" || method == "HEAD" || method == "OPTIONS") {
    return true;
  }
  if (fetch_site) {
    return *fetch_site == "same-origin";
  }
  return origin && !origin->empty() && *origin == own_origin;
}

}  // namespace audiogen
