// The two programs as an operator meets them: configuration, refusals to start, help, admin output.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/places.h"
#include "tests/support/stack.h"
#include "tests/support/test_broker.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

TEST(Programs, ReportEveryBadVariableAtOnce) {
  for (const char* name : {"audio-api", "audio-worker"}) {
    std::vector<std::string> argv = {program_path(name)};
    if (std::string(name) == "audio-api") {
      argv.emplace_back("serve");
    }
    const Output output = run(argv,
                              {{"BRAND", "Not A Brand"},
                               {"DATABASE_URL", "postgres://x"},
                               {"AMQP_URL", ""},
                               {"BLOB_URL", "relative/path"},
                               {"WORKER_IN_FLIGHT", "0"},
                               {"LOG_LEVEL", "loud"}});
    EXPECT_EQ(output.code, 2) << name;
    for (const char* variable :
         {"BRAND", "DATABASE_URL", "AMQP_URL", "BLOB_URL", "WORKER_IN_FLIGHT", "LOG_LEVEL"}) {
      EXPECT_NE(output.out.find(variable), std::string::npos) << name << " " << variable << "\n"
                                                              << output.out;
    }
  }
}

TEST(Programs, HelpAndPrintedConfigurationMaskSecrets) {
  for (const char* name : {"audio-api", "audio-worker"}) {
    const Output help = run({program_path(name), "--help"}, {});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("DATABASE_URL"), std::string::npos);
    const Output shown = run({program_path(name), "--print-config"},
                             {{"DATABASE_URL", "mysql://u:hunter2@127.0.0.1/db"},
                              {"AMQP_URL", "amqp://u:hunter3@127.0.0.1/"}});
    EXPECT_EQ(shown.code, 0);
    EXPECT_EQ(shown.out.find("hunter"), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find("***@127.0.0.1"), std::string::npos) << shown.out;
  }
  EXPECT_EQ(run({program_path("audio-api"), "admin", "--help"}, {}).code, 0);
}

TEST(Programs, RefuseADatabaseWithoutTheSchema) {
  const TestDatabase empty(TestDatabase::Tables::kNone);
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  auto variables = stack.environment();
  const std::string& url = variables["DATABASE_URL"];
  const auto from = url.rfind('/', url.find('?') == std::string::npos ? url.size() : url.find('?'));
  const auto to = url.find('?');
  variables["DATABASE_URL"] = url.substr(0, from + 1) + empty.url().database +
                              (to == std::string::npos ? "" : url.substr(to));
  for (const std::vector<std::string>& program : std::vector<std::vector<std::string>>{
           {program_path("audio-api"), "serve"}, {program_path("audio-worker")}}) {
    const Output output = run(program, variables);
    EXPECT_EQ(output.code, 1) << program[0];
    EXPECT_NE(output.out.find("migrate"), std::string::npos) << output.out;
    std::istringstream lines(output.out);
    int errors = 0;
    for (std::string line; std::getline(lines, line);) {
      errors += line.find(R"("level":"error")") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(errors, 1) << "one clear line: " << output.out;
  }
  // What changes the schema or the rights is recorded, and what changes nothing is not.
  const std::vector<std::string> actions{program_path("audio-api"), "admin", "actions", "--json"};
  EXPECT_EQ(run({program_path("audio-api"), "migrate"}, variables).code, 0);
  EXPECT_EQ(run({program_path("audio-api"), "migrate"}, variables).code, 0);
  EXPECT_EQ(
      run({program_path("audio-api"), "grants", "--api", "nobody@nowhere.invalid"}, variables).code,
      1);
  rapidjson::Document record;
  record.Parse(run(actions, variables).out.c_str());
  ASSERT_TRUE(record.IsObject());
  ASSERT_EQ(record["actions"].Size(), 2U);
  EXPECT_STREQ(record["actions"][0]["action"].GetString(), "grants");
  EXPECT_STREQ(record["actions"][0]["target"].GetString(), "api=nobody@nowhere.invalid");
  EXPECT_STREQ(record["actions"][0]["result"].GetString(), "failed");
  EXPECT_STREQ(record["actions"][1]["action"].GetString(), "migrate");
  EXPECT_STREQ(record["actions"][1]["result"].GetString(), "ok");
  EXPECT_THAT(record["actions"][1]["detail"].GetString(), testing::StartsWith("0001, 0002"));
}

TEST(Programs, GrantsWithoutAnAccountAreRefused) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--print"}}) {
    std::vector<std::string> argv = {program_path("audio-api"), "grants"};
    argv.insert(argv.end(), more.begin(), more.end());
    // Nobody answers there: it is refused before anything is asked.
    const Output output = run(argv, {{"DATABASE_URL", "mysql://u:x@127.0.0.1:1/x"}});
    EXPECT_EQ(output.code, 2);
    for (const char* const option : {"--api", "--worker", "--admin"}) {
      EXPECT_THAT(output.out, testing::HasSubstr(option));
    }
  }
}

TEST(Programs, APortInUseIsOneClearLine) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Output output = run({program_path("audio-api"), "serve"}, stack.environment());
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.out.find("in use"), std::string::npos) << output.out;
}

TEST(Admin, SaysWhatIsWrong) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"user", "show", "--user", "nobody@example.com"},
                                             {"user", "create", "--email", "not-an-address"},
                                             {"user", "create"},
                                             {"credits",
                                              "grant",
                                              "--user",
                                              "nobody@example.com",
                                              "--credits",
                                              "5",
                                              "--kind",
                                              "purchase",
                                              "--reference",
                                              "r"},
                                             {"key", "delete", "--key", "key_nonsense"},
                                             {"task", "show", "aud_nonsense"},
                                             {"nonsense"}}) {
    const Output output = stack.admin_raw(arguments);
    EXPECT_NE(output.code, 0) << arguments[0];
    EXPECT_FALSE(output.out.empty()) << arguments[0];
  }
  stack.admin({"user", "create", "--email", "ann@example.com", "--plan", "paid"});
  const auto audit = stack.admin({"audit"});
  EXPECT_TRUE(audit["ok"].GetBool());
  EXPECT_GE(audit["checks"].Size(), 10U);
}

// As on a host where nobody has read in the settings of the API.
TEST(Admin, GivesAKeyNoSecretOfAnotherBrand) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  options.environment["BRAND"] = "acme";
  Stack stack(options);
  stack.admin({"user", "create", "--email", "ann@example.com", "--plan", "paid"});
  const auto made = stack.admin({"key", "create", "--user", "ann@example.com", "--name", "k"});
  const std::vector<std::string> rotate = {program_path("audio-api"),
                                           "admin",
                                           "key",
                                           "rotate",
                                           "--key",
                                           made["id"].GetString(),
                                           "--overlap-hours",
                                           "0"};
  auto variables = stack.environment();
  variables["DATABASE_URL"] = stack.database_url("admin");
  variables.erase("BRAND");
  const Output refused = run(rotate, variables);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, testing::HasSubstr("BRAND is svc here"));
  const auto kept = stack.admin({"key", "list", "--user", "ann@example.com"});
  EXPECT_STREQ(kept["keys"][0]["prefix"].GetString(), made["prefix"].GetString());
  const auto record = stack.admin({"actions", "--limit", "1"});
  EXPECT_STREQ(record["actions"][0]["action"].GetString(), "key rotate");
  EXPECT_STREQ(record["actions"][0]["result"].GetString(), "refused");
  variables["BRAND"] = "acme";
  EXPECT_EQ(run(rotate, variables).code, 0);
  const auto rotated = stack.admin({"key", "list", "--user", "ann@example.com"});
  EXPECT_STRNE(rotated["keys"][0]["prefix"].GetString(), made["prefix"].GetString());
}

TEST(Admin, PausesTheIntakeAndSaysWhy) {
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  EXPECT_NE(stack.admin_raw({"intake", "pause"}).code, 0) << "why?";
  EXPECT_FALSE(stack.admin({"intake", "show"})["paused"].GetBool());
  stack.admin({"intake", "pause", "--reason", "the database moves", "--as", "ann"});
  const auto now = stack.admin({"intake", "show"});
  EXPECT_TRUE(now["paused"].GetBool());
  EXPECT_STREQ(now["by"].GetString(), "ann");
  EXPECT_STREQ(now["reason"].GetString(), "the database moves");
  stack.admin({"intake", "resume", "--reason", "it has moved"});
  EXPECT_FALSE(stack.admin({"intake", "show"})["paused"].GetBool());
  const auto record = stack.admin({"actions"});
  ASSERT_EQ(record["actions"].Size(), 2U);
  EXPECT_STREQ(record["actions"][0]["action"].GetString(), "intake resume");
  EXPECT_STREQ(record["actions"][1]["action"].GetString(), "intake pause");
}

TEST(Admin, DeadMessagesAreListedShownAndDropped) {
  Stack stack;
  const auto dead = [&] { return stack.admin({"dead", "list"}); };
  while (dead()["messages"].Size() > 0) {  // Those that others have left.
    stack.admin({"dead", "drop", "--all", "--reason", "of an earlier test"});
  }
  const AmqpUrl broker = parse_broker_url(stack.environment()["AMQP_URL"]);
  publish(broker, "no json");
  publish(broker, std::string("\0\xFF", 2));
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return dead()["messages"].Size() == 2; }));
  const auto all = dead();
  EXPECT_TRUE(all["whole"].GetBool());
  const auto& first = all["messages"][0];
  EXPECT_THAT(first["why"].GetString(), testing::HasSubstr("no list of hints"));
  EXPECT_STREQ(first["queue"].GetString(), "audiogen.jobs.v1");
  EXPECT_EQ(first["bytes"].GetInt(), 7);
  EXPECT_TRUE(first["died_at"].IsString());
  EXPECT_EQ(stack.admin({"dead", "list", "--limit", "1"})["messages"].Size(), 1U);

  const std::string id = first["id"].GetString(), other = all["messages"][1]["id"].GetString();
  const auto shown = stack.admin({"dead", "show", id});
  EXPECT_STREQ(shown["body"].GetString(), "no json");
  bool reason = false;
  for (const auto& header : shown["headers"].GetArray()) {
    reason = reason || (std::string(header["name"].GetString()) == "x-death.0.reason" &&
                        std::string(header["value"].GetString()) == "rejected");
  }
  EXPECT_TRUE(reason);
  const auto binary = stack.admin({"dead", "show", other});
  EXPECT_TRUE(binary["body"].IsNull());
  EXPECT_STREQ(binary["body_hex"].GetString(), "00ff");

  EXPECT_NE(stack.admin_raw({"dead", "drop", id}).code, 0) << "why?";
  EXPECT_NE(stack.admin_raw({"dead", "drop", "--reason", "x"}).code, 0) << "which?";
  EXPECT_NE(stack.admin_raw({"dead", "drop", "nonsense", "--reason", "x"}).code, 0);
  const auto dropped = stack.admin({"dead", "drop", id, "--reason", "a test's"});
  EXPECT_EQ(dropped["dropped"].GetInt(), 1);
  EXPECT_STREQ(dropped["messages"][0]["body"].GetString(), "no json") << "what is gone is printed";
  const auto left = dead();
  ASSERT_EQ(left["messages"].Size(), 1U);
  EXPECT_EQ(left["messages"][0]["id"].GetString(), other);
  const auto actions = stack.admin({"actions", "--limit", "1"});
  const auto& row = actions["actions"][0];
  EXPECT_STREQ(row["action"].GetString(), "dead drop");
  EXPECT_EQ(row["target"].GetString(), id);
  EXPECT_STREQ(row["reason"].GetString(), "a test's");
  EXPECT_THAT(row["message"].GetString(), testing::HasSubstr(id));
  EXPECT_EQ(stack.admin({"dead", "drop", "--all", "--reason", "x"})["dropped"].GetInt(), 1);
  EXPECT_EQ(dead()["messages"].Size(), 0U);

  auto variables = stack.environment();
  variables["AMQP_URL"] = "amqp://u:hunter2@127.0.0.1:1/";
  const Output away =
      run({"/bin/sh", "-c", program_path("audio-api") + " admin dead list 2>&1"}, variables);
  EXPECT_EQ(away.code, 1);
  EXPECT_THAT(away.out, testing::HasSubstr("the broker did not answer (AMQP_URL)"));
  EXPECT_THAT(away.out, testing::Not(testing::HasSubstr("hunter2")));
}

}  // namespace
}  // namespace audiogen::test
