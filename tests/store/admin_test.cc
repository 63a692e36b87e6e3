// `audio-api admin` on a real database: every command's output, for programs and for people.
#include "api/admin/admin.h"

#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "common/domain/api_key.h"
#include "common/domain/sign_in.h"
#include "common/store/accounts.h"
#include "common/store/task_store.h"
#include "common/store/web_sessions.h"
#include "tests/support/dates.h"
#include "tests/support/test_database.h"

namespace audiogen::api {
namespace {

using store::Accounts;
using store::Claim;
using store::CreateCommand;
using store::kOperatorPatience;
using store::Session;
using store::Sql;
using store::TaskStore;
using store::WebSessions;
using test::TestDatabase;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

struct Output {
  int code = 0;
  std::string out, err;
};

Output admin(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  const int code = run_admin(args, out, err);
  return {code, out.str(), err.str()};
}

// The JSON a successful command prints; null after a failure, which fails the test.
rapidjson::Document json(std::vector<std::string> args) {
  args.emplace_back("--json");
  const Output output = admin(args);
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_THAT(output.err, IsEmpty());
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 1) << output.out;
  rapidjson::Document document;
  document.Parse(output.out.c_str());
  EXPECT_TRUE(document.IsObject()) << output.out;
  return document;
}

std::vector<std::string> members(const rapidjson::Value& object) {
  std::vector<std::string> out;
  for (const auto& [name, value] : object.GetObject()) {
    out.emplace_back(name.GetString());
  }
  return out;
}

class Admin : public testing::Test {
 protected:
  void SetUp() override {
    const DatabaseUrl& url = db_.url();
    const std::string text = "mysql://" + url.user + ":" + url.password + "@" + url.host + ":" +
                             std::to_string(url.port) + "/" + url.database +
                             (url.socket.empty() ? "" : "?socket=" + url.socket);
    ::setenv("DATABASE_URL", text.c_str(), 1);
    ::setenv("BRAND", "acme", 1);
    ::unsetenv("AMQP_URL");
  }

  // A user with credits and its id.
  UserId user_with_credits() {
    const auto made = json({"user", "create", "--email", "ann@example.com", "--plan", "paid"});
    json({"credits",
          "grant",
          "--user",
          "ann@example.com",
          "--credits",
          "1000",
          "--kind",
          "purchase",
          "--reference",
          "inv-1"});
    return *UserId::parse(made["id"].GetString());
  }

  TaskId create(UserId user) {
    CreateCommand command{.id = TaskId::make(), .user = user, .request = R"({"prompt":"secret"})"};
    EXPECT_TRUE(tasks_.create(std::span(&command, 1)).front());
    return command.id;
  }

  TestDatabase db_;
  TaskStore tasks_{db_.url()};
};

TEST_F(Admin, UserCommands) {
  const auto made = json({"user", "create", "--email", "Ann@Example.com"});
  EXPECT_THAT(members(made), ElementsAre("id", "email", "plan"));
  EXPECT_THAT(made["id"].GetString(), StartsWith("usr_"));
  EXPECT_STREQ(made["email"].GetString(), "ann@example.com");
  EXPECT_STREQ(made["plan"].GetString(), "free");
  const auto shown = json({"user", "show", "--user", made["id"].GetString()});
  EXPECT_THAT(
      members(shown),
      ElementsAre("id", "email", "plan", "api_access", "available_credits", "reserved_credits"));
  EXPECT_FALSE(shown["api_access"].GetBool());
  EXPECT_EQ(shown["available_credits"].GetInt(), 0);
  const auto paid = json({"user", "plan", "--user", "ann@example.com", "--plan", "paid"});
  EXPECT_STREQ(paid["plan"].GetString(), "paid");
  EXPECT_TRUE(paid["api_access"].GetBool());
}

TEST_F(Admin, SignsAUserOutEverywhere) {
  json({"user", "create", "--email", "a@b"});
  json({"user", "create", "--email", "c@d"});
  Session session(db_.url(), kOperatorPatience);
  for (const char* const email : {"a@b", "a@b", "c@d"}) {
    const auto user = Accounts(session).resolve(email);
    const NewToken link = make_token();
    ASSERT_TRUE(WebSessions(session).add_link(*user, link.hash));
    ASSERT_TRUE(WebSessions(session).open_by_link(
        link.hash, {.id = SessionId::make(), .token_hash = make_token().hash}));
  }
  const auto out = json({"user", "sign-out", "--user", "a@b", "--reason", "lost a laptop"});
  EXPECT_THAT(members(out), ElementsAre("id", "ended_sessions"));
  EXPECT_EQ(out["ended_sessions"].GetInt(), 2);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM sessions")), 1) << "another's goes on";
  EXPECT_EQ(json({"user", "sign-out", "--user", "a@b"})["ended_sessions"].GetInt(), 0);
  EXPECT_NE(admin({"user", "sign-out", "--user", "x@y"}).code, 0);
  const auto actions = json({"actions", "--limit", "3"});
  EXPECT_STREQ(actions["actions"][0]["result"].GetString(), "refused");
  const auto& done = actions["actions"][2];
  EXPECT_STREQ(done["action"].GetString(), "user sign-out");
  EXPECT_STREQ(done["target"].GetString(), "a@b");
  EXPECT_STREQ(done["reason"].GetString(), "lost a laptop");
  EXPECT_STREQ(done["result"].GetString(), "ok");
}

TEST_F(Admin, CreditsAreExactNumbers) {
  json({"user", "create", "--email", "a@b"});
  const auto grant = [](const char* credits, const char* kind, const char* reference) {
    return json({"credits",
                 "grant",
                 "--user",
                 "a@b",
                 "--credits",
                 credits,
                 "--kind",
                 kind,
                 "--reference",
                 reference});
  };
  auto granted = grant("18.755", "purchase", "1");
  EXPECT_EQ(granted["available_credits"].GetDouble(), 18.755);
  EXPECT_FALSE(granted["repeated"].GetBool());
  EXPECT_TRUE(grant("18.755", "purchase", "1")["repeated"].GetBool());
  granted = grant("-8.7", "adjustment", "2");
  EXPECT_EQ(granted["available_credits"].GetDouble(), 10.055);
  granted = grant("1.5", "bonus", "3");
  granted = json(
      {"credits", "grant", "--user=a@b", "--credits=-1.555", "--kind=adjustment", "--reference=4"});
  EXPECT_TRUE(granted["available_credits"].IsInt());
  EXPECT_EQ(granted["available_credits"].GetInt(), 10);
  for (const char* bad : {"",
                          "1e3",
                          "1.2345",
                          ".5",
                          "5.",
                          "+5",
                          "1,5",
                          "x",
                          "--5",
                          "0x10",
                          " 5",
                          "99999999999999",
                          "0",
                          "0.000"}) {
    const Output output = admin({"credits",
                                 "grant",
                                 "--user",
                                 "a@b",
                                 "--credits",
                                 bad,
                                 "--kind",
                                 "bonus",
                                 "--reference",
                                 "bad"});
    EXPECT_EQ(output.code, 1) << bad;
    EXPECT_THAT(output.err, HasSubstr("--credits")) << bad;
  }
}

TEST_F(Admin, KeyCommands) {
  user_with_credits();
  const auto key = json({"key", "create", "--user", "ann@example.com", "--name", "lap \"top\""});
  EXPECT_THAT(members(key),
              ElementsAre("id",
                          "name",
                          "prefix",
                          "scopes",
                          "expires_at",
                          "spend_limit",
                          "period",
                          "spent_credits",
                          "key"));
  EXPECT_THAT(key["key"].GetString(), StartsWith("acme_live_"));
  EXPECT_TRUE(api_key_hash(key["key"].GetString(), "acme"));
  const auto listed = json({"key", "list", "--user", "ann@example.com"});
  ASSERT_EQ(listed["keys"].Size(), 1U);
  EXPECT_THAT(members(listed["keys"][0]),
              ElementsAre("id",
                          "name",
                          "prefix",
                          "scopes",
                          "expires_at",
                          "previous_key_expires_at",
                          "spend_limit",
                          "period",
                          "spent_credits",
                          "created_at",
                          "last_used_at",
                          "deleted_at"));
  EXPECT_STREQ(listed["keys"][0]["scopes"].GetString(), "generate");
  EXPECT_TRUE(listed["keys"][0]["expires_at"].IsNull());
  EXPECT_STREQ(listed["keys"][0]["name"].GetString(), "lap \"top\"");
  EXPECT_TRUE(listed["keys"][0]["deleted_at"].IsNull());
  const Output people = admin({"key", "list", "--user", "ann@example.com"});
  EXPECT_THAT(people.out, HasSubstr(key["prefix"].GetString()));
  EXPECT_THAT(people.out, Not(HasSubstr(key["key"].GetString())));

  const auto deleted = json({"key", "delete", "--key", key["id"].GetString()});
  EXPECT_TRUE(deleted["deleted_at"].IsString());
  EXPECT_FALSE(deleted["repeated"].GetBool());
  const Output again = admin({"key", "delete", "--key", key["id"].GetString()});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("It was deleted before"));
  EXPECT_EQ(admin({"key", "delete", "--key", KeyId::make().text()}).code, 1);
  EXPECT_EQ(admin({"key", "delete", "--key", "nonsense"}).code, 1);
}

TEST_F(Admin, AKeyIsGivenALimit) {
  user_with_credits();
  const std::vector<std::string> create = {
      "key", "create", "--user", "ann@example.com", "--name", "k"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), create.begin(), create.end());
    return options;
  };
  const auto key = json(with({"--spend-limit", "1000", "--period", "month"}));
  EXPECT_EQ(key["spend_limit"].GetInt(), 1000);
  EXPECT_STREQ(key["period"].GetString(), "month");
  EXPECT_EQ(key["spent_credits"].GetInt(), 0);
  const auto listed = json({"key", "list", "--user", "ann@example.com"});
  EXPECT_EQ(listed["keys"][0]["spend_limit"].GetInt(), 1000);
  EXPECT_EQ(listed["keys"][0]["spent_credits"].GetInt(), 0);
  EXPECT_TRUE(json(with({}))["spend_limit"].IsNull());
  for (const char* const bad : {"149", "150.5", "1000000001", "many", "-1000"}) {
    const Output refused = admin(with({"--spend-limit=" + std::string(bad), "--period", "day"}));
    EXPECT_EQ(refused.code, 1) << bad;
    EXPECT_THAT(refused.err, HasSubstr("--spend-limit must be a whole number")) << bad;
  }
  for (const auto& half : {std::vector<std::string>{"--spend-limit", "1000"},
                           std::vector<std::string>{"--period", "day"},
                           std::vector<std::string>{"--spend-limit", "1000", "--period", "week"}}) {
    EXPECT_EQ(admin(with(half)).code, 1) << half.front();
  }
  EXPECT_EQ(json({"key", "list", "--user", "ann@example.com"})["keys"].Size(), 2U);
  EXPECT_THAT(admin({"actions"}).out, HasSubstr("spend_limit=1000 a month"));
}

TEST_F(Admin, AKeyIsGivenAnotherSecret) {
  user_with_credits();
  const auto key = json({"key", "create", "--user", "ann@example.com", "--name", "k"});
  const std::string id = key["id"].GetString();
  const auto rotate = [&](const std::string& hours) {
    return std::vector<std::string>{"key", "rotate", "--key", id, "--overlap-hours", hours};
  };
  const auto rotated = json(rotate("24"));
  EXPECT_STREQ(rotated["id"].GetString(), id.c_str());
  EXPECT_TRUE(rotated["previous_key_expires_at"].IsString());
  EXPECT_STRNE(rotated["key"].GetString(), key["key"].GetString());
  EXPECT_TRUE(api_key_hash(rotated["key"].GetString(), "acme"));
  EXPECT_TRUE(json(rotate("0"))["previous_key_expires_at"].IsNull());
  const std::string done = admin({"actions"}).out;
  EXPECT_THAT(done, HasSubstr("key rotate"));
  EXPECT_THAT(done, HasSubstr("overlap_hours=24"));
  EXPECT_THAT(done, Not(HasSubstr(rotated["key"].GetString())));
  for (const char* const hours : {"-1", "169", "1.5", "many"}) {
    EXPECT_EQ(admin(rotate(hours)).code, 1) << hours;
  }
  EXPECT_EQ(admin({"key", "rotate", "--key", id}).code, 1) << "never by default";
  EXPECT_EQ(admin({"key", "rotate", "--key", "nonsense", "--overlap-hours", "1"}).code, 1);
  json({"key", "delete", "--key", id});
  EXPECT_THAT(admin(rotate("1")).err, HasSubstr("--key: there is no key " + id));
}

// Takes what is written and cannot put it anywhere, as a file on a full disk.
class FullDisk : public std::stringbuf {
  int sync() override { return -1; }
};

TEST_F(Admin, AnAnswerThatCannotBeWrittenIsAFailure) {
  user_with_credits();
  ::setenv("PUBLIC_URL", "https://audio.example.com", 1);
  const auto unseen = [](const std::vector<std::string>& args) {
    FullDisk disk;
    std::ostream out(&disk);
    std::ostringstream err;
    EXPECT_EQ(run_admin(args, out, err), 1) << args[0];
    EXPECT_EQ(std::count(err.view().begin(), err.view().end(), '\n'), 1) << err.view();
    return err.str();
  };
  EXPECT_THAT(unseen({"user", "show", "--user", "ann@example.com"}),
              AllOf(HasSubstr("the answer could not be written"), Not(HasSubstr("done"))));
  const std::string made =
      unseen({"key", "create", "--user", "ann@example.com", "--name", "k", "--json"});
  const auto listed = json({"key", "list", "--user", "ann@example.com"});
  const std::string id = listed["keys"][0]["id"].GetString();
  EXPECT_THAT(made,
              AllOf(StartsWith(R"({"error":{"message":"done, but the answer could not)"),
                    HasSubstr("delete " + id + " and make another")));
  EXPECT_THAT(unseen({"key", "rotate", "--key", id, "--overlap-hours", "24"}),
              AllOf(StartsWith("audio-api admin: done, but the answer could not be written"),
                    HasSubstr("rotate the key again")));
  EXPECT_THAT(unseen({"user", "login-link", "--user", "ann@example.com"}),
              HasSubstr("make another"));
  EXPECT_THAT(unseen({"user", "invite", "--email", "bob@example.com"}), HasSubstr("make another"));
  const auto answer = json({"actions", "--limit", "4"});
  for (const auto& row : answer["actions"].GetArray()) {
    EXPECT_STREQ(row["result"].GetString(), "ok") << row["action"].GetString();
  }
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM admin_actions")), 6);
}

TEST_F(Admin, AKeyIsGivenScopesAndAnEnd) {
  user_with_credits();
  const auto create = [](const std::string& option, const std::string& value) {
    return std::vector<std::string>{
        "key", "create", "--user", "ann@example.com", "--name", "k", option, value};
  };
  EXPECT_STREQ(json(create("--scopes", "generate,manage"))["scopes"].GetString(),
               "generate,manage");
  EXPECT_STREQ(json(create("--scopes", "manage"))["scopes"].GetString(), "manage");
  const Instant end = test::days_ahead(1000);
  EXPECT_EQ(json(create("--expires", test::an_hour_east(end)))["expires_at"].GetString(),
            format_iso(end));
  EXPECT_THAT(admin(create("--scopes", "root")).err, HasSubstr("--scopes must be"));
  EXPECT_THAT(admin(create("--expires", "tomorrow")).err, HasSubstr("--expires must be a date"));
  EXPECT_THAT(admin(create("--expires", "2020-01-01T00:00:00Z")).err,
              HasSubstr("--expires must be in the future"));
}

TEST_F(Admin, ABadBrandIsRefusedBeforeAKeyIsStored) {
  user_with_credits();
  ::setenv("BRAND", "Not A Brand", 1);
  const Output output = admin({"key", "create", "--user", "ann@example.com", "--name", "n"});
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.err, HasSubstr("BRAND must be"));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys")), 0);
}

TEST_F(Admin, TaskCommands) {
  const UserId user = user_with_credits();
  const TaskId first = create(user), second = create(user);
  const auto listed =
      json({"task", "list", "--user", "ann@example.com", "--status", "queued", "--limit", "1"});
  ASSERT_EQ(listed["tasks"].Size(), 1U);
  EXPECT_EQ(listed["tasks"][0]["id"].GetString(), second.text());
  EXPECT_STREQ(listed["tasks"][0]["status"].GetString(), "queued");
  EXPECT_EQ(json({"task", "list"})["tasks"].Size(), 2U);
  EXPECT_EQ(json({"task", "list", "--status", "failed"})["tasks"].Size(), 0U);

  const Hint hint{.task = first, .epoch = 0};
  ASSERT_TRUE((*tasks_
                    .claim(std::span(&hint, 1),
                           WorkerId::make(),
                           [](const Claim&) { return std::string("local"); })
                    .front()));
  const auto shown = json({"task", "show", first.text()});
  EXPECT_STREQ(shown["status"].GetString(), "running");
  EXPECT_STREQ(shown["public_status"].GetString(), "processing");
  EXPECT_EQ(shown["reserved_credits"].GetInt(), 150);
  EXPECT_TRUE(shown["charged_credits"].IsNull());
  EXPECT_STREQ(shown["attempts"][0]["provider"].GetString(), "local");
  EXPECT_STREQ(shown["ledger"][0]["kind"].GetString(), "hold");
  ASSERT_EQ(shown["timeline"].Size(), 4U);
  EXPECT_STREQ(shown["timeline"][0]["event"].GetString(), "created, 150 reserved");
  EXPECT_STREQ(shown["timeline"][1]["event"].GetString(), "call 1 to local started");
  EXPECT_STREQ(shown["timeline"][2]["event"].GetString(), "lease ends unless renewed");
  EXPECT_STREQ(shown["timeline"][3]["event"].GetString(), "deadline");
  EXPECT_THAT(admin({"task", "show", first.text()}).out, Not(HasSubstr("secret")));

  const auto canceled = json({"task", "cancel", first.text()});
  EXPECT_STREQ(canceled["status"].GetString(), "canceled");
  const Output again = admin({"task", "cancel", first.text()});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("has ended already"));
  const auto ended = json({"task", "show", first.text()});
  const auto& timeline = ended["timeline"];
  EXPECT_STREQ(timeline[timeline.Size() - 1]["event"].GetString(),
               "canceled, 0 charged, 150 returned");
  EXPECT_EQ(admin({"task", "cancel", TaskId::make().text()}).code, 1);
  EXPECT_EQ(admin({"task", "show", "aud_nonsense"}).code, 1);
  EXPECT_EQ(admin({"task", "retry", first.text()}).code, 1);
}

TEST_F(Admin, QueueMergesWhatLivingWorkersReport) {
  const UserId user = user_with_credits();
  create(user);
  const auto report = [&](const char* status) {
    const WorkerId id = WorkerId::make();
    EXPECT_TRUE(tasks_.report_worker(
        id, "host", 7, {.in_flight = 2, .places = 200, .status_json = status}));
    return id;
  };
  report(R"({"providers":[{"name":"a","state":"ready","in_flight":2},
             {"name":"b","state":"ready","in_flight":1}]})");
  report(R"({"providers":[{"name":"a","state":"open","in_flight":3},{"name":7},"x"]})");
  report("not json");
  const WorkerId gone = report(R"({"providers":[{"name":"gone","state":"ready","in_flight":9}]})");
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 1 HOUR WHERE id=") << gone);

  const auto queue = json({"queue"});
  EXPECT_THAT(members(queue),
              ElementsAre("verdict",
                          "as_of",
                          "ready",
                          "in_flight",
                          "waiting_retry",
                          "parked",
                          "exact",
                          "oldest_seconds",
                          "arrivals_per_second",
                          "completions_per_second",
                          "done_per_minute",
                          "failed_per_minute",
                          "service_seconds_p50",
                          "drain_seconds",
                          "intake_paused_since",
                          "intake_paused_by",
                          "intake_paused_reason",
                          "credits_held",
                          "dead",
                          "workers",
                          "providers",
                          "apis",
                          "failed"));
  EXPECT_EQ(queue["ready"].GetInt(), 1);
  for (const char* const unknown : {"dead",
                                    "completions_per_second",
                                    "done_per_minute",
                                    "service_seconds_p50",
                                    "drain_seconds"}) {
    EXPECT_TRUE(queue[unknown].IsNull()) << unknown << ": unknown is never 0";
  }
  EXPECT_TRUE(queue["exact"].GetBool());
  EXPECT_EQ(queue["workers"].Size(), 4U);
  ASSERT_EQ(queue["providers"].Size(), 2U);
  EXPECT_STREQ(queue["providers"][0]["name"].GetString(), "a");
  EXPECT_STREQ(queue["providers"][0]["state"].GetString(), "open");
  EXPECT_EQ(queue["providers"][0]["in_flight"].GetInt(), 5);
  EXPECT_TRUE(queue["providers"][0]["limit"].IsNull());
  EXPECT_EQ(queue["providers"][1]["in_flight"].GetInt(), 1);
}

TEST_F(Admin, WhatIsStuckIsListedByItsCause) {
  const UserId user = user_with_credits();
  const TaskId old = create(user), older = create(user);
  create(user);
  EXPECT_EQ(json({"stuck"})["tasks"].Size(), 0U) << "none is two minutes old";
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 125 SECOND WHERE id=") << old);
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 200 SECOND, state=2, "
                  "lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND WHERE id=")
              << older);
  const auto all = json({"stuck"});
  EXPECT_TRUE(all["whole"].GetBool());
  ASSERT_EQ(all["tasks"].Size(), 2U);
  EXPECT_EQ(all["tasks"][0]["id"].GetString(), older.text());
  EXPECT_STREQ(all["tasks"][0]["cause"].GetString(), "worker_lost");
  EXPECT_GE(all["tasks"][0]["age_seconds"].GetInt(), 200);
  EXPECT_STREQ(all["tasks"][1]["cause"].GetString(), "no_worker");
  ASSERT_EQ(all["causes"].Size(), 2U);
  EXPECT_EQ(all["causes"][0]["tasks"].GetInt(), 1);
  const auto one = json({"stuck", "--limit", "1"});
  EXPECT_EQ(one["tasks"].Size(), 1U);
  EXPECT_EQ(one["causes"].Size(), 2U) << "all of them count";
}

TEST_F(Admin, EveryCallToAProviderIsExplained) {
  test::wait_out_midnight();
  std::uint32_t calls = 0;
  const auto fill = [&](std::uint32_t days_ago,
                        std::uint32_t outcome,
                        std::optional<std::int64_t> cost,
                        std::int64_t took) {
    const TaskId task{first_uuid_at(*tasks_.now() - std::chrono::days(days_ago))};
    Sql sql(
        "INSERT INTO provider_calls (task_id, n, provider, outcome, sent_at, took_ms, "
        "first_byte_ms, audio_ms, cost, earned) VALUES (");
    sql << task << "," << ++calls << ",'primary'," << outcome << ",UTC_DATE() - INTERVAL "
        << days_ago << " DAY," << took << ",";
    const bool delivered = outcome == 1;
    sql << (delivered ? std::optional<std::int64_t>(100) : std::nullopt) << ","
        << (delivered ? std::optional<std::int64_t>(60'000) : std::nullopt) << "," << cost << ","
        << (delivered ? std::optional<std::int64_t>(75'000) : std::nullopt) << ")";
    db_.execute(sql);
  };
  EXPECT_EQ(json({"providers"})["days"].Size(), 0U);
  for (std::uint32_t outcome = 1; outcome <= kCallOutcomes.size(); ++outcome) {
    fill(0, outcome, outcome == 7 ? std::nullopt : std::optional<std::int64_t>(1'500), 1'000);
  }
  fill(0, 1, 20'000, 9'000);
  fill(1, 1, 2, 40);
  fill(8, 1, 5, 40);
  const auto found = json({"providers", "--credit-value", "0.002"});
  ASSERT_EQ(found["days"].Size(), 2U) << "seven days, today among them";
  const auto& today = found["days"][1];
  EXPECT_STREQ(today["provider"].GetString(), "primary");
  EXPECT_EQ(today["calls"].GetInt(), 8);
  EXPECT_EQ(today["delivered"].GetInt(), 2);
  int explained = 0;
  for (const CallOutcome outcome : kCallOutcomes) {
    explained += today[std::string(call_outcome_name(outcome)).c_str()].GetInt();
  }
  EXPECT_EQ(explained, 8);
  EXPECT_EQ(today["calls_of_unknown_cost"].GetInt(), 1);
  EXPECT_NEAR(today["p50_ms"].GetInt(), 1'000, 100);
  EXPECT_NEAR(today["p95_ms"].GetInt(), 9'000, 900);
  EXPECT_NEAR(today["first_byte_p50_ms"].GetInt(), 100, 10);
  EXPECT_EQ(today["audio_ms"].GetInt(), 120'000);
  EXPECT_DOUBLE_EQ(today["cost"].GetDouble(), 0.029);
  EXPECT_DOUBLE_EQ(today["wasted"].GetDouble(), 0.0075);
  for (const char* const why : {"undelivered", "failed", "unknown", "beaten", "dropped"}) {
    EXPECT_DOUBLE_EQ(today[("wasted_" + std::string(why)).c_str()].GetDouble(), 0.0015) << why;
  }
  EXPECT_DOUBLE_EQ(today["earned_credits"].GetDouble(), 150);
  EXPECT_DOUBLE_EQ(today["margin"].GetDouble(), 0.271);
  EXPECT_DOUBLE_EQ(found["days"][0]["cost"].GetDouble(), 0.000002);
  EXPECT_EQ(json({"providers", "--days", "1"})["days"].Size(), 1U);
  EXPECT_EQ(json({"providers", "--days", "9"})["days"].Size(), 3U);
  EXPECT_TRUE(json({"providers"})["days"][0]["margin"].IsNull()) << "what is a credit worth?";
  EXPECT_THAT(admin({"providers"}).out, HasSubstr("nobody knows the cost"));
  EXPECT_THAT(admin({"providers", "--credit-value", "much"}).err, HasSubstr("--credit-value must"));
  EXPECT_EQ(admin({"providers", "--days", "0"}).code, 1);
  EXPECT_EQ(admin({"providers", "--days", "91"}).code, 1);
}

TEST_F(Admin, AuditFailsUnlessAllIsWell) {
  const UserId user = user_with_credits();
  const auto sound = json({"audit"});
  EXPECT_TRUE(sound["ok"].GetBool());
  EXPECT_THAT(members(sound["checks"][0]), ElementsAre("name", "bad"));
  EXPECT_EQ(admin({"audit"}).code, 0);
  db_.execute(Sql("UPDATE balances SET available=available+1 WHERE user_id=") << user);
  const Output output = admin({"audit", "--json"});
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, AllOf(HasSubstr(R"("ok":false)"), HasSubstr(R"("bad":1)")));
}

TEST_F(Admin, PeopleReadColumns) {
  user_with_credits();
  EXPECT_THAT(admin({"user", "show", "--user", "ann@example.com"}).out,
              MatchesRegex("id +usr_[0-9a-z]+\n"
                           "email +ann@example.com\n"
                           "plan +paid\n"
                           "api access +yes\n"
                           "available credits  1000\n"
                           "reserved credits +0\n"));
  EXPECT_EQ(admin({"key", "list", "--user", "ann@example.com"}).out, "keys: none\n");
  json({"key", "create", "--user", "ann@example.com", "--name", "\xC3\xA4 b"});
  EXPECT_THAT(
      admin({"key", "list", "--user", "ann@example.com"}).out,
      MatchesRegex("keys:\n"
                   "id +name +prefix +scopes +expires at +previous key expires at +spend "
                   "limit +period +spent credits +created at +last used at +deleted at\n"
                   "key_[0-9a-z]+ +\xC3\xA4 b +acme_live_[^ ]+ +generate +- +- +- +- +- +[^ ]+Z +- "
                   "+-\n"));
}

TEST_F(Admin, ControlCharactersNeverReachTheTerminal) {
  user_with_credits();
  EXPECT_TRUE(
      tasks_.report_worker(WorkerId::make(), "ho\x1B[31mst", 7, {.in_flight = 2, .places = 200}));
  EXPECT_THAT(admin({"queue"}).out, AllOf(HasSubstr("ho?[31mst"), Not(HasSubstr("\x1B"))));
}

TEST_F(Admin, FailuresAreOneLine) {
  const std::vector<std::vector<std::string>> mistakes = {
      {},
      {"nonsense"},
      {"user"},
      {"user", "create"},
      {"user", "create", "--email", "a@b", "--plan", "gold"},
      {"user", "create", "--email", "a@b", "--nonsense"},
      {"user", "show", "--user", "nobody@b"},
      {"user", "show", "--user", ""},
      {"credits", "grant", "--user", "a@b", "--credits", "1", "--kind", "gift", "--reference", "r"},
      {"task", "list", "--status", "lost"},
      {"task", "list", "--status", ""},
      {"task", "list", "--user", ""},
      {"task", "list", "--limit", "0"},
      {"task", "list", "--limit", "-1"},
      {"task", "list", "--limit", "many"},
      {"task", "show"}};
  for (std::vector<std::string> args : mistakes) {
    const Output plain = admin(args);
    EXPECT_EQ(plain.code, 1) << testing::PrintToString(args);
    EXPECT_THAT(plain.out, IsEmpty()) << testing::PrintToString(args);
    EXPECT_THAT(plain.err, StartsWith("audio-api admin: ")) << testing::PrintToString(args);
    EXPECT_EQ(std::count(plain.err.begin(), plain.err.end(), '\n'), 1) << plain.err;
    args.emplace_back("--json");
    const Output machine = admin(args);
    EXPECT_EQ(machine.code, 1);
    EXPECT_THAT(machine.out, IsEmpty());
    rapidjson::Document error;
    error.Parse(machine.err.c_str());
    ASSERT_TRUE(error.IsObject()) << machine.err;
    EXPECT_GT(error["error"]["message"].GetStringLength(), 0U);
  }
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users")), 0);
}

// The store knows no options: the words are the command line's.
TEST_F(Admin, RefusalsNameTheOption) {
  user_with_credits();
  json({"user", "create", "--email", "bob@example.com"});
  const auto gone = json({"user", "create", "--email", "gone@example.com"});
  db_.execute(Sql("UPDATE users SET deleted_at=UTC_TIMESTAMP(6) WHERE email='gone@example.com'"));
  const auto grant = [](const char* user,
                        const char* credits,
                        const char* kind,
                        const std::string& reference) -> std::vector<std::string> {
    return {"credits",
            "grant",
            "--user",
            user,
            "--credits",
            credits,
            "--kind",
            kind,
            "--reference",
            reference};
  };
  const std::string task = TaskId::make().text(), key = KeyId::make().text();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"user", "create", "--email", "nonsense"}, "--email must be an address"},
      {{"user", "create", "--email", "Ann@example.com"},
       "--email: ann@example.com has an account already (usr_"},
      {{"user", "show", "--user", "nonsense"}, "--user must be an email address or a user id"},
      {{"user", "plan", "--user", "Nobody@b", "--plan", "paid"},
       "--user: there is no user Nobody@b"},
      {{"user", "plan", "--user", "gone@example.com", "--plan", "paid"},
       std::string("--user: the owner of ") + gone["id"].GetString() + " has ended the account"},
      {{"task", "list", "--user", "nobody@b"}, "--user: there is no user nobody@b"},
      {{"key", "list", "--user", "nobody@b"}, "--user: there is no user nobody@b"},
      {{"key", "create", "--user", "ann@example.com", "--name", "a\tb"}, "--name must be 1 to 100"},
      {{"key", "delete", "--key", key}, "--key: there is no key " + key},
      {{"task", "show", task}, "there is no task " + task},
      {{"task", "cancel", task}, "there is no task " + task},
      {grant("nobody@b", "1", "bonus", "r"), "--user: there is no user nobody@b"},
      {grant("gone@example.com", "1", "bonus", "r"), "has ended the account"},
      {grant("ann@example.com", "0", "bonus", "r"), "--credits must not be 0"},
      {grant("ann@example.com", "-1", "bonus", "r"), "only --kind adjustment may"},
      {grant("ann@example.com", "1", "bonus", "a b"), "--reference must be 1 to 128"},
      {grant("bob@example.com", "1000", "purchase", "inv-1"),
       "--reference inv-1 was booked already with another user"},
      {grant("ann@example.com", "-1000.5", "adjustment", "r"),
       "--credits takes more than the 1000 credits that are available"},
      {grant("ann@example.com", format_credits(kBalanceMax).c_str(), "bonus", "r"),
       "--credits would give the user more than"},
  };
  for (const auto& [args, words] : cases) {
    const Output output = admin(args);
    EXPECT_EQ(output.code, 1) << words;
    EXPECT_THAT(output.err, HasSubstr(words));
  }
}

TEST_F(Admin, NeedsTheDatabaseAlone) {
  ::setenv("DATABASE_URL", "mysql://u:hunter2@127.0.0.1:1/db", 1);
  const Output away = admin({"queue"});
  EXPECT_EQ(away.code, 1);
  EXPECT_THAT(away.err, AllOf(HasSubstr("the database is away"), Not(HasSubstr("hunter2"))));
  ::unsetenv("DATABASE_URL");
  const Output missing = admin({"queue"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("DATABASE_URL is required"));
  EXPECT_EQ(admin({"--help"}).code, 0);
}

TEST_F(Admin, EveryCommandExplainsItself) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"user", "create"},
                                             {"user", "show"},
                                             {"user", "plan"},
                                             {"credits", "grant"},
                                             {"key", "create"},
                                             {"key", "list"},
                                             {"key", "rotate"},
                                             {"key", "delete"},
                                             {"task", "list"},
                                             {"task", "show"},
                                             {"task", "cancel"},
                                             {"queue"},
                                             {"stuck"},
                                             {"providers"},
                                             {"audit"}}) {
    auto args = words;
    args.emplace_back("--help");
    const Output help = admin(args);
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Example:"), HasSubstr("--json")));
    EXPECT_THAT(help.err, IsEmpty());
  }
}

TEST_F(Admin, EveryChangeIsARow) {
  user_with_credits();
  const auto key = json({"key",
                         "create",
                         "--user",
                         "ann@example.com",
                         "--name",
                         "laptop",
                         "--as",
                         "Ann of Support",
                         "--reason",
                         "ticket 17"});
  json({"key", "delete", "--key", key["id"].GetString()});
  EXPECT_EQ(admin({"task", "cancel", TaskId::make().text()}).code, 1);
  EXPECT_EQ(admin({"user", "create", "--email", "ann@example.com"}).code, 1);
  EXPECT_EQ(admin({"credits",
                   "grant",
                   "--user",
                   "ann@example.com",
                   "--credits",
                   "x",
                   "--kind",
                   "bonus",
                   "--reference",
                   "r"})
                .code,
            1);
  json({"user", "show", "--user", "ann@example.com"});  // Changes nothing: no row.

  const auto answer = json({"actions", "--limit", "6"});
  const auto& rows = answer["actions"];
  const auto text = [&](rapidjson::SizeType i, const char* name) {
    return rows[i][name].IsString() ? std::string(rows[i][name].GetString()) : "null";
  };
  ASSERT_EQ(rows.Size(), 6U);
  EXPECT_EQ(text(0, "action"), "credits grant");
  EXPECT_EQ(text(0, "result"), "refused");
  EXPECT_THAT(text(0, "message"), HasSubstr("--credits must be a number"));
  EXPECT_EQ(text(0, "detail"), "credits=x kind=bonus reference=r");
  EXPECT_EQ(text(1, "action"), "user create");
  EXPECT_EQ(text(1, "result"), "refused");
  EXPECT_EQ(text(2, "action"), "task cancel");
  EXPECT_EQ(text(2, "result"), "refused");
  EXPECT_THAT(text(2, "message"), HasSubstr("there is no task"));
  EXPECT_EQ(text(3, "action"), "key delete");
  EXPECT_EQ(text(3, "target"), key["id"].GetString());
  EXPECT_EQ(text(3, "result"), "ok");
  EXPECT_EQ(text(3, "reason"), "null");
  EXPECT_THAT(text(3, "who"), MatchesRegex(".+@.+"));
  EXPECT_EQ(text(4, "who"), "Ann of Support");
  EXPECT_EQ(text(4, "reason"), "ticket 17");
  EXPECT_EQ(text(4, "target"), "ann@example.com");
  EXPECT_EQ(text(4, "message"), key["id"].GetString()) << "which one";
  EXPECT_EQ(text(5, "action"), "credits grant");
  EXPECT_EQ(text(5, "result"), "ok");
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM admin_actions")), 7);
  EXPECT_EQ(json({"actions", "--limit", "1"})["actions"].Size(), 1U);
  EXPECT_THAT(admin({"actions", "--json"}).out, Not(HasSubstr(key["key"].GetString())));
}

TEST_F(Admin, WhatCannotBeRecordedIsNotDone) {
  user_with_credits();
  const auto key = json({"key", "create", "--user", "ann@example.com", "--name", "k"});
  db_.execute(Sql("ALTER TABLE admin_actions ADD CONSTRAINT no_mallory CHECK (who<>'mallory')"));
  const auto by_mallory = [](std::vector<std::string> args) {
    args.insert(args.end(), {"--as", "mallory"});
    const Output output = admin(args);
    EXPECT_EQ(output.code, 1) << args[0];
    EXPECT_THAT(output.err, HasSubstr("this could not be recorded"));
  };
  by_mallory({"user", "create", "--email", "bob@example.com"});
  by_mallory({"user", "plan", "--user", "ann@example.com", "--plan", "free"});
  by_mallory({"credits",
              "grant",
              "--user",
              "ann@example.com",
              "--credits",
              "1",
              "--kind",
              "bonus",
              "--reference",
              "r2"});
  by_mallory({"key", "create", "--user", "ann@example.com", "--name", "k2"});
  by_mallory({"key", "delete", "--key", key["id"].GetString()});
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users WHERE plan=1")), 1);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM users")), 1);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM grants")), 1);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys WHERE deleted_at IS NULL")), 1);
}

TEST_F(Admin, WhatTheDatabasePreventsIsRecordedAsFailed) {
  user_with_credits();
  store::Session other(db_.url(), {.idle_in_transaction_max = std::chrono::seconds(60)});
  other.execute(Sql("BEGIN"));
  ASSERT_TRUE(other.query(Sql("SELECT user_id FROM balances FOR UPDATE")).next());
  EXPECT_EQ(admin({"credits",
                   "grant",
                   "--user",
                   "ann@example.com",
                   "--credits",
                   "1",
                   "--kind",
                   "bonus",
                   "--reference",
                   "r2"})
                .code,
            1);
  const auto answer = json({"actions", "--limit", "1"});
  EXPECT_STREQ(answer["actions"][0]["result"].GetString(), "failed");
  EXPECT_THAT(answer["actions"][0]["message"].GetString(),
              HasSubstr("another session of the database holds the rows"));
}

// A backup, or an ALTER TABLE: the server is there, and the operator is to know who is in the way.
TEST_F(Admin, ALockedTableIsNoDatabaseThatIsAway) {
  const TaskId task = create(db_.add_user());
  // MySQL has one limit for all that a session leaves idle.
  store::Session other(db_.url(),
                       {.idle_in_transaction_max = std::chrono::seconds(600),
                        .idle_max = std::chrono::seconds(600)});
  other.execute(Sql("LOCK TABLES balances WRITE"));
  // The server says so a second before it would be taken for one that is away. Where a machine is
  // later than that, it is asked again.
  const std::string held = "another session of the database holds the rows";
  Output refused;
  for (int tries = 0; tries < 3 && refused.err.find(held) == std::string::npos; ++tries) {
    refused = admin({"task", "cancel", task.text()});
  }
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr(held));
  other.execute(Sql("UNLOCK TABLES"));
  EXPECT_EQ(admin({"task", "cancel", task.text()}).code, 0);
}

TEST_F(Admin, AWorkerThatIsGoneHoldsNoWork) {
  TaskStore tasks(db_.url());
  const WorkerId working = WorkerId::make(), ended = WorkerId::make(), lost = WorkerId::make();
  for (const WorkerId worker : {working, ended, lost}) {
    ASSERT_TRUE(tasks.report_worker(worker, "h", 1, {.in_flight = 1, .places = 200}));
  }
  ASSERT_TRUE(tasks.report_worker_ended(ended));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 60 SECOND WHERE id=") << lost);
  const auto answer = json({"queue"});
  const auto& workers = answer["workers"];
  ASSERT_EQ(workers.Size(), 3U);
  for (const auto& worker : workers.GetArray()) {
    const std::string id = worker["id"].GetString();
    const std::string state = worker["state"].GetString();
    EXPECT_EQ(state, id == working.text() ? "working" : id == ended.text() ? "ended" : "lost");
    EXPECT_EQ(worker["ended_at"].IsNull(), id != ended.text());
    EXPECT_EQ(worker["in_flight"].GetInt(), id == working.text() ? 1 : 0);
  }
}

}  // namespace
}  // namespace audiogen::api
