// The access log: a line for each request with what an operator needs, nothing that opens anything,
// and none at all unless it was asked for.
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/raw_http.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr auto kWritten = 30s;
constexpr const char* kOwnPage = "Sec-Fetch-Site: same-origin";

// The lines of one request, by its id.
std::vector<std::string> lines_of(Stack& stack, const std::string& request_id) {
  std::istringstream log(stack.api().log());
  std::vector<std::string> out;
  for (std::string line; std::getline(log, line);) {
    if (line.find(R"("event":"request")") != std::string::npos &&
        line.find("\"request_id\":\"" + request_id + "\"") != std::string::npos) {
      out.push_back(line);
    }
  }
  return out;
}

class AccessLogTest : public testing::Test {
 protected:
  AccessLogTest() : provider_([](const DoubleCall&) { return wav_reply(0.3); }) {}

  Stack::Options options(bool on) const {
    Stack::Options out = chain_.options();
    out.environment["CDN_SIGNING_KEY"] = "a-signing-key-that-nobody-may-ever-read-in-a-log";
    out.environment["CONSOLE_DIR"] = source_path("tests/e2e/console_pages");
    if (on) {
      out.environment["ACCESS_LOG"] = "on";
    }
    return out;
  }

  // The one line of a request.
  static rapidjson::Document line_of(Stack& stack, const std::string& request_id) {
    std::vector<std::string> lines;
    EXPECT_TRUE(eventually(kWritten, [&] {
      lines = lines_of(stack, request_id);
      return !lines.empty();
    })) << request_id;
    EXPECT_THAT(lines, SizeIs(1)) << request_id;
    rapidjson::Document out;
    out.Parse(lines.empty() ? "{}" : lines.front().c_str());
    EXPECT_TRUE(out.IsObject());
    return out;
  }
  static std::string text(const rapidjson::Document& line, const char* name) {
    return line.IsObject() && line.HasMember(name) && line[name].IsString() ? line[name].GetString()
                                                                            : "-";
  }

  ProviderDouble provider_;
  ChainFile chain_{{openai_entry("alpha", provider_)}};
};

TEST_F(AccessLogTest, EachRequestIsOneLineWithoutAnythingThatOpens) {
  Stack stack(options(true));
  const Account ann = stack.account();
  const Reply created = stack.create(ann, wav_body("hello"), {"X-Request-Id: line-create"});
  ASSERT_EQ(created.status, 202) << created.body;
  const std::string id = created.text("id");
  const std::string url = stack.wait_final(ann, id).text("output.url");
  ASSERT_THAT(url, HasSubstr("?"));  // It is signed.
  const std::string signature = url.substr(url.find('?') + 1);
  const auto ask = [&](const std::string& method,
                       const std::string& address,
                       std::vector<std::string> headers,
                       const std::string& request_id,
                       const std::string& body = "") {
    headers.push_back("X-Request-Id: " + request_id);
    return http(method, address, headers, body);
  };
  const auto key = Stack::bearer(ann.key);
  const std::string generations = stack.base() + "/audio/generations";
  const Reply file = ask("GET", url, {}, "line-file");
  EXPECT_EQ(file.status, 200);
  ask("GET", generations + "/" + id, key, "line-get");
  ask("HEAD", generations + "/" + id, key, "line-head");
  ask("GET", generations + "/" + id, Stack::bearer("svc_live_wrong-but-secret"), "line-wrong");
  ask("PUT", generations, key, "line-method");
  ask("GET", stack.base() + "/no/such/" + ann.key + "?token=" + ann.key, key, "line-nowhere");
  ask("GET", generations + "/" + id + "/events", key, "line-events");
  const auto made = stack.admin({"user", "login-link", "--user", ann.email});
  const std::string link = made["url"].GetString();
  const std::string token = link.substr(link.find("#login=") + 7);
  const Reply signed_in = ask("POST",
                              stack.public_url() + "/console/api/v1/sessions",
                              {kOwnPage, "Content-Type: application/json"},
                              "line-sign-in",
                              R"({"login_token":")" + token + R"("})");
  ASSERT_EQ(signed_in.status, 201) << signed_in.body;
  const std::string cookie_line = signed_in.header("set-cookie");
  const std::string cookie = cookie_line.substr(0, cookie_line.find(';'));
  ask("GET",
      stack.public_url() + "/console/api/v1/audio/generations/" + id,
      {kOwnPage, "Cookie: " + cookie},
      "line-session");
  RawConnection raw(stack.api_port());
  const auto answer =
      raw.exchange("GET /api/v1/" + ann.key +
                   " HTTP/1.1\r\nHost: x\r\nX-Request-Id: line-malformed\r\nbad header\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);

  const auto create = line_of(stack, "line-create");
  EXPECT_EQ(text(create, "method"), "POST");
  EXPECT_EQ(text(create, "route"), "/api/v1/audio/generations");
  EXPECT_EQ(create["status"].GetInt(), 202);
  EXPECT_EQ(create["bytes"].GetUint64(), created.body.size());
  EXPECT_GT(create["seconds"].GetDouble(), 0.0);
  EXPECT_EQ(text(create, "user_id"), ann.user);
  EXPECT_TRUE(text(create, "key_id").starts_with("key_"));
  EXPECT_EQ(text(create, "client"), "127.0.0.1");

  const auto delivered = line_of(stack, "line-file");
  EXPECT_THAT(text(delivered, "route"), HasSubstr("{"));
  EXPECT_EQ(delivered["bytes"].GetUint64(), file.body.size());
  EXPECT_EQ(text(delivered, "user_id"), "");

  const auto got = line_of(stack, "line-get");
  EXPECT_EQ(text(got, "route"), "/api/v1/audio/generations/{task_id}");
  EXPECT_EQ(text(got, "key_id"), text(create, "key_id"));
  EXPECT_EQ(line_of(stack, "line-head")["bytes"].GetUint64(), 0U);
  const auto wrong = line_of(stack, "line-wrong");
  EXPECT_EQ(wrong["status"].GetInt(), 401);
  EXPECT_EQ(text(wrong, "user_id"), "");
  EXPECT_EQ(line_of(stack, "line-method")["status"].GetInt(), 405);
  const auto nowhere = line_of(stack, "line-nowhere");
  EXPECT_EQ(nowhere["status"].GetInt(), 404);
  EXPECT_EQ(text(nowhere, "route"), "");
  const auto events = line_of(stack, "line-events");
  EXPECT_EQ(events["status"].GetInt(), 200);
  EXPECT_GT(events["bytes"].GetUint64(), 0U);
  EXPECT_EQ(line_of(stack, "line-sign-in")["status"].GetInt(), 201);
  const auto session = line_of(stack, "line-session");
  EXPECT_TRUE(session["session"].GetBool());
  EXPECT_EQ(text(session, "key_id"), "");
  EXPECT_EQ(text(session, "user_id"), ann.user);
  EXPECT_EQ(line_of(stack, "line-malformed")["status"].GetInt(), 400);

  stack.api().signal(SIGTERM);
  ASSERT_EQ(stack.api().wait(60s), 0);
  const std::string log = stack.api().log();
  for (const std::string& secret : {ann.key,
                                    ann.key.substr(ann.key.size() - 16),
                                    signature,
                                    token,
                                    cookie.substr(cookie.find('=') + 1),
                                    std::string("wrong-but-secret"),
                                    std::string("a-signing-key-that")}) {
    ASSERT_GE(secret.size(), 16U);
    EXPECT_THAT(log, Not(HasSubstr(secret)));
  }
}

TEST_F(AccessLogTest, ItIsOffUnlessAskedFor) {
  Stack stack(options(false));
  const Account ann = stack.account();
  ASSERT_EQ(stack.create(ann, wav_body("hello"), {"X-Request-Id: line-none"}).status, 202);
  stack.api().signal(SIGTERM);
  ASSERT_EQ(stack.api().wait(60s), 0);
  EXPECT_THAT(lines_of(stack, "line-none"), IsEmpty());
}

}  // namespace
}  // namespace audiogen::test
