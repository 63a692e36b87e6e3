// The operators' page: one document that needs nothing else and can do nothing else.
#include <cstddef>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/operators/page.h"
#include "common/base/base64.h"
#include "common/base/crypto.h"
#include "common/http/ops_server.h"
#include "tests/support/http_client.h"

namespace audiogen::api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string_view between(std::string_view text, std::string_view first, std::string_view last) {
  const auto from = text.find(first) + first.size();
  return text.substr(from, text.find(last, from) - from);
}

std::string source_of(std::string_view text) {
  return " 'sha256-" + encode_base64url(sha256(text)) + "=';";
}

TEST(OpsPage, IsOneSmallDocument) {
  constexpr std::size_t kMost = 60'000;
  const std::string& html = ops_page().html;
  EXPECT_LE(html.size(), kMost);
  EXPECT_TRUE(html.starts_with("<!doctype html>\n"));
  EXPECT_THAT(html, EndsWith("</html>\n"));
  EXPECT_THAT(html, Not(HasSubstr("{{style}}")));
  EXPECT_THAT(html, Not(HasSubstr("{{script}}")));
  for (const char* outside : {" src=", "<link rel=\"stylesheet", "@import", "url(", "<iframe"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside))) << "it needs nothing else";
  }
  EXPECT_THAT(html, HasSubstr("--accent:light-dark(")) << "the colours are the console's";
}

TEST(OpsPage, ItsPolicyLetsInItselfAlone) {
  const auto& [html, policy] = ops_page();
  EXPECT_THAT(
      policy,
      HasSubstr("script-src" + source_of(between(html, "<script type=\"module\">", "</script>"))));
  EXPECT_THAT(policy, HasSubstr("style-src" + source_of(between(html, "<style>", "</style>"))));
  EXPECT_TRUE(policy.starts_with("default-src 'none';"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  // What sets markup fails, wherever it is written: everything is set as text.
  EXPECT_THAT(policy, HasSubstr("require-trusted-types-for 'script'; trusted-types 'none'"));
  for (const char* inlined : {" style=\"", " onclick=", " onload="}) {
    EXPECT_THAT(html, Not(HasSubstr(inlined))) << "no hash lets that in";
  }
}

TEST(OpsPage, CommentsAndIndentationAreNotServed) {
  EXPECT_EQ(without_comments("a {\n  b: c;  /* d\n e */\n}\n\n  // f\n/** g */ (h) /* i */\n"),
            "a {\nb: c;\n}\n(h)\n");
  EXPECT_EQ(without_comments("x = \"http://y\";  // z"), "x = \"http://y\";  // z\n");
  EXPECT_EQ(without_comments(""), "");
}

TEST(OpsPage, IsServedAndKeptByNobody) {
  http::OpsServer server({.host = "127.0.0.1", .port = 0},
                         [] { return std::vector<http::ReadyPart>(); },
                         {{"/ops", answer_page}});
  ASSERT_TRUE(server.start());
  const auto reply =
      test::http("GET", "http://127.0.0.1:" + std::to_string(server.port()) + "/ops");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, ops_page().html);
  EXPECT_EQ(reply.header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(reply.header("content-security-policy"), ops_page().policy);
  EXPECT_EQ(reply.header("x-content-type-options"), "nosniff");
  EXPECT_EQ(reply.header("referrer-policy"), "no-referrer");
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  server.stop();
}

TEST(OpsPage, IsNotShownToAPageOfSomebodyElsesName) {
  http::OpsServer server({.host = "127.0.0.1", .port = 0},
                         [] { return std::vector<http::ReadyPart>(); },
                         {{"/ops", answer_page}});
  ASSERT_TRUE(server.start());
  const auto status = [&](const std::string& path, const std::string& host) {
    return test::http(
               "GET", "http://127.0.0.1:" + std::to_string(server.port()) + path, {"Host: " + host})
        .status;
  };
  for (const char* foreign :
       {"evil.example:8081", "evil.example", "127.0.0.1.evil.example", "a."}) {
    EXPECT_EQ(status("/ops", foreign), 421) << foreign;
    EXPECT_EQ(status("/healthz", foreign), 200) << foreign << ": monitors have names for it";
  }
  for (const char* own :
       {"127.0.0.1:8081", "10.1.2.3", "[::1]:8081", "[::1]", "localhost:9", "api-1"}) {
    EXPECT_EQ(status("/ops", own), 200) << own;
  }
  server.stop();
}

}  // namespace
}  // namespace audiogen::api
