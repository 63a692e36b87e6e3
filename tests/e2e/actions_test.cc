// What operators do to a running service, by the operations port and by the command line.
#include <atomic>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using store::Sql;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kToken = "ops-canary-of-forty-characters-at-the-least";
// As the record has it: printf %s "$OPS_TOKEN" | sha256sum | cut -c1-8
const std::string kWho = "ops token 8061fc21 from 127.0.0.1";

Reply post(const std::string& ops_url, std::string_view body, const std::string& token = kToken) {
  return http("POST", ops_url + "/ops/actions", Stack::bearer(token), body);
}

std::string asks(std::string_view action, std::string_view target, std::string_view more = "") {
  return R"({"action":")" + std::string(action) + R"(","target":")" + std::string(target) +
         R"(","reason":"a test's reason")" + std::string(more) + "}";
}

class ActionsTest : public testing::Test {
 protected:
  static Stack::Options options(const ChainFile& chain) {
    Stack::Options out = chain.options();
    out.workers = 0;
    out.environment["OPS_TOKEN"] = kToken;
    return out;
  }
  std::string create() { return stack_.create(ann_, wav_body("x")).text("id"); }
  std::int64_t column(const std::string& id, const char (&name)[7]) {
    return stack_.database().number(
        Sql("SELECT ") << name << " FROM tasks WHERE id=" << TaskId::parse(id).value());
  }
  bool done(std::string_view action, std::string_view target, std::string_view more = "") {
    const Reply reply = post(stack_.ops_url(), asks(action, target, more));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.text("done"), "true");
    EXPECT_NE(reply.text("detail"), "");
    return reply.status == 200;
  }
  // Of all that was done, the newest first: "action target result".
  std::vector<std::string> record() {
    const auto all = stack_.admin({"actions"});
    std::vector<std::string> out;
    for (const auto& one : all["actions"].GetArray()) {
      if (one["who"].GetString() == kWho) {
        out.push_back(std::string(one["action"].GetString()) + " " + one["target"].GetString() +
                      " " + one["result"].GetString());
      }
    }
    return out;
  }

  std::atomic<bool> hangs_{false};
  DoubleReply reply() const {
    DoubleReply out = wav_reply(0.5);
    out.form = hangs_ ? DoubleReply::Form::kHang : out.form;
    return out;
  }
  ProviderDouble primary_{[this](const DoubleCall&) { return reply(); }};
  ProviderDouble backup_{[](const DoubleCall&) { return wav_reply(0.5); }};
  ChainFile chain_{{openai_entry("primary", primary_, R"(,"timeout_seconds":600)"),
                    openai_entry("backup", backup_)}};
  Stack stack_{options(chain_)};
  Account ann_ = stack_.account();
};

TEST_F(ActionsTest, AreForWhoHasTheToken) {
  const std::string url = stack_.ops_url(), pause = asks("pause_intake", "");
  for (const auto& headers :
       {std::vector<std::string>{}, {"Authorization: Basic " + kToken}, Stack::bearer("guess")}) {
    for (const char* const method : {"POST", "GET"}) {
      const Reply refused = http(method, url + "/ops/actions", headers, pause);
      EXPECT_EQ(refused.status, 401) << refused.body;
      EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
      EXPECT_EQ(refused.header("cache-control"), "no-store");
      EXPECT_THAT(refused.body, Not(HasSubstr(kToken)));
    }
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(post(url, pause, "guess").status, 401);
  }
  const Reply limited = post(url, pause, "guess");
  EXPECT_EQ(limited.status, 429);
  EXPECT_EQ(limited.header("retry-after"), "60");
  EXPECT_THAT(http("GET", url + "/metrics").body,
              HasSubstr("audiogen_operator_tokens_refused_total 11\n"));
  EXPECT_EQ(http("DELETE", url + "/ops/actions", Stack::bearer(kToken)).status, 405);
  EXPECT_EQ(stack_.create(ann_, wav_body("x")).status, 202) << "nothing was done";
  EXPECT_THAT(stack_.api().log(), Not(HasSubstr(kToken)));
}

TEST_F(ActionsTest, WithoutATokenThereAreNone) {
  stack_.api().kill();
  stack_.start_api({{"OPS_TOKEN", ""}});
  EXPECT_EQ(post(stack_.ops_url(), asks("pause_intake", "")).status, 404);
  EXPECT_EQ(post(stack_.ops_url(), asks("pause_intake", ""), "").status, 404);
  EXPECT_EQ(http("GET", stack_.ops_url() + "/ops/actions").status, 404);
}

TEST_F(ActionsTest, AreRecordedWhateverComesOfThem) {
  const std::string id = create();
  const auto key = stack_.admin({"key", "create", "--user", ann_.user, "--name", "other"});
  ASSERT_TRUE(done("cancel_task", id));
  EXPECT_EQ(stack_.get(ann_, id).text("status"), "canceled");
  EXPECT_EQ(credits_of(stack_, ann_, "reserved_credits"), 0);
  const Reply again = post(stack_.ops_url(), asks("cancel_task", id));
  EXPECT_EQ(again.status, 409);
  EXPECT_THAT(again.text("error"), HasSubstr("has ended already"));
  ASSERT_TRUE(done("disable_key", key["prefix"].GetString()));
  EXPECT_TRUE(eventually(30s, [&] {
    return http("GET", stack_.base() + "/account", Stack::bearer(key["key"].GetString())).status ==
           401;
  }));
  const Reply wrong = post(stack_.ops_url(), asks("cancel_task", "aud_nonsense"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.text("field"), "target");
  EXPECT_EQ(post(stack_.ops_url(), R"({"action":"pause_intake"})").text("field"), "reason");
  EXPECT_EQ(post(stack_.ops_url(), std::string(9'000, ' ')).status, 413);
  const std::string worker = WorkerId::make().text();
  EXPECT_EQ(post(stack_.ops_url(), asks("drain_worker", worker)).status, 409);
  EXPECT_THAT(record(),
              ElementsAre("drain_worker " + worker + " refused",
                          std::string("disable_key ") + key["prefix"].GetString() + " ok",
                          "cancel_task " + id + " refused",
                          "cancel_task " + id + " ok"));
  const auto listed =
      http("GET", stack_.ops_url() + "/ops/actions?limit=1", Stack::bearer(kToken)).json();
  ASSERT_EQ(listed["actions"].Size(), 1U);
  const auto& newest = listed["actions"][0];
  EXPECT_EQ(newest["actor"].GetString(), kWho);
  EXPECT_STREQ(newest["action"].GetString(), "drain_worker");
  EXPECT_STREQ(newest["target"].GetString(), worker.c_str());
  EXPECT_STREQ(newest["reason"].GetString(), "a test's reason");
  EXPECT_STREQ(newest["result"].GetString(), "refused");
  for (const char* const limit : {"0", "1001", "x", "1&limit=2", ""}) {
    EXPECT_EQ(
        http("GET", stack_.ops_url() + "/ops/actions?limit=" + limit, Stack::bearer(kToken)).status,
        400)
        << limit;
  }
  stack_.database().expect_invariants();
}

TEST_F(ActionsTest, APausedIntakeRefusesCreationsAtEveryProcess) {
  auto variables = stack_.environment();
  const auto port = free_port();
  variables["DATABASE_URL"] = stack_.database_url("api");
  variables["LISTEN"] = "127.0.0.1:" + std::to_string(port);
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  variables["OPS_LISTEN"] = listen;
  Process second(
      {program_path("audio-api"), "serve"}, variables, stack_.log_folder() + "/second.log");
  ASSERT_TRUE(
      eventually(60s, [&] { return http("GET", "http://" + listen + "/readyz").status == 200; }));
  const std::string other = "http://127.0.0.1:" + std::to_string(port) + "/api/v1";
  const auto at_other = [&] {
    return http("POST",
                other + "/audio/generations",
                Stack::bearer(ann_.key, {"Content-Type: application/json"}),
                wav_body("x"));
  };
  const std::string before = create();
  ASSERT_EQ(at_other().status, 202);
  const auto with_key = [&](const char* key, const std::string& body) {
    return stack_.create(ann_, body, {std::string("Idempotency-Key: ") + key});
  };
  const std::string kept = with_key("kept", wav_body("x")).text("id");

  ASSERT_TRUE(done("pause_intake", ""));
  EXPECT_EQ(post(stack_.ops_url(), asks("pause_intake", "")).status, 409);
  EXPECT_TRUE(eventually(30s, [&] { return stack_.create(ann_, wav_body("x")).status == 503; }));
  EXPECT_TRUE(eventually(30s, [&] { return at_other().status == 503; }));
  const Reply refused = stack_.create(ann_, wav_body("x"));
  EXPECT_EQ(refused.header("retry-after"), "30");
  EXPECT_EQ(refused.text("error.code"), "service_unavailable");
  // Whoever repeats what was accepted is told so: his task goes on, and is paid.
  const Reply again = with_key("kept", wav_body("x"));
  EXPECT_EQ(again.status, 202);
  EXPECT_EQ(again.text("id"), kept);
  EXPECT_EQ(again.header("idempotent-replayed"), "true");
  EXPECT_EQ(with_key("kept", wav_body("y")).status, 409);
  EXPECT_EQ(with_key("new", wav_body("x")).header("retry-after"), "30");
  EXPECT_EQ(stack_.get(ann_, before).status, 200) << "whoever polls goes on";
  EXPECT_EQ(http("GET", other + "/audio/generations/" + before, Stack::bearer(ann_.key)).status,
            200);
  const auto told = stack_.admin({"queue"});
  EXPECT_THAT(told["verdict"].GetString(), HasSubstr("Intake paused by operator: a test's reason"));
  EXPECT_EQ(told["intake_paused_by"].GetString(), kWho);
  EXPECT_TRUE(stack_.admin({"intake", "show"})["paused"].GetBool());
  // What an operator has paused is no trouble: neither process tells it as refused.
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(stack_.create(ann_, wav_body("x")).status, 503);
    ASSERT_EQ(at_other().status, 503);
  }
  const auto said = stack_.database().text(Sql("SELECT UTC_TIMESTAMP(6)"));
  ASSERT_TRUE(eventually(30s, [&] {
    const auto reports = Sql::trusted(
        "SELECT COUNT(*) FROM api_processes WHERE creations>0 AND seen_at>'" + said + "'");
    return stack_.database().number(reports) == 2;
  }));
  EXPECT_EQ(stack_.database().number(Sql("SELECT SUM(refused) FROM api_processes")), 0);
  // What was accepted goes on.
  stack_.start_worker();
  EXPECT_EQ(stack_.wait_final(ann_, before).text("status"), "succeeded");

  stack_.admin({"intake", "resume", "--reason", "it is over"});
  EXPECT_FALSE(stack_.admin({"intake", "show"})["paused"].GetBool());
  EXPECT_TRUE(eventually(30s, [&] { return stack_.create(ann_, wav_body("x")).status == 202; }));
  EXPECT_TRUE(eventually(30s, [&] { return at_other().status == 202; }));
}

// As on SIGTERM: what is soon done is done, the rest is another's at once.
TEST_F(ActionsTest, ADrainedWorkerLosesNothingAndEnds) {
  hangs_ = true;
  const std::size_t leaver = stack_.start_worker({{"DRAIN_LIMIT_MS", "3000"}});
  const std::string id = create();
  ASSERT_TRUE(primary_.wait_until([&] { return primary_.call_count() == 1; }, 60s));
  std::string worker;
  ASSERT_TRUE(eventually(30s, [&] {
    const auto told = stack_.admin({"queue"});
    worker = told["workers"].Size() == 1 ? told["workers"][0]["id"].GetString() : "";
    return !worker.empty();
  }));
  EXPECT_EQ(stack_.admin_raw({"worker", "drain", worker}).code, 1) << "why?";
  ASSERT_TRUE(done("drain_worker", worker));
  EXPECT_EQ(stack_.worker(leaver).wait(60s), 0) << stack_.worker(leaver).log();
  EXPECT_THAT(stack_.worker(leaver).log(), HasSubstr(R"("asked_by_operator":true)"));
  EXPECT_EQ(column(id, "claims"), 0) << "that a worker leaves uses up nothing";
  EXPECT_STREQ(stack_.admin({"queue"})["workers"][0]["state"].GetString(), "ended");
  EXPECT_EQ(post(stack_.ops_url(), asks("drain_worker", worker)).status, 409) << "it has ended";
  hangs_ = false;
  stack_.start_worker();
  EXPECT_EQ(stack_.wait_final(ann_, id).text("status"), "succeeded");
  stack_.database().expect_invariants();
}

TEST_F(ActionsTest, ABreakerIsHeldOpenAndClosed) {
  stack_.start_worker();
  ASSERT_TRUE(eventually(30s, [&] { return provider_state(stack_, "primary") == "ready"; }));
  EXPECT_EQ(post(stack_.ops_url(), asks("open_breaker", "primray")).status, 409) << "nobody has it";
  // Left alone, others are called for.
  ASSERT_TRUE(done("open_breaker", "primary", R"(,"seconds":3600)"));
  ASSERT_TRUE(eventually(30s, [&] { return provider_state(stack_, "primary") == "open"; }));
  const auto told = stack_.admin({"queue"});
  EXPECT_STREQ(told["providers"][0]["override"].GetString(), "open");
  EXPECT_THAT(told["verdict"].GetString(), HasSubstr("provider `primary` held open by operator"));
  const std::string first = create();
  EXPECT_EQ(stack_.wait_final(ann_, first).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack_, first), ElementsAre("backup succeeded"));
  EXPECT_EQ(primary_.call_count(), 0U);

  // With nobody left they wait, and it costs them nothing.
  stack_.admin({"provider", "open", "backup", "--reason", "both"});
  ASSERT_TRUE(eventually(30s, [&] { return provider_state(stack_, "backup") == "open"; }));
  const std::string second = create();
  // The worker has gone on and told of itself since.
  ASSERT_TRUE(eventually(30s, [&] {
    return stack_.database().number(
               Sql("SELECT COUNT(*) FROM workers w JOIN tasks t ON w.seen_at>t.created_at + "
                   "INTERVAL 1 SECOND WHERE t.id=")
               << TaskId::parse(second).value()) == 1;
  }));
  EXPECT_EQ(column(second, "claims"), 0);
  EXPECT_THAT(calls_of(stack_, second), testing::IsEmpty());
  ASSERT_TRUE(done("clear_breaker", "primary"));
  EXPECT_EQ(stack_.wait_final(ann_, second).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack_, second), ElementsAre("primary succeeded"));
  EXPECT_EQ(post(stack_.ops_url(), asks("clear_breaker", "primary")).status, 409);
  ASSERT_TRUE(done("close_breaker", "backup"));
  EXPECT_TRUE(eventually(30s, [&] { return provider_state(stack_, "backup") == "ready"; }));
  // By the command line, too.
  EXPECT_EQ(stack_.admin_raw({"provider", "clear", "backup"}).code, 1) << "why?";
  stack_.admin({"provider", "clear", "backup", "--reason", "it is well"});
  EXPECT_EQ(stack_.admin_raw({"provider", "clear", "backup", "--reason", "again"}).code, 1);
  stack_.admin({"provider", "close", "primary", "--reason", "it only seems ill"});
  EXPECT_EQ(stack_.database().number(Sql("SELECT COUNT(*) FROM provider_overrides")), 1);
  stack_.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
