// Signing in by somebody else's word: the client's half of OpenID Connect Core 1.0, authorization
// code flow with PKCE (RFC 7636). Pure.
//
// One random text per attempt lies in a cookie of the browser that makes it; state, nonce and the
// verifier are derived from it, so nothing has to be remembered here, and nobody finishes an
// attempt in a browser that did not begin it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/api_error.h"

namespace audiogen {

struct IssuerLinkTag {
  static constexpr const char* kPrefix = "iss_";
};
// An issuer's person and the account that he opens.
using IssuerLinkId = Id<IssuerLinkTag>;

// How long somebody may take at the issuer's page.
inline constexpr std::chrono::minutes kOidcAttemptLife{10};

// What we know of an issuer, by its discovery document.
struct OidcIssuer {
  std::string authorization{}, token{};  // Endpoints.
  bool secret_in_body = false;           // It takes a client's secret in no header.
};

// Whose client we are.
struct OidcClient {
  std::string issuer, id, secret;
  std::string redirect_uri;  // Where a browser comes back to.
};

// Where the discovery document of an issuer is.
std::string oidc_discovery_url(std::string_view issuer);

// Reads it. The error says what is wrong with it: another issuer's name, endpoints that are not
// https (or, of an issuer by http on a loopback address, not there).
Result<OidcIssuer> parse_oidc_discovery(std::string_view body, std::string_view issuer);

struct OidcAttempt {
  std::string state, nonce, verifier;
};
OidcAttempt oidc_attempt(std::string_view token);  // Of make_token().

enum class OidcPurpose : std::uint8_t {
  kSignIn,  // Whom the issuer knows it may let in without asking.
  kStepUp,  // It is to ask again: somebody is to show that he is who he was.
};

// Of a body {"purpose"?: "sign_in" or "step_up"}, closed; kSignIn where it says nothing.
Result<OidcPurpose, ApiError> parse_oidc_purpose(std::string_view body);

// Where the browser is sent. It asks for auth_time in any case, by max_age (OpenID Connect Core
// 1.0, 3.1.2.1).
std::string oidc_authorization_url(const OidcIssuer& issuer,
                                   const OidcClient& client,
                                   const OidcAttempt& attempt,
                                   OidcPurpose purpose);

// Whether a browser with this query comes back from that attempt, by its state (RFC 6749 10.12).
bool is_oidc_return(std::string_view query, const OidcAttempt& attempt);

// What it comes back with, of the query; nullopt without a code, or from another issuer where it
// says so (RFC 9207).
std::optional<std::string> oidc_code(std::string_view query, const OidcClient& client);

// The token request: its body, and the value of Authorization where the secret goes there.
struct OidcTokenRequest {
  std::string body;
  std::optional<std::string> authorization;
};
OidcTokenRequest oidc_token_request(const OidcIssuer& issuer,
                                    const OidcClient& client,
                                    const OidcAttempt& attempt,
                                    std::string_view code);

// Whom the issuer says it is.
struct OidcPerson {
  Sha256 identity{};                   // Of issuer and subject: the same person has the same.
  std::optional<std::string> email{};  // In lower case, if the issuer says that it is verified.
  // When he showed the issuer who he is; nullopt: it does not say, though it was asked.
  std::optional<Instant> shown_at{};
};

// What a link is called: the same for the same person of an issuer.
IssuerLinkId issuer_link_id(const Sha256& identity);

// Reads the answer of the token endpoint and judges the ID token in it as OpenID Connect Core 1.0
// wants it (3.1.3.7): it came from there over TLS, so its signature says nothing more; iss, aud,
// azp, exp, iat, nonce and sub must be right, and auth_time where it is there. The error names the
// claim and never its value.
Result<OidcPerson> read_oidc_token(std::string_view body,
                                   const OidcClient& client,
                                   const OidcAttempt& attempt,
                                   Instant now);

// The cookie of an attempt: its name, and the Set-Cookie values that keep its token, and what it is
// for, and take it away.
std::string_view oidc_cookie_name(bool secure);
std::string oidc_cookie(bool secure,
                        std::string_view token,
                        OidcPurpose purpose = OidcPurpose::kSignIn);
std::string ended_oidc_cookie(bool secure);

// What is in one. Its browser may have written it: so what it is for decides of nothing but what
// its page says.
struct OidcCookie {
  std::string token;  // Of the form of make_token().
  OidcPurpose purpose = OidcPurpose::kSignIn;
};
std::optional<OidcCookie> parse_oidc_cookie(std::string_view value);

}  // namespace audiogen
