// Mails on their way: what is sent, by which connection, what a server can do to it, and whom that
// holds up.
#include "api/console/mailer.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/metrics.h"
#include "tests/support/certificates.h"
#include "tests/support/smtp_double.h"
#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using test::Certificates;
using test::eventually;
using test::ReceivedMail;
using test::SmtpDouble;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Fault = SmtpDouble::Fault;

constexpr auto kLimit = 60s;
constexpr const char* kFrom = "audio@example.com";

SmtpUrl plain(const SmtpDouble& server) {
  return {.host = "127.0.0.1", .port = server.port(), .plain = true};
}

MailerOptions quick() {
  return {.first_pause = 5ms, .pause_max = 40ms};
}

Mail mail(const std::string& to = "ann@example.com") {
  return {.to = to, .text = {"Hello", "One line.\n.\n..two dots\n"}, .kind = "test"};
}

double counted(const char* result) {
  const std::string all = metrics::render();
  const std::string name = "mails_total{result=\"" + std::string(result) + "\"} ";
  const auto at = all.find(name);
  return at == std::string::npos ? 0 : std::stod(all.substr(at + name.size()));
}

bool arrive(const SmtpDouble& server, std::size_t count) {
  return eventually(kLimit, [&] { return server.mails().size() >= count; });
}

TEST(Mailer, AMailArrivesAsItIs) {
  SmtpDouble server;
  Mailer mailer(plain(server), kFrom, quick());
  EXPECT_TRUE(mailer.send(mail()));
  ASSERT_TRUE(arrive(server, 1));
  const ReceivedMail got = server.mails()[0];
  EXPECT_EQ(got.from, kFrom);
  EXPECT_EQ(got.to, "ann@example.com");
  EXPECT_EQ(got.header("From"), "<audio@example.com>");
  EXPECT_EQ(got.header("To"), "<ann@example.com>");
  EXPECT_EQ(got.header("Subject"), "Hello");
  EXPECT_THAT(got.header("Message-ID"), testing::MatchesRegex("<[0-9a-f]{32}@example.com>"));
  EXPECT_THAT(got.header("Date"),
              testing::MatchesRegex("[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} "
                                    "[0-9]{2}:[0-9]{2}:[0-9]{2} \\+0000"));
  EXPECT_EQ(got.body(), "One line.\n.\n..two dots\n");
  EXPECT_THAT(server.plain_lines(), HasSubstr("EHLO example.com\n")) << "nothing of this machine";
}

TEST(Mailer, MailsAreToldApart) {
  SmtpDouble server;
  Mailer mailer(plain(server), kFrom, quick());
  mailer.send(mail());
  mailer.send(mail("bob@example.com"));
  ASSERT_TRUE(arrive(server, 2));
  const auto mails = server.mails();
  EXPECT_NE(mails[0].header("Message-ID"), mails[1].header("Message-ID"));
  EXPECT_EQ(mails[0].to, "ann@example.com") << "first come, first served";
}

// Real certificates of an authority of the test's own.
class MailTls : public testing::TestWithParam<SmtpDouble::Tls> {
 protected:
  SmtpDouble::Options options(const std::string& host = "localhost", int days = 2) {
    const std::string path = testing::TempDir() + "/smtp-" + std::to_string(::getpid());
    certificates_.issue(path, host, days);
    return {.tls = GetParam(),
            .certificate = path + ".pem",
            .key = path + ".key",
            .user = "audio",
            .password = "canary-of-the-password"};
  }
  SmtpUrl url(const SmtpDouble& server, const std::string& ca) const {
    return {.user = "audio",
            .password = "canary-of-the-password",
            .host = "localhost",
            .port = server.port(),
            .tls_first = GetParam() == SmtpDouble::Tls::kFirst,
            .ca = ca};
  }
  // Why it is not taken; what the server has heard meanwhile is in plain_lines().
  static http::MailError refusal(const SmtpUrl& url) {
    const auto sent =
        http::send_mail(url, kFrom, "ann@example.com", "x\r\n", {}, [] { return false; });
    EXPECT_FALSE(sent);
    return sent ? http::MailError{} : sent.error();
  }

  Certificates certificates_;
};

TEST_P(MailTls, IsVerifiedBeforeTheLogin) {
  SmtpDouble server(options());
  Mailer mailer(url(server, certificates_.ca()), kFrom, quick());
  mailer.send(mail());
  ASSERT_TRUE(arrive(server, 1));
  EXPECT_TRUE(server.mails()[0].by_tls);
  EXPECT_EQ(server.mails()[0].login, std::string("audio\0canary-of-the-password", 28));
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("AUTH")));
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("RCPT")));
}

TEST_P(MailTls, OfAnotherAuthorityHearsNothing) {
  SmtpDouble server(options());
  const auto error = refusal(url(server, certificates_.other_ca()));
  EXPECT_EQ(error.fault, http::MailFault::kUnreachable);
  EXPECT_THAT(error.detail, HasSubstr("certificate"));
  EXPECT_THAT(server.mails(), IsEmpty());
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("AUTH")));
}

TEST_P(MailTls, OfAnotherHostHearsNothing) {
  SmtpDouble server(options("mail.example.com"));
  EXPECT_EQ(refusal(url(server, certificates_.ca())).fault, http::MailFault::kUnreachable);
  EXPECT_THAT(server.mails(), IsEmpty());
}

TEST_P(MailTls, OfLastYearHearsNothing) {
  SmtpDouble server(options("localhost", -1));
  EXPECT_EQ(refusal(url(server, certificates_.ca())).fault, http::MailFault::kUnreachable);
  EXPECT_THAT(server.mails(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Ways,
                         MailTls,
                         testing::Values(SmtpDouble::Tls::kStartTls, SmtpDouble::Tls::kFirst),
                         [](const auto& one) {
                           return one.param == SmtpDouble::Tls::kFirst ? "First" : "StartTls";
                         });

class MailStartTls : public MailTls {};

// Somebody in between may take the offer away.
TEST_P(MailStartTls, WithoutAnOfferNothingIsSent) {
  SmtpDouble server(options());
  for (const Fault fault : {Fault::kNoStartTls, Fault::kStartTlsRefused}) {
    server.fail_next({fault});
    const auto error = refusal(url(server, certificates_.ca()));
    EXPECT_EQ(error.fault, http::MailFault::kUnreachable);
    EXPECT_THAT(error.detail, HasSubstr("STARTTLS"));
    EXPECT_THAT(error.detail, Not(HasSubstr("canary")));
  }
  EXPECT_THAT(server.mails(), IsEmpty());
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("AUTH")));
  EXPECT_THAT(server.plain_lines(), Not(HasSubstr("MAIL")));
}

INSTANTIATE_TEST_SUITE_P(Ways, MailStartTls, testing::Values(SmtpDouble::Tls::kStartTls));

TEST(Mailer, AServerThatFailsIsAskedAgain) {
  for (const Fault fault : {Fault::kGoodbye,
                            Fault::kGarbage,
                            Fault::kEndless,
                            Fault::kComeBackLater,
                            Fault::kCutAfterData,
                            Fault::kSilence}) {
    SmtpDouble server;
    server.fail_next({fault, fault});
    MailerOptions options = quick();
    if (fault != Fault::kCutAfterData) {  // Of which each attempt has to bring its copy.
      options.patience = {.connect = 200ms, .total = 500ms};
    }
    Mailer mailer(plain(server), kFrom, options);
    mailer.send(mail());
    const std::size_t copies = fault == Fault::kCutAfterData ? 3 : 1;
    ASSERT_TRUE(arrive(server, copies)) << static_cast<int>(fault);
    for (const ReceivedMail& got : server.mails()) {
      EXPECT_EQ(got.header("Message-ID"), server.mails()[0].header("Message-ID"))
          << "one mail, however often it came";
    }
  }
}

TEST(Mailer, ARefusedMailIsDroppedAndKeepsNobodys) {
  SmtpDouble server;
  const double before = counted("dropped");
  server.fail_next({Fault::kNoSuchRecipient, Fault::kNoData});
  Mailer mailer(plain(server), kFrom, quick());
  mailer.send(mail("gone@example.com"));
  mailer.send(mail("full@example.com"));
  mailer.send(mail());
  ASSERT_TRUE(arrive(server, 1));
  EXPECT_EQ(server.mails()[0].to, "ann@example.com");
  EXPECT_EQ(counted("dropped"), before + 2);
  EXPECT_EQ(server.connections(), 3);
}

TEST(Mailer, OneThatIsRefusedForNowKeepsNobodys) {
  SmtpDouble server;
  server.fail_next({Fault::kComeBackLater});
  MailerOptions options;  // With the usual pauses it would come half a minute later.
  Mailer mailer(plain(server), kFrom, options);
  mailer.send(mail("new@example.com"));
  mailer.send(mail());
  ASSERT_TRUE(arrive(server, 1));
  EXPECT_EQ(server.mails()[0].to, "ann@example.com");
}

TEST(Mailer, WhatIsNotTakenInTimeIsDropped) {
  SmtpDouble server;
  server.fail_always(Fault::kGoodbye);
  const double before = counted("dropped");
  MailerOptions options = quick();
  options.keep_for = 100ms;
  Mailer mailer(plain(server), kFrom, options);
  mailer.send(mail());
  mailer.send(mail());
  EXPECT_TRUE(eventually(kLimit, [&] { return counted("dropped") == before + 2; }));
  server.fail_always(std::nullopt);
  // Again and again: a busy machine may not take one of them in time either.
  ASSERT_TRUE(eventually(kLimit, [&] {
    mailer.send(mail("later@example.com"));
    return !server.mails().empty();
  }));
  EXPECT_EQ(server.mails()[0].to, "later@example.com");
}

TEST(Mailer, TakesNoMoreThanItCanHold) {
  SmtpDouble server;
  server.fail_always(Fault::kSilence);
  const double before = counted("dropped");
  MailerOptions options = quick();
  options.queue_max = 3;
  options.stop_within = 0ms;
  Mailer mailer(plain(server), kFrom, options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(mailer.send(mail()));
  }
  EXPECT_FALSE(mailer.send(mail()));
  EXPECT_EQ(counted("dropped"), before + 1);
  // Though the server says nothing.
  mailer.stop();
  EXPECT_FALSE(mailer.send(mail()));
  EXPECT_EQ(counted("dropped"), before + 5);
}

TEST(Mailer, AnEndSendsWhatWaits) {
  SmtpDouble server;
  {
    Mailer mailer(plain(server), kFrom, {.stop_within = 60s});
    for (int i = 0; i < 5; ++i) {
      mailer.send(mail());
    }
  }
  EXPECT_THAT(server.mails(), SizeIs(5));
}

TEST(Mailer, ALoginThatIsRefusedIsNoFaultOfTheMail) {
  SmtpDouble server({.user = "audio", .password = "right"});
  server.fail_next({Fault::kBadLogin});
  SmtpUrl url = plain(server);
  url.user = "audio";
  url.password = "right";
  const auto refused =
      http::send_mail(url, kFrom, "ann@example.com", "x\r\n", {}, [] { return false; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, http::MailFault::kUnreachable);
  EXPECT_THAT(refused.error().detail, Not(HasSubstr("right")));
  EXPECT_TRUE(http::send_mail(url, kFrom, "ann@example.com", "x\r\n", {}, [] { return false; }));
}

}  // namespace
}  // namespace audiogen::api
