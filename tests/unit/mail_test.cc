// Mails as they are written: whose address may stand in one, and that nothing else gets in.
#include "common/domain/mail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/mail_address.h"
#include "common/domain/mail_request.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MailAddress, IsOfAnInbox) {
  EXPECT_EQ(inbox_of("ann+one+two@example.com"), "ann@example.com");
  EXPECT_EQ(inbox_of("ann@example.com"), "ann@example.com");
  EXPECT_EQ(inbox_of("a.n.n+one.two@googlemail.com"), "ann@gmail.com");
  EXPECT_EQ(inbox_of("a.nn@gmail.com"), "ann@gmail.com");
  EXPECT_EQ(inbox_of("a.nn@example.com"), "a.nn@example.com") << "two people, maybe";
  EXPECT_EQ(inbox_of("ann@exam+ple.com"), "ann@exam+ple.com");
}

TEST(MailAddress, IsOneThatNeedsNoQuoting) {
  for (const std::string& good : {std::string("ann@example.com"),
                                  std::string("ann.lee+audio@mail.example.co.uk"),
                                  std::string("a@b"),
                                  std::string("o'brien_=%/{1}@EXAMPLE.com"),
                                  std::string(64, 'a') + "@example.com",
                                  "a@" + std::string(63, 'b') + ".com"}) {
    EXPECT_TRUE(is_mail_address(good)) << good;
  }
  for (const std::string& bad :
       {std::string(""),
        std::string("ann"),
        std::string("@example.com"),
        std::string("ann@"),
        std::string("ann@@example.com"),
        std::string("ann@bob@example.com"),
        std::string(".ann@example.com"),
        std::string("ann.@example.com"),
        std::string("a..b@example.com"),
        std::string("ann@example..com"),
        std::string("ann@example.com."),
        std::string("ann@-example.com"),
        std::string("ann@example-.com"),
        std::string("ann@exam_ple.com"),
        std::string("ann@[127.0.0.1]"),
        std::string("ann lee@example.com"),
        std::string("\"ann\"@example.com"),
        std::string("<ann@example.com>"),
        std::string("ann@example.com>"),
        std::string("ann@example.com,bob@example.com"),
        std::string("ann@example.com\r\nBcc: bob@example.com"),
        std::string("ann\n@example.com"),
        std::string("ann\0@example.com", 16),
        std::string("\xC3\xA4nn@example.com"),
        std::string("ann@ex\xC3\xA4mple.com"),
        std::string(65, 'a') + "@example.com",
        "a@" + std::string(64, 'b') + ".com",
        "a@" + std::string(60, 'b') + "." + std::string(60, 'b') + "." + std::string(60, 'b') +
            "." + std::string(60, 'b') + "." + std::string(60, 'b')}) {
    EXPECT_FALSE(is_mail_address(bad)) << bad;
  }
  EXPECT_EQ(mail_domain("ann@example.com"), "example.com");
}

MailHead head() {
  return {.from = "audio@example.com",
          .to = "ann@example.com",
          .unique = "unique",
          .at = Instant(std::chrono::sys_days(std::chrono::year(2026) / 11 / 3)) + 5h + 7min + 9s};
}

TEST(Mail, IsPlainText) {
  EXPECT_EQ(render_mail(head(), {"Subject", "One\n\nTwo\n"}),
            "Date: Tue, 03 Nov 2026 05:07:09 +0000\r\n"
            "From: <audio@example.com>\r\n"
            "To: <ann@example.com>\r\n"
            "Message-ID: <unique@example.com>\r\n"
            "Subject: Subject\r\n"
            "MIME-Version: 1.0\r\n"
            "Content-Type: text/plain; charset=us-ascii\r\n"
            "Content-Transfer-Encoding: 7bit\r\n"
            "Auto-Submitted: auto-generated\r\n"
            "\r\n"
            "One\r\n\r\nTwo\r\n");
}

TEST(Mail, NothingBecomesALineOfItsHead) {
  const std::string mail =
      render_mail(head(), {"Hi\r\nBcc: bob@example.com", "a\rb\x01\xC3\xA4\n"});
  EXPECT_THAT(mail, HasSubstr("Subject: Hi??Bcc: bob@example.com\r\n"));
  EXPECT_THAT(mail, HasSubstr("\r\n\r\na?b???\r\n"));
}

TEST(Mail, NoLineIsTooLong) {
  const std::string mail = render_mail(head(), {"S", std::string(2'500, 'x') + "\n"});
  const std::string body = mail.substr(mail.find("\r\n\r\n") + 4);
  EXPECT_EQ(body,
            std::string(998, 'x') + "\r\n" + std::string(998, 'x') + "\r\n" +
                std::string(504, 'x') + "\r\n");
}

TEST(Mail, TextsOfOursFitTheScreen) {
  const std::string site = "https://audio.example.com";
  const std::string link = site + "/console/#login=" + make_token().text;
  const Instant at = head().at;
  for (const MailText& text : {sign_in_mail(link),
                               sign_up_mail(link),
                               mail_change_mail(site, link),
                               notice_mail(Notice::kPasswordSet, site, at),
                               notice_mail(Notice::kPasskeyAdded, site, at),
                               notice_mail(Notice::kManagingKeyMade, site, at),
                               notice_mail(Notice::kMailChanged, site, at),
                               notice_mail(Notice::kIssuerLinked, site, at),
                               notice_mail(Notice::kIssuerUnlinked, site, at),
                               notice_mail(Notice::kAccountDeleted, site, at)}) {
    EXPECT_THAT(text.subject, Not(HasSubstr("\n")));
    EXPECT_LE(text.subject.size(), 69U);
    std::string_view left = text.body;
    EXPECT_TRUE(left.ends_with('\n'));
    while (!left.empty()) {
      const auto line = left.substr(0, left.find('\n'));
      EXPECT_LE(line.size(), 100U) << line;
      left.remove_prefix(line.size() + 1);
    }
  }
  EXPECT_THAT(sign_in_mail(link).body, HasSubstr("\n" + link + "\n"));
}

TEST(MailRequest, IsAnAddressInLowerCase) {
  EXPECT_EQ(*parse_mail_address(R"({"email":"Ann@Example.COM"})"), "ann@example.com");
  struct Case {
    const char* body;
    const char* param;
  };
  for (const Case& c : {Case{"", ""},
                        Case{"[]", ""},
                        Case{"{}", "email"},
                        Case{R"({"email":1})", "email"},
                        Case{R"({"email":"hunter2"})", "email"},
                        Case{R"({"email":"a@b\r\nBcc: c@d"})", "email"},
                        Case{R"({"email":"a@b","email":"a@b"})", "email"},
                        Case{R"({"email":"a@b","token":"x"})", "token"},
                        Case{R"({"email":"a@b","HUNTER2":"x"})", ""}}) {
    const auto parsed = parse_mail_address(c.body);
    ASSERT_FALSE(parsed) << c.body;
    EXPECT_EQ(parsed.error().code, ApiErrorCode::kInvalidRequest);
    EXPECT_EQ(parsed.error().param.value_or(""), c.param) << c.body;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("hunter2")));
  }
}

TEST(MailRequest, IsATokenOrNoneThatEverWas) {
  const NewToken token = make_token();
  EXPECT_EQ(*parse_mail_token(R"({"token":")" + token.text + R"("})"), token.hash);
  EXPECT_EQ(*parse_mail_token(R"({"token":"x"})"), std::nullopt);
  EXPECT_EQ(parse_mail_token(R"({"token":null})").error().param, "token");
  EXPECT_EQ(parse_mail_token(R"({"token":")" + std::string(257, 'x') + R"("})").error().param,
            "token");
}

TEST(MailRequest, EndsAnAccount) {
  const auto asked = parse_account_end(R"({"email":"Ann@Example.com"})");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->email, "ann@example.com");
  EXPECT_FALSE(asked->forfeits_credits) << "only for whoever says so";
  EXPECT_TRUE(parse_account_end(R"({"forfeit_credits":true,"email":"a"})")->forfeits_credits);
  EXPECT_FALSE(parse_account_end(R"({"forfeit_credits":false,"email":"a"})")->forfeits_credits);
  EXPECT_EQ(parse_account_end(R"({"forfeit_credits":1,"email":"a"})").error().param,
            "forfeit_credits");
  EXPECT_EQ(parse_account_end(R"({"forfeit_credits":true})").error().param, "email");
  EXPECT_EQ(parse_account_end(R"({"email":")" + std::string(255, 'x') + R"("})").error().param,
            "email");
}

}  // namespace
}  // namespace audiogen
