// Reading the environment: defaults, every bad value at once, secrets never shown.
#include "common/base/config.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace audiogen {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Of this process alone: young_boot.unit runs the same tests beside it.
std::string own_file() {
  return testing::TempDir() + "audiogen-config-" + std::to_string(::getpid());
}

// A process environment with the three required variables; put back as it was at the end.
class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    set("DATABASE_URL", "mysql://app:db%3Asecret@127.0.0.1:3307/audio");
    set("AMQP_URL", "amqp://app:mq-secret@127.0.0.1:5673/jobs");
    set("BLOB_URL", "file:///var/lib/audio");
    for (const char* name : {"BRAND",
                             "LISTEN",
                             "OPS_LISTEN",
                             "PUBLIC_URL",
                             "CDN_URL",
                             "PROVIDERS_FILE",
                             "RATE_LIMIT_CREATE_PER_MINUTE",
                             "TASK_DEADLINE_SECONDS",
                             "WORKER_IN_FLIGHT",
                             "DRAIN_SECONDS",
                             "URL_POLICY",
                             "URL_DENY",
                             "REFERENCES_MAX_MB",
                             "REFERENCES_SECONDS",
                             "REFERENCES_FOLDER",
                             "LOG_LEVEL",
                             "LOG_FORMAT",
                             "ACCESS_LOG",
                             "AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "CONTACT",
                             "EGRESS_PROXY",
                             "EGRESS_DIRECT",
                             "OPS_TOKEN",
                             "CDN_SIGNING_KEY",
                             "CDN_SIGNING_KEY_OLD",
                             "BLOB_SIGNING_KEY",
                             "BLOB_SIGNING_KEY_OLD",
                             "BLOB_UNSEALED",
                             "OUTPUT_TTL_SECONDS",
                             "OUTPUT_RETENTION_DAYS",
                             "ATTEMPTS_RETENTION_DAYS",
                             "SANDBOX",
                             "TRUSTED_PROXIES",
                             "CONNECTIONS_MAX",
                             "CONNECTIONS_PER_ADDRESS",
                             "BODY_BUDGET_MB",
                             "ANSWER_BUDGET_MB",
                             "CONSOLE",
                             "CONSOLE_DIR",
                             "SMTP_URL",
                             "MAIL_FROM",
                             "SIGNUP",
                             "OIDC_ISSUER",
                             "OIDC_CLIENT_ID",
                             "OIDC_CLIENT_SECRET",
                             "VOICE_PREVIEWS_DIR",
                             "DATABASE_URL_FILE"}) {
      unset(name);
    }
  }
  void TearDown() override {
    for (auto at = saved_.rbegin(); at != saved_.rend(); ++at) {
      if (at->second) {
        setenv(at->first.c_str(), at->second->c_str(), 1);
      } else {
        unsetenv(at->first.c_str());
      }
    }
  }

  void set(const char* name, const std::string& value) {
    save(name);
    setenv(name, value.c_str(), 1);
  }
  void unset(const char* name) {
    save(name);
    unsetenv(name);
  }

 private:
  void save(const char* name) {
    const char* value = std::getenv(name);
    saved_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(ConfigTest, DefaultsAreAsPublished) {
  const auto config = load_config(Program::kApi);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->model_name(), "svc-audio-1.0");
  EXPECT_EQ(config->listen.text(), "127.0.0.1:8080");
  EXPECT_EQ(config->ops_listen.text(), "127.0.0.1:8081");
  EXPECT_EQ(config->public_url, "http://127.0.0.1:8080");
  EXPECT_EQ(config->cdn_url, "http://127.0.0.1:8080/files");
  EXPECT_EQ(config->create_per_minute, 600);
  EXPECT_EQ(config->create_burst, 100);
  EXPECT_EQ(config->read_per_minute, 3000);
  EXPECT_EQ(config->read_burst, 300);
  EXPECT_EQ(config->unauthenticated_per_minute, 300);
  EXPECT_EQ(config->task_deadline_seconds, 900);
  EXPECT_EQ(config->worker_in_flight, 200);
  EXPECT_EQ(config->url_policy, UrlPolicy::kPublic);
  EXPECT_TRUE(config->trusted_proxies.empty());
  EXPECT_EQ(config->connections_max, 16384);
  EXPECT_EQ(config->connections_per_address, 1000);
  EXPECT_EQ(config->body_budget_mb, 64);
  EXPECT_EQ(config->answer_budget_mb, 64);
  EXPECT_EQ(load_config(Program::kWorker)->ops_listen.text(), "127.0.0.1:8082");
}

// What signs people in must not be readable on the way, and the pages' paths begin at the root.
TEST_F(ConfigTest, TheConsoleNeedsAnAddressForItsCookie) {
  for (const char* good : {"",
                           "https://audio.example.com",
                           "https://audio.example.com:8443/",
                           "http://127.0.0.1:8080",
                           "http://localhost:8080",
                           "http://[::1]:8080"}) {
    set("PUBLIC_URL", good);
    const auto config = load_config(Program::kApi);
    ASSERT_TRUE(config) << good << ": " << config.error().front();
    EXPECT_TRUE(config->console);
    EXPECT_EQ(config->console_dir, "");
  }
  for (const char* bad : {"http://audio.example.com",
                          "http://10.0.0.1:8080",
                          "http://0.0.0.0:8080",
                          "http://localhost.example.com",
                          "https://example.com/audio",
                          "https://user@example.com"}) {
    set("PUBLIC_URL", bad);
    unset("CONSOLE");
    const auto alone = load_config(Program::kApi);
    ASSERT_TRUE(alone) << bad;
    EXPECT_FALSE(alone->console) << "nobody asked for it";
    set("CONSOLE", "on");
    const auto refused = load_config(Program::kApi);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error(), ElementsAre(AllOf(HasSubstr("CONSOLE"), HasSubstr("PUBLIC_URL"))));
    EXPECT_TRUE(load_config(Program::kWorker)) << "not the worker's";
    set("CONSOLE", "off");
    const auto without = load_config(Program::kApi);
    ASSERT_TRUE(without) << bad;
    EXPECT_FALSE(without->console);
  }
  set("CONSOLE", "maybe");
  EXPECT_THAT(load_config(Program::kApi).error(), Contains(HasSubstr("CONSOLE must be one of")));
}

TEST_F(ConfigTest, MailIsByVerifiedTlsOrInTheHouse) {
  const auto smtp = [&](const std::string& url) {
    set("SMTP_URL", url);
    const auto config = load_config(Program::kApi);
    return config ? config->smtp : std::nullopt;
  };
  EXPECT_FALSE(load_config(Program::kApi)->smtp) << "nobody asked for it";
  set("MAIL_FROM", "audio@example.com");
  const auto started = smtp("smtp://me%40example.com:smtp%3Asecret@mail.example.com");
  ASSERT_TRUE(started);
  EXPECT_EQ(started->user, "me@example.com");
  EXPECT_EQ(started->password, "smtp:secret");
  EXPECT_EQ(started->host, "mail.example.com");
  EXPECT_EQ(started->port, 587);
  EXPECT_FALSE(started->tls_first || started->plain);
  const auto first = smtp("smtps://mail.example.com");
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->tls_first);
  EXPECT_EQ(first->port, 465);
  const auto relay = smtp("smtp://relay:2525?tls=off");
  ASSERT_TRUE(relay);
  EXPECT_TRUE(relay->plain);
  EXPECT_EQ(relay->port, 2525);
  const std::string ca = own_file();
  std::ofstream(ca) << "\n";
  EXPECT_EQ(smtp("smtps://mail.example.com?cacertfile=" + ca)->ca, ca);
  std::remove(ca.c_str());
  for (const std::string& bad : {std::string("http://mail.example.com"),
                                 std::string("smtp://"),
                                 std::string("smtp://mail.example.com/path"),
                                 std::string("smtp://mail.example.com:0"),
                                 std::string("smtp://mail example.com"),
                                 std::string("smtp://mail.example.com?tls=on"),
                                 std::string("smtps://mail.example.com?tls=off"),
                                 std::string("smtp://me:secret@mail.example.com?tls=off"),
                                 "smtps://mail.example.com?cacertfile=" + ca}) {
    set("SMTP_URL", bad);
    const auto config = load_config(Program::kApi);
    ASSERT_FALSE(config) << bad;
    EXPECT_THAT(config.error(), Contains(HasSubstr("SMTP_URL must be"))) << bad;
    EXPECT_THAT(config.error(), Not(Contains(HasSubstr("secret"))));
    EXPECT_TRUE(load_config(Program::kWorker)) << "not the worker's";
  }
  set("SMTP_URL", "smtp://me:secret@mail.example.com");
  EXPECT_THAT(print_config(Program::kApi), HasSubstr("SMTP_URL=smtp://***@mail.example.com\n"));
  for (const char* bad : {"", "audio", "Audio <audio@example.com>", "a@b\r\nBcc: c@d"}) {
    set("MAIL_FROM", bad);
    EXPECT_THAT(load_config(Program::kApi).error(), Contains(HasSubstr("MAIL_FROM"))) << bad;
  }
}

TEST_F(ConfigTest, WhoMaySignUp) {
  EXPECT_EQ(load_config(Program::kApi)->sign_up, SignUp::kClosed);
  set("SIGNUP", "invite");
  EXPECT_EQ(load_config(Program::kApi)->sign_up, SignUp::kInvite) << "by an operator's link";
  set("SIGNUP", "open");
  EXPECT_THAT(load_config(Program::kApi).error(),
              ElementsAre(HasSubstr("SIGNUP=open needs SMTP_URL")));
  set("SMTP_URL", "smtps://mail.example.com");
  set("MAIL_FROM", "audio@example.com");
  EXPECT_EQ(load_config(Program::kApi)->sign_up, SignUp::kOpen);
  set("SIGNUP", "everybody");
  EXPECT_THAT(load_config(Program::kApi).error(), Contains(HasSubstr("SIGNUP must be one of")));
}

TEST_F(ConfigTest, AnIssuerIsKnownWholeOrNotAtAll) {
  EXPECT_FALSE(load_config(Program::kApi)->oidc) << "nobody asked for it";
  set("OIDC_ISSUER", "https://login.example.com/realm");
  EXPECT_THAT(load_config(Program::kApi).error(), ElementsAre(HasSubstr("go together")));
  set("OIDC_CLIENT_ID", "console");
  EXPECT_THAT(load_config(Program::kApi).error(), ElementsAre(HasSubstr("go together")));
  set("OIDC_CLIENT_SECRET", "oidc-secret");
  for (const char* good : {"https://login.example.com/realm", "http://127.0.0.1:9"}) {
    set("OIDC_ISSUER", good);
    const auto config = load_config(Program::kApi);
    ASSERT_TRUE(config) << good;
    EXPECT_EQ(config->oidc->issuer, good);
    EXPECT_EQ(config->oidc->client_secret, "oidc-secret");
  }
  set("SIGNUP", "open");
  EXPECT_TRUE(load_config(Program::kApi)) << "the issuer says whose an address is";
  EXPECT_THAT(print_config(Program::kApi), Not(HasSubstr("oidc-secret")));
  for (const char* bad : {"http://login.example.com",
                          "login.example.com",
                          "https://login.example.com/?x=1",
                          "https://login.example.com/#x"}) {
    set("OIDC_ISSUER", bad);
    EXPECT_THAT(load_config(Program::kApi).error(), Contains(HasSubstr("OIDC_ISSUER must be")))
        << bad;
  }
}

TEST_F(ConfigTest, ThePublicAddressAlone) {
  set("PUBLIC_URL", "https://audio.example.com/");
  EXPECT_EQ(*load_public_url(), "https://audio.example.com");
  unset("PUBLIC_URL");
  EXPECT_EQ(*load_public_url(), "http://127.0.0.1:8080");
  set("LISTEN", "127.0.0.1:9");
  EXPECT_EQ(*load_public_url(), "http://127.0.0.1:9");
  set("LISTEN", "x");
  EXPECT_FALSE(load_public_url());
}

TEST_F(ConfigTest, HowLongAWorkerDrains) {
  const auto usual = load_config(Program::kWorker);
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->drain_seconds, 0) << "as its providers need";
  set("DRAIN_SECONDS", "900");
  EXPECT_EQ(load_config(Program::kWorker)->drain_seconds, 900);
  set("DRAIN_SECONDS", "901");
  EXPECT_FALSE(load_config(Program::kWorker));
  EXPECT_TRUE(load_config(Program::kApi)) << "it is the worker's";
}

// Each output's address would lead to audio-api, which has no files then.
TEST_F(ConfigTest, WhoDeliversWhatLiesInS3IsToSay) {
  set("BLOB_URL", "s3://audio?region=eu-west-3");
  set("AWS_ACCESS_KEY_ID", "id");
  set("AWS_SECRET_ACCESS_KEY", "secret");
  EXPECT_TRUE(load_config(Program::kWorker));
  const auto wrong = load_config(Program::kApi);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error(), testing::ElementsAre(HasSubstr("CDN_URL is required")));
  set("CDN_URL", "https://cdn.example.com");
  EXPECT_TRUE(load_config(Program::kApi));
}

TEST_F(ConfigTest, WhatReferencesMayUse) {
  const auto usual = load_config(Program::kWorker);
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->references_max_mb, 256);
  EXPECT_EQ(usual->references_seconds, 30);
  EXPECT_EQ(usual->references_folder, "/var/tmp");
  EXPECT_TRUE(usual->url_deny.empty());
  set("URL_DENY", "203.0.114.0/24,64:ff9b:7::/96,198.51.101.9");
  const auto config = load_config(Program::kWorker);
  ASSERT_TRUE(config);
  ASSERT_EQ(config->url_deny.size(), 3U);
  EXPECT_EQ(config->url_deny[1].bits, 96);
  for (const char* wrong :
       {"203.0.114.0/24,", "203.0.114.0/24;10.0.0.0/8", "203.0.114.1/24", "x"}) {
    set("URL_DENY", wrong);
    EXPECT_EQ(load_config(Program::kWorker).error().size(), 1U) << wrong;
  }
  set("REFERENCES_MAX_MB", "1");
  set("REFERENCES_SECONDS", "0");
  EXPECT_EQ(load_config(Program::kWorker).error().size(), 3U);
  EXPECT_TRUE(load_config(Program::kApi)) << "not the API's";
}

TEST_F(ConfigTest, AddressesAreTakenApart) {
  set("PUBLIC_URL", "https://api.example.com/");
  const auto config = load_config(Program::kApi);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->database.user, "app");
  EXPECT_EQ(config->database.password, "db:secret");
  EXPECT_EQ(config->database.host, "127.0.0.1");
  EXPECT_EQ(config->database.port, 3307);
  EXPECT_EQ(config->database.database, "audio");
  EXPECT_EQ(config->amqp.vhost, "jobs");
  EXPECT_EQ(config->amqp.port, 5673);
  EXPECT_EQ(config->cdn_url, "https://api.example.com/files");
}

// Whoever connects by it looks up what it is given, brackets and all.
TEST_F(ConfigTest, AnIpv6AddressStandsInBrackets) {
  const auto broker = [&](const std::string& address) {
    set("AMQP_URL", "amqp://app:pw@" + address);
    return load_amqp_url();
  };
  const auto whole = broker("[::1]:5673/jobs");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->host, "::1");
  EXPECT_EQ(whole->port, 5673);
  EXPECT_EQ(whole->vhost, "jobs");
  const auto short_form = broker("[2001:db8::1]");
  ASSERT_TRUE(short_form) << "without a port";
  EXPECT_EQ(short_form->host, "2001:db8::1");
  EXPECT_EQ(short_form->port, 5672);
  for (const char* bad :
       {"[::1", "[::1:5672/", "[]:5672/", "[::1]x:5672/", "[::1]:/", "[::1]:1:5672/", "x[::1]/"}) {
    EXPECT_FALSE(broker(bad)) << bad;
  }
  set("DATABASE_URL", "mysql://app:pw@[::1]:3307/audio");
  const auto database = load_database_url();
  ASSERT_TRUE(database);
  EXPECT_EQ(database->host, "::1");
  EXPECT_EQ(database->port, 3307);

  EXPECT_EQ((HostPort{"::1", 5672}).text(), "[::1]:5672");
  EXPECT_EQ((HostPort{"[::1]", 8080}).text(), "[::1]:8080") << "LISTEN keeps them";
  EXPECT_EQ((HostPort{"mq.example", 5672}).text(), "mq.example:5672");
}

TEST_F(ConfigTest, TlsIsVerifiedOrNotThereAtAll) {
  const std::string pem = own_file();
  std::ofstream(pem) << "any";
  const auto database = [&](const std::string& query) {
    set("DATABASE_URL", "mysql://app:pw@db.example/audio" + query);
    return load_database_url();
  };
  EXPECT_FALSE(database("")->tls);
  EXPECT_FALSE(database("?ssl-mode=DISABLED")->tls);
  const auto by_system = database("?ssl-mode=verify_identity");
  ASSERT_TRUE(by_system && by_system->tls);
  EXPECT_EQ(by_system->tls->ca, "");
  const auto all = database("?ssl-ca=" + pem + "&ssl-cert=" + pem + "&ssl-key=" + pem);
  ASSERT_TRUE(all && all->tls) << "without ssl-mode the certificates ask for TLS";
  EXPECT_EQ(all->tls->key, pem);
  for (const std::string& bad : {std::string("?ssl-mode=required"),
                                 std::string("?ssl-mode=verify_ca"),
                                 std::string("?ssl-mode=preferred"),
                                 "?ssl-mode=disabled&ssl-ca=" + pem,
                                 std::string("?ssl-ca=/nonexistent.pem"),
                                 "?ssl-cert=" + pem,
                                 "?ssl-ca=" + pem + "&ssl-ca=" + pem,
                                 "?socket=/run/db.sock&ssl-ca=" + pem,
                                 std::string("?sslmode=verify_identity")}) {
    const auto refused = database(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("verify_identity")) << bad;
  }

  const auto broker = [&](const std::string& url) {
    set("AMQP_URL", url);
    return load_amqp_url();
  };
  EXPECT_FALSE(broker("amqp://app:pw@mq.example/")->tls);
  const auto secure = broker("amqps://app:pw@mq.example/jobs?cacertfile=" + pem);
  ASSERT_TRUE(secure && secure->tls);
  EXPECT_EQ(secure->tls->ca, pem);
  EXPECT_EQ(secure->port, 5671);
  EXPECT_EQ(secure->vhost, "jobs");
  EXPECT_FALSE(broker("amqp://app:pw@mq.example/?cacertfile=" + pem)) << "would not be used";
  EXPECT_FALSE(broker("amqps://app:pw@mq.example/?verify=verify_none"));
  EXPECT_FALSE(broker("amqps://app:pw@mq.example/?keyfile=" + pem));
  std::remove(pem.c_str());
}

TEST_F(ConfigTest, OnlyTheWorkerHasASandbox) {
  EXPECT_EQ(load_config(Program::kWorker)->sandbox, SandboxPolicy::kBestEffort);
  set("SANDBOX", "required");
  EXPECT_EQ(load_config(Program::kWorker)->sandbox, SandboxPolicy::kRequired);
  set("SANDBOX", "perhaps");
  EXPECT_FALSE(load_config(Program::kWorker));
  EXPECT_TRUE(load_config(Program::kApi));
}

TEST_F(ConfigTest, HowItGoesOut) {
  const auto plain = load_config(Program::kWorker);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->outgoing.proxy, "");
  EXPECT_EQ(plain->outgoing.direct, "localhost,127.0.0.0/8,::1,169.254.0.0/16,fe80::/10");
  set("EGRESS_PROXY", "http://me:pr0xy-secret@proxy.example:3128");
  set("CONTACT", "https://a.example/audio");
  const auto config = load_config(Program::kApi);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->outgoing.proxy, "http://me:pr0xy-secret@proxy.example:3128");
  EXPECT_EQ(config->outgoing.contact, "https://a.example/audio");
  EXPECT_THAT(print_config(Program::kApi), Not(HasSubstr("pr0xy-secret")));
  for (const char* wrong : {"proxy:3128",
                            "socks5://proxy:1080",
                            "http://",
                            "http://proxy:3128/path",
                            "http://proxy.corp",
                            "http://proxy.corp:",
                            "http://proxy.corp:0",
                            "http://proxy.corp:65536",
                            "http://proxy.corp:3128x",
                            "http://:3128",
                            "http://[2001:db8::1]",
                            "http://me:3128@proxy.corp",
                            "http://me@",
                            "http://pro xy"}) {
    set("EGRESS_PROXY", wrong);
    EXPECT_THAT(load_config(Program::kApi).error(),
                ElementsAre(AllOf(HasSubstr("EGRESS_PROXY must be"),
                                  HasSubstr("a port from 1 to 65535"),
                                  Not(HasSubstr("pro xy")))))
        << wrong;
  }
  for (const char* right : {"http://proxy.corp:1", "https://[2001:db8::1]:65535"}) {
    set("EGRESS_PROXY", right);
    EXPECT_EQ(load_config(Program::kApi)->outgoing.proxy, right);
  }
  unset("EGRESS_PROXY");
  for (const char* wrong : {"a) b", "a\r\nX: y", "(a"}) {
    set("CONTACT", wrong);
    EXPECT_THAT(load_config(Program::kApi).error(), ElementsAre(HasSubstr("CONTACT must be")));
  }
}

TEST_F(ConfigTest, EveryBadValueIsToldAtOnceAndNeverQuoted) {
  unset("AMQP_URL");
  set("DATABASE_URL", "postgres://app:db-secret@host/audio");
  set("BRAND", "Not A Brand");
  set("LISTEN", "8080");
  set("RATE_LIMIT_CREATE_PER_MINUTE", "0");
  set("WORKER_IN_FLIGHT", "12x");
  set("URL_POLICY", "none");
  set("LOG_LEVEL", "loud");
  set("CDN_URL", "ftp://cdn");
  set("TRUSTED_PROXIES", "10.0.0.1/8");
  set("CONNECTIONS_MAX", "0");
  set("CONNECTIONS_PER_ADDRESS", "-1");
  const auto config = load_config(Program::kApi);
  ASSERT_FALSE(config);
  const auto& errors = config.error();
  EXPECT_EQ(errors.size(), 12U);
  for (const char* name : {"AMQP_URL",
                           "DATABASE_URL",
                           "BRAND",
                           "LISTEN",
                           "RATE_LIMIT_CREATE_PER_MINUTE",
                           "WORKER_IN_FLIGHT",
                           "URL_POLICY",
                           "LOG_LEVEL",
                           "CDN_URL",
                           "TRUSTED_PROXIES",
                           "CONNECTIONS_MAX",
                           "CONNECTIONS_PER_ADDRESS"}) {
    EXPECT_THAT(errors, Contains(HasSubstr(std::string(name) + " "))) << name;
  }
  EXPECT_THAT(errors, Not(Contains(HasSubstr("secret"))));
}

TEST_F(ConfigTest, ASecretMayComeFromAFile) {
  const std::string path = own_file();
  std::ofstream(path) << "mysql://app:from-file@localhost/audio?socket=/run/db.sock\n";
  unset("DATABASE_URL");
  set("DATABASE_URL_FILE", path);
  const auto config = load_config(Program::kApi);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->database.password, "from-file");
  EXPECT_EQ(config->database.socket, "/run/db.sock");

  set("DATABASE_URL", "mysql://app:other@localhost/audio\n");
  const auto both = load_config(Program::kApi);
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error(), ElementsAre(HasSubstr("both set")));

  // A variable may be made of a file, too.
  unset("DATABASE_URL_FILE");
  const auto of_file = load_config(Program::kApi);
  ASSERT_TRUE(of_file);
  EXPECT_EQ(of_file->database.database, "audio");
  set("DATABASE_URL_FILE", path);

  unset("DATABASE_URL");
  std::remove(path.c_str());
  EXPECT_THAT(
      load_config(Program::kApi).error(),
      ElementsAre("DATABASE_URL_FILE: cannot read " + path + ": No such file or directory"));
}

// It counted as not set: without a word links were no longer signed.
TEST_F(ConfigTest, ASecretIsInNoDirectory) {
  set("CDN_SIGNING_KEY_FILE", testing::TempDir());
  const auto config = load_config(Program::kApi);
  ASSERT_FALSE(config);
  EXPECT_THAT(
      config.error(),
      ElementsAre("CDN_SIGNING_KEY_FILE: cannot read " + testing::TempDir() + ": Is a directory"));
}

TEST_F(ConfigTest, PrintingMasksSecrets) {
  const std::string text = print_config(Program::kApi);
  EXPECT_THAT(text,
              AllOf(HasSubstr("DATABASE_URL=mysql://***@127.0.0.1:3307/audio\n"),
                    HasSubstr("AMQP_URL=amqp://***@127.0.0.1:5673/jobs\n"),
                    HasSubstr("BLOB_URL=file:///var/lib/audio\n"),
                    HasSubstr("RATE_LIMIT_CREATE_BURST=100\n")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST_F(ConfigTest, CallsOfTasksThatMayBeOpenAreKept) {
  EXPECT_EQ(load_config(Program::kWorker)->attempts_retention_days, 90);
  for (const char* days : {"0", "2", "3650"}) {
    set("ATTEMPTS_RETENTION_DAYS", days);
    EXPECT_TRUE(load_config(Program::kWorker)) << days;
  }
  for (const char* days : {"1", "-1", "3651"}) {
    set("ATTEMPTS_RETENTION_DAYS", days);
    EXPECT_THAT(load_config(Program::kWorker).error(),
                ElementsAre(HasSubstr("ATTEMPTS_RETENTION_DAYS")));
  }
}

TEST_F(ConfigTest, AnAccessLogThatWouldWriteNothingIsAnError) {
  EXPECT_FALSE(load_config(Program::kApi)->access_log);
  set("ACCESS_LOG", "on");
  EXPECT_TRUE(load_config(Program::kApi)->access_log);
  set("LOG_LEVEL", "warn");
  const auto config = load_config(Program::kApi);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error(), ElementsAre(HasSubstr("ACCESS_LOG")));
}

TEST_F(ConfigTest, HelpNamesEveryVariableOfTheProgram) {
  EXPECT_THAT(config_help(Program::kApi), HasSubstr("  LISTEN\n"));
  EXPECT_THAT(config_help(Program::kWorker), Not(HasSubstr("  LISTEN\n")));
  EXPECT_THAT(config_help(Program::kWorker), HasSubstr("WORKER_IN_FLIGHT"));
}

}  // namespace
}  // namespace audiogen
