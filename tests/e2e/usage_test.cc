// Usage through HTTP, with a worker that rolls it up: as JSON judged by the published description,
// and as CSV.
#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "common/base/time.h"
#include "common/store/session.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

class UsageTest : public testing::Test {
 protected:
  UsageTest() : stack_(read_often()), ann_(stack_.account()) {}

  static Stack::Options read_often() {
    Stack::Options options;
    return options;
  }

  Reply usage(const Account& account, const std::string& query) {
    return stack_.judged(
        "GET",
        "/usage",
        http("GET", stack_.base() + "/usage?" + query, Stack::bearer(account.key)));
  }
  // From yesterday to tomorrow.
  std::string around() {
    const Instant now = stack_.database().session().now();
    return "from=" + format_iso(now - 24h) + "&to=" + format_iso(now + 24h);
  }
  bool wait_for(const Account& account, const std::string& path, const std::string& value) {
    return eventually(30s, [&] { return usage(account, around()).text(path) == value; });
  }

  Stack stack_;
  Account ann_;
};

TEST_F(UsageTest, SaysWhatWasUsed) {
  const auto made = stack_.admin({"key", "create", "--user", ann_.user, "--name", "second"});
  Account second = ann_;
  second.key = made["key"].GetString();
  const std::string second_id = made["id"].GetString();
  const std::string id =
      stack_.create(ann_, R"({"model":"svc-audio-1.0","prompt":"One.","voice":"aria"})").text("id");
  const Reply done = stack_.wait_final(ann_, id);
  ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  stack_.wait_final(second, stack_.create(second, Stack::body("   ")).text("id"));
  ASSERT_TRUE(wait_for(ann_, "totals.failed", "1"));
  const Reply all = usage(ann_, around());
  const std::string seconds = done.text("output.duration_seconds");
  EXPECT_EQ(all.text("totals"),
            R"({"generations":2,"succeeded":1,"failed":1,"canceled":0,"audio_seconds":)" + seconds +
                R"(,"credits":10})");
  EXPECT_EQ(all.header("cache-control"), "no-store");
  EXPECT_EQ(all.header("vary"), "Accept");
  EXPECT_TRUE(all.header("ratelimit").starts_with("\"read\""));
  EXPECT_LE(*parse_iso(all.text("complete_to")), stack_.database().session().now());
  // Nothing is invented: no bucket without anything in it.
  const auto days = all.json();
  ASSERT_LE(days["data"].Size(), 2U);
  EXPECT_FALSE(days["data"][0].HasMember("key_id"));
  const auto length = *parse_iso(days["data"][0]["end"].GetString()) -
                      *parse_iso(days["data"][0]["start"].GetString());
  EXPECT_EQ(length, 24h);

  const auto by_key = usage(ann_, around() + "&group_by=key").json();
  bool found = false;
  for (const auto& row : by_key["data"].GetArray()) {
    if (row["key_id"].IsString() && row["key_id"].GetString() == second_id) {
      EXPECT_EQ(row["failed"].GetInt(), 1);
      EXPECT_EQ(row["succeeded"].GetInt(), 0);
      found = true;
    }
  }
  EXPECT_TRUE(found);
  const std::string by_voice = usage(ann_, around() + "&group_by=voice&bucket=hour").body;
  EXPECT_NE(by_voice.find(R"("voice":"aria","generations":1)"), std::string::npos) << by_voice;
  EXPECT_NE(by_voice.find(R"("voice":null)"), std::string::npos) << by_voice;
  // Of a key that is no more, nobody is told its name.
  stack_.admin({"key", "delete", "--key", second_id});
  EXPECT_EQ(usage(ann_, around() + "&group_by=key").body.find(second_id), std::string::npos);
  EXPECT_EQ(usage(ann_, around() + "&group_by=key").text("totals"), all.text("totals"));
  // The ledger says the same.
  stack_.database().expect_invariants();

  const Reply csv = http("GET",
                         stack_.base() + "/usage?" + around() + "&bucket=hour&group_by=voice",
                         Stack::bearer(ann_.key, {"Accept: text/csv"}));
  ASSERT_EQ(csv.status, 200) << csv.body;
  EXPECT_EQ(csv.header("content-type"), "text/csv; charset=utf-8; header=present");
  EXPECT_EQ(csv.header("content-disposition"), "attachment; filename=\"usage.csv\"");
  EXPECT_EQ(csv.header("cache-control"), "no-store");
  EXPECT_EQ(csv.header("vary"), "Accept");
  EXPECT_FALSE(csv.header("x-request-id").empty());
  const std::string names =
      "start,end,voice,generations,succeeded,failed,canceled,audio_seconds,credits\r\n";
  EXPECT_TRUE(csv.body.starts_with(names)) << csv.body;
  EXPECT_NE(csv.body.find(":00:00.000Z,aria,1,"), std::string::npos) << csv.body;
  EXPECT_TRUE(csv.body.ends_with("\r\n"));
  // An error is JSON, whatever is preferred.
  const Reply refused =
      http("GET", stack_.base() + "/usage", Stack::bearer(ann_.key, {"Accept: text/csv"}));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.text("error.param"), "from");
}

// A sum of very many hours takes as long as a statement may.
TEST_F(UsageTest, WhoeverAsksForNoSumsWaitsForNone) {
  const Account bob = stack_.account(), cay = stack_.account();
  ASSERT_EQ(usage(bob, around()).status, 200);
  store::Session& holder = stack_.database().session();
  holder.execute(store::Sql("LOCK TABLES usage_hours WRITE, usage_marks WRITE"));
  std::vector<std::thread> askers;
  const std::string span = "from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z";
  for (const Account& account : {ann_, bob}) {
    askers.emplace_back([&, account] {
      http("GET", stack_.base() + "/usage?" + span, Stack::bearer(account.key));
    });
  }
  const store::Sql waiting(
      "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE "
      "'%usage_%' AND state LIKE 'Waiting for%' AND id<>CONNECTION_ID()");
  EXPECT_TRUE(eventually(30s, [&] { return holder.query(waiting).next(); }));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(http("GET", stack_.base() + "/account", Stack::bearer(cay.key)).status, 200);
  }
  holder.execute(store::Sql("UNLOCK TABLES"));
  for (std::thread& asker : askers) {
    asker.join();
  }
}

TEST_F(UsageTest, NobodySeesAnothers) {
  const Account bob = stack_.account();
  stack_.wait_final(ann_, stack_.create(ann_, Stack::body("   ")).text("id"));
  ASSERT_TRUE(wait_for(ann_, "totals.generations", "1"));
  for (const char* const group : {"none", "key", "voice"}) {
    const Reply none = usage(bob, around() + "&group_by=" + group);
    EXPECT_EQ(none.status, 200);
    EXPECT_EQ(none.text("data"), "[]");
    EXPECT_EQ(none.text("totals.generations"), "0");
  }
  const Reply nobody = usage({.user = "", .email = "", .key = "wrong"}, around());
  EXPECT_EQ(nobody.status, 401);
  EXPECT_EQ(nobody.text("error.code"), "invalid_api_key");
}

TEST_F(UsageTest, EveryWrongParameterIsNamed) {
  const std::string from = "from=2026-11-01T00:00:00Z";
  for (const auto& [query, param] : std::vector<std::pair<std::string, std::string>>{
           {"", "from"},
           {"to=2026-11-01T00:00:00Z", "from"},
           {from, "to"},
           {"from=yesterday&to=2026-11-01T00:00:00Z", "from"},
           {from + "&to=2026-13-01T00:00:00Z", "to"},
           {from + "&to=2026-11-01T00:00:00Z", "to"},
           {from + "&to=2026-10-01T00:00:00Z", "to"},
           {from + "&to=2026-11-08T00:00:00.001Z&bucket=hour", "to"},
           {from + "&to=2027-02-01T00:00:00.001Z", "to"},
           {from + "&to=2026-11-02T00:00:00Z&bucket=week", "bucket"},
           {from + "&to=2026-11-02T00:00:00Z&group_by=user", "group_by"},
           {from + "&to=2026-11-02T00:00:00Z&limit=5", "limit"},
           {from + "&" + from + "&to=2026-11-02T00:00:00Z", "from"}}) {
    const Reply refused = usage(ann_, query);
    EXPECT_EQ(refused.status, 400) << query << refused.body;
    EXPECT_EQ(refused.text("error.param"), param) << query << refused.body;
  }
  EXPECT_EQ(usage(ann_, from + "&to=2026-11-08T00:00:00Z&bucket=hour").status, 200);
  EXPECT_EQ(usage(ann_, from + "&to=2027-02-01T00:00:00Z").status, 200);
  EXPECT_EQ(usage(ann_, "from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00Z").status, 400);
  EXPECT_EQ(usage(ann_, "from=9998-12-31T00:00:00Z&to=9999-12-31T00:00:00Z").status, 200);
}

// Of three workers one rolls up, whoever works on the tasks; when it freezes, another.
TEST(UsageOfSeveralWorkers, OneRollsUpAndTheNextWhenItFreezes) {
  Stack::Options options;
  options.workers = 3;
  Stack stack(options);
  const Account ann = stack.account();
  std::vector<std::size_t> awake = {0, 1, 2};
  const auto with_turn = [&] {
    std::vector<std::size_t> out;
    for (const std::size_t worker : awake) {
      if (http("GET", stack.worker_ops_url(worker) + "/metrics")
              .body.find("\naudiogen_usage_turn 1\n") != std::string::npos) {
        out.push_back(worker);
      }
    }
    return out;
  };
  const auto rolled_up = [&](std::int64_t generations) {
    return eventually(60s, [&] {
      return stack.database().number(
                 store::Sql("SELECT COALESCE(SUM(generations),0) FROM usage_hours")) == generations;
    });
  };
  stack.wait_final(ann, stack.create(ann, Stack::body("   ")).text("id"));
  ASSERT_TRUE(rolled_up(1));
  ASSERT_TRUE(eventually(30s, [&] { return !with_turn().empty(); }));
  const auto holders = with_turn();
  ASSERT_EQ(holders.size(), 1U);

  stack.worker(holders.front()).signal(SIGSTOP);
  std::erase(awake, holders.front());
  stack.create(ann, Stack::body("   "));
  EXPECT_TRUE(rolled_up(2));
  EXPECT_TRUE(eventually(30s, [&] { return with_turn().size() == 1; }));
  stack.worker(holders.front()).signal(SIGCONT);
  awake = {0, 1, 2};
  EXPECT_TRUE(eventually(60s, [&] { return with_turn().size() == 1; })) << "it knows";
}

// It has locked what a user's usage is up to when it stops; its turn may last, its locks may not.
TEST(UsageOfSeveralWorkers, AFrozenOneKeepsNoMarks) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const std::size_t frozen = stack.start_worker({{"CRASH_POINT", "usage.locked:1:stop"}});
  const Account ann = stack.account();
  ASSERT_TRUE(eventually(
      60s, [&] { return stack.worker(frozen).log().find("usage.locked") != std::string::npos; }));
  // Less than its turn lasts.
  store::Session waiting(stack.database().url(),
                         {.read_timeout = 30s, .statement_max = 30s, .lock_wait = 12s});
  const auto marks = [&] {
    auto rows = waiting.query(store::Sql("SELECT seq FROM usage_marks FOR UPDATE"));
    return rows.next();
  };
  EXPECT_NO_THROW(EXPECT_TRUE(marks()));
  stack.worker(frozen).signal(SIGCONT);
  EXPECT_TRUE(eventually(60s, [&] {
    return stack.database().number(
               store::Sql("SELECT COUNT(*) FROM balances b JOIN usage_marks m ON "
                          "m.user_id=b.user_id AND m.seq=b.seq")) > 0;
  })) << "and goes on";
}

}  // namespace
}  // namespace audiogen::test
