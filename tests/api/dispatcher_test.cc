// What follows from the table: which route, which methods, who may, and what a page of another site
// is told.
#include "api/server/dispatcher.h"

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/server/routes.h"
#include "common/http/server.h"
#include "tests/support/raw_http.h"
#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using testing::HasSubstr;
using testing::Not;

std::atomic<bool> overloaded{false};
std::atomic<int> waiting{0};  // Handlers that are there.

struct Present {
  Present() { ++waiting; }
  Present(const Present&) = delete;
  ~Present() { --waiting; }
};

Handling echo(Call call) {
  const Present present;
  const auto body = co_await call.json_body(16);
  if (!body) {
    call.fail(body.error());
    co_return;
  }
  call.answer(200, std::string(*body));
}

Handling fall_over(Call call) {
  const Present present;
  const auto body = co_await call.json_body();
  throw std::runtime_error("nobody is to read this: " + std::string(*body));
}

void show(Parts&, Call call) {
  call.answer(
      200,
      "[\"" + std::string(call.parameter(0)) + "\",\"" + std::string(call.parameter(1)) + "\"]");
}

constexpr std::array kTable = {
    Route{.method = "GET",
          .path = "/api/v1/things/{id}",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = show,
          .head = true},
    Route{.method = "PATCH",
          .path = "/api/v1/things/{id}",
          .access = Access::kBearer,
          .rate = RateClass::kManage,
          .handle = show},
    Route{.method = "POST",
          .path = "/api/v1/things/{id}/parts/{part}/replay",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = show},
    Route{.method = "DELETE",
          .path = "/api/v1/things/current",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts&, Call call) { call.answer_nothing(); }},
    Route{.method = "GET",
          .path = "/api/v1/list",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts&, Call call) { call.answer_tagged("{\"data\":[]}"); }},
    Route{.method = "POST",
          .path = "/api/v1/echo",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts&, Call call) { echo(std::move(call)); },
          .body = Body::kJson},
    Route{.method = "POST",
          .path = "/api/v1/fall-over",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = [](Parts&, Call call) { fall_over(std::move(call)); },
          .body = Body::kJson},
    Route{.method = "GET",
          .path = "/api/v1/busy",
          .access = Access::kApiAccess,
          .rate = RateClass::kCreate,
          .handle = show,
          .late =
              [](Parts&, auto) {
                return overloaded.load() ? std::optional(service_unavailable()) : std::nullopt;
              }},
    Route{.method = "GET",
          .path = "/own/page",
          .access = Access::kPublic,
          .rate = RateClass::kNone,
          .handle = show,
          .cross_origin = false},
    Route{.method = "POST",
          .path = "/own/page",
          .access = Access::kPublic,
          .rate = RateClass::kSignIn,
          .handle = show,
          .cross_origin = false},
    Route{.method = "DELETE",
          .path = "/own/things/{id}",
          .access = Access::kSession,
          .rate = RateClass::kManage,
          .handle = show,
          .cross_origin = false},
    Route{.method = "GET",
          .path = "(root)/{rest*}",
          .access = Access::kPublic,
          .rate = RateClass::kFile,
          .handle = show,
          .accepts = [](std::string_view name) { return name.starts_with("x"); }},
};

TEST(RouteTreeDeathTest, ASecondRouteOfTheSameMethodIsAMistake) {
  RouteTree tree;
  tree.add(kTable[0]);
  tree.add(kTable[1]);
  EXPECT_DEATH(tree.add(kTable[0]), "find");
}

class DispatcherTest : public testing::Test {
 protected:
  DispatcherTest() {
    for (const Route& route : kTable) {
      tree_.add(route, "(root)", "/files");
    }
    EXPECT_TRUE(server_.start());
  }
  ~DispatcherTest() override {
    server_.stop();
    EXPECT_EQ(waiting, 0) << "a handler nobody waits for any more is still there";
  }

  static Config config() {
    Config out;
    out.brand = "svc";
    out.public_url = "https://audio.test";
    out.create_per_minute = out.create_burst = 60;
    out.read_per_minute = out.read_burst = 60;
    out.unauthenticated_per_minute = 60;
    out.files_per_minute = out.files_burst = 2;
    return out;
  }

  test::RawResponse ask(const std::string& method,
                        const std::string& path,
                        const std::string& lines = "",
                        const std::string& body = "") {
    test::RawConnection connection(server_.port());
    std::string request = method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + lines;
    if (!body.empty()) {
      request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    }
    EXPECT_TRUE(connection.send(request + "\r\n" + body));
    return connection.response(method == "HEAD").value_or(test::RawResponse{});
  }

  const Config config_ = config();
  RateLimiter limiter_{config_};
  Authenticator keys_{config_, limiter_, Authenticator::bearer_keys(config_)};
  Authenticator sessions_{config_, limiter_, Authenticator::session_cookies(config_)};
  RouteTree tree_;
  Parts parts_;
  Dispatcher dispatcher_{tree_, parts_, {keys_, &sessions_}, limiter_, config_};
  http::Server server_{http::ServerOptions{.heads_first = true},
                       [this](http::Exchange exchange) { dispatcher_.handle(std::move(exchange)); },
                       render_server_error};
};

TEST_F(DispatcherTest, FindsTheRouteAndItsParameters) {
  EXPECT_EQ(ask("GET", "/api/v1/things/a%20b").body, R"(["a%20b",""])");
  EXPECT_EQ(ask("GET", "/api/v1/things/").body, R"(["",""])");
  EXPECT_EQ(ask("POST", "/api/v1/things/a/parts/b/replay").body, R"(["a","b"])");
  EXPECT_EQ(ask("DELETE", "/api/v1/things/current").status, 204);
  EXPECT_EQ(ask("GET", "/files/x/y/z").body, R"(["x/y/z",""])");
  for (const char* path : {"/",
                           "/api",
                           "/api/v1",
                           "/api/v1/",
                           "/api/v1/things",
                           "/api/v1/things/a/",
                           "/api/v1/things/a/parts/b",
                           "/api/v1/things/current/parts/b/replay",
                           "//api/v1/things/a",
                           "/api/v1/things/a/b",
                           "/files",
                           "/files/",
                           "/files/y"}) {
    const auto reply = ask("GET", path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("\"not_found\"")) << path;
  }
}

TEST_F(DispatcherTest, OtherMethodsFollowFromTheTable) {
  const auto reply = ask("PUT", "/api/v1/things/a");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "GET, HEAD, PATCH");
  EXPECT_THAT(reply.body, HasSubstr("This path answers GET, HEAD, PATCH only."));
  const auto head = ask("HEAD", "/api/v1/things/a");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "8");
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(ask("HEAD", "/api/v1/busy").status, 405) << "only where the table says so";
  EXPECT_EQ(ask("get", "/api/v1/things/a").status, 405) << "methods are what they are";
  const auto options = ask("OPTIONS", "/api/v1/things/a");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "GET, HEAD, PATCH, OPTIONS");
  EXPECT_FALSE(options.header("x-request-id").empty());
  EXPECT_EQ(ask("OPTIONS", "/api/v1/nothing").status, 404);
}

TEST_F(DispatcherTest, WhoMayIsDecidedBeforeTheHandler) {
  const auto without = ask("PATCH", "/api/v1/things/a");
  EXPECT_EQ(without.status, 401);
  EXPECT_EQ(without.header("www-authenticate"), "Bearer");
  EXPECT_EQ(ask("PATCH", "/api/v1/things/a", "Authorization: Bearer svc_live_x\r\n").status, 401);
  // Late comes first, whoever asks.
  overloaded = true;
  const auto late = ask("GET", "/api/v1/busy");
  overloaded = false;
  EXPECT_EQ(late.status, 503);
  EXPECT_FALSE(late.header("retry-after").empty());
  EXPECT_EQ(ask("GET", "/api/v1/busy").status, 401);
}

// A cookie goes along with what any site's page sends, so it is asked for last.
TEST_F(DispatcherTest, OnlyOwnPagesChangeWhatACookieOpens) {
  const std::string own = "Sec-Fetch-Site: same-origin\r\n";
  for (const char* path : {"/own/page", "/own/things/a"}) {
    const std::string method = std::string(path) == "/own/page" ? "POST" : "DELETE";
    const int allowed = method == "POST" ? 200 : 401;
    for (const std::string& lines : {std::string(),
                                     std::string("Sec-Fetch-Site: cross-site\r\n"),
                                     std::string("Sec-Fetch-Site: same-site\r\n"),
                                     own + "Sec-Fetch-Site: cross-site\r\n",
                                     std::string("Origin: https://evil.test\r\n"),
                                     std::string("Origin: https://audio.test\r\nOrigin: null\r\n"),
                                     std::string("Origin: null\r\n")}) {
      const auto refused = ask(method, path, lines);
      EXPECT_EQ(refused.status, 403) << method << " " << lines;
      EXPECT_THAT(refused.body, HasSubstr("cross_site_request"));
      EXPECT_THAT(refused.head, Not(HasSubstr("Access-Control")));
    }
    EXPECT_EQ(ask(method, path, own).status, allowed);
    EXPECT_EQ(ask(method, path, "Origin: https://audio.test\r\n").status, allowed);
  }
  EXPECT_EQ(ask("GET", "/own/page", "Sec-Fetch-Site: cross-site\r\n").status, 200);
  EXPECT_EQ(ask("DELETE", "/api/v1/things/current", "Origin: https://evil.test\r\n").status, 204)
      << "what is for anybody's page";
}

TEST_F(DispatcherTest, ASessionIsNoKeyAndAKeyNoSession) {
  const auto reply = ask("DELETE",
                         "/own/things/a",
                         "Sec-Fetch-Site: same-origin\r\nAuthorization: Bearer svc_live_x\r\n");
  EXPECT_EQ(reply.status, 401);
  EXPECT_THAT(reply.body, HasSubstr("\"invalid_api_key\""));
  EXPECT_THAT(reply.body, HasSubstr("not signed in"));
}

TEST_F(DispatcherTest, AttemptsToSignInCountByAddress) {
  const std::string own = "Sec-Fetch-Site: same-origin\r\n";
  int allowed = 0;
  test::RawResponse reply;
  // Twenty at once, and three seconds for one more: a machine that takes longer meets the limit
  // later.
  while ((reply = ask("POST", "/own/page", own)).status == 200 && allowed < 200) {
    ++allowed;
  }
  EXPECT_GE(allowed, 20);
  EXPECT_EQ(reply.status, 429);
  EXPECT_FALSE(reply.header("retry-after").empty());
  EXPECT_EQ(ask("GET", "/own/page").status, 200);
}

TEST_F(DispatcherTest, FilesCountByAddress) {
  EXPECT_EQ(ask("GET", "/files/x1").status, 200);
  EXPECT_EQ(ask("GET", "/files/x2").status, 200);
  const auto refused = ask("GET", "/files/x3");
  EXPECT_EQ(refused.status, 429);
  EXPECT_FALSE(refused.header("retry-after").empty());
  EXPECT_EQ(ask("GET", "/api/v1/things/a").status, 200);
}

TEST_F(DispatcherTest, BodiesAreJsonAndNotTooLong) {
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(ask("POST", "/api/v1/echo", json, "{\"a\":1}").body, "{\"a\":1}");
  EXPECT_EQ(
      ask("POST", "/api/v1/echo", "Content-Type: Application/JSON; charset=\"UTF-8\"\r\n", "1")
          .body,
      "1");
  struct Case {
    std::string lines, body, message;
  };
  for (const Case& c :
       {Case{"", "{}", "Content-Type must be application/json."},
        Case{"Content-Type: text/plain\r\n", "{}", "Content-Type must be application/json."},
        Case{json + json, "{}", "Content-Type must be given once."},
        Case{json + "Content-Encoding: gzip\r\n", "{}", "Content-Encoding is not supported"},
        Case{json, std::string(17, '1'), "The body must be at most 16 bytes."}}) {
    const auto reply = ask("POST", "/api/v1/echo", c.lines, c.body);
    EXPECT_EQ(reply.status, 400) << c.lines;
    EXPECT_THAT(reply.body, HasSubstr(c.message));
  }
}

TEST_F(DispatcherTest, AHandlerWhoseBodyNeverComesIsForgotten) {
  test::RawConnection connection(server_.port());
  ASSERT_TRUE(
      connection.send("POST /api/v1/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      "Content-Length: 5\r\n\r\n12"));
  ASSERT_TRUE(test::eventually(std::chrono::seconds(60), [] { return waiting == 1; }));
  connection.reset();
  EXPECT_TRUE(test::eventually(std::chrono::seconds(60), [] { return waiting == 0; }));
}

TEST_F(DispatcherTest, AnExceptionIsA503ThatTellsNothing) {
  const auto reply =
      ask("POST", "/api/v1/fall-over", "Content-Type: application/json\r\n", "\"secret\"");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("service_unavailable"));
  EXPECT_THAT(reply.body, Not(HasSubstr("secret")));
}

TEST_F(DispatcherTest, ListsAreNotSentTwice) {
  const auto first = ask("GET", "/api/v1/list");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("content-type"), "application/json");
  const std::string etag = first.header("etag");
  ASSERT_FALSE(etag.empty());
  const auto again = ask("GET", "/api/v1/list", "If-None-Match: " + etag + "\r\n");
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(again.header("etag"), etag);
  EXPECT_EQ(ask("GET", "/api/v1/list", "If-None-Match: \"other\"\r\n").status, 200);
}

TEST_F(DispatcherTest, PagesOfOtherSitesMayReadWhatIsForAnybody) {
  const std::string page = "Origin: https://example.org\r\n";
  for (const auto& reply : {ask("GET", "/api/v1/things/a", page),
                            ask("PUT", "/api/v1/things/a", page),
                            ask("PATCH", "/api/v1/things/a", page),
                            ask("GET", "/api/v1/nothing", page),
                            ask("GET", "/files/x", page),
                            ask("GET", "/files/y", page),  // No file has such a name.
                            ask("OPTIONS", "/api/v1/things/a", page)}) {
    EXPECT_EQ(reply.header("access-control-allow-origin"), "*") << reply.head;
    EXPECT_THAT(reply.header("access-control-expose-headers"),
                HasSubstr("Location, Retry-After, X-Request-Id, RateLimit, RateLimit-Policy, "
                          "Idempotent-Replayed, Preference-Applied"));
    EXPECT_EQ(reply.headers.count("access-control-allow-credentials"), 0U);
    EXPECT_EQ(reply.headers.count("access-control-max-age"), 0U) << reply.head;
  }
  // Nobody else sees any of it.
  for (const auto& reply : {ask("GET", "/api/v1/things/a"),
                            ask("OPTIONS", "/api/v1/things/a"),
                            ask("GET", "/own/page", page),
                            ask("PUT", "/own/page", page),
                            ask("OPTIONS", "/own/page", page),
                            ask("GET", "/elsewhere", page)}) {
    EXPECT_THAT(reply.head, Not(HasSubstr("Access-Control"))) << reply.head;
  }
}

TEST_F(DispatcherTest, ABrowserThatAsksFirstIsToldWhatItMaySend) {
  const auto reply = ask("OPTIONS",
                         "/api/v1/things/a",
                         "Origin: https://example.org\r\nAccess-Control-Request-Method: PATCH\r\n"
                         "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "*");
  EXPECT_EQ(reply.header("access-control-allow-methods"), "GET, HEAD, PATCH");
  EXPECT_THAT(reply.header("access-control-allow-headers"),
              HasSubstr("Authorization, Content-Type, Idempotency-Key"));
  EXPECT_EQ(reply.header("access-control-max-age"), "86400");
}

}  // namespace
}  // namespace audiogen::api
