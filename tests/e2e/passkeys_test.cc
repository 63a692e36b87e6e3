// Passkeys through HTTP, with an authenticator in software: making one, signing in with it, and
// everything that a browser or an authenticator would have to say otherwise.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "common/domain/webauthn.h"
#include "tests/support/authenticator.h"
#include "tests/support/places.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

const std::string kPages = source_path("tests/e2e/console_pages");
constexpr const char* kOwnPage = "Sec-Fetch-Site: same-origin";

class PasskeysTest : public testing::Test {
 protected:
  PasskeysTest() : stack_(over_https()), ann_(stack_.account()), bob_(stack_.account()) {}

  static Stack::Options over_https() {
    Stack::Options options;
    options.workers = 0;
    // Each sign-in here is a client of its own: attempts are counted by address.
    options.environment = {{"CONSOLE_DIR", kPages},
                           {"PUBLIC_URL", "https://audio.example.com"},
                           {"TRUSTED_PROXIES", "127.0.0.0/8"}};
    return options;
  }

  Reply call(const std::string& method,
             const std::string& path,
             const std::string& cookie = "",
             const std::string& body = "",
             std::vector<std::string> headers = {kOwnPage}) {
    headers.push_back("X-Forwarded-For: 10.0." + std::to_string(calls_ / 250) + "." +
                      std::to_string(calls_ % 250));
    ++calls_;
    if (!cookie.empty()) {
      headers.push_back("Cookie: __Host-session=" + cookie);
    }
    if (!body.empty()) {
      headers.emplace_back("Content-Type: application/json");
    }
    return http(method, stack_.public_url() + "/console/api/v1" + path, headers, body);
  }
  static std::string cookie_of(const Reply& reply) {
    const std::string line = reply.header("set-cookie");
    const auto from = line.find('=') + 1;
    return line.substr(from, line.find(';') - from);
  }
  std::string signed_in(const Account& account) {
    const auto made = stack_.admin({"user", "login-link", "--user", account.email});
    const std::string url = made["url"].GetString();
    const Reply reply = call("POST",
                             "/sessions",
                             "",
                             R"({"login_token":")" + url.substr(url.find("#login=") + 7) + R"("})");
    EXPECT_EQ(reply.status, 201) << reply.body;
    return cookie_of(reply);
  }
  void no_longer_fresh() {
    stack_.database().execute(
        store::Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  }

  static Authenticator::Saying usual() {
    return {.rp_id = "audio.example.com", .origin = "https://audio.example.com"};
  }
  static std::string handle_of(const Account& account) {
    return encode_base64url(UserId::parse(account.user)->uuid.bytes);
  }

  std::string invited(const std::string& cookie) {
    const Reply reply = call("POST", "/passkeys/invitation", cookie);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.text("challenge");
  }
  Reply add(const std::string& cookie, const Authenticator::Registration& made) {
    return call("POST",
                "/passkeys",
                cookie,
                R"({"name":"Phone","client_data":")" + made.client_data +
                    R"(","authenticator_data":")" + made.authenticator_data +
                    R"(","public_key":")" + made.public_key + R"("})");
  }
  // Its id.
  std::string added(const std::string& cookie,
                    const Authenticator& phone,
                    const Authenticator::Saying& saying = usual()) {
    const Reply reply = add(cookie, phone.make(invited(cookie), saying));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return reply.text("id");
  }

  std::string challenge() {
    const Reply reply = call("POST", "/passkeys/challenge");
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.text("challenge");
  }
  Reply sign_in(const Authenticator::Assertion& said, const std::string& handle) {
    return call("POST",
                "/sessions/passkey",
                "",
                R"({"credential_id":")" + said.credential_id + R"(","client_data":")" +
                    said.client_data + R"(","authenticator_data":")" + said.authenticator_data +
                    R"(","signature":")" + said.signature + R"(","user_handle":")" + handle +
                    R"("})");
  }
  // With a challenge of its own.
  Reply sign_in(const Authenticator& phone,
                const Account& account,
                const Authenticator::Saying& saying = usual()) {
    return sign_in(phone.sign(challenge(), saying), handle_of(account));
  }

  static void expect_error(const Reply& reply,
                           int status,
                           const std::string& code,
                           const std::string& param = "") {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.text("error.code"), code) << reply.body;
    EXPECT_EQ(reply.text("error.param"), param) << reply.body;
    EXPECT_EQ(reply.header("set-cookie"), "");
  }

  Stack stack_;
  Account ann_, bob_;
  int calls_ = 0;
};

TEST_F(PasskeysTest, SignsInWithEachKindOfKey) {
  const std::string cookie = signed_in(ann_);
  EXPECT_EQ(call("GET", "/passkeys", cookie).json()["data"].Size(), 0U);
  using Kind = Authenticator::Kind;
  for (const Kind kind : {Kind::kEs256, Kind::kRs256, Kind::kEd25519}) {
    const Authenticator phone(kind);
    const std::string id = added(cookie, phone);
    EXPECT_TRUE(id.starts_with("psk_"));
    const Reply in = sign_in(phone, ann_);
    ASSERT_EQ(in.status, 201) << in.body;
    EXPECT_EQ(in.text("email"), ann_.email);
    EXPECT_EQ(in.text("account"), ann_.user);
    EXPECT_EQ(in.text("current"), "true");
    EXPECT_THAT(in.header("set-cookie"), HasSubstr("__Host-session="));
    EXPECT_EQ(call("GET", "/account", cookie_of(in)).text("email"), ann_.email);
  }
  const Reply list = call("GET", "/passkeys", cookie);
  ASSERT_EQ(list.status, 200);
  EXPECT_EQ(list.text("object"), "list");
  EXPECT_EQ(list.text("has_more"), "false");
  EXPECT_EQ(list.text("next_cursor"), "null");
  const auto document = list.json();
  ASSERT_EQ(document["data"].Size(), 3U);
  for (const auto& item : document["data"].GetArray()) {
    EXPECT_EQ(item.MemberCount(), 5U);
    EXPECT_STREQ(item["name"].GetString(), "Phone");
    EXPECT_FALSE(item["synced"].GetBool());
    EXPECT_TRUE(item["created_at"].IsString() && item["last_used_at"].IsString());
  }
  const std::string tag = "If-None-Match: " + list.header("etag");
  EXPECT_EQ(call("GET", "/passkeys", cookie, "", {kOwnPage, tag}).status, 304);
  const Reply bobs = call("GET", "/passkeys", signed_in(bob_), "", {kOwnPage, tag});
  ASSERT_EQ(bobs.status, 200) << bobs.body;
  EXPECT_EQ(bobs.json()["data"].Size(), 0U);
}

TEST_F(PasskeysTest, AnInvitationSaysWhatABrowserNeeds) {
  const std::string cookie = signed_in(ann_);
  const Authenticator phone;
  added(cookie, phone);
  const Reply invitation = call("POST", "/passkeys/invitation", cookie);
  const auto document = invitation.json();
  EXPECT_EQ(document.MemberCount(), 6U);
  EXPECT_STREQ(document["rp_id"].GetString(), "audio.example.com");
  EXPECT_EQ(document["user_handle"].GetString(), handle_of(ann_));
  EXPECT_EQ(document["user_name"].GetString(), ann_.email);
  ASSERT_EQ(document["exclude"].Size(), 1U);
  const std::string& id = phone.credential_id();
  EXPECT_EQ(document["exclude"][0].GetString(),
            encode_base64url({reinterpret_cast<const std::uint8_t*>(id.data()), id.size()}));
  const Reply asked = call("POST", "/passkeys/challenge");
  EXPECT_EQ(asked.json().MemberCount(), 3U) << "nothing of any account";
  EXPECT_EQ(asked.header("cache-control"), "no-store");
  EXPECT_NE(asked.text("challenge"), challenge());
}

TEST_F(PasskeysTest, IsAddedOnlyAsItWasAskedFor) {
  const std::string cookie = signed_in(ann_), bobs = signed_in(bob_);
  const Authenticator phone;
  const auto adding = [&](const std::function<void(Authenticator::Saying&)>& change) {
    Authenticator::Saying saying = usual();
    change(saying);
    return add(cookie, phone.make(invited(cookie), saying));
  };
  using Saying = Authenticator::Saying;
  for (const auto& wrong : std::vector<std::function<void(Saying&)>>{
           [](Saying& s) { s.type = "webauthn.get"; },
           [](Saying& s) { s.origin = "https://evil.example"; },
           [](Saying& s) { s.cross_origin = true; }}) {
    expect_error(adding(wrong), 400, "invalid_request", "client_data");
  }
  for (const auto& wrong :
       std::vector<std::function<void(Saying&)>>{[](Saying& s) { s.rp_id = "evil.example"; },
                                                 [](Saying& s) { s.flags = 0x01; },
                                                 [](Saying& s) { s.flags = 0x04; }}) {
    expect_error(adding(wrong), 400, "invalid_request", "authenticator_data");
  }
  expect_error(
      add(cookie, Authenticator(Authenticator::Kind::kP384).make(invited(cookie), usual())),
      400,
      "invalid_request",
      "public_key");
  // A challenge to sign in, another session's, one that is used, one too old.
  expect_error(
      add(cookie, phone.make(challenge(), usual())), 400, "invalid_request", "client_data");
  expect_error(
      add(cookie, phone.make(invited(bobs), usual())), 400, "invalid_request", "client_data");
  expect_error(add(cookie, phone.make(invited(signed_in(ann_)), usual())),
               400,
               "invalid_request",
               "client_data");
  const std::string once = invited(cookie);
  ASSERT_EQ(add(cookie, phone.make(once, usual())).status, 201);
  expect_error(
      add(cookie, Authenticator().make(once, usual())), 400, "invalid_request", "client_data");
  expect_error(
      add(bobs, phone.make(invited(bobs), usual())), 400, "invalid_request", "authenticator_data");
  EXPECT_EQ(call("GET", "/passkeys", cookie).json()["data"].Size(), 1U);
  const std::string open = invited(cookie);
  no_longer_fresh();
  expect_error(call("POST", "/passkeys/invitation", cookie), 403, "step_up_required");
  expect_error(add(cookie, Authenticator().make(open, usual())), 403, "step_up_required");
  expect_error(call("POST", "/passkeys/invitation"), 401, "invalid_api_key");
  expect_error(add("", phone.make(challenge(), usual())), 401, "invalid_api_key");
}

// Whatever is wrong, the answer is that to a wrong password.
TEST_F(PasskeysTest, SignsNobodyInWhoseAnswerIsNotRight) {
  const std::string cookie = signed_in(ann_), bobs = signed_in(bob_);
  const Authenticator phone, other, unknown;
  added(cookie, phone);
  added(bobs, other);
  const auto checks = [&] {
    const std::string lines = http("GET", stack_.ops_url() + "/metrics").body;
    const std::string name = "\naudiogen_api_passkey_checks_total ";
    const auto at = lines.find(name);
    return at == std::string::npos ? 0.0 : std::stod(lines.substr(at + name.size()));
  };
  const double before = checks();
  const Reply stranger = sign_in(unknown, ann_);
  expect_error(stranger, 401, "invalid_login");
  EXPECT_EQ(checks() - before, 1) << "nor from how long it takes: it is checked by nobody's key";
  const auto refused = [&](const Reply& reply, const char* why) {
    SCOPED_TRACE(why);
    expect_error(reply, 401, "invalid_login");
    EXPECT_EQ(reply.text("error.message"), stranger.text("error.message"));
  };
  const auto saying = [&](const std::function<void(Authenticator::Saying&)>& change) {
    Authenticator::Saying out = usual();
    change(out);
    return sign_in(phone, ann_, out);
  };
  using Saying = Authenticator::Saying;
  refused(saying([](Saying& s) { s.origin = "https://evil.example"; }), "another page's");
  refused(saying([](Saying& s) { s.origin = "https://audio.example.com:8443"; }), "a port");
  refused(saying([](Saying& s) { s.type = "webauthn.create"; }), "another ceremony");
  refused(saying([](Saying& s) { s.cross_origin = true; }), "framed");
  refused(saying([](Saying& s) { s.rp_id = "example.com"; }), "another party's");
  refused(saying([](Saying& s) { s.flags = 0x01; }), "nobody was verified");
  refused(saying([](Saying& s) { s.flags = 0x04; }), "nobody was there");
  refused(saying([](Saying& s) { s.flags = 0x0D; }), "synced all at once");
  refused(sign_in(phone, bob_), "another user's handle");
  refused(sign_in(phone.sign(challenge(), usual()), ""), "no handle");
  refused(sign_in(phone.sign(invited(cookie), usual()), handle_of(ann_)),
          "a challenge to register");
  refused(sign_in(phone.sign("AAAA", usual()), handle_of(ann_)), "no challenge of ours");
  auto forged = other.sign(challenge(), usual());
  forged.credential_id = phone.sign("", usual()).credential_id;
  refused(sign_in(forged, handle_of(ann_)), "another key's signature");
  auto mixed = phone.sign(challenge(), usual());
  mixed.client_data = phone.sign(challenge(), usual()).client_data;
  refused(sign_in(mixed, handle_of(ann_)), "not what was signed");

  const auto once = phone.sign(challenge(), usual());
  ASSERT_EQ(sign_in(once, handle_of(ann_)).status, 201);
  refused(sign_in(once, handle_of(ann_)), "once more");
  // It is the same in every process.
  stack_.start_api();
  refused(sign_in(once, handle_of(ann_)), "once more, after a restart");
  EXPECT_EQ(sign_in(phone, ann_).status, 201);
}

TEST_F(PasskeysTest, ACounterThatGoesBackIsRefusedAndLogged) {
  const std::string cookie = signed_in(ann_);
  const Authenticator phone;
  Authenticator::Saying saying = usual();
  saying.counter = 7;
  const std::string id = added(cookie, phone, saying);
  saying.counter = 9;
  EXPECT_EQ(sign_in(phone, ann_, saying).status, 201);
  for (const std::uint32_t counter : {9U, 8U, 0U}) {
    saying.counter = counter;
    expect_error(sign_in(phone, ann_, saying), 401, "invalid_login");
  }
  saying.counter = 10;
  EXPECT_EQ(sign_in(phone, ann_, saying).status, 201);
  const auto signed_once = phone.sign(challenge(), saying);
  stack_.api().signal(15);
  EXPECT_EQ(stack_.api().wait(60s), 0);
  const std::string log = stack_.api().log();
  EXPECT_THAT(log, HasSubstr("a passkey's counter went backwards"));
  EXPECT_THAT(log, HasSubstr(id));
  EXPECT_THAT(log, HasSubstr("passkey added"));
  EXPECT_THAT(log, HasSubstr("signed in by passkey"));
  EXPECT_THAT(log, Not(HasSubstr(ann_.email)));
  EXPECT_THAT(log, Not(HasSubstr(signed_once.credential_id)));
}

TEST_F(PasskeysTest, AreRenamedAndRemovedByTheirOwner) {
  const std::string cookie = signed_in(ann_), bobs = signed_in(bob_);
  const Authenticator phone, laptop;
  const std::string path = "/passkeys/" + added(cookie, phone);
  const std::string last = "/passkeys/" + added(cookie, laptop);
  const Reply renamed = call("PATCH", path, cookie, R"({"name":"Telephone"})");
  ASSERT_EQ(renamed.status, 200) << renamed.body;
  EXPECT_EQ(renamed.text("name"), "Telephone");
  expect_error(call("PATCH", path, cookie, R"({"name":""})"), 400, "invalid_request", "name");
  for (const std::string& not_his : {path, std::string("/passkeys/x")}) {
    expect_error(call("PATCH", not_his, bobs, R"({"name":"Mine"})"), 404, "not_found");
    expect_error(call("DELETE", not_his, bobs), 404, "not_found");
  }
  EXPECT_EQ(call("DELETE", path, cookie).status, 204);
  expect_error(call("DELETE", path, cookie), 404, "not_found");
  expect_error(sign_in(phone, ann_), 401, "invalid_login");
  const Reply kept = call("DELETE", last, cookie);
  expect_error(kept, 409, "last_way_in");
  EXPECT_EQ(kept.header("x-should-retry"), "false");
  EXPECT_EQ(sign_in(laptop, ann_).status, 201);
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":"one that is long enough"})").status,
            204);
  no_longer_fresh();
  expect_error(call("DELETE", last, cookie), 403, "step_up_required");
  EXPECT_EQ(call("DELETE", last, signed_in(ann_)).status, 204);
}

TEST_F(PasskeysTest, ThereAreTenAtMost) {
  const std::string cookie = signed_in(ann_);
  const std::string open = invited(cookie);
  for (std::size_t i = 0; i < kPasskeysMax; ++i) {
    added(cookie, Authenticator());
  }
  const Reply one_more = call("POST", "/passkeys/invitation", cookie);
  expect_error(one_more, 409, "limit_reached");
  EXPECT_EQ(one_more.header("x-should-retry"), "false");
  expect_error(add(cookie, Authenticator().make(open, usual())), 409, "limit_reached");
}

TEST_F(PasskeysTest, OtherSitesAskForNothingAndAttemptsAreFew) {
  const std::string cookie = signed_in(ann_);
  for (const char* path : {"/passkeys/challenge", "/passkeys/invitation"}) {
    expect_error(call("POST", path, cookie, "", {"Origin: https://evil.example"}),
                 403,
                 "cross_site_request");
  }
  expect_error(call("POST", "/sessions/passkey", "", "{}", {"Origin: https://evil.example"}),
               403,
               "cross_site_request");
  expect_error(
      call("POST", "/sessions/passkey", "", "{}"), 400, "invalid_request", "credential_id");
  const std::string address = "X-Forwarded-For: 192.0.2.1";
  Reply reply;
  int attempts = 0;
  const std::string url = stack_.public_url() + "/console/api/v1/passkeys/challenge";
  while ((reply = http("POST", url, {kOwnPage, address})).status == 200 && attempts < 100) {
    ++attempts;
  }
  EXPECT_GE(attempts, 20);
  expect_error(reply, 429, "rate_limit_exceeded");
}

}  // namespace
}  // namespace audiogen::test
