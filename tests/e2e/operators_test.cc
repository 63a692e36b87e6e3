// What operators are told: by every face the same, and the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kPlaces = 4;

// A provider that answers nobody, so that nothing changes while faces are compared.
class OperatorsTest : public testing::Test {
 protected:
  OperatorsTest()
      : provider_([](const DoubleCall&) { return DoubleReply{.form = DoubleReply::Form::kHang}; }),
        chain_({openai_entry(
            "primary",
            provider_,
            ",\"timeout_seconds\":300,\"max_in_flight\":" + std::to_string(kPlaces))}) {}

  Stack::Options options() {
    Stack::Options out = chain_.options();
    out.workers = 0;
    out.environment["WORKER_IN_FLIGHT"] = std::to_string(kPlaces);
    return out;
  }
  static rapidjson::Document scale(const Stack& stack) {
    rapidjson::Document out;
    out.Parse(http("GET", stack.ops_url() + "/scale").body.c_str());
    EXPECT_TRUE(out.IsObject());
    return out;
  }
  static double metric(const Stack& stack, const std::string& name) {
    return metric(stack.ops_url(), name);
  }
  static double metric(const std::string& ops_url, const std::string& name) {
    const std::string text = http("GET", ops_url + "/metrics").body;
    const std::string line = "\naudiogen_" + name + " ";
    const auto at = text.find(line);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + line.size()));
  }

  // What each face says of the same tasks: ready, running, waiting for another try, parked, all of
  // these that wait, credits held.
  using Told = std::vector<double>;
  static Told truth(Stack& stack) {
    const auto number = [&](const store::Sql& sql) {
      return static_cast<double>(stack.database().number(sql));
    };
    using store::Sql;
    return {number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1 AND lane<>2 AND "
                       "next_run_at<=UTC_TIMESTAMP(6)")),
            number(Sql("SELECT COUNT(*) FROM tasks WHERE state=2")),
            number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1 AND lane<>2 AND "
                       "next_run_at>UTC_TIMESTAMP(6)")),
            number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1 AND lane=2")),
            number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1")),
            number(Sql("SELECT COALESCE(SUM(held),0) FROM balances")) / 1000};
  }
  static Told by_command(Stack& stack) {
    const auto told = stack.admin({"queue"});
    EXPECT_TRUE(told["exact"].GetBool());
    return {
        told["ready"].GetDouble(),
        told["in_flight"].GetDouble(),
        told["waiting_retry"].GetDouble(),
        told["parked"].GetDouble(),
        told["ready"].GetDouble() + told["waiting_retry"].GetDouble() + told["parked"].GetDouble(),
        told["credits_held"].GetDouble()};
  }
  static Told by_metrics(const Stack& stack) {
    return {metric(stack, "tasks_ready"),
            metric(stack, "tasks_running"),
            metric(stack, "tasks_waiting_retry"),
            metric(stack, "tasks_parked"),
            metric(stack, "tasks_ready") + metric(stack, "tasks_waiting_retry") +
                metric(stack, "tasks_parked"),
            metric(stack, "credits_held")};
  }
  static rapidjson::Document page(const Stack& stack, const std::string& path) {
    rapidjson::Document out;
    const auto reply = http("GET", stack.ops_url() + path);
    EXPECT_EQ(reply.status, 200) << reply.body;
    out.Parse(reply.body.c_str());
    EXPECT_TRUE(out.IsObject());
    return out;
  }
  static Told by_page(const Stack& stack) {
    const auto json = page(stack, "/ops/now");
    const auto& tiles = json["tiles"];
    const auto value = [&](const char* of) {
      EXPECT_TRUE(tiles[of]["exact"].GetBool());
      return tiles[of]["value"].GetDouble();
    };
    return {value("ready"),
            value("running"),
            value("waiting_retry"),
            value("parked"),
            value("ready") + value("waiting_retry") + value("parked"),
            tiles["credits_held"].GetDouble()};
  }
  // At once for the command; for the others as soon as what they saw before is 2 s old.
  static void expect_agreement(Stack& stack) {
    const Told now = truth(stack);
    EXPECT_EQ(by_command(stack), now);
    EXPECT_TRUE(eventually(30s, [&] { return by_metrics(stack) == now; }));
    EXPECT_EQ(by_metrics(stack), now);
    EXPECT_TRUE(eventually(30s, [&] { return scale(stack)["backlog"].GetDouble() == now[4]; }));
    EXPECT_TRUE(eventually(30s, [&] { return by_page(stack) == now; }));
  }

  ProviderDouble provider_;
  ChainFile chain_;
};

TEST_F(OperatorsTest, AllFacesTellTheSameAndTheTruth) {
  Stack stack(options());
  stack.database().execute(store::Sql("UPDATE release_window SET size=") << 2 * kPlaces);
  const Account ann = stack.account();
  expect_agreement(stack);
  EXPECT_THAT(stack.admin({"queue"})["verdict"].GetString(), HasSubstr("No worker takes tasks"));
  std::vector<std::string> ids;
  for (int i = 0; i < 3 * kPlaces; ++i) {
    ids.push_back(stack.create(ann, wav_body("x")).text("id"));
  }
  EXPECT_THAT(truth(stack),
              ElementsAre(2 * kPlaces, 0, 0, kPlaces, 3 * kPlaces, 3 * kPlaces * 150));
  expect_agreement(stack);
  EXPECT_EQ(scale(stack)["current"].GetInt(), 0);

  stack.start_worker();
  ASSERT_TRUE(eventually(60s, [&] { return truth(stack)[1] == kPlaces; }));
  // Until the worker has told of itself.
  ASSERT_TRUE(eventually(30s, [&] {
    const auto told = stack.admin({"queue"});
    return told["workers"].Size() == 1 && told["workers"][0]["in_flight"].GetInt() == kPlaces;
  }));
  expect_agreement(stack);
  const auto told = stack.admin({"queue"});
  EXPECT_STREQ(told["workers"][0]["state"].GetString(), "working");
  EXPECT_FALSE(told["workers"][0]["draining"].GetBool());
  EXPECT_EQ(told["workers"][0]["limit"].GetInt(), kPlaces);
  EXPECT_EQ(told["providers"][0]["in_flight"].GetInt(), kPlaces);
  EXPECT_EQ(told["providers"][0]["limit"].GetInt(), kPlaces);
  EXPECT_EQ(told["apis"].Size(), 1U);
  EXPECT_TRUE(told["apis"][0]["alive"].GetBool());
  EXPECT_EQ(told["done_per_minute"].GetInt(), 0) << "known to be none";
  EXPECT_TRUE(told["service_seconds_p50"].IsNull()) << "not known";
  EXPECT_TRUE(eventually(30s, [&] { return scale(stack)["current"].GetInt() == 1; }));
  EXPECT_EQ(scale(stack)["safe_to_remove"].Size(), 0U);
  EXPECT_TRUE(eventually(30s, [&] { return metric(stack, R"(workers{state="working"})") == 1; }));
  const std::string of_worker = http("GET", stack.worker_ops_url(0) + "/metrics").body;
  EXPECT_THAT(of_worker, HasSubstr("\naudiogen_worker_in_flight 4\n"));
  EXPECT_THAT(of_worker, HasSubstr("\naudiogen_provider_breaker_state{provider=\"primary\"} 0\n"));
  EXPECT_EQ(of_worker.find("audiogen_tasks_ready"), std::string::npos) << "one process tells it";

  // Killed, it holds no work, and says how it went.
  stack.worker(0).kill();
  stack.database().execute(
      store::Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 31 SECOND WHERE ended_at IS NULL"));
  const auto lost = stack.admin({"queue"});
  EXPECT_STREQ(lost["workers"][0]["state"].GetString(), "lost");
  EXPECT_EQ(lost["workers"][0]["in_flight"].GetInt(), 0);
  EXPECT_TRUE(eventually(30s, [&] { return metric(stack, R"(workers{state="lost"})") == 1; }));
  EXPECT_EQ(metric(stack, R"(workers{state="working"})"), 0);

  for (const std::string& id : ids) {
    stack.admin({"task", "cancel", id});
  }
  EXPECT_THAT(truth(stack), ElementsAre(0, 0, 0, 0, 0, 0));
  expect_agreement(stack);
}

TEST_F(OperatorsTest, APageTellsOfUsersAndOfOneTask) {
  Stack stack(options());
  const Account ann = stack.account();
  const auto created = stack.create(ann, wav_body("x"));
  const std::string id = created.text("id");
  stack.start_worker();
  ASSERT_TRUE(eventually(60s, [&] { return truth(stack)[1] == 1; }));
  ASSERT_TRUE(eventually(30s, [&] {
    const auto now = page(stack, "/ops/now");
    return now["users"].IsArray() && now["users"].Size() == 1 &&
           now["users"][0]["running"].GetInt() == 1 && now["users"][0]["share"].IsNumber();
  }));
  const auto now = page(stack, "/ops/now");
  EXPECT_EQ(now["stuck"]["tasks"].Size(), 0U);
  EXPECT_EQ(now["failures"].Size(), 0U);
  EXPECT_EQ(now["providers"][0]["calls"].GetInt(), 0) << "none has ended";
  const std::string mail = now["users"][0]["mail"].GetString();

  const auto of = [&](const std::string& what) {
    const auto found = page(stack, "/ops/find?q=" + what);
    return found["tasks"].Size() == 1 ? std::string(found["tasks"][0]["id"].GetString()) : "";
  };
  EXPECT_EQ(of(id), id);
  EXPECT_EQ(of(mail), id);
  EXPECT_EQ(of(created.header("x-request-id")), id);
  EXPECT_EQ(of("nonsense"), "");
  const auto story = page(stack, "/ops/task?id=" + id);
  EXPECT_EQ(story["task"]["id"].GetString(), id);
  std::string lanes;
  for (const auto& event : story["events"].GetArray()) {
    lanes += std::string(event["lane"].GetString()) + " ";
  }
  EXPECT_EQ(lanes, "client money queue worker provider worker api ");
  EXPECT_EQ(page(stack, "/ops/history?range=1h")["step_seconds"].GetInt(), 60);
  for (const char* const bad :
       {"/ops/history", "/ops/history?range=2h", "/ops/find", "/ops/task?id=1"}) {
    EXPECT_EQ(http("GET", stack.ops_url() + bad).status, 400) << bad;
  }
  EXPECT_EQ(http("GET", stack.ops_url() + "/ops/task?id=" + TaskId::make().text()).status, 404);
  stack.admin({"task", "cancel", id});
}

// So that a sum over all processes is right.
TEST_F(OperatorsTest, OneProcessTellsMonitorsHowTheServiceStands) {
  Stack stack(options());
  ASSERT_TRUE(eventually(30s, [&] { return metric(stack.ops_url(), "tasks_ready") == 0; }));
  auto variables = stack.environment();
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  variables["DATABASE_URL"] = stack.database_url("api");
  variables["LISTEN"] = "127.0.0.1:" + std::to_string(free_port());
  variables["OPS_LISTEN"] = listen;
  Process second(
      {program_path("audio-api"), "serve"}, variables, stack.log_folder() + "/second.log");
  const std::string other = "http://" + listen;
  ASSERT_TRUE(eventually(60s, [&] { return http("GET", other + "/readyz").status == 200; }));
  EXPECT_EQ(metric(other, "tasks_ready"), -1);
  EXPECT_TRUE(eventually(30s, [&] {
    return metric(other, "broker_connected{role=\"publisher\"}") == 1;
  })) << "what is its own it tells";
  EXPECT_EQ(metric(stack.ops_url(), "tasks_ready"), 0);
  stack.api().kill();
  EXPECT_TRUE(eventually(30s, [&] { return metric(other, "tasks_ready") == 0; }));
}

TEST_F(OperatorsTest, WithoutTheDatabaseNothingIsTold) {
  Stack stack(options());
  ASSERT_TRUE(eventually(30s, [&] { return metric(stack, "tasks_ready") == 0; }));
  stack.database().execute(store::Sql("RENAME TABLE workers TO workers_away"));
  EXPECT_TRUE(
      eventually(30s, [&] { return http("GET", stack.ops_url() + "/scale").status == 503; }));
  EXPECT_EQ(metric(stack, "tasks_ready"), -1) << "nothing old";
  EXPECT_THAT(http("GET", stack.ops_url() + "/metrics").body, HasSubstr("audiogen_build_info"));
  stack.database().execute(store::Sql("RENAME TABLE workers_away TO workers"));
  EXPECT_TRUE(eventually(30s, [&] { return metric(stack, "tasks_ready") == 0; }));
}

}  // namespace
}  // namespace audiogen::test
