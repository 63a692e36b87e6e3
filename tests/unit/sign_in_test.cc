// Sessions, links, cookies, who may act on one, and passwords, as rules.
#include "common/domain/sign_in.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/password.h"
#include "common/domain/sign_in_request.h"

namespace audiogen {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

TEST(SignInToken, IsLongNewAndKnownByItsHash) {
  const NewToken one = make_token(), other = make_token();
  EXPECT_EQ(one.text.size(), 43U);
  EXPECT_NE(one.text, other.text);
  EXPECT_EQ(token_hash(one.text), one.hash);
  EXPECT_EQ(one.hash, sha256(one.text));
  for (const std::string& wrong : {std::string(),
                                   one.text.substr(1),
                                   one.text + "A",
                                   one.text + "=",
                                   std::string(43, '!'),
                                   std::string(43, '_'),  // Bits are left over.
                                   std::string(400, 'A')}) {
    EXPECT_FALSE(token_hash(wrong)) << wrong;
  }
}

TEST(SignInSession, EndsAfterTwoWeeksAloneAndAMonthInAnyCase) {
  const Instant begun(std::chrono::sys_days(std::chrono::year(2026) / 11 / 1));
  EXPECT_EQ(session_end(begun, begun), begun + 14 * 24h);
  EXPECT_EQ(session_end(begun, begun + 10 * 24h), begun + 24 * 24h);
  EXPECT_EQ(session_end(begun, begun + 16 * 24h), begun + 30 * 24h);
  EXPECT_EQ(session_end(begun, begun + 29 * 24h), begun + 30 * 24h);
  EXPECT_EQ(fresh_until(begun), begun + 10min);
  EXPECT_TRUE(is_fresh(begun, begun + 10min, begun));
  EXPECT_TRUE(is_fresh(begun, begun + 10min, begun - kClockSlack)) << "clocks differ a little";
  EXPECT_FALSE(is_fresh(begun, begun + 10min, begun + 10min));
  EXPECT_FALSE(is_fresh(begun, begun + 10min, begun - 1h)) << "begun by a clock that was ahead";
}

TEST(SignInSession, OfSomebodyWhoShowedHimselfElsewhereIsFreshFromThenOn) {
  const Instant now(std::chrono::sys_days(std::chrono::year(2026) / 11 / 1));
  EXPECT_EQ(fresh_for(now, now), 10min);
  EXPECT_EQ(fresh_for(now - 4min, now), 6min);
  EXPECT_EQ(fresh_for(now - 10min, now), 0s);
  EXPECT_EQ(fresh_for(now - 30 * 24h, now), 0s);
  EXPECT_EQ(fresh_for(now + 2min, now), 10min) << "by a clock that is ahead";
  EXPECT_EQ(fresh_for(std::nullopt, now), 0s) << "nobody knows";
  EXPECT_EQ(fresh_until(now, fresh_for(std::nullopt, now)), now);
}

TEST(SignInCookie, IsTheFirstOfItsName) {
  EXPECT_EQ(cookie_value("session=a", "session"), "a");
  EXPECT_EQ(cookie_value("a=1; session=b; c=2", "session"), "b");
  EXPECT_EQ(cookie_value("a=1;session=b", "session"), "b");
  EXPECT_EQ(cookie_value("session=; x=y", "session"), "");
  EXPECT_EQ(cookie_value("session=b=c", "session"), "b=c");
  EXPECT_EQ(cookie_value("session=first; session=second", "session"), "first");
  for (const char* header :
       {"", ";", "session", "; ; ", "xsession=a", "sessions=a", "Session=a", "a=session=b"}) {
    EXPECT_EQ(cookie_value(header, "session"), std::nullopt) << header;
  }
}

TEST(SignInCookie, IsForThisHostAndNoScript) {
  EXPECT_EQ(session_cookie(true, "T"),
            "__Host-session=T; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=2592000");
  EXPECT_EQ(session_cookie(false, "T"),
            "session=T; Path=/console; HttpOnly; SameSite=Lax; Max-Age=2592000");
  EXPECT_EQ(ended_session_cookie(true),
            "__Host-session=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0");
  EXPECT_EQ(ended_session_cookie(false),
            "session=; Path=/console; HttpOnly; SameSite=Lax; Max-Age=0");
}

// What a browser says, and whether the request may change anything.
TEST(SignInCrossSite, OnlyOurOwnPagesChangeAnything) {
  constexpr std::string_view kOwn = "https://audio.example.com";
  struct Row {
    const char* why;
    std::optional<std::string_view> fetch_site, origin;
    bool own;
  };
  for (const Row& row :
       {Row{"a page of ours", "same-origin", kOwn, true},
        Row{"a page of ours that names no origin", "same-origin", std::nullopt, true},
        Row{"a page of another name of this site", "same-site", "https://x.example.com", false},
        Row{"a page of another site", "cross-site", "https://evil.example", false},
        Row{"a page of another site that lies", "cross-site", kOwn, false},
        Row{"typed by a person: nothing that changes is", "none", std::nullopt, false},
        Row{"nonsense", "Same-Origin", kOwn, false},
        Row{"said twice", "same-origin, cross-site", kOwn, false},
        Row{"an old browser, a page of ours", std::nullopt, kOwn, true},
        Row{"an old browser, another site", std::nullopt, "https://evil.example", false},
        Row{"an old browser, the same host by http",
            std::nullopt,
            "http://audio.example.com",
            false},
        Row{"another port", std::nullopt, "https://audio.example.com:8443", false},
        Row{"a sandboxed frame", std::nullopt, "null", false},
        Row{"a longer name", std::nullopt, "https://audio.example.com.evil.example", false},
        Row{"empty", std::nullopt, "", false},
        Row{"no browser", std::nullopt, std::nullopt, false}}) {
    for (const char* method : {"POST", "PUT", "PATCH", "DELETE", "get", "TRACE"}) {
      EXPECT_EQ(is_own_request(method, row.fetch_site, row.origin, kOwn), row.own)
          << method << ": " << row.why;
    }
    for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
      EXPECT_TRUE(is_own_request(method, row.fetch_site, row.origin, kOwn)) << row.why;
    }
  }
  EXPECT_FALSE(is_own_request("POST", std::nullopt, "", "")) << "an origin that nobody knows";
}

TEST(Password, IsLongAndNoneThatIsTriedFirst) {
  const std::string email = "ann.lee.smith@long.example.com";
  for (const char* good : {"twelve chars",
                           "correct horse battery",
                           "aaaaaaaaaaab",
                           "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
                           "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4",
                           "            x"}) {
    EXPECT_EQ(password_fault(good, email), std::nullopt) << good;
  }
  EXPECT_EQ(password_fault(std::string(1023, 'a') + "b", email), std::nullopt);
  struct Case {
    std::string password;
    const char* why;
  };
  for (const Case& c :
       {Case{"", "at least 12 characters"},
        Case{"elevenchars", "at least 12 characters"},
        // Characters, not bytes.
        Case{"\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", "at least 12 characters"},
        Case{std::string(1025, 'x'), "at most 1024 bytes"},
        Case{"password1234", "tried first"},
        Case{"PassWord1234", "tried first"},
        Case{"123456789012", "tried first"},
        Case{"correct horse battery staple", "tried first"},
        Case{"ann.lee.smith@long.example.com", "mail address"},
        Case{"ANN.LEE.SMITH", "mail address"},
        Case{"long.example.com", "mail address"}}) {
    const auto fault = password_fault(c.password, email);
    ASSERT_TRUE(fault) << c.password;
    EXPECT_THAT(*fault, HasSubstr(c.why));
    if (!c.password.empty()) {
      EXPECT_THAT(*fault, Not(HasSubstr(c.password)));
    }
  }
}

TEST(SignInRequest, IsALinkOrAPassword) {
  const NewToken token = make_token();
  const auto link = parse_sign_in("{\"login_token\":\"" + token.text + "\"}");
  ASSERT_TRUE(link);
  EXPECT_EQ(std::get<LinkSignIn>(*link).hash, token.hash);
  const auto malformed = parse_sign_in(R"({"login_token":"x"})");
  ASSERT_TRUE(malformed) << "no more is told of it than of one that was used";
  EXPECT_EQ(std::get<LinkSignIn>(*malformed).hash, std::nullopt);
  const auto password = parse_sign_in(R"({"password":"P\u0000x","email":"Ann@Example.COM"})");
  ASSERT_TRUE(password);
  EXPECT_EQ(std::get<PasswordSignIn>(*password).email, "ann@example.com");
  EXPECT_EQ(std::get<PasswordSignIn>(*password).password, std::string("P\0x", 3));
  // One account, so one count of guesses, however it is spelled.
  for (const char* const spelling : {"ann@example.com ", "ANN@example.com     "}) {
    const auto spaced =
        parse_sign_in(R"({"password":"x","email":")" + std::string(spelling) + R"("})");
    ASSERT_TRUE(spaced);
    EXPECT_EQ(std::get<PasswordSignIn>(*spaced).email, "ann@example.com");
  }
}

TEST(SignInRequest, NamesTheMemberAtFaultAndNeverRepeatsIt) {
  const std::string secret = "hunter2-hunter2";
  struct Case {
    std::string body, param;
  };
  for (const Case& c :
       {Case{"", ""},
        Case{"[]", ""},
        Case{"{}", ""},
        Case{R"({"login_token":")" + secret + R"(","email":"a"})", ""},
        Case{R"({"login_token":")" + secret + R"(","password":"a"})", ""},
        Case{R"({"login_token":")" + secret + R"(","email":"a","password":"b"})", ""},
        Case{R"({"email":"a"})", ""},
        Case{R"({"password":")" + secret + R"("})", ""},
        Case{R"({"login_token":1})", "login_token"},
        Case{R"({"login_token":")" + std::string(257, 'x') + R"("})", "login_token"},
        Case{R"({"email":"a","email":"b","password":"c"})", "email"},
        Case{R"({"email":")" + std::string(255, 'x') + R"(","password":"c"})", "email"},
        Case{R"({"email":"a","password":")" + std::string(1025, 'x') + R"("})", "password"},
        Case{R"({"email":"a","password":null})", "password"},
        Case{R"({"email":"a","password":"b","remember":true})", "remember"},
        Case{R"({"email":"a","password":"b",")" + secret + R"(":1})", ""}}) {
    const auto parsed = parse_sign_in(c.body);
    ASSERT_FALSE(parsed) << c.body;
    EXPECT_EQ(parsed.error().code, ApiErrorCode::kInvalidRequest);
    EXPECT_EQ(parsed.error().param.value_or(""), c.param) << c.body;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr(secret)));
  }
}

TEST(SignInRequest, ChangesAPassword) {
  const auto first = parse_password_change(R"({"password":"a"})");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->password, "a") << "what it must be is another question";
  EXPECT_EQ(first->current, std::nullopt);
  EXPECT_EQ(parse_password_change(R"({"current_password":"b","password":"a"})")->current, "b");
  EXPECT_EQ(parse_password_change(R"({"current_password":"b"})").error().param, "password");
  EXPECT_EQ(parse_password_change(R"({"password":"a","email":"b"})").error().param, "email");
}

}  // namespace
}  // namespace audiogen
