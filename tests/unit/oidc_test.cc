// The client's half of OpenID Connect: what is sent, and each way in which an answer can lie.
#include "common/domain/oidc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kIssuer = "https://login.example.com/realm";

OidcClient client() {
  return {.issuer = kIssuer,
          .id = "the console",
          .secret = "s%cret",
          .redirect_uri = "https://audio.example.com/console/api/v1/sign-in/oidc/callback"};
}

std::string description(const std::string& issuer = kIssuer,
                        const std::string& authorization = "https://login.example.com/auth",
                        const std::string& token = "https://token.example.com/token",
                        const std::string& more = "") {
  return R"({"issuer":")" + issuer + R"(","authorization_endpoint":")" + authorization +
         R"(","token_endpoint":")" + token + "\"" + more + "}";
}

TEST(Oidc, LearnsItsIssuerAndNoOther) {
  EXPECT_EQ(oidc_discovery_url(kIssuer),
            "https://login.example.com/realm/.well-known/openid-configuration");
  EXPECT_EQ(oidc_discovery_url("https://a.example/"),
            "https://a.example/.well-known/openid-configuration");
  const auto good = parse_oidc_discovery(description(), kIssuer);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->authorization, "https://login.example.com/auth");
  EXPECT_EQ(good->token, "https://token.example.com/token");
  EXPECT_FALSE(good->secret_in_body);
  const std::string a = "https://login.example.com/auth", t = "https://token.example.com/token";
  for (const std::string& bad : {std::string(""),
                                 std::string("[]"),
                                 std::string("{}"),
                                 description("https://login.example.com/realm/"),
                                 description("https://evil.example.com"),
                                 description(kIssuer, "http://login.example.com/auth"),
                                 description(kIssuer, a, "http://token.example.com/token"),
                                 description(kIssuer, a, "http://127.0.0.1/token"),
                                 description(kIssuer, a, "file:///etc/passwd"),
                                 description(kIssuer, "javascript:alert(1)"),
                                 description(kIssuer, "https://a.example/\\r\\nSet-Cookie: x"),
                                 description(kIssuer, "https://a.example/#x"),
                                 description(kIssuer, a, "")}) {
    EXPECT_FALSE(parse_oidc_discovery(bad, kIssuer)) << bad;
  }
  const std::string local = "http://127.0.0.1:9";
  EXPECT_TRUE(parse_oidc_discovery(description(local, local + "/a", local + "/t"), local));
  EXPECT_FALSE(parse_oidc_discovery(description(local, "http://a.example/a", local + "/t"), local));
  const std::string ways = R"(,"token_endpoint_auth_methods_supported":)";
  EXPECT_TRUE(
      parse_oidc_discovery(description(kIssuer, a, t, ways + R"(["client_secret_post"])"), kIssuer)
          ->secret_in_body);
  EXPECT_FALSE(
      parse_oidc_discovery(
          description(kIssuer, a, t, ways + R"(["client_secret_post","client_secret_basic"])"),
          kIssuer)
          ->secret_in_body);
}

TEST(Oidc, AnAttemptIsDerivedFromOneText) {
  const std::string token = make_token().text;
  const OidcAttempt attempt = oidc_attempt(token);
  EXPECT_EQ(attempt.state, oidc_attempt(token).state);
  EXPECT_NE(attempt.state, oidc_attempt(make_token().text).state);
  EXPECT_NE(attempt.state, attempt.nonce);
  EXPECT_NE(attempt.state, attempt.verifier);
  EXPECT_NE(attempt.nonce, attempt.verifier);
  EXPECT_EQ(attempt.verifier.size(), 43U) << "RFC 7636 section 4.1";
  const OidcIssuer issuer{.authorization = "https://login.example.com/auth?x=1", .token = ""};
  const std::string url = oidc_authorization_url(issuer, client(), attempt, OidcPurpose::kSignIn);
  EXPECT_EQ(url,
            "https://login.example.com/auth?x=1&response_type=code&client_id=the%20console"
            "&redirect_uri=https%3a%2f%2faudio.example.com%2fconsole%2fapi%2fv1%2fsign-in%2foidc"
            "%2fcallback&scope=openid%20email&state=" +
                attempt.state + "&nonce=" + attempt.nonce +
                "&code_challenge=" + encode_base64url(sha256(attempt.verifier)) +
                "&code_challenge_method=S256&max_age=2592000");
  EXPECT_TRUE(oidc_authorization_url(issuer, client(), attempt, OidcPurpose::kStepUp)
                  .ends_with("&code_challenge_method=S256&prompt=login&max_age=0"));
  EXPECT_THAT(url, Not(HasSubstr(token)));
  EXPECT_THAT(url, Not(HasSubstr(attempt.verifier)));
}

// RFC 7636 appendix B.
TEST(Oidc, TheChallengeIsThatOfTheStandard) {
  EXPECT_EQ(encode_base64url(sha256("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

TEST(Oidc, ACodeComesWithItsState) {
  const OidcAttempt attempt = oidc_attempt(make_token().text);
  const auto code = [&](const std::string& query) {
    return is_oidc_return(query, attempt) ? oidc_code(query, client()) : std::nullopt;
  };
  const std::string state = "&state=" + attempt.state;
  EXPECT_EQ(code("code=a%2Fb+c" + state), "a/b c");
  EXPECT_EQ(code("session_state=x&code=a" + state + "&iss=https%3A%2F%2Flogin.example.com%2Frealm"),
            "a");
  for (const std::string& bad : {std::string(""),
                                 "error=access_denied" + state,
                                 std::string("code=a"),
                                 std::string("code=a&state="),
                                 "code=a&state=" + attempt.nonce,
                                 "code=" + state,
                                 "code=a&code=b" + state,
                                 "code=a" + state + state,
                                 "code=%4" + state,
                                 "code=" + std::string(4'097, 'x') + state,
                                 "code=a" + state + "&iss=https%3A%2F%2Fevil.example.com"}) {
    EXPECT_EQ(code(bad), std::nullopt) << bad;
  }
}

TEST(Oidc, TheSecretGoesWhereTheIssuerTakesIt) {
  const OidcAttempt attempt = oidc_attempt(make_token().text);
  const OidcTokenRequest header = oidc_token_request({}, client(), attempt, "a/b");
  EXPECT_EQ(header.body,
            "grant_type=authorization_code&code=a%2fb&redirect_uri=https%3a%2f%2faudio.example.com"
            "%2fconsole%2fapi%2fv1%2fsign-in%2foidc%2fcallback&code_verifier=" +
                attempt.verifier);
  // the%20console:s%25cret
  EXPECT_EQ(header.authorization, "Basic dGhlJTIwY29uc29sZTpzJTI1Y3JldA==");
  const OidcTokenRequest body =
      oidc_token_request({.secret_in_body = true}, client(), attempt, "c");
  EXPECT_EQ(body.authorization, std::nullopt);
  EXPECT_THAT(body.body, HasSubstr("&client_id=the%20console&client_secret=s%25cret"));
}

class OidcToken : public testing::Test {
 protected:
  static std::string packed(const std::string& claims) {
    const auto part = [](std::string_view text) {
      return encode_base64url({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    };
    return R"({"access_token":"x","id_token":")" + part(R"({"alg":"none"})") + "." + part(claims) +
           R"(."})";
  }
  std::string good(const std::string& name = "", const std::string& value = "") const {
    std::vector<std::pair<std::string, std::string>> claims = {
        {"iss", "\"" + std::string(kIssuer) + "\""},
        {"aud", R"("the console")"},
        {"exp", "1000300"},
        {"iat", "1000000"},
        {"nonce", "\"" + attempt_.nonce + "\""},
        {"sub", R"("ann")"},
        {"email", R"("Ann@Example.com")"},
        {"email_verified", "true"}};
    std::string out;
    bool replaced = false;
    for (auto& [claim, content] : claims) {
      if (claim == name) {
        content = value;
        replaced = true;
      }
      if (!content.empty()) {
        out += (out.empty() ? "{\"" : ",\"") + claim + "\":" + content;
      }
    }
    if (!name.empty() && !replaced) {
      out += ",\"" + name + "\":" + value;
    }
    return packed(out + "}");
  }
  Result<OidcPerson> read(const std::string& body, std::int64_t now = 1'000'010) const {
    return read_oidc_token(body, client(), attempt_, Instant(std::chrono::seconds(now)));
  }

  const OidcAttempt attempt_ = oidc_attempt(make_token().text);
};

TEST_F(OidcToken, NamesAPerson) {
  const auto ann = read(good());
  ASSERT_TRUE(ann) << ann.error().message;
  EXPECT_EQ(ann->email, "ann@example.com");
  EXPECT_EQ(ann->identity, sha256(std::string(kIssuer) + std::string(1, '\0') + "ann"));
  EXPECT_NE(read(good("sub", R"("bob")"))->identity, ann->identity);
  EXPECT_TRUE(read(good("aud", R"(["the console"])")));
  EXPECT_TRUE(read(good("azp", R"("the console")")));
  EXPECT_TRUE(read(good("email_verified", R"("true")"))->email);
}

TEST_F(OidcToken, SaysWhenItsPersonShowedHimself) {
  EXPECT_EQ(read(good())->shown_at, std::nullopt);
  EXPECT_EQ(read(good("auth_time", "999000"))->shown_at, Instant(std::chrono::seconds(999'000)));
  EXPECT_EQ(read(good("auth_time", "0"))->shown_at, Instant(std::chrono::seconds(0)));
  EXPECT_TRUE(read(good("auth_time", "1000130"))) << "clocks differ";
}

TEST_F(OidcToken, AnAddressThatNobodyVerifiedIsNone) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"email_verified", "false"},
           {"email_verified", ""},
           {"email_verified", "1"},
           {"email_verified", R"("yes")"},
           {"email", ""},
           {"email", "7"},
           {"email", R"("ann")"},
           {"email", R"("ann@example.com\r\nBcc: bob@example.com")"}}) {
    const auto person = read(good(name, value));
    ASSERT_TRUE(person) << name << value;
    EXPECT_EQ(person->email, std::nullopt) << name << value;
  }
}

TEST_F(OidcToken, EachClaimMustBeRight) {
  for (const auto& [name, value, fault] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"iss", R"("https://evil.example.com")", "iss"},
           {"iss", R"("https://login.example.com/realm/")", "iss"},
           {"iss", "", "iss"},
           {"aud", R"("another")", "aud"},
           {"aud", R"(["another"])", "aud"},
           {"aud", "[]", "aud"},
           {"aud", "", "aud"},
           {"aud", R"(["the console","another"])", "azp"},
           {"azp", R"("another")", "azp"},
           {"azp", "7", "azp"},
           {"exp", "999880", "exp"},
           {"exp", R"("1000300")", "exp"},
           {"exp", "-1", "exp"},
           {"exp", "1e300", "exp"},
           {"exp", "", "exp"},
           {"iat", "1000200", "iat"},
           {"iat", "999000", "iat"},
           {"iat", "", "iat"},
           {"auth_time", "1000131", "auth_time"},
           {"auth_time", R"("1000000")", "auth_time"},
           {"auth_time", "null", "auth_time"},
           {"auth_time", "-1", "auth_time"},
           {"nonce", R"("another")", "nonce"},
           {"nonce", "\"" + attempt_.state + "\"", "nonce"},
           {"nonce", "", "nonce"},
           {"sub", R"("")", "sub"},
           {"sub", "7", "sub"},
           {"sub", "\"" + std::string(256, 'x') + "\"", "sub"},
           {"sub", "", "sub"}}) {
    const auto person = read(good(name, value));
    ASSERT_FALSE(person) << name << " " << value;
    EXPECT_EQ(person.error().message, "the ID token has no good " + fault) << name << " " << value;
  }
}

TEST_F(OidcToken, WhatIsNoTokenIsRefused) {
  for (const std::string& bad : {std::string(""),
                                 std::string("[]"),
                                 std::string("{}"),
                                 std::string(R"({"id_token":7})"),
                                 std::string(R"({"id_token":"x"})"),
                                 std::string(R"({"id_token":"a.b"})"),
                                 std::string(R"({"id_token":"a.b.c.d"})"),
                                 std::string(R"({"id_token":"a.!.c"})"),
                                 packed("[]"),
                                 packed("{")}) {
    EXPECT_FALSE(read(bad)) << bad;
  }
}

TEST(Oidc, APageSaysWhatItIsFor) {
  EXPECT_EQ(*parse_oidc_purpose("{}"), OidcPurpose::kSignIn);
  EXPECT_EQ(*parse_oidc_purpose(R"({"purpose":"sign_in"})"), OidcPurpose::kSignIn);
  EXPECT_EQ(*parse_oidc_purpose(R"({"purpose":"step_up"})"), OidcPurpose::kStepUp);
  for (const char* bad : {"",
                          "[]",
                          R"({"purpose":""})",
                          R"({"purpose":"login"})",
                          R"({"purpose":7})",
                          R"({"prompt":"none"})",
                          R"({"purpose":"sign_in","purpose":"step_up"})"}) {
    EXPECT_FALSE(parse_oidc_purpose(bad)) << bad;
  }
}

TEST(Oidc, ALinkIsCalledByWhomItNames) {
  const Sha256 ann = sha256("ann"), bob = sha256("bob");
  EXPECT_EQ(issuer_link_id(ann), issuer_link_id(ann));
  EXPECT_NE(issuer_link_id(ann), issuer_link_id(bob));
  EXPECT_EQ(IssuerLinkId::parse(issuer_link_id(ann).text()), issuer_link_id(ann));
}

TEST(Oidc, ItsCookieSaysWhatTheAttemptIsFor) {
  const std::string token = make_token().text;
  for (const OidcPurpose purpose : {OidcPurpose::kSignIn, OidcPurpose::kStepUp}) {
    const std::string line = oidc_cookie(false, token, purpose);
    const auto read = parse_oidc_cookie(line.substr(5, line.find(';') - 5));
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(read->token, token);
    EXPECT_EQ(read->purpose, purpose);
  }
  for (const std::string& bad :
       {std::string(), std::string("x"), std::string(".step_up"), token + ".", token + ".other"}) {
    EXPECT_FALSE(parse_oidc_cookie(bad)) << bad;
  }
}

TEST(Oidc, ItsCookieIsShortLived) {
  EXPECT_EQ(oidc_cookie(true, "t"),
            "__Host-oidc=t; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
  EXPECT_EQ(oidc_cookie(false, "t"), "oidc=t; Path=/console; HttpOnly; SameSite=Lax; Max-Age=600");
  EXPECT_EQ(ended_oidc_cookie(false), "oidc=; Path=/console; HttpOnly; SameSite=Lax; Max-Age=0");
}

}  // namespace
}  // namespace audiogen
