// The console through HTTP: signing in and out, what a cookie opens and what it does not,
// passwords, who else may try, its pages.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/server/routes.h"
#include "tests/support/places.h"
#include "tests/support/raw_http.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr auto kEverywhere = 60s;  // Within one, and what a slow machine adds.
const std::string kPages = source_path("tests/e2e/console_pages");
constexpr const char* kOwnPage = "Sec-Fetch-Site: same-origin";

// A service without a worker, and two accounts.
class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() : stack_(with_pages()), ann_(stack_.account()), bob_(stack_.account()) {}

  static Stack::Options with_pages() {
    Stack::Options options;
    options.workers = 0;
    options.environment = {{"CONSOLE_DIR", kPages}, {"TRUSTED_PROXIES", "127.0.0.0/8"}};
    return options;
  }

  // A request of a page of ours; `cookie` is a token.
  Reply call(const std::string& method,
             const std::string& path,
             const std::string& cookie = "",
             const std::string& body = "",
             std::vector<std::string> headers = {kOwnPage}) {
    if (!cookie.empty()) {
      headers.push_back("Cookie: theme=dark; session=" + cookie);
    }
    if (!body.empty()) {
      headers.emplace_back("Content-Type: application/json");
    }
    return http(method, stack_.public_url() + "/console/api/v1" + path, headers, body);
  }

  std::string link_of(const Account& account) {
    const auto made = stack_.admin({"user", "login-link", "--user", account.email});
    const std::string url = made["url"].GetString();
    const std::string start = stack_.public_url() + "/console/#login=";
    EXPECT_TRUE(url.starts_with(start)) << url;
    return url.substr(std::min(url.size(), start.size()));
  }
  Reply by_link(const std::string& token, const std::string& cookie = "") {
    return call("POST", "/sessions", cookie, R"({"login_token":")" + token + R"("})");
  }
  // From `address`, or this machine's.
  Reply by_password(const std::string& email,
                    const std::string& password,
                    const std::string& address = "127.0.0.1") {
    return call("POST",
                "/sessions",
                "",
                R"({"email":")" + email + R"(","password":")" + password + R"("})",
                {kOwnPage, "X-Forwarded-For: " + address});
  }
  static std::string cookie_of(const Reply& reply) {
    const std::string line = reply.header("set-cookie");
    const auto from = line.find('=') + 1;
    return line.substr(from, line.find(';') - from);
  }
  // A counter with its labels; 0 before it is there.
  double metric(const std::string& name) {
    const std::string lines = http("GET", stack_.ops_url() + "/metrics").body;
    const auto at = lines.find("\n" + name + " ");
    return at == std::string::npos ? 0.0 : std::stod(lines.substr(at + name.size() + 2));
  }
  std::string signed_in(const Account& account) {
    const Reply reply = by_link(link_of(account));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return cookie_of(reply);
  }
  void no_longer_fresh() {
    stack_.database().execute(
        store::Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  }
  bool ends(const std::string& cookie) {
    return eventually(kEverywhere, [&] { return call("GET", "/account", cookie).status == 401; });
  }

  static void expect_error(const Reply& reply,
                           int status,
                           const std::string& code,
                           const std::string& param = "") {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.text("error.code"), code) << reply.body;
    EXPECT_EQ(reply.text("error.param"), param) << reply.body;
    EXPECT_EQ(reply.text("error.request_id"), reply.header("x-request-id"));
    EXPECT_EQ(reply.header("set-cookie"), "");
    EXPECT_EQ(reply.header("access-control-allow-origin"), "");
  }

  Stack stack_;
  Account ann_, bob_;
};

TEST_F(ConsoleTest, ALinkSignsInOnce) {
  const std::string token = link_of(ann_);
  ASSERT_EQ(token.size(), 43U);
  // Whoever only looks, a preview in a chat for example, does not use it up.
  EXPECT_EQ(http("GET", stack_.public_url() + "/console/?login=" + token).status, 200);
  expect_error(call("GET", "/sessions?login_token=" + token), 401, "invalid_api_key");
  const Reply reply = by_link(token);
  ASSERT_EQ(reply.status, 201) << reply.body;
  EXPECT_EQ(reply.text("email"), ann_.email);
  EXPECT_EQ(reply.text("current"), "true");
  EXPECT_TRUE(reply.text("id").starts_with("ses_"));
  EXPECT_LT(reply.text("created_at"), reply.text("expires_at"));
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  EXPECT_EQ(
      reply.header("set-cookie"),
      "session=" + cookie_of(reply) + "; Path=/console; HttpOnly; SameSite=Lax; Max-Age=2592000");
  EXPECT_NE(cookie_of(reply), token);
  expect_error(by_link(token), 401, "invalid_login");

  const std::string cookie = cookie_of(reply);
  const Reply current = call("GET", "/sessions/current", cookie);
  ASSERT_EQ(current.status, 200) << current.body;
  EXPECT_EQ(current.text("id"), reply.text("id"));
  EXPECT_EQ(current.text("email"), ann_.email);
  EXPECT_EQ(current.text("has_password"), "false");
  EXPECT_LT(current.text("created_at"), current.text("fresh_until"));
  expect_error(call("GET", "/sessions/current"), 401, "invalid_api_key");
  expect_error(call("GET", "/sessions/current", token), 401, "invalid_api_key");
}

TEST_F(ConsoleTest, ALinkIsOverWhenItsTimeIs) {
  const std::string token = link_of(ann_);
  stack_.database().execute(
      store::Sql("UPDATE login_links SET expires_at=expires_at - INTERVAL 10 MINUTE"));
  const Reply late = by_link(token);
  expect_error(late, 401, "invalid_login");
  // The same words whatever is wrong.
  for (const std::string& other : {std::string("x"), std::string(43, 'A')}) {
    EXPECT_EQ(by_link(other).text("error.message"), late.text("error.message"));
  }
  EXPECT_EQ(by_password(ann_.email, "no such password").text("error.message"),
            late.text("error.message"));
}

// The handlers of keys, by a cookie.
TEST_F(ConsoleTest, ASessionDoesWhatAKeyDoes) {
  const std::string cookie = signed_in(ann_);
  const auto described = [&](const std::string& method,
                             const std::string& path,
                             const Reply& reply) { return stack_.judged(method, path, reply); };
  const Reply account = described("GET", "/account", call("GET", "/account", cookie));
  EXPECT_EQ(account.text("email"), ann_.email);
  EXPECT_TRUE(account.header("ratelimit").starts_with("\"read\""));
  const Reply created =
      described("POST",
                "/audio/generations",
                call("POST",
                     "/audio/generations",
                     cookie,
                     Stack::body(),
                     {kOwnPage, "Idempotency-Key: once", "Origin: " + stack_.public_url()}));
  ASSERT_EQ(created.status, 202) << created.body;
  EXPECT_EQ(created.header("access-control-allow-origin"), "");
  const std::string id = created.text("id");
  // One account, one set of keys for idempotency.
  EXPECT_EQ(stack_.create(ann_, Stack::body(), {"Idempotency-Key: once"}).text("id"), id);
  EXPECT_EQ(call("GET", "/audio/generations/" + id, cookie).text("status"), "processing");
  EXPECT_THAT(call("GET", "/audio/generations", cookie).body, HasSubstr(id));
  EXPECT_EQ(call("POST", "/audio/estimates", cookie, Stack::body()).status, 200);
  EXPECT_EQ(call("POST", "/audio/generations/" + id + "/cancel", cookie).text("status"),
            "canceled");
  EXPECT_EQ(call("DELETE", "/audio/generations/" + id, cookie).status, 204);
  EXPECT_EQ(call("GET", "/account/ledger", cookie).status, 200);
  for (const char* path : {"/voices", "/models", "/pricing"}) {
    EXPECT_EQ(call("GET", path, cookie).status, 200) << path;
    EXPECT_EQ(call("GET", path).status, 401) << path;
  }
  EXPECT_EQ(call("DELETE", "/account/keys/current", cookie).status, 404) << "it has none";
  expect_error(call("GET", "/audio/generations/" + id, signed_in(bob_)), 404, "task_not_found");
}

TEST_F(ConsoleTest, AllSessionsOfAUserCountTogetherAndApartFromKeys) {
  stack_.start_api({{"RATE_LIMIT_READ_PER_MINUTE", "1"}, {"RATE_LIMIT_READ_BURST", "5"}});
  const std::string one = signed_in(ann_), other = signed_in(ann_), bobs = signed_in(bob_);
  const auto left = [&](const std::string& cookie) {
    return call("GET", "/account", cookie).header("x-ratelimit-remaining");
  };
  EXPECT_EQ(left(one), "4");
  EXPECT_EQ(left(other), "3");
  EXPECT_EQ(left(bobs), "4");
  EXPECT_EQ(stack_.get(ann_, "aud_x").header("x-ratelimit-remaining"), "4");
  left(one);
  left(one);
  left(one);
  expect_error(call("GET", "/account", other), 429, "rate_limit_exceeded");
  EXPECT_EQ(call("GET", "/account", bobs).status, 200);
}

TEST_F(ConsoleTest, AKeyOpensNoConsoleAndACookieNoInterface) {
  const std::string cookie = signed_in(ann_);
  const auto with_key = Stack::bearer(ann_.key, {kOwnPage});
  expect_error(call("GET", "/account", "", "", with_key), 401, "invalid_api_key");
  expect_error(
      call("POST", "/account/keys", "", R"({"name":"k"})", with_key), 401, "invalid_api_key");
  expect_error(call("GET", "/account", ann_.key), 401, "invalid_api_key");
  for (const char* name : {"session", "__Host-session"}) {
    const Reply reply = http("GET",
                             stack_.base() + "/account",
                             {kOwnPage, std::string("Cookie: ") + name + "=" + cookie});
    EXPECT_EQ(reply.status, 401);
  }
  EXPECT_EQ(http("GET", stack_.base() + "/account", {"Authorization: Bearer " + cookie}).status,
            401);
  // Here it is another name's; two headers are two opinions.
  EXPECT_EQ(call("GET", "/account", "", "", {"Cookie: __Host-session=" + cookie}).status, 401);
  EXPECT_EQ(call("GET", "/account", cookie, "", {"Cookie: a=b"}).status, 401);
  EXPECT_EQ(call("GET", "/account", cookie).status, 200);
}

// Somebody else has signed in in another tab: this one must not act for him.
TEST_F(ConsoleTest, ATabActsForNobodyButWhomItShows) {
  const std::string cookie = signed_in(ann_);
  const Reply current = call("GET", "/sessions/current", cookie);
  EXPECT_EQ(current.text("account"), ann_.user);
  const auto by_tab_of = [&](const std::string& account,
                             const std::string& method,
                             const std::string& path,
                             const std::string& body = "") {
    return call(method, path, cookie, body, {kOwnPage, "X-Account: " + account});
  };
  EXPECT_EQ(by_tab_of(ann_.user, "GET", "/account").status, 200);
  EXPECT_EQ(by_tab_of(ann_.user, "POST", "/account/keys", R"({"name":"k"})").status, 201);
  for (const std::string& other : {bob_.user, std::string("x"), ann_.user + ", " + bob_.user}) {
    const Reply refused = by_tab_of(other, "POST", "/account/keys", R"({"name":"k"})");
    expect_error(refused, 409, "other_account");
    EXPECT_EQ(refused.header("x-should-retry"), "false");
    expect_error(by_tab_of(other, "GET", "/account"), 409, "other_account");
    expect_error(by_tab_of(other, "GET", "/voices"), 409, "other_account");
    expect_error(by_tab_of(other, "DELETE", "/sessions/current"), 409, "other_account");
  }
  EXPECT_EQ(call("GET", "/account/keys", cookie).json()["data"].Size(), 2U) << "stack's, and one";
  EXPECT_EQ(
      http("GET", stack_.base() + "/account", Stack::bearer(ann_.key, {"X-Account: " + bob_.user}))
          .status,
      200)
      << "keys are what they are";
}

TEST_F(ConsoleTest, ItsAnswersAreForItsOwnPagesAlone) {
  const std::string cookie = signed_in(ann_);
  for (const Reply& reply : {call("GET", "/account", cookie),
                             call("GET", "/account"),
                             call("GET", "/nothing", cookie),
                             call("PUT", "/account", cookie, "{}"),
                             call("GET", "/voices", cookie),
                             call("GET", "/account/keys", cookie),
                             call("DELETE", "/sessions/ses_x", cookie),
                             call("POST", "/sessions", "", "{}"),
                             call("GET", "/usage", cookie, "", {"Accept: text/csv"})}) {
    EXPECT_EQ(reply.header("x-content-type-options"), "nosniff") << reply.status << reply.body;
    EXPECT_EQ(reply.header("cross-origin-resource-policy"), "same-origin") << reply.status;
  }
  const Reply by_key = http("GET", stack_.base() + "/account", Stack::bearer(ann_.key));
  EXPECT_EQ(by_key.header("cross-origin-resource-policy"), "");
}

// As with a key that leaked.
TEST_F(ConsoleTest, AWaitEndsWithItsSession) {
  const std::string cookie = signed_in(ann_);
  const std::string id = stack_.create(ann_, Stack::body()).text("id");
  const std::string path = "/audio/generations/" + id;
  RawConnection client(stack_.api_port());
  ASSERT_TRUE(client.send(get_request(
      "/console/api/v1" + path,
      std::string(kOwnPage) + "\r\nCookie: session=" + cookie + "\r\nPrefer: wait=25\r\n")));
  // One that has waited for a second came after it.
  ASSERT_EQ(call("GET", path, cookie, "", {kOwnPage, "Prefer: wait=1"}).status, 200);
  stack_.admin({"user", "sign-out", "--user", ann_.email});
  ASSERT_TRUE(ends(cookie));
  const Reply canceled = http("POST", stack_.base() + path + "/cancel", Stack::bearer(ann_.key));
  ASSERT_EQ(canceled.text("status"), "canceled") << "which is what it waited for";
  const auto response = client.response(false, 30s);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 401) << response->body;
  EXPECT_EQ(response->body.find(id), std::string::npos) << response->body;
}

// What the process tells of its creations is that of both doors.
TEST_F(ConsoleTest, CreationsCountByEitherDoor) {
  const auto told = [&](int creations) {
    return eventually(30s, [&] {
      return stack_.database().number(
                 store::Sql("SELECT COALESCE(MAX(creations), 0) FROM api_processes")) == creations;
    });
  };
  ASSERT_EQ(call("POST", "/audio/generations", signed_in(ann_), Stack::body()).status, 202);
  EXPECT_TRUE(told(1));
  ASSERT_EQ(stack_.create(ann_, Stack::body()).status, 202);
  EXPECT_TRUE(told(2));
}

TEST_F(ConsoleTest, AnOperatorSignsAUserOut) {
  const std::string one = signed_in(ann_), other = signed_in(ann_), bobs = signed_in(bob_);
  const auto out = stack_.admin({"user", "sign-out", "--user", ann_.email});
  EXPECT_EQ(out["ended_sessions"].GetInt(), 2);
  EXPECT_TRUE(ends(one));
  EXPECT_TRUE(ends(other));
  EXPECT_EQ(call("GET", "/account", bobs).status, 200);
}

TEST_F(ConsoleTest, ANewPasswordEndsUnusedLinks) {
  const std::string link = link_of(ann_), cookie = signed_in(ann_);
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":"one that is long enough"})").status,
            204);
  expect_error(by_link(link), 401, "invalid_login");
  EXPECT_EQ(by_link(link_of(ann_)).status, 201);
}

// What is wrong then is not the password.
TEST_F(ConsoleTest, WithoutMemoryForAPasswordItIsBusy) {
  stack_.start_api({{"ASAN_OPTIONS", "allocator_may_return_null=1"}});
  const std::string cookie = signed_in(ann_);
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":"one that is long enough"})").status,
            204);
  // 4 TiB.
  stack_.database().execute(
      store::Sql("UPDATE passwords SET encoded=REPLACE(encoded, 'm=19456', 'm=4294967295')"));
  expect_error(by_password(ann_.email, "one that is long enough"), 503, "service_unavailable");
  no_longer_fresh();
  expect_error(
      call("PUT",
           "/password",
           cookie,
           R"({"password":"another long enough","current_password":"one that is long enough"})"),
      503,
      "service_unavailable");
}

// By the table itself, so that no route that names something comes without a way to ask for
// another's.
TEST_F(ConsoleTest, WhatIsAnothersIsNotFoundOnAnyRoute) {
  const std::string anns = signed_in(ann_), bobs = signed_in(bob_);
  const auto key_of = [&](const std::string& cookie) {
    return call("POST", "/account/keys", cookie, R"({"name":"k","scopes":["generate","manage"]})");
  };
  const std::string key = key_of(bobs).text("key");
  const auto sessions = call("GET", "/sessions", anns).json();
  const std::map<std::string, std::string> of_ann = {
      {"task_id", stack_.create(ann_, Stack::body()).text("id")},
      {"key_id", key_of(anns).text("id")},
      {"session_id", sessions["data"][0]["id"].GetString()}};
  // Those that are there for all, and those that a browser or an issuer has to make first, of which
  // passkeys_test.cc and oidc_test.cc ask.
  const std::set<std::string> elsewhere = {
      "voice_id", "page*", "file*", "passkey_id", "issuer_link_id"};
  const auto ask = [&](const api::Route& route, const std::string& path, std::string header) {
    std::vector<std::string> headers = {kOwnPage, std::move(header)};
    std::string body;
    if (route.body == api::Body::kJson) {
      headers.emplace_back("Content-Type: application/json");
      body = path.ends_with("/rotate") ? R"({"overlap_hours":1})" : R"({"name":"mine"})";
    }
    return http(std::string(route.method), stack_.public_url() + path, headers, body).status;
  };
  std::vector<std::pair<const api::Route*, std::string>> deletions;
  int asked = 0;
  for (const api::Route& route : api::route_table()) {
    std::string path(route.path);
    const auto from = path.find('{');
    if (from == std::string::npos) {
      continue;
    }
    const auto size = path.find('}') + 1 - from;
    const std::string name = path.substr(from + 1, size - 2);
    const auto found = of_ann.find(name);
    if (found == of_ann.end()) {
      EXPECT_EQ(elsewhere.count(name), 1U) << path << " names what this test does not know";
      continue;
    }
    path.replace(from, size, found->second);
    SCOPED_TRACE(std::string(route.method) + " " + path);
    ++asked;
    const bool by_key = route.access != api::Access::kSession;
    if (by_key) {
      EXPECT_EQ(ask(route, path, "Authorization: Bearer " + key), 404);
    }
    const std::string own = by_key ? "/console" + path : path;
    if (!by_key || route.console) {
      EXPECT_EQ(ask(route, own, "Cookie: session=" + bobs), 404);
    }
    if (route.method == "DELETE") {
      deletions.emplace_back(&route, own);
    } else if (!path.ends_with("/events")) {
      EXPECT_EQ(ask(route, own, "Cookie: session=" + anns), 200);
    }
  }
  EXPECT_GE(asked, 8);
  for (const auto& [route, path] : deletions) {
    EXPECT_EQ(ask(*route, path, "Cookie: session=" + anns), 204) << path << " was still there";
  }
}

TEST_F(ConsoleTest, PagesOfOtherSitesChangeNothing) {
  const std::string cookie = signed_in(ann_);
  const std::string own = "Origin: " + stack_.public_url();
  for (const std::vector<std::string>& headers : std::vector<std::vector<std::string>>{
           {},
           {"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
           {"Sec-Fetch-Site: same-site", own},
           {"Origin: http://127.0.0.1:1"},
           {"Origin: null"}}) {
    expect_error(call("POST", "/account/keys", cookie, R"({"name":"k"})", headers),
                 403,
                 "cross_site_request");
    expect_error(call("POST", "/audio/generations", cookie, Stack::body(), headers),
                 403,
                 "cross_site_request");
    expect_error(
        call("DELETE", "/sessions/current", cookie, "", headers), 403, "cross_site_request");
    // Nor does one sign somebody in to the account of another.
    expect_error(call("POST", "/sessions", "", R"({"login_token":"x"})", headers),
                 403,
                 "cross_site_request");
  }
  const Reply read = call("GET",
                          "/account",
                          cookie,
                          "",
                          {"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"});
  EXPECT_EQ(read.status, 200) << "a link there";
  EXPECT_EQ(read.header("access-control-allow-origin"), "") << "which the page cannot read";
  const Reply asks = call("OPTIONS",
                          "/account/keys",
                          "",
                          "",
                          {"Origin: https://evil.example", "Access-Control-Request-Method: POST"});
  EXPECT_EQ(asks.status, 204);
  EXPECT_EQ(asks.header("access-control-allow-methods"), "");
  // What a form can send is no JSON.
  EXPECT_EQ(
      call("POST", "/account/keys", cookie, "", {kOwnPage, "Content-Type: text/plain"}).status,
      400);
  EXPECT_EQ(call("POST", "/account/keys", cookie, R"({"name":"k"})", {own}).status, 201);
}

TEST_F(ConsoleTest, SessionsAreListedAndEndedByTheirUser) {
  const std::string first = signed_in(ann_), second = signed_in(ann_), bobs = signed_in(bob_);
  const Reply list = call("GET", "/sessions", first);
  ASSERT_EQ(list.status, 200) << list.body;
  EXPECT_EQ(list.text("object"), "list");
  EXPECT_EQ(list.text("has_more"), "false");
  EXPECT_EQ(list.text("next_cursor"), "null");
  const auto document = list.json();
  ASSERT_EQ(document["data"].Size(), 2U);
  for (const auto& item : document["data"].GetArray()) {
    EXPECT_EQ(item.MemberCount(), 7U);
    EXPECT_STREQ(item["address"].GetString(), "127.0.0.1");
    EXPECT_TRUE(item["last_seen_at"].IsString() && item["user_agent"].IsString());
  }
  EXPECT_FALSE(document["data"][0]["current"].GetBool()) << "newest first";
  EXPECT_TRUE(document["data"][1]["current"].GetBool());
  const std::string etag = list.header("etag");
  ASSERT_FALSE(etag.empty());
  const Reply same = call("GET", "/sessions", first, "", {kOwnPage, "If-None-Match: " + etag});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(call("GET", "/sessions", second, "", {kOwnPage, "If-None-Match: " + etag}).status, 200)
      << "another one is the current one";
  const std::string second_id = document["data"][0]["id"].GetString();
  const std::string bobs_id = call("GET", "/sessions/current", bobs).text("id");
  expect_error(call("DELETE", "/sessions/" + bobs_id, first), 404, "not_found");
  expect_error(call("DELETE", "/sessions/ses_01j9x4tqkc7v2m8e5r0hfzw3dn", first), 404, "not_found");
  expect_error(call("DELETE", "/sessions/x", first), 404, "not_found");
  EXPECT_EQ(call("GET", "/account", bobs).status, 200);

  EXPECT_EQ(call("GET", "/account", second).status, 200);  // It is remembered now.
  EXPECT_EQ(call("DELETE", "/sessions/" + second_id, first).status, 204);
  EXPECT_TRUE(ends(second));
  const Reply out = call("DELETE", "/sessions/current", first);
  EXPECT_EQ(out.status, 204);
  EXPECT_EQ(out.header("set-cookie"), "session=; Path=/console; HttpOnly; SameSite=Lax; Max-Age=0");
  EXPECT_TRUE(ends(first));
  EXPECT_EQ(call("GET", "/account", bobs).status, 200);
}

TEST_F(ConsoleTest, SigningInAgainEndsTheSessionOfTheCookie) {
  const std::string before = signed_in(ann_);
  const Reply again = by_link(link_of(ann_), before);
  ASSERT_EQ(again.status, 201) << again.body;
  EXPECT_NE(cookie_of(again), before);
  EXPECT_TRUE(ends(before));
  EXPECT_EQ(call("GET", "/sessions", cookie_of(again)).json()["data"].Size(), 1U);
}

TEST_F(ConsoleTest, APasswordIsSetWhileFreshAndSignsIn) {
  const std::string cookie = signed_in(ann_), other = signed_in(ann_);
  const auto set = [&](const std::string& body) { return call("PUT", "/password", cookie, body); };
  for (const std::string& wrong : {std::string(R"({"password":"short"})"),
                                   std::string(R"({"password":"password1234"})"),
                                   R"({"password":")" + ann_.email + R"("})",
                                   R"({"password":")" + std::string(1025, 'x') + R"("})",
                                   std::string(R"({"current_password":"a long enough one"})")}) {
    expect_error(set(wrong), 400, "invalid_request", "password");
  }
  EXPECT_EQ(call("GET", "/account", other).status, 200);
  ASSERT_EQ(set(R"({"password":"one that is long enough"})").status, 204);
  EXPECT_TRUE(ends(other));
  EXPECT_EQ(call("GET", "/sessions/current", cookie).text("has_password"), "true");

  const Reply in = by_password(ann_.email, "one that is long enough");
  ASSERT_EQ(in.status, 201) << in.body;
  EXPECT_EQ(in.text("email"), ann_.email);
  EXPECT_EQ(call("GET", "/account", cookie_of(in)).text("email"), ann_.email);
  std::string upper = ann_.email;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  EXPECT_EQ(by_password(upper, "one that is long enough").status, 201);

  no_longer_fresh();
  expect_error(set(R"({"password":"another long enough"})"), 403, "step_up_required");
  expect_error(set(R"({"password":"another long enough","current_password":"not that one"})"),
               400,
               "invalid_request",
               "current_password");
  ASSERT_EQ(
      set(R"({"password":"another long enough","current_password":"one that is long enough"})")
          .status,
      204);
  expect_error(by_password(ann_.email, "one that is long enough"), 401, "invalid_login");
  EXPECT_EQ(by_password(ann_.email, "another long enough").status, 201);
  // Bob has none to show.
  const std::string bobs = signed_in(bob_);
  no_longer_fresh();
  expect_error(
      call(
          "PUT", "/password", bobs, R"({"password":"another long enough","current_password":"x"})"),
      403,
      "step_up_required");
}

TEST_F(ConsoleTest, NobodyLearnsWhichAccountsThereAre) {
  const std::string cookie = signed_in(ann_);
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":"one that is long enough"})").status,
            204);
  std::set<std::string> messages;
  for (const std::string& email : {ann_.email, bob_.email, std::string("nobody@example.com")}) {
    SCOPED_TRACE(email);
    const double before = metric("audiogen_api_password_checks_total");
    const Reply reply = by_password(email, "one that is wrong enough");
    expect_error(reply, 401, "invalid_login");
    messages.insert(reply.text("error.message"));
    // Nor from how long it takes: whoever has no password is compared with nobody's.
    EXPECT_EQ(metric("audiogen_api_password_checks_total") - before, 1);
  }
  EXPECT_EQ(messages.size(), 1U);
}

TEST_F(ConsoleTest, GuessesAtAnAccountAreFewAndKeepNobodyElseOut) {
  const std::string cookie = signed_in(ann_), password = "one that is long enough";
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":")" + password + R"("})").status, 204);
  const std::string link = link_of(ann_);
  // Eight at once, then one a minute, of one address.
  Reply reply;
  int guesses = 0;
  while ((reply = by_password(ann_.email, "one that is wrong enough")).status == 401 &&
         guesses < 19) {
    ++guesses;
  }
  EXPECT_GE(guesses, 8);
  expect_error(reply, 429, "rate_limit_exceeded");
  EXPECT_GT(std::stoi(reply.header("retry-after")), 0);
  EXPECT_EQ(by_password(ann_.email, password, "192.0.2.1").status, 201);
  EXPECT_EQ(by_link(link).status, 201);
  // And from one address few at all, of links as well.
  int attempts = 0;
  while ((reply = by_link("x")).status == 401 && attempts < 100) {
    ++attempts;
  }
  expect_error(reply, 429, "rate_limit_exceeded");
}

TEST_F(ConsoleTest, AnAccountThatIsNotThereIsGuardedAsWell) {
  Reply reply;
  int guesses = 0;
  while ((reply = by_password("nobody@example.com", "x", "192.0.2." + std::to_string(guesses)))
                 .status == 401 &&
         guesses < 100) {
    ++guesses;
  }
  EXPECT_GE(guesses, 10);
  expect_error(reply, 429, "rate_limit_exceeded");
}

TEST_F(ConsoleTest, AKeyThatManagesNeedsAFreshSession) {
  const Account free{.user = "", .email = "free@example.com", .key = ""};
  stack_.admin({"user", "create", "--email", free.email, "--plan", "free"});
  const std::string cookie = signed_in(free);
  EXPECT_EQ(call("GET", "/account", cookie).text("api_access"), "false");
  const auto make = [&](const std::string& scopes) {
    return call("POST", "/account/keys", cookie, R"({"name":"k","scopes":)" + scopes + "}");
  };
  const Reply fresh = make(R"(["manage","generate"])");
  ASSERT_EQ(fresh.status, 201) << fresh.body;
  no_longer_fresh();
  expect_error(make(R"(["manage"])"), 403, "step_up_required");
  const Reply plain = make(R"(["generate"])");
  ASSERT_EQ(plain.status, 201) << plain.body;
  const std::string path = "/account/keys/" + plain.text("id");
  expect_error(call("PATCH", path, cookie, R"({"scopes":["manage"]})"), 403, "step_up_required");
  EXPECT_EQ(call("PATCH", path, cookie, R"({"name":"renamed"})").status, 200);
  EXPECT_EQ(call("DELETE", path, cookie).status, 204);
  // What its key is not allowed, its owner is: he has the credits.
  EXPECT_EQ(call("POST", "/audio/generations", cookie, Stack::body()).status, 402);
  Account by_key = free;
  by_key.key = fresh.text("key");
  EXPECT_EQ(stack_.create(by_key, Stack::body()).status, 403);
}

TEST_F(ConsoleTest, ASessionEndsWithTime) {
  const std::string cookie = signed_in(ann_);
  EXPECT_EQ(call("GET", "/account", cookie).status, 200);
  stack_.database().execute(
      store::Sql("UPDATE sessions SET created_at=created_at - INTERVAL 30 DAY"));
  EXPECT_TRUE(ends(cookie));
  expect_error(call("GET", "/sessions/current", cookie), 401, "invalid_api_key");
}

// A write for each request would be too many, and none would end what is in use.
TEST_F(ConsoleTest, ItsUseIsNotedOnceAMinute) {
  const std::string cookie = signed_in(ann_);
  const auto minutes_ago = [&] {
    return stack_.database().number(
        store::Sql("SELECT TIMESTAMPDIFF(MINUTE, last_seen_at, UTC_TIMESTAMP(6)) FROM sessions"));
  };
  const auto an_hour_ago = [&] {
    stack_.database().execute(
        store::Sql("UPDATE sessions SET last_seen_at=UTC_TIMESTAMP(6) - INTERVAL 1 HOUR"));
  };
  const auto looked_up = [&] { return metric("audiogen_api_session_reads_total{lane=\"known\"}"); };
  an_hour_ago();
  EXPECT_EQ(call("GET", "/account", cookie).status, 200);
  EXPECT_EQ(minutes_ago(), 0);
  an_hour_ago();
  const double before = looked_up();
  EXPECT_TRUE(eventually(kEverywhere, [&] {
    return call("GET", "/account", cookie).status == 200 && looked_up() > before;
  }));
  EXPECT_EQ(minutes_ago(), 60);
  stack_.start_api();
  EXPECT_EQ(call("GET", "/account", cookie).status, 200);
  EXPECT_EQ(minutes_ago(), 0);
}

TEST_F(ConsoleTest, NothingSecretIsLogged) {
  const std::string link = link_of(ann_);
  const Reply in = by_link(link);
  ASSERT_EQ(in.status, 201);
  const std::string cookie = cookie_of(in), password = "one that is long enough";
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":")" + password + R"("})").status, 204);
  const std::string second = cookie_of(by_password(ann_.email, password));
  by_password(ann_.email, password + "x");
  call("DELETE", "/sessions/current", cookie);
  const std::string encoded = stack_.database().text(store::Sql("SELECT encoded FROM passwords"));
  EXPECT_TRUE(encoded.starts_with("$argon2id$v=19$m=19456,t=2,p=1$")) << encoded;
  stack_.api().signal(15);
  EXPECT_EQ(stack_.api().wait(60s), 0);
  const std::string log = stack_.api().log();
  EXPECT_THAT(log, HasSubstr("signed in by link"));
  EXPECT_THAT(log, HasSubstr("signed in by password"));
  EXPECT_THAT(log, HasSubstr("password set"));
  EXPECT_THAT(log, HasSubstr("signed out"));
  for (const std::string& secret : {link, cookie, second, password, encoded, ann_.email}) {
    ASSERT_FALSE(secret.empty());
    EXPECT_THAT(log, Not(HasSubstr(secret)));
  }
  // Nor is any of it in the database: only what cannot be turned back.
  const auto note = stack_.admin({"actions", "--limit", "5"});
  EXPECT_EQ(note["actions"][0]["action"].GetString(), std::string("user login-link"));
  EXPECT_EQ(note["actions"][0]["detail"].GetString(), std::string());
}

TEST_F(ConsoleTest, ItsPagesLoadNothingElse) {
  for (const char* path : {"/console/", "/console/keys", "/console/generations/aud_x"}) {
    const Reply page = http("GET", stack_.public_url() + path);
    EXPECT_EQ(page.status, 200) << path;
    EXPECT_THAT(page.body, HasSubstr("Pages for tests"));
    EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
    EXPECT_EQ(page.header("cache-control"), "no-store");
    EXPECT_EQ(page.header("content-security-policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
              "connect-src 'self'; media-src 'self' blob:; frame-ancestors 'none'; "
              "base-uri 'none'; form-action 'none'");
    EXPECT_EQ(page.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(page.header("referrer-policy"), "no-referrer");
    EXPECT_EQ(page.header("cross-origin-opener-policy"), "same-origin");
    EXPECT_EQ(page.header("set-cookie"), "");
  }
  const Reply script = http("GET", stack_.public_url() + "/console/assets/app-0000.js");
  EXPECT_EQ(script.header("content-type"), "text/javascript; charset=utf-8");
  EXPECT_THAT(script.header("cache-control"), HasSubstr("immutable"));
  EXPECT_EQ(http("GET", stack_.public_url() + "/console/assets/gone.js").status, 404);
  EXPECT_EQ(http("GET", stack_.public_url() + "/console/api/v1/nothing").status, 404);
  EXPECT_EQ(http("POST", stack_.public_url() + "/console/keys").status, 405);
  for (const char* path : {"/", "/console"}) {
    const Reply root = http("GET", stack_.public_url() + path);
    EXPECT_EQ(root.status, 302) << path;
    EXPECT_EQ(root.header("location"), "/console/");
  }
}

TEST(Console, OverHttpsItsCookieIsForThisHostAlone) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"CONSOLE_DIR", kPages}, {"PUBLIC_URL", "https://audio.example.com/"}};
  Stack stack(options);
  const Account ann = stack.account();
  const auto made = stack.admin({"user", "login-link", "--user", ann.user});
  const std::string url = made["url"].GetString();
  const std::string start = "https://audio.example.com/console/#login=";
  ASSERT_TRUE(url.starts_with(start)) << url;
  const std::string sessions = stack.public_url() + "/console/api/v1/sessions";
  const std::string body = R"({"login_token":")" + url.substr(start.size()) + R"("})";
  const std::string json = "Content-Type: application/json";
  EXPECT_EQ(http("POST", sessions, {json, "Origin: " + stack.public_url()}, body).status, 403);
  const Reply in = http("POST", sessions, {json, "Origin: https://audio.example.com"}, body);
  ASSERT_EQ(in.status, 201) << in.body;
  const std::string line = in.header("set-cookie");
  const std::string pair = line.substr(0, line.find(';'));
  EXPECT_TRUE(pair.starts_with("__Host-session=")) << line;
  EXPECT_EQ(line.substr(pair.size()), "; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=2592000");
  const std::string current = sessions + "/current";
  EXPECT_EQ(http("GET", current, {"Cookie: " + pair}).status, 200);
  EXPECT_EQ(http("GET", current, {"Cookie: session" + pair.substr(pair.find('='))}).status, 401);
}

TEST(Console, IsNotThereWhenItIsOff) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"CONSOLE", "off"}, {"CONSOLE_DIR", kPages}};
  Stack stack(options);
  for (const char* path : {"/",
                           "/console",
                           "/console/",
                           "/console/keys",
                           "/console/assets/app-0000.js",
                           "/console/api/v1/sessions",
                           "/console/api/v1/account"}) {
    for (const char* method : {"GET", "POST", "OPTIONS"}) {
      const Reply reply = http(method, stack.public_url() + path, {kOwnPage});
      EXPECT_EQ(reply.status, 404) << method << " " << path;
    }
  }
}

TEST(Console, RefusesToStartWhereItsCookieCouldBeRead) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  auto variables = stack.environment();
  variables["PUBLIC_URL"] = "http://audio.example.com";
  variables["CONSOLE"] = "on";
  const std::vector<std::string> serve = {program_path("audio-api"), "serve"};
  const Output refused = run(serve, variables);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("CONSOLE=on needs a PUBLIC_URL of https"));
  variables["PUBLIC_URL"] = stack.public_url();
  variables["CONSOLE_DIR"] = stack.log_folder();
  const Output empty = run(serve, variables);
  EXPECT_EQ(empty.code, 1);
  EXPECT_THAT(empty.out, HasSubstr("CONSOLE_DIR has no index.html"));
}

}  // namespace
}  // namespace audiogen::test
