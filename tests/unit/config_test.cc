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

namespace audiogen {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// NOLINTBEGIN(concurrency-mt-unsafe): one thread.
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
                             "URL_POLICY",
                             "LOG_LEVEL",
                             "LOG_FORMAT",
                             "AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "CDN_SIGNING_KEY",
                             "OUTPUT_TTL_SECONDS",
                             "OUTPUT_RETENTION_DAYS",
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

// NOLINTEND(concurrency-mt-unsafe)

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
  EXPECT_EQ(load_config(Program::kWorker)->ops_listen.text(), "127.0.0.1:8082");
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
  const auto config = load_config(Program::kApi);
  ASSERT_FALSE(config);
  const auto& errors = config.error();
  EXPECT_EQ(errors.size(), 9U);
  for (const char* name : {"AMQP_URL",
                           "DATABASE_URL",
                           "BRAND",
                           "LISTEN",
                           "RATE_LIMIT_CREATE_PER_MINUTE",
                           "WORKER_IN_FLIGHT",
                           "URL_POLICY",
                           "LOG_LEVEL",
                           "CDN_URL"}) {
    EXPECT_THAT(errors, Contains(HasSubstr(std::string(name) + " "))) << name;
  }
  EXPECT_THAT(errors, Not(Contains(HasSubstr("secret"))));
}

TEST_F(ConfigTest, ASecretMayComeFromAFile) {
  const std::string path = testing::TempDir() + "audiogen_config_test_secret";
  std::ofstream(path) << "mysql://app:from-file@localhost/audio?socket=/run/db.sock\n";
  unset("DATABASE_URL");
  set("DATABASE_URL_FILE", path);
  const auto config = load_config(Program::kApi);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->database.password, "from-file");
  EXPECT_EQ(config->database.socket, "/run/db.sock");

  set("DATABASE_URL", "mysql://app:other@localhost/audio");
  const auto both = load_config(Program::kApi);
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error(), ElementsAre(HasSubstr("both set")));

  unset("DATABASE_URL");
  std::remove(path.c_str());
  EXPECT_THAT(load_config(Program::kApi).error(), ElementsAre(HasSubstr("cannot read")));
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

TEST_F(ConfigTest, HelpNamesEveryVariableOfTheProgram) {
  EXPECT_THAT(config_help(Program::kApi), HasSubstr("  LISTEN\n"));
  EXPECT_THAT(config_help(Program::kWorker), Not(HasSubstr("  LISTEN\n")));
  EXPECT_THAT(config_help(Program::kWorker), HasSubstr("WORKER_IN_FLIGHT"));
}

}  // namespace
}  // namespace audiogen
