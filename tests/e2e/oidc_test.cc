// Signing in to the console by an issuer: there and back, and issuers that lie, dawdle or are away.
#include <mutex>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "common/base/crypto.h"
#include "tests/support/provider_double.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPages = AUDIOGEN_SOURCE_DIR "/tests/e2e/console_pages";

std::string part(std::string_view text) {
  return encode_base64url({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

// The value of a parameter of an address or a form, as it is written.
std::string value_of(const std::string& text, const std::string& name) {
  const auto at = text.find(name + "=");
  return at == std::string::npos ? ""
                                 : text.substr(at + name.size() + 1,
                                               text.find_first_of("&", at) - at - name.size() - 1);
}

class OidcTest : public testing::Test {
 protected:
  OidcTest() : double_([this](const DoubleCall& call) { return answer(call); }) {
    Stack::Options options;
    options.workers = 0;
    options.environment = {{"CONSOLE_DIR", kPages},
                           {"OIDC_ISSUER", issuer()},
                           {"OIDC_CLIENT_ID", "console"},
                           {"OIDC_CLIENT_SECRET", "canary-of-the-secret"}};
    stack_.emplace(options);
  }

  std::string issuer() const { return "http://127.0.0.1:" + std::to_string(double_.port()); }

  DoubleReply answer(const DoubleCall& call) {
    const std::scoped_lock lock(mutex_);
    if (call.target == "/.well-known/openid-configuration") {
      ++discoveries_;
      return discovery_.value_or(DoubleReply{
          .body = R"({"issuer":")" + issuer() + R"(","authorization_endpoint":")" + issuer() +
                  R"(/auth","token_endpoint":")" + issuer() + R"(/token"})"});
    }
    token_call_ = call;
    return token_.value_or(
        DoubleReply{.body = R"({"id_token":")" + part("{}") + "." + part(claims_) + R"(.x"})"});
  }
  // Our own page leads there, the issuer back.
  Reply get(const std::string& path, const std::string& cookie = "") {
    return get_from(path.empty() ? "same-origin" : "cross-site", path, cookie);
  }
  Reply get_from(const std::string& site, const std::string& path, const std::string& cookie = "") {
    std::vector<std::string> headers = {"Sec-Fetch-Site: " + site, "Sec-Fetch-Mode: navigate"};
    if (!cookie.empty()) {
      headers.push_back("Cookie: oidc=" + cookie);
    }
    return http("GET", stack_->public_url() + "/console/api/v1/sign-in/oidc" + path, headers);
  }
  static std::string cookie_in(const Reply& reply, const std::string& name) {
    const auto [from, to] = reply.headers.equal_range("set-cookie");
    for (auto at = from; at != to; ++at) {
      if (at->second.starts_with(name + "=")) {
        return at->second.substr(name.size() + 1, at->second.find(';') - name.size() - 1);
      }
    }
    return "";
  }
  struct Begun {
    std::string cookie, state, nonce, challenge;
  };
  Begun begin() {
    const Reply reply = get("");
    EXPECT_EQ(reply.status, 302) << reply.body;
    const std::string to = reply.header("location");
    EXPECT_TRUE(to.starts_with(issuer() + "/auth?")) << to;
    return {.cookie = cookie_in(reply, "oidc"),
            .state = value_of(to, "state"),
            .nonce = value_of(to, "nonce"),
            .challenge = value_of(to, "code_challenge")};
  }
  // What the ID token of that attempt has.
  void says(const Begun& begun,
            const std::string& email,
            const std::string& subject = "ann",
            const std::string& more = R"(,"email_verified":true)") {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    const std::scoped_lock lock(mutex_);
    claims_ = R"({"iss":")" + issuer() + R"(","aud":"console","exp":)" + std::to_string(now + 300) +
              R"(,"iat":)" + std::to_string(now) + R"(,"nonce":")" + begun.nonce + R"(","sub":")" +
              subject + R"(","email":")" + email + "\"" + more + "}";
  }
  Reply finish(const Begun& begun) {
    return get("/callback?code=a%2Fcode&state=" + begun.state, begun.cookie);
  }
  void expect_refused(const Reply& reply) {
    EXPECT_EQ(reply.status, 302) << reply.body;
    EXPECT_EQ(reply.header("location"), "/console/#sign-in=failed");
    EXPECT_EQ(cookie_in(reply, "session"), "");
  }
  std::string account_of(const Reply& reply) {
    EXPECT_EQ(reply.status, 302) << reply.body;
    EXPECT_EQ(reply.header("location"), "/console/");
    EXPECT_EQ(http("GET",
                   stack_->public_url() + "/console/api/v1/account",
                   {"Cookie: session=" + cookie_in(reply, "session")})
                  .status,
              200);
    return http("GET",
                stack_->public_url() + "/console/api/v1/account",
                {"Cookie: session=" + cookie_in(reply, "session")})
        .text("email");
  }

  std::mutex mutex_;
  // All guarded by mutex_.
  std::string claims_;
  std::optional<DoubleReply> discovery_, token_;
  DoubleCall token_call_;
  int discoveries_ = 0;
  ProviderDouble double_;
  std::optional<Stack> stack_;
};

TEST_F(OidcTest, WhoIsNamedIsSignedIn) {
  const Account ann = stack_->account(), bob = stack_->account();
  EXPECT_EQ(http("GET", stack_->public_url() + "/console/api/v1/sign-in").body,
            R"({"mail":false,"sign_up":"closed","oidc":true})");
  const Begun begun = begin();
  says(begun, ann.email);
  const Reply in = finish(begun);
  EXPECT_EQ(account_of(in), ann.email);
  EXPECT_EQ(in.header("cache-control"), "no-store");
  EXPECT_EQ(cookie_in(in, "oidc"), "");
  {
    const std::scoped_lock lock(mutex_);
    EXPECT_EQ(token_call_.method, "POST");
    EXPECT_EQ(value_of(token_call_.body, "code"), "a%2fcode");
    EXPECT_EQ(encode_base64url(sha256(value_of(token_call_.body, "code_verifier"))),
              begun.challenge);
    EXPECT_TRUE(token_call_.header("authorization").starts_with("Basic "));
  }
  // From then on by his name there.
  const Begun again = begin();
  says(again, bob.email, "ann");
  EXPECT_EQ(account_of(finish(again)), ann.email);
  const Begun other = begin();
  says(other, bob.email, "bob");
  EXPECT_EQ(account_of(finish(other)), bob.email);
  {
    const std::scoped_lock lock(mutex_);
    EXPECT_EQ(discoveries_, 1) << "it is remembered";
  }
  stack_->api().signal(15);
  EXPECT_EQ(stack_->api().wait(std::chrono::seconds(20)), 0);
  for (const std::string& secret : {std::string("canary"), begun.cookie, ann.email}) {
    EXPECT_THAT(stack_->api().log(), Not(HasSubstr(secret)));
  }
}

TEST_F(OidcTest, OnlyTheBrowserThatBeganFinishes) {
  const Account ann = stack_->account();
  const Begun begun = begin(), other = begin();
  says(begun, ann.email);
  expect_refused(get("/callback?code=c&state=" + begun.state));
  expect_refused(get("/callback?code=c&state=" + begun.state, other.cookie));
  expect_refused(get("/callback?code=c&state=" + other.state, begun.cookie));
  expect_refused(get("/callback?code=c", begun.cookie));
  expect_refused(get("/callback?error=access_denied&state=" + begun.state, begun.cookie));
  expect_refused(get("/callback?code=c&state=" + begun.state, "x"));
  const std::scoped_lock lock(mutex_);
  EXPECT_EQ(token_call_.method, "") << "no code was shown to anybody";
}

TEST_F(OidcTest, AnIssuerThatLiesSignsNobodyIn) {
  const Account ann = stack_->account();
  const auto attempt = [&](const std::string& more, const std::string& email) {
    const Begun begun = begin();
    says(begun, email, "liar", more);
    return finish(begun);
  };
  expect_refused(attempt("", ann.email));
  expect_refused(attempt(R"(,"email_verified":false)", ann.email));
  expect_refused(attempt(R"(,"email_verified":true,"azp":"another")", ann.email));
  expect_refused(attempt(R"(,"email_verified":true)", "stranger@example.com"));
  Begun begun = begin();
  const Begun earlier = begun;
  begun = begin();
  says(earlier, ann.email);  // A token of another attempt.
  expect_refused(finish(begun));
  {
    const std::scoped_lock lock(mutex_);
    claims_ = "{}";
  }
  expect_refused(finish(begin()));
  EXPECT_EQ(stack_->database().number(store::Sql("SELECT COUNT(*) FROM sessions")), 0);
  EXPECT_EQ(stack_->database().number(store::Sql("SELECT COUNT(*) FROM oidc_identities")), 0);
}

TEST_F(OidcTest, AnIssuerThatIsAwayIsNoFaultOfOurs) {
  using Form = DoubleReply::Form;
  for (const DoubleReply& bad : {DoubleReply{.status = 500},
                                 DoubleReply{.body = "{}"},
                                 DoubleReply{.form = Form::kReset},
                                 DoubleReply{.form = Form::kGarbage},
                                 DoubleReply{.body = std::string(300'000, ' ')}}) {
    {
      const std::scoped_lock lock(mutex_);
      discovery_ = bad;
    }
    expect_refused(get(""));
  }
  {
    const std::scoped_lock lock(mutex_);
    discovery_.reset();
  }
  for (const DoubleReply& bad : {DoubleReply{.status = 400, .body = R"({"error":"x"})"},
                                 DoubleReply{.status = 302, .headers = {"Location: /elsewhere"}},
                                 DoubleReply{.body = "no"},
                                 DoubleReply{.form = Form::kHang},
                                 DoubleReply{.form = Form::kClose}}) {
    const Begun begun = begin();
    {
      const std::scoped_lock lock(mutex_);
      token_ = bad;
    }
    expect_refused(finish(begun));
  }
  EXPECT_EQ(http("GET", stack_->ops_url() + "/readyz").status, 200);
}

TEST_F(OidcTest, WithSignUpTheIssuersPeopleHaveAccounts) {
  stack_->start_api({{"SIGNUP", "open"}});
  const Begun begun = begin();
  says(begun, "New@Example.com", "new");
  EXPECT_EQ(account_of(finish(begun)), "new@example.com");
  stack_->database().expect_invariants();
}

TEST_F(OidcTest, AttemptsAreFewFromOneAddress) {
  Reply reply;
  int attempts = 0;
  while ((reply = get("/callback")).status == 302 && attempts < 40) {
    ++attempts;
  }
  EXPECT_EQ(reply.status, 429);
  EXPECT_GE(attempts, 20);
}

TEST_F(OidcTest, NoOtherSiteBeginsIt) {
  for (const char* const site : {"cross-site", "same-site"}) {
    const Reply reply = get_from(site, "");
    EXPECT_EQ(reply.status, 302);
    EXPECT_EQ(reply.header("location"), "/console/") << site;
    EXPECT_EQ(cookie_in(reply, "oidc"), "");
  }
  EXPECT_TRUE(get_from("none", "").header("location").starts_with(issuer())) << "typed by hand";
}

TEST(Oidc, WithoutAnIssuerItsPathsAreNotThere) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"CONSOLE_DIR", kPages}};
  Stack stack(options);
  for (const char* path : {"/sign-in/oidc", "/sign-in/oidc/callback"}) {
    EXPECT_EQ(http("GET", stack.public_url() + "/console/api/v1" + path).status, 404);
  }
}

}  // namespace
}  // namespace audiogen::test
