// The account of a key's owner through HTTP: itself, its keys, its ledger. Every answer is judged
// by the published description.
#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/dates.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

// What a key may do changes within a second; that it is so soon, tests/api/auth_test.cc shows by a
// clock of its own. This only ends a wait.
constexpr auto kPatience = 60s;

// One account of a service without a worker, with a key that may do everything.
class AccountTest : public testing::Test {
 protected:
  AccountTest() : stack_(without_worker()), ann_(stack_.account()), key_(made_by_hand("all")) {}

  static Stack::Options without_worker() {
    Stack::Options options;
    options.workers = 0;
    return options;
  }

  // A key of Ann's with these scopes.
  std::string made_by_hand(const std::string& name,
                           const std::string& scopes = "generate,manage",
                           const std::string& user = "") {
    return stack_
        .admin({"key",
                "create",
                "--user",
                user.empty() ? ann_.user : user,
                "--name",
                name,
                "--scopes",
                scopes})["key"]
        .GetString();
  }

  Reply call(const std::string& method,
             const std::string& path,
             const std::string& key,
             const std::string& body = "",
             const std::string& id = "",
             std::vector<std::string> headers = {}) {
    std::string address = path;
    if (const auto at = address.find("{key_id}"); at != std::string::npos) {
      address.replace(at, 8, id);
    } else {
      address += id;  // A query.
    }
    if (!body.empty()) {
      headers.emplace_back("Content-Type: application/json");
    }
    return stack_.judged(
        method,
        path,
        http(method, stack_.base() + address, Stack::bearer(key, std::move(headers)), body));
  }

  Reply make(const std::string& body) { return call("POST", "/account/keys", key_, body); }

  int status_of(const std::string& key) { return call("GET", "/account", key).status; }

  static void expect_error(const Reply& reply,
                           int status,
                           const std::string& code,
                           const std::string& param = "") {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.text("error.code"), code) << reply.body;
    EXPECT_EQ(reply.text("error.param"), param) << reply.body;
    EXPECT_EQ(reply.text("error.request_id"), reply.header("x-request-id"));
    EXPECT_EQ(reply.header("x-should-retry"), code == "limit_reached" ? "false" : "");
  }

  Stack stack_;
  Account ann_;  // Her key has the scope generate.
  std::string key_;
};

TEST_F(AccountTest, ShowsItsOwnerWhatThereIs) {
  ASSERT_EQ(stack_.create(ann_, Stack::body()).status, 202);
  const Reply reply = call("GET", "/account", ann_.key);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.text("object"), "account");
  EXPECT_EQ(reply.text("id"), ann_.user);
  EXPECT_EQ(reply.text("email"), ann_.email);
  EXPECT_EQ(reply.text("plan"), "paid");
  EXPECT_EQ(reply.text("api_access"), "true");
  EXPECT_EQ(reply.text("credits"), R"({"available":9850,"reserved":150})");
  EXPECT_EQ(reply.text("limits.requests.manage"), R"({"per_minute":120,"burst":30})");
  EXPECT_EQ(reply.text("limits.open_generations"), "200000");
  EXPECT_EQ(reply.text("limits.keys"), "50");
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  EXPECT_TRUE(reply.header("ratelimit").starts_with("\"read\"")) << reply.header("ratelimit");
  expect_error(stack_.judged("GET", "/account", http("GET", stack_.base() + "/account")),
               401,
               "invalid_api_key");
}

TEST_F(AccountTest, AFreeOneIsReadButNotChanged) {
  const std::string email = "free@example.com";
  stack_.admin({"user", "create", "--email", email, "--plan", "free"});
  const std::string key = made_by_hand("k", "generate,manage", email);
  EXPECT_EQ(call("GET", "/account", key).text("api_access"), "false");
  EXPECT_EQ(call("GET", "/account/keys", key).status, 200);
  EXPECT_EQ(call("GET", "/account/ledger", key).status, 200);
  const std::string id = call("GET", "/account/keys", key).json()["data"][0]["id"].GetString();
  expect_error(call("POST", "/account/keys", key, R"({"name":"k"})"), 403, "api_access_required");
  expect_error(call("PATCH", "/account/keys/{key_id}", key, "{}", id), 403, "api_access_required");
  expect_error(call("DELETE", "/account/keys/{key_id}", key, "", id), 403, "api_access_required");
  EXPECT_EQ(call("DELETE", "/account/keys/current", key).status, 204);
}

TEST_F(AccountTest, AMadeKeyWorksAtOnceAndIsShownOnce) {
  const Instant end = days_ahead(1000);
  const Reply made = make(R"({"name":"laptop","scopes":["generate"],"expires_at":")" +
                          an_hour_east(end) + R"("})");
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.header("cache-control"), "no-store");
  EXPECT_TRUE(made.text("id").starts_with("key_"));
  EXPECT_EQ(made.text("name"), "laptop");
  EXPECT_EQ(made.text("mode"), "live");
  EXPECT_EQ(made.text("scopes"), R"(["generate"])");
  EXPECT_EQ(made.text("expires_at"), format_iso(end));
  EXPECT_EQ(made.text("last_used_at"), "null");
  const std::string secret = made.text("key");
  EXPECT_TRUE(secret.starts_with(made.text("prefix")));
  EXPECT_TRUE(made.header("ratelimit").starts_with("\"manage\""));
  Account laptop = ann_;
  laptop.key = secret;
  EXPECT_EQ(stack_.create(laptop, Stack::body()).status, 202);
  const std::string list = call("GET", "/account/keys", key_).body;
  EXPECT_NE(list.find(made.text("id")), std::string::npos);
  EXPECT_EQ(list.find(secret), std::string::npos);
  stack_.api().signal(15);
  EXPECT_EQ(stack_.api().wait(60s), 0);
  const std::string log = stack_.api().log();
  EXPECT_NE(log.find(made.text("id")), std::string::npos) << "who made it";
  EXPECT_EQ(log.find(secret), std::string::npos);
  EXPECT_EQ(log.find("laptop"), std::string::npos);
}

TEST_F(AccountTest, BadBodiesNameTheMember) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "name"},
           {"not json", ""},
           {R"({"name":" x"})", "name"},
           {"{\"name\":\"x\u200B\"}", "name"},
           {R"({"name":"x\u202Ey"})", "name"},
           {R"({"name":"x","spend_limit":null})", "spend_limit"},
           {R"({"name":"x","spend_limit":{"credits":149,"period":"day"}})", "spend_limit"},
           {R"({"name":"x","spend_limit":{"credits":150,"period":"week"}})", "spend_limit"},
           {R"({"name":"x","scopes":["admin"]})", "scopes"},
           {R"({"name":"x","expires_at":"2020-01-01T00:00:00Z"})", "expires_at"},
           {R"({"name":"x","expires_at":")" + format_iso(days_ahead(4'000)) + R"("})",
            "expires_at"},
           {R"({"name":"x","spend":1})", "spend"}}) {
    expect_error(make(body), 400, "invalid_request", param);
  }
  expect_error(call("GET", "/account/keys", key_, "", "?limit=0"), 400, "invalid_request", "limit");
  expect_error(call("GET", "/account/keys", key_, "", "?x=1"), 400, "invalid_request", "x");
  for (const char* const path : {"/account/keys", "/account/ledger"}) {
    // None; one without a position; one of another version.
    for (const char* const cursor : {"!", "AQ", "AgAAAAAAAAAAAAAAAAAAAAAA"}) {
      expect_error(call("GET", path, key_, "", std::string("?cursor=") + cursor),
                   400,
                   "invalid_request",
                   "cursor");
    }
  }
}

TEST_F(AccountTest, AKeyDoesWhatItsScopesSay) {
  Account reader = ann_, manager = ann_;
  reader.key = make(R"({"name":"r","scopes":[]})").text("key");
  manager.key = make(R"({"name":"m","scopes":["manage"]})").text("key");
  for (const Account& account : {reader, manager}) {
    EXPECT_EQ(call("GET", "/account", account.key).status, 200);
    EXPECT_EQ(call("GET", "/account/keys", account.key).status, 200);
    EXPECT_EQ(stack_.get(account, "aud_x").status, 404);
    // Before the body is looked at, and by the one 403 that a creation has.
    const Reply refused = stack_.create(account, "not json");
    expect_error(refused, 403, "api_access_required");
    EXPECT_NE(refused.text("error.message").find("generate"), std::string::npos);
  }
  for (const std::string& key : {reader.key, ann_.key}) {
    expect_error(call("POST", "/account/keys", key, "not json"), 403, "insufficient_scope");
    expect_error(
        call("PATCH", "/account/keys/{key_id}", key, "{}", "x"), 403, "insufficient_scope");
    expect_error(call("DELETE", "/account/keys/{key_id}", key, "", "x"), 403, "insufficient_scope");
  }
  // Nobody gives what he lacks.
  expect_error(call("POST", "/account/keys", manager.key, R"({"name":"k"})"),
               403,
               "insufficient_scope",
               "scopes");
  EXPECT_EQ(
      call("POST", "/account/keys", manager.key, R"({"name":"k","scopes":["manage"]})").status,
      201);
  const std::string ends = make(R"({"name":"e","scopes":["manage"],"expires_at":")" +
                                format_iso(days_ahead(1000)) + R"("})")
                               .text("key");
  expect_error(call("POST", "/account/keys", ends, R"({"name":"k","scopes":[]})"),
               403,
               "insufficient_scope",
               "expires_at");
  // Nor to a key that is there and lasts longer.
  expect_error(call("PATCH",
                    "/account/keys/{key_id}",
                    ends,
                    R"({"scopes":["manage"]})",
                    make(R"({"name":"forever"})").text("id")),
               403,
               "insufficient_scope",
               "expires_at");
}

TEST_F(AccountTest, TheListIsNewestFirstInPagesAndTagged) {
  std::vector<std::string> ids;
  for (const char* const name : {"1", "2", "3"}) {
    ids.push_back(make(R"({"name":")" + std::string(name) + R"("})").text("id"));
  }
  const Reply first = call("GET", "/account/keys", key_, "", "?limit=2");
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.json()["data"].Size(), 2U);
  EXPECT_EQ(first.json()["data"][0]["id"].GetString(), ids[2]);
  EXPECT_EQ(first.json()["data"][1]["id"].GetString(), ids[1]);
  EXPECT_EQ(first.text("has_more"), "true");
  const Reply second =
      call("GET", "/account/keys", key_, "", "?limit=3&cursor=" + first.text("next_cursor"));
  EXPECT_EQ(second.json()["data"].Size(), 3U) << second.body;
  EXPECT_EQ(second.json()["data"][0]["id"].GetString(), ids[0]);
  EXPECT_EQ(second.text("has_more"), "false");
  EXPECT_EQ(second.text("next_cursor"), "null");
  const std::string etag = first.header("etag");
  ASSERT_FALSE(etag.empty());
  const Reply same = call("GET", "/account/keys", key_, "", "?limit=2", {"If-None-Match: " + etag});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.header("etag"), etag);
}

TEST_F(AccountTest, ThereAreFiftyKeysAtMost) {
  // Two are there: the rest by hand of the database, below the rate of changes.
  for (int i = 2; i < 50; ++i) {
    stack_.database().execute(
        store::Sql(
            "INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (")
        << KeyId::make() << "," << *UserId::parse(ann_.user) << "," << new_uuid()
        << ",'p','n',UTC_TIMESTAMP(6))");
  }
  const Reply refused = make(R"({"name":"one more"})");
  expect_error(refused, 409, "limit_reached");
  const std::string id = call("GET", "/account/keys", key_).json()["data"][0]["id"].GetString();
  EXPECT_EQ(call("DELETE", "/account/keys/{key_id}", key_, "", id).status, 204);
  EXPECT_EQ(make(R"({"name":"one more"})").status, 201);
}

TEST_F(AccountTest, ADeletedKeyStopsWorking) {
  const Reply made = make(R"({"name":"k"})");
  EXPECT_EQ(status_of(made.text("key")), 200);
  EXPECT_EQ(call("DELETE", "/account/keys/{key_id}", key_, "", made.text("id")).status, 204);
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(made.text("key")) == 401; }));
  expect_error(
      call("DELETE", "/account/keys/{key_id}", key_, "", made.text("id")), 404, "not_found");
  EXPECT_EQ(call("GET", "/account/keys", key_).body.find(made.text("id")), std::string::npos);
}

TEST_F(AccountTest, ARotatedKeyHasTwoSecretsForAWhile) {
  const Reply made = make(R"({"name":"k","scopes":["generate","manage"]})");
  const std::string id = made.text("id"), first = made.text("key");
  EXPECT_EQ(made.text("previous_key_expires_at"), "null");
  const auto rotate = [&](const std::string& key, const std::string& body) {
    return call("POST", "/account/keys/{key_id}/rotate", key, body, id);
  };
  EXPECT_EQ(status_of(first), 200);
  const Reply rotated = rotate(first, R"({"overlap_hours":24})");
  ASSERT_EQ(rotated.status, 200) << rotated.body;
  EXPECT_EQ(rotated.header("cache-control"), "no-store");
  EXPECT_EQ(rotated.text("id"), id);
  EXPECT_EQ(rotated.text("name"), "k");
  EXPECT_EQ(rotated.text("created_at"), made.text("created_at"));
  EXPECT_NE(rotated.text("previous_key_expires_at"), "null");
  const std::string second = rotated.text("key");
  EXPECT_NE(second, first);
  EXPECT_TRUE(second.starts_with(rotated.text("prefix")));
  EXPECT_EQ(status_of(second), 200);
  EXPECT_EQ(status_of(first), 200);
  const Reply list = call("GET", "/account/keys", second);
  EXPECT_EQ(list.body.find(second), std::string::npos);
  EXPECT_NE(list.body.find(rotated.text("prefix")), std::string::npos);
  // Both are one key: what is done with either is this key's.
  Account old = ann_;
  old.key = first;
  EXPECT_EQ(stack_.create(old, Stack::body()).status, 202);
  // The end of the overlap ends it everywhere, and nothing of the other one.
  stack_.database().execute(
      store::Sql("UPDATE api_keys SET previous_until=UTC_TIMESTAMP(6) WHERE id=")
      << *KeyId::parse(id));
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(first) == 401; }));
  EXPECT_EQ(status_of(second), 200);
  // Once more, and again within the overlap: the oldest ends.
  const std::string third = rotate(second, R"({"overlap_hours":168})").text("key");
  EXPECT_EQ(status_of(second), 200);
  const std::string fourth = rotate(third, R"({"overlap_hours":168})").text("key");
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(second) == 401; }));
  EXPECT_EQ(status_of(third), 200);
  // The answer with the fifth is lost: whoever asks once more, with what he has, still has it then.
  const std::string fifth = rotate(fourth, R"({"overlap_hours":168})").text("key");
  const std::string sixth = rotate(fourth, R"({"overlap_hours":168})").text("key");
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(fifth) == 401; }));
  EXPECT_EQ(status_of(fourth), 200);
  EXPECT_EQ(status_of(sixth), 200);
  // It leaked: with any of its secrets all of them can be ended.
  EXPECT_EQ(call("DELETE", "/account/keys/current", fourth).status, 204);
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(sixth) == 401; }));
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(fourth) == 401; }));
  const std::string log = stack_.api().log();
  EXPECT_NE(log.find("api key rotated"), std::string::npos);
  for (const std::string& secret : {first, second, third, fourth, fifth, sixth}) {
    EXPECT_EQ(log.find(secret), std::string::npos);
  }
}

TEST_F(AccountTest, RotationHasItsRules) {
  const Reply made = make(R"({"name":"k"})");
  const std::string id = made.text("id");
  const auto rotate = [&](const std::string& key, const std::string& body, const std::string& of) {
    return call("POST", "/account/keys/{key_id}/rotate", key, body, of);
  };
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "overlap_hours"},
           {R"({"overlap_hours":169})", "overlap_hours"},
           {R"({"overlap_hours":"1"})", "overlap_hours"},
           {R"({"hours":1})", "hours"},
           {"not json", ""}}) {
    expect_error(rotate(key_, body, id), 400, "invalid_request", param);
  }
  const std::string body = R"({"overlap_hours":0})";
  expect_error(rotate("wrong", body, id), 401, "invalid_api_key");
  expect_error(rotate(made.text("key"), body, id), 403, "insufficient_scope");
  const std::string manager = make(R"({"name":"m","scopes":["manage"]})").text("key");
  expect_error(rotate(manager, body, id), 403, "insufficient_scope");
  const Account bob = stack_.account();
  const std::string bobs = made_by_hand("bob", "generate,manage", bob.user);
  for (const std::string& name : {id, KeyId::make().text(), std::string("x")}) {
    expect_error(rotate(bobs, body, name), 404, "not_found");
  }
  EXPECT_EQ(status_of(made.text("key")), 200) << "nothing was changed";
  const Reply rotated = rotate(key_, body, id);
  EXPECT_EQ(rotated.status, 200);
  EXPECT_EQ(rotated.text("previous_key_expires_at"), "null");
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(made.text("key")) == 401; }));
  EXPECT_EQ(status_of(rotated.text("key")), 200);
  // Operators see both ends, and end both.
  rotate(key_, R"({"overlap_hours":5})", id);
  const auto listed = stack_.admin({"key", "list", "--user", ann_.user});
  bool seen = false;
  for (const auto& key : listed["keys"].GetArray()) {
    seen = seen || (key["id"].GetString() == id && key["previous_key_expires_at"].IsString());
  }
  EXPECT_TRUE(seen);
  stack_.admin({"key", "delete", "--key", id});
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(rotated.text("key")) == 401; }));
}

TEST_F(AccountTest, ALimitedKeySpendsUpToItsLimit) {
  wait_out_midnight();
  const Reply made = make(R"({"name":"k","spend_limit":{"credits":450,"period":"day"}})");
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.text("spend_limit"), R"({"credits":450,"period":"day"})");
  EXPECT_EQ(made.text("spent_credits"), "0");
  Account limited = ann_;
  limited.key = made.text("key");
  const std::string id = made.text("id");
  const auto change = [&](const std::string& body) {
    const Reply changed = call("PATCH", "/account/keys/{key_id}", key_, body, id);
    EXPECT_EQ(changed.status, 200) << changed.body;
    return changed;
  };
  const std::vector<std::string> idempotent = {"Idempotency-Key: one"};
  const Reply first = stack_.create(limited, Stack::body(), idempotent);
  ASSERT_EQ(first.status, 202) << first.body;
  ASSERT_EQ(stack_.create(limited, Stack::body()).status, 202);
  ASSERT_EQ(stack_.create(limited, Stack::body()).status, 202);
  const Reply refused = stack_.create(limited, Stack::body());
  expect_error(refused, 402, "insufficient_credits");
  const std::string message = refused.text("error.message");
  EXPECT_NE(message.find("450 credits a day"), std::string::npos) << message;
  EXPECT_NE(message.find("at least 150 credits are required"), std::string::npos) << message;
  EXPECT_EQ(stack_.create(limited, Stack::body(), idempotent).text("id"), first.text("id"))
      << "a repeat needs no room";
  EXPECT_EQ(stack_.create(ann_, Stack::body()).status, 202) << "the other keys go on";
  EXPECT_EQ(change(R"({"name":"k"})").text("spent_credits"), "450");
  // What comes back can be spent.
  EXPECT_EQ(stack_
                .judged("POST",
                        "/audio/generations/{task_id}/cancel",
                        http("POST",
                             stack_.base() + "/audio/generations/" + first.text("id") + "/cancel",
                             Stack::bearer(limited.key)))
                .status,
            200);
  EXPECT_EQ(call("GET", "/account/keys", limited.key).json()["data"][0]["spent_credits"].GetInt(),
            300);
  EXPECT_EQ(stack_.create(limited, Stack::body()).status, 202);
  expect_error(stack_.create(limited, Stack::body()), 402, "insufficient_credits");
  // Another limit goes on counting, and holds at once.
  EXPECT_EQ(change(R"({"spend_limit":{"credits":600,"period":"month"}})").text("spent_credits"),
            "450");
  EXPECT_EQ(stack_.create(limited, Stack::body()).status, 202);
  expect_error(stack_.create(limited, Stack::body()), 402, "insufficient_credits");
  // Another secret of the same key has spent the same.
  const Reply rotated =
      call("POST", "/account/keys/{key_id}/rotate", key_, R"({"overlap_hours":1})", id);
  EXPECT_EQ(rotated.text("spend_limit"), R"({"credits":600,"period":"month"})");
  EXPECT_EQ(rotated.text("spent_credits"), "600");
  limited.key = rotated.text("key");
  expect_error(stack_.create(limited, Stack::body()), 402, "insufficient_credits");
  const Reply without = change(R"({"spend_limit":null})");
  EXPECT_EQ(without.text("spend_limit"), "null");
  EXPECT_EQ(without.text("spent_credits"), "null");
  EXPECT_EQ(stack_.create(limited, Stack::body()).status, 202);
  // Set on a key that is in use, it holds within a second.
  change(R"({"spend_limit":{"credits":150,"period":"day"}})");
  stack_.admin({"credits",
                "grant",
                "--user",
                ann_.user,
                "--credits",
                "100000",
                "--kind",
                "bonus",
                "--reference",
                "never-too-few"});
  EXPECT_TRUE(eventually(kPatience, [&] {
    const Reply reply = stack_.create(limited, Stack::body());
    return reply.text("error.message").find("150 credits a day") != std::string::npos;
  }));
}

TEST_F(AccountTest, AHundredCreationsAtOnceStayUnderTheLimit) {
  wait_out_midnight();
  stack_.start_api(
      {{"RATE_LIMIT_CREATE_PER_MINUTE", "100000"}, {"RATE_LIMIT_CREATE_BURST", "1000"}});
  const Account rich = stack_.account(1'000'000);
  const std::string manager = made_by_hand("m", "generate,manage", rich.user);
  Account limited = rich;
  limited.key = call("POST",
                     "/account/keys",
                     manager,
                     R"({"name":"k","spend_limit":{"credits":1650,"period":"month"}})")
                    .text("key");
  std::atomic<int> created{0}, refused{0}, others{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([&] {
      const auto create = [&](const std::string& key) {
        return http("POST",
                    stack_.base() + "/audio/generations",
                    Stack::bearer(key, {"Content-Type: application/json"}),
                    Stack::body())
            .status;
      };
      for (int n = 0; n < 5; ++n) {
        const int status = create(limited.key);
        created += status == 202 ? 1 : 0;
        refused += status == 402 ? 1 : 0;
        others += create(rich.key) == 202 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(created, 11);
  EXPECT_EQ(refused, 89);
  EXPECT_EQ(others, 100);
}

TEST_F(AccountTest, AKeyWithALimitGivesNoMore) {
  const Reply made = make(
      R"({"name":"l","scopes":["generate","manage"],"spend_limit":{"credits":1000,"period":"day"}})");
  const std::string limited = made.text("key"), id = made.text("id");
  const std::string other = make(R"({"name":"o"})").text("id");
  const auto forbidden = [&](const std::string& method,
                             const std::string& path,
                             const std::string& body,
                             const std::string& of,
                             const std::string& param) {
    expect_error(call(method, path, limited, body, of), 403, "insufficient_scope", param);
  };
  const std::string one = "/account/keys/{key_id}";
  forbidden("POST", "/account/keys", R"({"name":"k"})", "", "scopes");
  forbidden("POST",
            "/account/keys",
            R"({"name":"k","spend_limit":{"credits":150,"period":"day"}})",
            "",
            "scopes");
  forbidden("PATCH", one, R"({"spend_limit":null})", id, "spend_limit");
  forbidden("PATCH", one, R"({"spend_limit":{"credits":1001,"period":"day"}})", id, "spend_limit");
  forbidden("PATCH", one, R"({"spend_limit":{"credits":150,"period":"month"}})", id, "spend_limit");
  forbidden("POST", one + "/rotate", R"({"overlap_hours":1})", other, "");
  EXPECT_EQ(call("POST", "/account/keys", limited, R"({"name":"k","scopes":[]})").status, 201);
  EXPECT_EQ(call("PATCH", one, limited, R"({"spend_limit":{"credits":900,"period":"day"}})", id)
                .text("spend_limit"),
            R"({"credits":900,"period":"day"})");
  EXPECT_EQ(call("POST", one + "/rotate", limited, R"({"overlap_hours":1})", id).status, 200);
}

TEST_F(AccountTest, AnExpiredKeyIsNone) {
  const Reply made = make(R"({"name":"k","expires_at":")" + format_iso(days_ahead(1000)) + R"("})");
  EXPECT_EQ(status_of(made.text("key")), 200);
  stack_.database().execute(store::Sql("UPDATE api_keys SET expires_at=UTC_TIMESTAMP(6) WHERE id=")
                            << *KeyId::parse(made.text("id")));
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(made.text("key")) == 401; }));
  EXPECT_NE(call("GET", "/account/keys", key_).body.find(made.text("id")), std::string::npos);
  // And works again when it gets a later end.
  const Reply changed =
      call("PATCH", "/account/keys/{key_id}", key_, R"({"expires_at":null})", made.text("id"));
  EXPECT_EQ(changed.status, 200) << changed.body;
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(made.text("key")) == 200; }));
}

TEST_F(AccountTest, AChangeTakesEffect) {
  const Reply made = make(R"({"name":"k"})");
  Account holder = ann_;
  holder.key = made.text("key");
  EXPECT_EQ(stack_.create(holder, Stack::body()).status, 202);
  const Reply changed = call("PATCH",
                             "/account/keys/{key_id}",
                             key_,
                             R"({"name":"only reads","scopes":[]})",
                             made.text("id"));
  ASSERT_EQ(changed.status, 200) << changed.body;
  EXPECT_EQ(changed.text("name"), "only reads");
  EXPECT_EQ(changed.text("scopes"), "[]");
  EXPECT_EQ(changed.text("id"), made.text("id"));
  EXPECT_EQ(changed.body.find(holder.key), std::string::npos);
  EXPECT_TRUE(
      eventually(kPatience, [&] { return stack_.create(holder, "not json").status == 403; }));
  const std::string id = made.text("id");
  const auto change = [&](const std::string& body) {
    return call("PATCH", "/account/keys/{key_id}", key_, body, id);
  };
  expect_error(change(R"({"name":null})"), 400, "invalid_request", "name");
  expect_error(
      change(R"({"expires_at":"2020-01-01T00:00:00Z"})"), 400, "invalid_request", "expires_at");
  EXPECT_EQ(change("{}").text("name"), "only reads");
}

TEST_F(AccountTest, AKeyCanEndItself) {
  const std::string key = make(R"({"name":"k","scopes":[]})").text("key");
  EXPECT_EQ(call("DELETE", "/account/keys/current", key).status, 204);
  // While it is remembered there is nothing left to delete.
  expect_error(call("DELETE", "/account/keys/current", key), 401, "invalid_api_key");
  EXPECT_TRUE(eventually(kPatience, [&] { return status_of(key) == 401; }));
  EXPECT_EQ(status_of(key_), 200);
}

TEST_F(AccountTest, NobodySeesAnothersKeys) {
  const Account bob = stack_.account();
  const std::string bobs = made_by_hand("bob", "generate,manage", bob.user);
  const std::string id = make(R"({"name":"k"})").text("id");
  for (const std::string& name : {id, KeyId::make().text(), std::string("x"), ann_.user}) {
    expect_error(
        call("PATCH", "/account/keys/{key_id}", bobs, R"({"name":"x"})", name), 404, "not_found");
    expect_error(call("DELETE", "/account/keys/{key_id}", bobs, "", name), 404, "not_found");
  }
  EXPECT_EQ(call("GET", "/account/keys", bobs).body.find(id), std::string::npos);
  EXPECT_NE(call("GET", "/account/keys", key_).body.find(id), std::string::npos);
  // Not even with a cursor of hers.
  const Reply page = call("GET", "/account/keys", key_, "", "?limit=1");
  const Reply his = call("GET", "/account/keys", bobs, "", "?cursor=" + page.text("next_cursor"));
  EXPECT_EQ(his.status, 200);
  const auto his_keys = his.json();
  for (const auto& key : his_keys["data"].GetArray()) {
    EXPECT_EQ(page.body.find(key["id"].GetString()), std::string::npos);
  }
  EXPECT_EQ(call("GET", "/account/ledger", bobs).body.find("test-" + ann_.email),
            std::string::npos);
}

TEST_F(AccountTest, TheLedgerSaysWhatEachMovementBelongsTo) {
  const std::string task = stack_.create(ann_, Stack::body()).text("id");
  stack_.admin({"task", "cancel", task});
  const Reply first = call("GET", "/account/ledger", ann_.key, "", "?limit=2");
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.text("has_more"), "true");
  const auto page = first.json();
  const auto& settled = page["data"][0];
  EXPECT_EQ(settled["seq"].GetInt(), 3);
  EXPECT_STREQ(settled["kind"].GetString(), "settlement");
  EXPECT_EQ(settled["generation_id"].GetString(), task);
  EXPECT_EQ(settled["available_change"].GetDouble(), 150);
  EXPECT_EQ(settled["reserved_change"].GetDouble(), -150);
  EXPECT_EQ(settled["charged_credits"].GetDouble(), 0);
  EXPECT_STREQ(page["data"][1]["kind"].GetString(), "reservation");
  EXPECT_EQ(page["data"][1]["balance_after"]["reserved"].GetDouble(), 150);
  const Reply second =
      call("GET", "/account/ledger", ann_.key, "", "?cursor=" + first.text("next_cursor"));
  const auto rest = second.json();
  ASSERT_EQ(rest["data"].Size(), 1U) << second.body;
  EXPECT_EQ(second.text("has_more"), "false");
  EXPECT_STREQ(rest["data"][0]["kind"].GetString(), "grant");
  EXPECT_TRUE(rest["data"][0]["generation_id"].IsNull());
  EXPECT_STREQ(rest["data"][0]["grant"]["kind"].GetString(), "purchase");
  EXPECT_EQ(rest["data"][0]["grant"]["reference"].GetString(), "test-" + ann_.email);
  EXPECT_EQ(rest["data"][0]["charged_credits"].GetDouble(), 0);
  EXPECT_EQ(call("GET",
                 "/account/ledger",
                 ann_.key,
                 "",
                 "?limit=2",
                 {"If-None-Match: " + first.header("etag")})
                .status,
            304);
}

// A place in one list is none in another, although both are numbers of ledger rows.
TEST_F(AccountTest, ACursorIsOfOneListOnly) {
  ASSERT_EQ(stack_.create(ann_, Stack::body()).status, 202);
  ASSERT_EQ(stack_.create(ann_, Stack::body()).status, 202);
  const std::vector<std::string> lists{"/account/keys", "/account/ledger", "/audio/generations"};
  for (const std::string& from : lists) {
    const std::string cursor = call("GET", from, key_, "", "?limit=1").text("next_cursor");
    for (const std::string& to : lists) {
      const Reply reply = call("GET", to, key_, "", "?cursor=" + cursor);
      if (from == to) {
        EXPECT_EQ(reply.status, 200) << reply.body;
      } else {
        expect_error(reply, 400, "invalid_request", "cursor");
      }
    }
  }
}

}  // namespace
}  // namespace audiogen::test
