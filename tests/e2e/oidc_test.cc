// Signing in to the console by an issuer: there and back, and issuers that lie, dawdle or are away.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "common/base/crypto.h"
#include "tests/support/places.h"
#include "tests/support/provider_double.h"
#include "tests/support/smtp_double.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kPages = source_path("tests/e2e/console_pages");

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
    options.environment = {
        {"CONSOLE_DIR", kPages},
        {"OIDC_ISSUER", issuer()},
        {"OIDC_CLIENT_ID", "console"},
        {"OIDC_CLIENT_SECRET", "canary-of-the-secret"},
        {"SMTP_URL", "smtp://127.0.0.1:" + std::to_string(mails_.port()) + "?tls=off"},
        {"MAIL_FROM", "audio@example.com"}};
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
  // Our own page asks for the way there.
  Reply post(const std::string& body, const std::string& site = "same-origin") {
    return http("POST",
                stack_->public_url() + "/console/api/v1/sign-in/oidc",
                {"Sec-Fetch-Site: " + site, "Content-Type: application/json"},
                body);
  }
  // The issuer leads back: with the attempt's cookie, and that of whoever is signed in already.
  Reply back(const std::string& query,
             const std::string& cookie = "",
             const std::string& session = "") {
    std::vector<std::string> headers = {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"};
    if (!cookie.empty()) {
      headers.push_back("Cookie: oidc=" + cookie + (session.empty() ? "" : "; session=" + session));
    }
    return http(
        "GET", stack_->public_url() + "/console/api/v1/sign-in/oidc/callback" + query, headers);
  }
  // Whoever has signed in does something else.
  Reply call(const std::string& method,
             const std::string& path,
             const std::string& session,
             const std::string& body = "",
             std::vector<std::string> headers = {}) {
    headers.emplace_back("Sec-Fetch-Site: same-origin");
    headers.push_back("Cookie: session=" + session);
    if (!body.empty()) {
      headers.emplace_back("Content-Type: application/json");
    }
    return http(method, stack_->public_url() + "/console/api/v1" + path, headers, body);
  }
  // The cookie of a session that an operator's link has opened.
  std::string signed_in(const Account& account) {
    const auto made = stack_->admin({"user", "login-link", "--user", account.email});
    const std::string url = made["url"].GetString();
    return cookie_in(http("POST",
                          stack_->public_url() + "/console/api/v1/sessions",
                          {"Sec-Fetch-Site: same-origin", "Content-Type: application/json"},
                          R"({"login_token":")" + url.substr(url.find('=') + 1) + R"("})"),
                     "session");
  }
  // Whether it may do what only a fresh one may.
  bool is_fresh(const std::string& session) {
    const Reply current = call("GET", "/sessions/current", session);
    EXPECT_EQ(current.status, 200) << current.body;
    const Reply set = call("PUT", "/password", session, R"({"password":"correct horse battery"})");
    EXPECT_EQ(set.status == 204, current.text("fresh_until") > current.text("created_at"))
        << set.body;
    if (set.status != 204) {
      EXPECT_EQ(set.text("error.code"), "step_up_required") << set.body;
    }
    return set.status == 204;
  }
  static std::int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
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
    std::string url, cookie, state, nonce, challenge;
  };
  Begun begin(const std::string& body = "{}") {
    const Reply reply = post(body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.header("cache-control"), "no-store");
    const std::string to = reply.text("url");
    EXPECT_TRUE(to.starts_with(issuer() + "/auth?")) << to;
    return {.url = to,
            .cookie = cookie_in(reply, "oidc"),
            .state = value_of(to, "state"),
            .nonce = value_of(to, "nonce"),
            .challenge = value_of(to, "code_challenge")};
  }
  // What the ID token of that attempt has.
  void says(const Begun& begun,
            const std::string& email,
            const std::string& subject = "ann",
            const std::string& more = R"(,"email_verified":true)") {
    const auto now = seconds_now();
    const std::scoped_lock lock(mutex_);
    claims_ = R"({"iss":")" + issuer() + R"(","aud":"console","exp":)" + std::to_string(now + 300) +
              R"(,"iat":)" + std::to_string(now) + R"(,"nonce":")" + begun.nonce + R"(","sub":")" +
              subject + R"(","email":")" + email + "\"" + more + "}";
  }
  Reply finish(const Begun& begun, const std::string& session = "") {
    return back("?code=a%2Fcode&state=" + begun.state, begun.cookie, session);
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
  SmtpDouble mails_;
  std::optional<Stack> stack_;
};

TEST_F(OidcTest, WhoIsNamedIsSignedIn) {
  const Account ann = stack_->account(), bob = stack_->account();
  EXPECT_EQ(http("GET", stack_->public_url() + "/console/api/v1/sign-in").body,
            R"({"mail":true,"sign_up":"closed","oidc":true})");
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
  EXPECT_EQ(stack_->api().wait(std::chrono::seconds(60)), 0);
  for (const std::string& secret : {std::string("canary"), begun.cookie, ann.email}) {
    EXPECT_THAT(stack_->api().log(), Not(HasSubstr(secret)));
  }
}

TEST_F(OidcTest, OnlyTheBrowserThatBeganFinishes) {
  const Account ann = stack_->account();
  const Begun begun = begin(), other = begin();
  says(begun, ann.email);
  expect_refused(back("?code=c&state=" + begun.state));
  expect_refused(back("?code=c&state=" + begun.state, other.cookie));
  expect_refused(back("?code=c&state=" + other.state, begun.cookie));
  expect_refused(back("?code=c", begun.cookie));
  expect_refused(back("?error=access_denied&state=" + begun.state, begun.cookie));
  expect_refused(back("?code=c&state=" + begun.state, "x"));
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
    const Reply away = post("{}");
    EXPECT_EQ(away.status, 503) << away.body;
    EXPECT_EQ(cookie_in(away, "oidc"), "");
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

// Its own page asks, and its own attempt comes back; both count.
TEST_F(OidcTest, AttemptsAreFewFromOneAddress) {
  const Begun begun = begin();
  Reply reply = back("?error=x&state=x", begun.cookie);
  expect_refused(reply);
  EXPECT_TRUE(reply.header("set-cookie").empty()) << "not this attempt's, which goes on";
  int attempts = 1;
  // What is judged ends the attempt.
  const std::string own = "?error=x&state=" + begun.state;
  while (!(reply = back(own, begun.cookie)).header("set-cookie").empty() && attempts < 40) {
    ++attempts;
  }
  expect_refused(reply);
  EXPECT_GE(attempts, 20);
  EXPECT_LT(attempts, 40);
  EXPECT_EQ(post("{}").status, 429);
}

// What another site's page embeds asks by GET and without cookies, or says where it comes from.
TEST_F(OidcTest, NoOtherSiteUsesUpItsAttempts) {
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(
        http("GET",
             stack_->public_url() + "/console/api/v1/sign-in/oidc",
             {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image", "Sec-Fetch-Mode: no-cors"})
            .status,
        405);
    EXPECT_EQ(post("{}", i % 2 == 0 ? "cross-site" : "same-site").status, 403);
    expect_refused(back("?code=c&state=s"));
  }
  EXPECT_EQ(post("{}").status, 200);
}

TEST_F(OidcTest, ItsBodyIsRead) {
  EXPECT_EQ(post(R"({"purpose":"other"})").text("error.param"), "purpose");
  EXPECT_EQ(post("").status, 400);
}

// Whom the issuer knows it lets in without asking, so a sign-in by it is worth what it says of the
// last time that somebody has shown who he is, and no more.
TEST_F(OidcTest, ASessionIsFreshFromWhenItsOwnerShowedHimself) {
  const Account ann = stack_->account();
  const auto opened = [&](const std::string& more) {
    const Begun begun = begin();
    EXPECT_EQ(value_of(begun.url, "max_age"), "2592000");
    EXPECT_EQ(value_of(begun.url, "prompt"), "");
    says(begun, ann.email, "ann", R"(,"email_verified":true)" + more);
    return cookie_in(finish(begun), "session");
  };
  const auto shown = [](std::int64_t ago) {
    return R"(,"auth_time":)" + std::to_string(seconds_now() - ago);
  };
  EXPECT_FALSE(is_fresh(opened(""))) << "nobody knows when";
  EXPECT_FALSE(is_fresh(opened(shown(3'600))));
  EXPECT_TRUE(is_fresh(opened(shown(60))));
  const Begun ahead = begin();
  says(ahead, ann.email, "ann", R"(,"email_verified":true)" + shown(-600));
  expect_refused(finish(ahead));
  const Begun again = begin(R"({"purpose":"step_up"})");
  EXPECT_EQ(value_of(again.url, "prompt"), "login");
  EXPECT_EQ(value_of(again.url, "max_age"), "0");
  says(again, ann.email, "ann", shown(0));
  EXPECT_TRUE(is_fresh(cookie_in(finish(again), "session")));
}

// An issuer may let its person in without asking, whatever it was asked.
TEST_F(OidcTest, AStepUpThatShowedNobodyIsSaidToBeNone) {
  const Account ann = stack_->account();
  const auto led_to = [&](const std::string& purpose, const std::string& more) {
    const Begun begun = begin(R"({"purpose":")" + purpose + R"("})");
    says(begun, ann.email, "ann", R"(,"email_verified":true)" + more);
    const Reply reply = finish(begun);
    EXPECT_NE(cookie_in(reply, "session"), "");
    return reply.header("location");
  };
  const std::string now = R"(,"auth_time":)" + std::to_string(seconds_now());
  EXPECT_EQ(led_to("step_up", ""), "/console/#sign-in=not-shown");
  EXPECT_EQ(led_to("step_up", now), "/console/");
  EXPECT_EQ(led_to("sign_in", ""), "/console/");
}

TEST_F(OidcTest, ItsOwnerSeesTheLinkAndEndsIt) {
  const Account ann = stack_->account(), bob = stack_->account();
  const auto mail_about = [&](const std::string& subject) {
    return eventually(std::chrono::seconds(30), [&] {
      const auto all = mails_.mails();
      return std::any_of(all.begin(), all.end(), [&](const ReceivedMail& mail) {
        return mail.to == ann.email && mail.header("Subject") == subject;
      });
    });
  };
  const auto attempt = [&](const std::string& session = "") {
    const Begun begun = begin();
    says(begun, ann.email);
    return finish(begun, session);
  };
  EXPECT_EQ(account_of(attempt()), ann.email);
  EXPECT_TRUE(mail_about("An issuer may sign in to your account"));
  const std::string anns = signed_in(ann), bobs = signed_in(bob);
  const Reply listed = call("GET", "/account/issuers", anns);
  EXPECT_EQ(listed.status, 200) << listed.body;
  const rapidjson::Document list = listed.json();
  ASSERT_EQ(list["data"].Size(), 1U) << listed.body;
  const rapidjson::Value& link = list["data"][0];
  const std::string id = link["id"].GetString();
  EXPECT_TRUE(id.starts_with("iss_")) << listed.body;
  EXPECT_STREQ(link["issuer"].GetString(), issuer().c_str());
  EXPECT_EQ(link["email"].GetString(), ann.email);
  EXPECT_STREQ(link["linked_at"].GetString(), link["last_used_at"].GetString());
  const std::string tag = "If-None-Match: " + listed.header("etag");
  EXPECT_EQ(call("GET", "/account/issuers", anns, "", {tag}).status, 304);
  EXPECT_EQ(call("GET", "/account/issuers", bobs, "", {tag}).body,
            R"({"object":"list","data":[],"has_more":false,"next_cursor":null})");
  const std::string path = "/account/issuers/" + id;
  const Reply last = call("DELETE", path, anns);
  EXPECT_EQ(last.status, 409);
  EXPECT_EQ(last.text("error.code"), "last_way_in");
  ASSERT_TRUE(is_fresh(anns)) << "and now has a password";
  for (const auto& [where, whose] : {std::pair(path, bobs), {"/account/issuers/iss_x", anns}}) {
    EXPECT_EQ(call("DELETE", where, whose).text("error.code"), "not_found");
  }
  const std::string old = cookie_in(attempt(), "session");
  const Reply stale = call("DELETE", path, old);
  EXPECT_EQ(stale.status, 403);
  EXPECT_EQ(stale.text("error.code"), "step_up_required");
  EXPECT_EQ(call("DELETE", path, anns).status, 204);
  EXPECT_TRUE(mail_about("An issuer was unlinked from your account"));
  EXPECT_EQ(call("DELETE", path, anns).status, 404);
  expect_refused(attempt());
  expect_refused(attempt(bobs));
  // He links it again: signed in, and just now.
  EXPECT_EQ(account_of(attempt(anns)), ann.email);
  EXPECT_EQ(account_of(attempt()), ann.email);
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
