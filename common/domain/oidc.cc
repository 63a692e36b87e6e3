#include "common/domain/oidc.h"

#include <algorithm>
#include <array>
#include <utility>

#include <rapidjson/document.h>

#include "common/base/ascii.h"
#include "common/base/base64.h"
#include "common/base/mail_address.h"
#include "common/base/origin.h"
#include "common/base/percent.h"
#include "common/domain/json_object.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

// Clocks differ; and an ID token is read seconds after it was made.
constexpr std::chrono::seconds kSkew{120}, kAgeMax{600};
constexpr std::size_t kCodeMax = 4'096, kSubjectMax = 255, kEndpointMax = 2'048;
constexpr std::size_t kPurposeMax = 32;  // Whatever is there instead of one.
// Of the cookie of an attempt; no token has a dot.
constexpr std::string_view kStepUpEnd = ".step_up";
// Nobody is asked again for this; but an answer to it must have auth_time, which not every issuer
// tells by itself.
constexpr std::chrono::seconds kShownWithin = kSessionLifeMax;

// RFC 3986 section 2.3.
std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (ascii::is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += ascii::kHexDigits[byte >> 4U];
      out += ascii::kHexDigits[byte & 0xFU];
    }
  }
  return out;
}

// The value of a parameter that is there once; "" when it is not.
std::optional<std::string> parameter(std::string_view query, std::string_view name) {
  std::optional<std::string> out;
  while (!query.empty()) {
    const auto end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const auto equals = std::min(one.find('='), one.size());
    if (one.substr(0, equals) != name) {
      continue;
    }
    const auto value = form_decode(one.substr(std::min(equals + 1, one.size())));
    if (out || !value) {
      return std::nullopt;
    }
    out = *value;
  }
  return out.value_or("");
}

std::string derived(std::string_view what, std::string_view token) {
  return encode_base64url(sha256(std::string(what) + "." + std::string(token)));
}

const rapidjson::Value* find(const rapidjson::Value& object, const char* name) {
  const auto at = object.FindMember(name);
  return at == object.MemberEnd() ? nullptr : &at->value;
}

std::optional<std::string> text(const rapidjson::Value& object, const char* name) {
  const auto* const value = find(object, name);
  return value != nullptr && value->IsString() ? std::optional(std::string(text_of(*value)))
                                               : std::nullopt;
}

// Where a secret may be sent: what an eavesdropper cannot read.
bool is_safe(std::string_view url, std::string_view issuer) {
  const auto to = parse_origin(url), from = parse_origin(issuer);
  return to && from && url.size() <= kEndpointMax && url.find('#') == std::string_view::npos &&
         std::all_of(url.begin(), url.end(), ascii::is_visible) &&
         (to->secure || (to->loopback && !from->secure));
}

std::string cookie(bool secure, std::string_view value, std::chrono::seconds age) {
  return std::string(oidc_cookie_name(secure)) + "=" + std::string(value) +
         (secure ? "; Path=/; Secure" : "; Path=/console") +
         "; HttpOnly; SameSite=Lax; Max-Age=" + std::to_string(age.count());
}

Error wrong(const char* claim) {
  return Error{std::string("the ID token has no good ") + claim};
}

// One audience, or several of which azp names us.
const char* audience_fault(const rapidjson::Value& claims, std::string_view id) {
  const auto* const aud = find(claims, "aud");
  const auto* const azp = find(claims, "azp");
  if (aud == nullptr) {
    return "aud";
  }
  bool several = false, ours = false;
  if (aud->IsString()) {
    ours = text_of(*aud) == id;
  } else if (aud->IsArray()) {
    several = aud->Size() > 1;
    for (const auto& one : aud->GetArray()) {
      ours = ours || (one.IsString() && text_of(one) == id);
    }
  }
  if (!ours) {
    return "aud";
  }
  const bool azp_ours = azp != nullptr && azp->IsString() && text_of(*azp) == id;
  return azp == nullptr ? (several ? "azp" : nullptr) : azp_ours ? nullptr : "azp";
}

// Seconds since 1970; nullopt when it is no such number.
std::optional<Instant> instant(const rapidjson::Value& claims, const char* name) {
  constexpr double kYear9999 = 253'402'300'799;
  const auto* const value = find(claims, name);
  if (value == nullptr || !value->IsNumber() || value->GetDouble() < 0 ||
      value->GetDouble() > kYear9999) {
    return std::nullopt;
  }
  return Instant(std::chrono::seconds(static_cast<std::int64_t>(value->GetDouble())));
}

bool is_true(const rapidjson::Value* value) {
  return value != nullptr && (value->IsTrue() || (value->IsString() && text_of(*value) == "true"));
}

// The payload of a JWT (RFC 7519 section 3).
Result<rapidjson::Document> claims_of(std::string_view token) {
  const auto first = token.find('.');
  const auto second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return Error{"the ID token is none"};
  }
  const auto payload = decode_base64url(token.substr(first + 1, second - first - 1));
  if (!payload) {
    return Error{"the ID token is none"};
  }
  auto claims = read_json_object({reinterpret_cast<const char*>(payload->data()), payload->size()});
  if (!claims) {
    return Error{"the ID token is none"};
  }
  return std::move(*claims);
}

}  // namespace

std::string oidc_discovery_url(std::string_view issuer) {
  return std::string(issuer) + (issuer.ends_with('/') ? "" : "/") +
         ".well-known/openid-configuration";
}

Result<OidcIssuer> parse_oidc_discovery(std::string_view body, std::string_view issuer) {
  const auto document = read_json_object(body);
  if (!document) {
    return Error{"the issuer's description is no JSON object"};
  }
  if (text(*document, "issuer") != issuer) {
    return Error{"the issuer's description is of another issuer"};
  }
  OidcIssuer out{.authorization = text(*document, "authorization_endpoint").value_or(""),
                 .token = text(*document, "token_endpoint").value_or("")};
  for (const std::string* const endpoint : {&out.authorization, &out.token}) {
    if (!is_safe(*endpoint, issuer)) {
      return Error{"the issuer's description has an endpoint that is not https"};
    }
  }
  if (const auto* const ways = find(*document, "token_endpoint_auth_methods_supported");
      ways != nullptr && ways->IsArray()) {
    const auto has = [&](std::string_view way) {
      return std::any_of(ways->Begin(), ways->End(), [&](const rapidjson::Value& one) {
        return one.IsString() && text_of(one) == way;
      });
    };
    out.secret_in_body = !has("client_secret_basic") && has("client_secret_post");
  }
  return out;
}

OidcAttempt oidc_attempt(std::string_view token) {
  return {.state = derived("state", token),
          .nonce = derived("nonce", token),
          .verifier = derived("verifier", token)};
}

Result<OidcPurpose, ApiError> parse_oidc_purpose(std::string_view body) {
  static constexpr std::array<Member, 1> kMembers = {Member{"purpose", kPurposeMax}};
  const auto values = read_strings(body, kMembers);
  if (!values) {
    return values.error();
  }
  const auto& purpose = values->front();
  if (purpose && *purpose != "sign_in" && *purpose != "step_up") {
    return wrong_member("purpose", "must be sign_in or step_up.");
  }
  return purpose == "step_up" ? OidcPurpose::kStepUp : OidcPurpose::kSignIn;
}

std::string oidc_authorization_url(const OidcIssuer& issuer,
                                   const OidcClient& client,
                                   const OidcAttempt& attempt,
                                   OidcPurpose purpose) {
  const char join = issuer.authorization.find('?') == std::string::npos ? '?' : '&';
  return issuer.authorization + join + "response_type=code&client_id=" + encoded(client.id) +
         "&redirect_uri=" + encoded(client.redirect_uri) +
         "&scope=openid%20email&state=" + attempt.state + "&nonce=" + attempt.nonce +
         "&code_challenge=" + encode_base64url(sha256(attempt.verifier)) +
         "&code_challenge_method=S256" +
         (purpose == OidcPurpose::kStepUp ? "&prompt=login&max_age=0"
                                          : "&max_age=" + std::to_string(kShownWithin.count()));
}

bool is_oidc_return(std::string_view query, const OidcAttempt& attempt) {
  const auto state = parameter(query, "state");
  return state && constant_time_equal(*state, attempt.state);
}

std::optional<std::string> oidc_code(std::string_view query, const OidcClient& client) {
  const auto code = parameter(query, "code"), issuer = parameter(query, "iss");
  if (!code || !issuer || code->empty() || code->size() > kCodeMax ||
      (!issuer->empty() && *issuer != client.issuer)) {
    return std::nullopt;
  }
  return code;
}

OidcTokenRequest oidc_token_request(const OidcIssuer& issuer,
                                    const OidcClient& client,
                                    const OidcAttempt& attempt,
                                    std::string_view code) {
  OidcTokenRequest out{.body = "grant_type=authorization_code&code=" + encoded(code) +
                               "&redirect_uri=" + encoded(client.redirect_uri) +
                               "&code_verifier=" + attempt.verifier,
                       .authorization = std::nullopt};
  if (issuer.secret_in_body) {
    out.body += "&client_id=" + encoded(client.id) + "&client_secret=" + encoded(client.secret);
  } else {
    // RFC 6749 section 2.3.1: as in a form, then as basic credentials.
    out.authorization = "Basic " + encode_base64(encoded(client.id) + ":" + encoded(client.secret));
  }
  return out;
}

Result<OidcPerson> read_oidc_token(std::string_view body,
                                   const OidcClient& client,
                                   const OidcAttempt& attempt,
                                   Instant now) {
  const auto answer = read_json_object(body);
  if (!answer) {
    return Error{"the token endpoint's answer is no JSON object"};
  }
  const auto token = text(*answer, "id_token");
  if (!token) {
    return Error{"the token endpoint's answer has no ID token"};
  }
  const auto read = claims_of(*token);
  if (!read) {
    return read.error();
  }
  const rapidjson::Value& claims = *read;
  if (text(claims, "iss") != client.issuer) {
    return wrong("iss");
  }
  if (const char* const fault = audience_fault(claims, client.id)) {
    return wrong(fault);
  }
  const auto exp = instant(claims, "exp"), iat = instant(claims, "iat");
  if (!exp || *exp + kSkew <= now) {
    return wrong("exp");
  }
  if (!iat || *iat > now + kSkew || *iat + kAgeMax + kSkew < now) {
    return wrong("iat");
  }
  const auto nonce = text(claims, "nonce");
  if (!nonce || !constant_time_equal(*nonce, attempt.nonce)) {
    return wrong("nonce");
  }
  const auto subject = text(claims, "sub");
  if (!subject || subject->empty() || subject->size() > kSubjectMax) {
    return wrong("sub");
  }
  // Read as soon as it is there: what is no time must not pass for none.
  const auto shown_at = instant(claims, "auth_time");
  if (find(claims, "auth_time") != nullptr && (!shown_at || *shown_at > now + kSkew)) {
    return wrong("auth_time");
  }
  OidcPerson out{.identity = sha256(client.issuer + std::string(1, '\0') + *subject),
                 .shown_at = shown_at};
  const auto email = text(claims, "email");
  if (email && is_mail_address(*email) && is_true(find(claims, "email_verified"))) {
    out.email = ascii::lower(*email);
  }
  return out;
}

IssuerLinkId issuer_link_id(const Sha256& identity) {
  IssuerLinkId out;
  std::copy_n(identity.begin(), out.uuid.bytes.size(), out.uuid.bytes.begin());
  return out;
}

std::string_view oidc_cookie_name(bool secure) {
  return secure ? "__Host-oidc" : "oidc";
}

std::string oidc_cookie(bool secure, std::string_view token, OidcPurpose purpose) {
  const std::string_view end = purpose == OidcPurpose::kStepUp ? kStepUpEnd : "";
  return cookie(secure, std::string(token) + std::string(end), kOidcAttemptLife);
}

std::optional<OidcCookie> parse_oidc_cookie(std::string_view value) {
  const bool steps_up = value.ends_with(kStepUpEnd);
  const std::string_view token =
      steps_up ? value.substr(0, value.size() - kStepUpEnd.size()) : value;
  if (!token_hash(token)) {
    return std::nullopt;
  }
  return OidcCookie{.token = std::string(token),
                    .purpose = steps_up ? OidcPurpose::kStepUp : OidcPurpose::kSignIn};
}

std::string ended_oidc_cookie(bool secure) {
  return cookie(secure, "", std::chrono::seconds(0));
}

}  // namespace audiogen
