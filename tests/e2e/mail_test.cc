// Accounts of the console by mail: links that sign in and make accounts, another address, notices,
// the end; and a mail server that is away.
#include <algorithm>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/account_ends.h"
#include "tests/support/certificates.h"
#include "tests/support/places.h"
#include "tests/support/smtp_double.h"
#include "tests/support/stack.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr auto kLimit = 30s;
const std::string kPages = source_path("tests/e2e/console_pages");
constexpr const char* kOwnPage = "Sec-Fetch-Site: same-origin";

std::map<std::string, std::string> by_mail(const SmtpDouble& server) {
  return {{"CONSOLE_DIR", kPages},
          {"SMTP_URL", "smtp://127.0.0.1:" + std::to_string(server.port()) + "?tls=off"},
          {"MAIL_FROM", "audio@example.com"},
          {"TRUSTED_PROXIES", "127.0.0.0/8"}};
}

class MailTest : public testing::Test {
 protected:
  explicit MailTest(std::map<std::string, std::string> more = {}, int workers = 0)
      : stack_([&] {
          Stack::Options options;
          options.workers = workers;
          options.environment = by_mail(server_);
          options.environment.merge(more);
          return options;
        }()) {}

  Reply call(const std::string& method,
             const std::string& path,
             const std::string& cookie = "",
             const std::string& body = "",
             std::vector<std::string> headers = {kOwnPage}) {
    if (!cookie.empty()) {
      headers.push_back("Cookie: session=" + cookie);
    }
    if (!body.empty()) {
      headers.emplace_back("Content-Type: application/json");
    }
    return http(method, stack_.public_url() + "/console/api/v1" + path, headers, body);
  }
  // From `address`, or this machine's.
  Reply ask(const std::string& email, const std::string& address = "127.0.0.1") {
    return call("POST",
                "/sign-in/link",
                "",
                R"({"email":")" + email + R"("})",
                {kOwnPage, "X-Forwarded-For: " + address});
  }
  Reply by_link(const std::string& token) {
    return call("POST", "/sessions", "", R"({"login_token":")" + token + R"("})");
  }
  Reply confirm(const std::string& cookie, const std::string& token) {
    return call("POST", "/email/confirmation", cookie, R"({"token":")" + token + R"("})");
  }
  Reply end(const std::string& cookie, const std::string& email, const std::string& more = "") {
    return call("POST", "/account/deletion", cookie, R"({"email":")" + email + "\"" + more + "}");
  }
  static std::string cookie_of(const Reply& reply) {
    const std::string line = reply.header("set-cookie");
    const auto from = line.find('=') + 1;
    return line.substr(from, line.find(';') - from);
  }
  std::string signed_in(const Account& account) {
    const auto made = stack_.admin({"user", "login-link", "--user", account.email});
    const std::string url = made["url"].GetString();
    const Reply reply = by_link(url.substr(url.find('=') + 1));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return cookie_of(reply);
  }
  // The newest mail to an address, once there are `count` of them.
  ReceivedMail mail_to(const std::string& address, std::size_t count = 1) {
    std::vector<ReceivedMail> theirs;
    EXPECT_TRUE(eventually(kLimit,
                           [&] {
                             theirs = server_.mails();
                             std::erase_if(theirs, [&](const ReceivedMail& mail) {
                               return mail.to != address;
                             });
                             return theirs.size() >= count;
                           }))
        << "no mail to " << address;
    EXPECT_EQ(theirs.size(), count);
    return theirs.empty() ? ReceivedMail{} : theirs.back();
  }
  // What follows "#login=" or "#mail=" in a mail.
  std::string token_in(const ReceivedMail& mail, const std::string& what) {
    const std::string start = stack_.public_url() + "/console/#" + what + "=";
    const std::string body = mail.body();
    const auto at = body.find(start);
    EXPECT_NE(at, std::string::npos) << body;
    return at == std::string::npos ? "" : body.substr(at + start.size(), 43);
  }
  void no_longer_fresh() {
    stack_.database().execute(
        store::Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  }
  bool ends(const std::string& cookie) {
    return eventually(kLimit, [&] { return call("GET", "/account", cookie).status == 401; });
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

  SmtpDouble server_;
  Stack stack_;
};

TEST_F(MailTest, ALinkComesByMailAndSignsInOnce) {
  const Account ann = stack_.account();
  const Reply asked = ask("User" + ann.email.substr(4));
  EXPECT_EQ(asked.status, 204) << asked.body;
  EXPECT_EQ(asked.header("cache-control"), "no-store");
  const ReceivedMail mail = mail_to(ann.email);
  EXPECT_EQ(mail.from, "audio@example.com");
  EXPECT_EQ(mail.header("Subject"), "Your sign-in link");
  const std::string token = token_in(mail, "login");
  const Reply in = by_link(token);
  ASSERT_EQ(in.status, 201) << in.body;
  EXPECT_EQ(in.text("email"), ann.email);
  expect_error(by_link(token), 401, "invalid_login");
  stack_.api().signal(15);
  EXPECT_EQ(stack_.api().wait(60s), 0);
  for (const std::string& secret : {token, ann.email}) {
    EXPECT_THAT(stack_.api().log(), Not(HasSubstr(secret)));
  }
}

TEST_F(MailTest, NobodyLearnsWhichAccountsThereAre) {
  const Account ann = stack_.account();
  const Reply known = ask(ann.email), unknown = ask("nobody@example.com");
  EXPECT_EQ(known.status, 204);
  EXPECT_EQ(unknown.status, 204);
  EXPECT_EQ(known.body, unknown.body);
  EXPECT_EQ(known.headers.size(), unknown.headers.size());
  mail_to(ann.email);
  // Each address of the network has a few and then one in ten minutes to a mail address, whether
  // there is an account or not; so somebody else still gets his.
  for (const std::string& email : {ann.email, std::string("nobody@example.com")}) {
    EXPECT_EQ(ask(email).status, 204);
    EXPECT_EQ(ask(email).status, 204);
    const Reply more = ask(email);
    expect_error(more, 429, "rate_limit_exceeded");
    EXPECT_GT(std::stoi(more.header("retry-after")), 0);
    EXPECT_EQ(ask(email, "192.0.2.1").status, 204);
  }
  mail_to(ann.email, 4);
  for (const ReceivedMail& mail : server_.mails()) {
    EXPECT_EQ(mail.to, ann.email);
  }
  for (const char* wrong : {"ann", "ann@example.com\\r\\nBcc: bob@example.com", ""}) {
    expect_error(ask(wrong), 400, "invalid_request", "email");
  }
  // One address of the network tries at most twenty times a minute.
  Reply reply;
  for (int i = 0; i < 30 && (reply = ask(std::to_string(i) + "@example.com")).status == 204; ++i) {
  }
  expect_error(reply, 429, "rate_limit_exceeded");
}

TEST_F(MailTest, OtherSitesPagesAskForNothing) {
  const Account ann = stack_.account();
  const std::string cookie = signed_in(ann);
  const std::string base = stack_.public_url() + "/console/api/v1";
  const std::vector<std::string> foreign = {
      "Sec-Fetch-Site: cross-site", "Content-Type: application/json", "Cookie: session=" + cookie};
  EXPECT_EQ(http("POST", base + "/sign-in/link", foreign, R"({"email":"a@b.c"})").status, 403);
  EXPECT_EQ(http("PUT", base + "/email", foreign, R"({"email":"a@b.c"})").status, 403);
  EXPECT_EQ(http("POST", base + "/email/confirmation", foreign, R"({"token":"x"})").status, 403);
  EXPECT_EQ(http("POST", base + "/account/deletion", foreign, "{}").status, 403);
  for (const char* path : {"/email/confirmation", "/account/deletion"}) {
    EXPECT_EQ(call("POST", path, "", "{}").status, 401) << path;
  }
  EXPECT_EQ(call("PUT", "/email", "", "{}").status, 401);
  EXPECT_EQ(call("PUT", "/email", ann.key, "{}").status, 401) << "a key is no session";
}

TEST_F(MailTest, ThePageLearnsWhichWaysThereAre) {
  const Reply ways = call("GET", "/sign-in");
  EXPECT_EQ(ways.status, 200);
  EXPECT_EQ(ways.body, R"({"mail":true,"sign_up":"closed","oidc":false})");
  EXPECT_NE(ways.header("etag"), "");
  EXPECT_EQ(ways.header("access-control-allow-origin"), "");
}

TEST_F(MailTest, AMailServerThatIsAwayHoldsUpNobody) {
  const Account ann = stack_.account();
  server_.fail_always(SmtpDouble::Fault::kGoodbye);
  EXPECT_EQ(ask(ann.email).status, 204);
  EXPECT_TRUE(eventually(kLimit, [&] { return server_.connections() > 0; }));
  EXPECT_EQ(ask(ann.email).status, 204);
  const std::string cookie = signed_in(ann);
  EXPECT_EQ(call("GET", "/account", cookie).status, 200);
  EXPECT_TRUE(eventually(kLimit, [&] {
    return stack_.api().log().find("mail server unavailable") != std::string::npos;
  }));
  EXPECT_THAT(http("GET", stack_.ops_url() + "/metrics").body,
              HasSubstr("mails_total{result=\"postponed\"}"));
  server_.fail_always(std::nullopt);
  mail_to(ann.email, 2);
}

// However many mails wait for it: there are 30 s before somebody ends the program.
TEST(Mail, ADatabaseThatHangsDoesNotHoldUpTheEnd) {
  SmtpDouble server;
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  options.environment = by_mail(server);
  Stack stack(options);
  TcpProxy proxy(stack.database().url().port);
  stack.start_api({{"DATABASE_URL", stack.database_through(proxy.port())}});
  const auto ask = [&](int i) {
    return http("POST",
                stack.public_url() + "/console/api/v1/sign-in/link",
                {kOwnPage, "Content-Type: application/json"},
                R"({"email":"user)" + std::to_string(i) + R"(@example.com"})");
  };
  ASSERT_EQ(ask(0).status, 204);
  proxy.blackhole();
  for (int i = 1; i < 16; ++i) {
    ASSERT_EQ(ask(i).status, 204);
  }
  stack.api().signal(15);
  EXPECT_EQ(stack.api().wait(30s), 0);
  // Said of each while it drains, of the rest at its end.
  EXPECT_THAT(stack.api().log(), HasSubstr("not written"));
}

TEST_F(MailTest, AnAddressChangesWhenItsMailIsRead) {
  const Account ann = stack_.account(), bob = stack_.account();
  const std::string cookie = signed_in(ann), bobs = signed_in(bob);
  const auto change = [&](const std::string& to, const std::string& whose) {
    return call("PUT", "/email", whose, R"({"email":")" + to + R"("})");
  };
  EXPECT_EQ(change("Ann@New.example.com", cookie).status, 204);
  const ReceivedMail mail = mail_to("ann@new.example.com");
  const std::string token = token_in(mail, "mail");
  EXPECT_EQ(call("GET", "/account", cookie).text("email"), ann.email);
  expect_error(by_link(token), 401, "invalid_login");
  expect_error(confirm(bobs, token), 400, "invalid_request", "token");
  expect_error(confirm(cookie, "x"), 400, "invalid_request", "token");
  const Reply confirmed = confirm(cookie, token);
  EXPECT_EQ(confirmed.status, 204) << confirmed.body;
  EXPECT_EQ(call("GET", "/sessions/current", cookie).text("email"), "ann@new.example.com");
  const ReceivedMail notice = mail_to(ann.email);
  EXPECT_EQ(notice.header("Subject"), "Your mail address was changed");
  EXPECT_THAT(notice.body(), Not(HasSubstr("new.example.com")))
      << "where it went is not its affair";
  expect_error(confirm(cookie, token), 400, "invalid_request", "token");
  // Somebody else's.
  EXPECT_EQ(change("ann@new.example.com", bobs).status, 204);
  expect_error(confirm(bobs, token_in(mail_to("ann@new.example.com", 2), "mail")),
               400,
               "invalid_request",
               "token");
  EXPECT_EQ(call("GET", "/account", bobs).text("email"), bob.email);
  no_longer_fresh();
  expect_error(change("ann@third.example.com", cookie), 403, "step_up_required");
  expect_error(change("no address", cookie), 400, "invalid_request", "email");
  stack_.database().expect_invariants();
}

TEST_F(MailTest, NobodyFillsAnInboxByChanges) {
  const Account ann = stack_.account();
  const std::string stale = signed_in(ann);
  const auto change = [&](const std::string& cookie, const std::string& to) {
    return call("PUT", "/email", cookie, R"({"email":")" + to + R"("})");
  };
  no_longer_fresh();
  for (int i = 0; i < 4; ++i) {
    expect_error(change(stale, "victim@example.com"), 403, "step_up_required");
  }
  const std::string cookie = signed_in(ann), bobs = signed_in(stack_.account());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(change(cookie, "victim+" + std::to_string(i) + "@example.com").status, 204)
        << "what was refused was not sent";
  }
  const auto refused_for = [&](const std::string& who, const std::string& to) {
    const Reply reply = change(who, to);
    expect_error(reply, 429, "rate_limit_exceeded");
    return std::stoi(reply.header("retry-after"));
  };
  EXPECT_GT(refused_for(cookie, "another@example.com"), 11 * 3'600) << "five a day of an account";
  EXPECT_EQ(change(bobs, "another@example.com").status, 204);
  // Of all accounts together twenty, ten at once.
  for (int sent = 3; sent < 10;) {
    const std::string other = signed_in(stack_.account());
    for (int i = 0; i < 3 && sent < 10; ++i, ++sent) {
      EXPECT_EQ(change(other, "victim@example.com").status, 204);
    }
  }
  EXPECT_GT(refused_for(bobs, "victim@example.com"), 3'600);
}

TEST_F(MailTest, ItsOwnerIsToldWhatSomebodyElseMayHaveDone) {
  const Account ann = stack_.account();
  const std::string cookie = signed_in(ann);
  ASSERT_EQ(call("PUT", "/password", cookie, R"({"password":"one that is long enough"})").status,
            204);
  EXPECT_EQ(mail_to(ann.email, 1).header("Subject"), "Your password was set");
  const Reply plain = call("POST", "/account/keys", cookie, R"({"name":"k"})");
  ASSERT_EQ(plain.status, 201);
  const Reply managing =
      call("POST", "/account/keys", cookie, R"({"name":"m\r\nBcc: x@y","scopes":["manage"]})");
  if (managing.status == 400) {  // A name of one line only.
    ASSERT_EQ(call("POST", "/account/keys", cookie, R"({"name":"m","scopes":["manage"]})").status,
              201);
  }
  EXPECT_EQ(mail_to(ann.email, 2).header("Subject"), "An API key that manages your account");
  ASSERT_EQ(call("PATCH",
                 "/account/keys/" + plain.text("id"),
                 cookie,
                 R"({"scopes":["manage","generate"]})")
                .status,
            200);
  mail_to(ann.email, 3);
  ASSERT_EQ(
      call("PATCH", "/account/keys/" + plain.text("id"), cookie, R"({"name":"renamed"})").status,
      200);
  ASSERT_EQ(
      call(
          "POST", "/account/keys/" + plain.text("id") + "/rotate", cookie, R"({"overlap_hours":0})")
          .status,
      200);
  mail_to(ann.email, 4);
  // Who does it all the time keeps nobody else from his mails, and fills no inbox.
  const Account bob = stack_.account();
  const std::string bobs = signed_in(bob);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(call("PUT", "/password", bobs, R"({"password":"the same again and again"})").status,
              204);
  }
  ASSERT_EQ(ask(ann.email).status, 204);
  mail_to(ann.email, 5);
  const auto mails = server_.mails();
  const auto to_bob = std::count_if(
      mails.begin(), mails.end(), [&](const ReceivedMail& mail) { return mail.to == bob.email; });
  EXPECT_GE(to_bob, 1);
  EXPECT_LE(to_bob, 3);
}

TEST_F(MailTest, WithoutSignUpAStrangerGetsNothing) {
  EXPECT_EQ(ask("new@example.com").status, 204);
  const auto invitation = stack_.admin({"user", "invite", "--email", "new@example.com"});
  const std::string url = invitation["url"].GetString();
  expect_error(by_link(url.substr(url.find('=') + 1)), 401, "invalid_login");
  const Account ann = stack_.account();
  ask(ann.email);
  mail_to(ann.email);
  EXPECT_EQ(server_.mails().size(), 1U);
}

class OpenMailTest : public MailTest {
 protected:
  OpenMailTest() : MailTest({{"SIGNUP", "open"}}) {}
};

TEST_F(OpenMailTest, AnybodyWhoReadsTheMailHasAnAccount) {
  EXPECT_EQ(call("GET", "/sign-in").text("sign_up"), "open");
  EXPECT_EQ(ask("New@Example.com").status, 204);
  const ReceivedMail mail = mail_to("new@example.com");
  EXPECT_EQ(mail.header("Subject"), "Your new account");
  const std::string token = token_in(mail, "login");
  const Reply in = by_link(token);
  ASSERT_EQ(in.status, 201) << in.body;
  EXPECT_EQ(in.text("email"), "new@example.com");
  const std::string cookie = cookie_of(in);
  const Reply account = call("GET", "/account", cookie);
  EXPECT_EQ(account.text("plan"), "free");
  EXPECT_EQ(account.text("api_access"), "false");
  EXPECT_EQ(account.text("credits.available"), "0");
  expect_error(by_link(token), 401, "invalid_login");
  EXPECT_EQ(ask("new@example.com").status, 204);
  EXPECT_EQ(mail_to("new@example.com", 2).header("Subject"), "Your sign-in link");
  stack_.database().expect_invariants();
}

// The same answer whether or not a mail is sent, so nobody learns whether there is an account.
TEST_F(OpenMailTest, AStrangersInboxGetsFewMailsADay) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask("new@example.com").status, 204);
  }
  mail_to("new@example.com", 2);
  EXPECT_EQ(ask("last@example.com").status, 204);
  mail_to("last@example.com");  // By then the third was looked at.
  mail_to("new@example.com", 2);
}

TEST_F(OpenMailTest, WhoHasAnAccountGetsHisLinkBeyondThatToo) {
  const Account ann = stack_.account();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(ann.email).status, 204);
  }
  mail_to(ann.email, 3);
}

class InviteMailTest : public MailTest {
 protected:
  InviteMailTest() : MailTest({{"SIGNUP", "invite"}}) {}
};

TEST_F(InviteMailTest, WhoIsInvitedHasAnAccount) {
  EXPECT_EQ(ask("new@example.com").status, 204);
  const auto invitation = stack_.admin({"user", "invite", "--email", "new@example.com"});
  const auto second = stack_.admin({"user", "invite", "--email", "two@example.com"});
  EXPECT_EQ(ask("two@example.com").status, 204);
  const Reply mailed = by_link(token_in(mail_to("two@example.com"), "login"));
  ASSERT_EQ(mailed.status, 201);
  EXPECT_EQ(mailed.text("email"), "two@example.com");
  const std::string url = invitation["url"].GetString();
  const Reply in = by_link(url.substr(url.find('=') + 1));
  ASSERT_EQ(in.status, 201) << in.body;
  EXPECT_EQ(in.text("email"), "new@example.com");
  const std::string used = second["url"].GetString();
  expect_error(by_link(used.substr(used.find('=') + 1)), 401, "invalid_login");
  EXPECT_EQ(server_.mails().size(), 1U) << "the stranger that it was before got none";
  const Output taken = stack_.admin_raw({"user", "invite", "--email", "new@example.com"});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.out, HasSubstr("has an account already"));
}

class EndMailTest : public MailTest {
 protected:
  EndMailTest() : MailTest({}, 1) {}
};

TEST_F(EndMailTest, AnAccountEnds) {
  const Account ann = stack_.account(1'000), bob = stack_.account(1'000);
  const std::string old = signed_in(ann);
  stack_.database().execute(
      store::Sql("UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE"));
  expect_error(end(old, ann.email, R"(,"forfeit_credits":true)"), 403, "step_up_required");
  const std::string cookie = signed_in(ann), other = signed_in(ann);
  const Reply done = stack_.create(ann, Stack::body("A secret wish."));
  ASSERT_EQ(done.status, 202);
  const Reply final_one = stack_.wait_final(ann, done.text("id"));
  ASSERT_EQ(final_one.text("status"), "succeeded");
  const std::string url = final_one.text("output.url");
  EXPECT_EQ(http("GET", url).status, 200);
  const Reply bobs = stack_.create(bob, Stack::body("Another wish."));
  stack_.wait_final(bob, bobs.text("id"));

  expect_error(end(cookie, bob.email), 400, "invalid_request", "email");
  expect_error(end(cookie, ann.email), 400, "invalid_request", "forfeit_credits");
  expect_error(end(cookie, ann.email, R"(,"forfeit_credits":false)"),
               400,
               "invalid_request",
               "forfeit_credits");
  EXPECT_EQ(call("GET", "/account", other).status, 200);
  stack_.worker(0).signal(15);  // So that a task is open.
  EXPECT_EQ(stack_.worker(0).wait(30s), 0);
  const Reply open = stack_.create(ann, Stack::body("A wish that is too late."));
  ASSERT_EQ(open.status, 202);
  const Reply ended = end(cookie, ann.email, R"(,"forfeit_credits":true)");
  ASSERT_EQ(ended.status, 204) << ended.body;
  EXPECT_THAT(ended.header("set-cookie"), HasSubstr("Max-Age=0"));
  EXPECT_EQ(mail_to(ann.email).header("Subject"), "Your account was deleted");
  EXPECT_TRUE(ends(cookie));
  EXPECT_TRUE(ends(other));
  EXPECT_TRUE(eventually(kLimit, [&] { return stack_.get(ann, done.text("id")).status == 401; }));
  EXPECT_EQ(ask(ann.email).status, 204);
  auto& database = stack_.database();
  EXPECT_TRUE(eventually(kLimit, [&] {
    return database.number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=5 AND charged=0")) ==
           1;
  })) << "canceled, and refunded in full";
  stack_.start_worker();
  // The prompts, within seconds; then the file.
  EXPECT_TRUE(eventually(kLimit, [&] {
    return database.number(store::Sql("SELECT COUNT(*) FROM tasks WHERE request<>''")) == 1;
  }));
  EXPECT_TRUE(eventually(kLimit, [&] { return http("GET", url).status == 404; }));
  EXPECT_TRUE(eventually(
      kLimit, [&] { return database.number(store::Sql("SELECT COUNT(*) FROM deletions")) == 0; }));
  database.execute(
      store::Sql("UPDATE account_deletions SET asked_at=asked_at - INTERVAL 2 MINUTE"));
  EXPECT_TRUE(eventually(kLimit, [&] {
    return database.number(store::Sql("SELECT COUNT(*) FROM account_deletions")) == 0;
  }));
  EXPECT_EQ(stack_.get(bob, bobs.text("id")).status, 200);
  // Its address is free, and nothing of the old one comes with it.
  const auto made = stack_.admin({"user", "create", "--email", ann.email});
  EXPECT_STRNE(made["id"].GetString(), ann.user.c_str());
  const auto shown = stack_.admin({"user", "show", "--user", ann.user});
  EXPECT_EQ(shown["email"].GetString(), ann.user + "@deleted.invalid");
  EXPECT_EQ(server_.mails().size(), 1U) << "no link for an account that has ended";
  database.expect_invariants();
}

// What an interrupted process leaves, the next one does.
TEST_F(MailTest, TheEndGoesOnAfterACrash) {
  const Account ann = stack_.account(100'000);
  const std::string cookie = signed_in(ann);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(stack_.create(ann, Stack::body("A wish.")).status, 202);
  }
  stack_.start_api({{"CRASH_POINT", "account.wiped"}});
  // It may crash before it has answered.
  ASSERT_THAT(end(cookie, ann.email, R"(,"forfeit_credits":true)").status, AnyOf(204, 0));
  EXPECT_TRUE(eventually(kLimit, [&] { return !stack_.api().running(); })) << "it did not crash";
  stack_.start_api();
  EXPECT_TRUE(eventually(kLimit, [&] {
    return stack_.database().number(store::Sql("SELECT COUNT(*) FROM account_deletions WHERE "
                                               "next_seq>10")) == 1;
  }));
  EXPECT_EQ(stack_.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE request<>''")),
            0);
  stack_.database().expect_invariants();
}

TEST(Mail, WithoutAServerItsPathsAreNotThere) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"CONSOLE_DIR", kPages}};
  Stack stack(options);
  const std::string base = stack.public_url() + "/console/api/v1";
  for (const char* path : {"/sign-in/link", "/email", "/email/confirmation"}) {
    for (const char* method : {"GET", "POST", "PUT", "OPTIONS"}) {
      EXPECT_EQ(http(method, base + path, {kOwnPage}).status, 404) << method << " " << path;
    }
  }
  EXPECT_EQ(http("GET", base + "/sign-in").body,
            R"({"mail":false,"sign_up":"closed","oidc":false})");
  const Account ann = stack.account();
  const auto changed =
      stack.admin({"user", "email", "--user", ann.user, "--email", "New@Example.com"});
  EXPECT_STREQ(changed["email"].GetString(), "new@example.com");
  const auto note = stack.admin({"actions", "--limit", "1"});
  EXPECT_STREQ(note["actions"][0]["action"].GetString(), "user email");
}

// By TLS, as a deployment has it: nothing before the certificate is known to be good.
TEST(Mail, GoesByVerifiedTls) {
  const Certificates certificates;
  const std::string path = testing::TempDir() + "/mail-e2e-" + std::to_string(::getpid());
  certificates.issue(path, "localhost");
  SmtpDouble server({.tls = SmtpDouble::Tls::kStartTls,
                     .certificate = path + ".pem",
                     .key = path + ".key",
                     .user = "audio",
                     .password = "canary"});
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"CONSOLE_DIR", kPages},
                         {"SMTP_URL",
                          "smtp://audio:canary@localhost:" + std::to_string(server.port()) +
                              "?cacertfile=" + certificates.ca()},
                         {"MAIL_FROM", "audio@example.com"}};
  Stack stack(options);
  const Account ann = stack.account();
  EXPECT_EQ(http("POST",
                 stack.public_url() + "/console/api/v1/sign-in/link",
                 {kOwnPage, "Content-Type: application/json"},
                 R"({"email":")" + ann.email + R"("})")
                .status,
            204);
  ASSERT_TRUE(eventually(kLimit, [&] { return server.mails().size() == 1; }));
  EXPECT_TRUE(server.mails()[0].by_tls);
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("AUTH")));
  EXPECT_THAT(stack.api().log(), Not(HasSubstr("canary")));
}

}  // namespace
}  // namespace audiogen::test
