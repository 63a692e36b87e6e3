// The two endpoints as clients know them, row by row, through HTTP: statuses, codes, fields,
// headers, the order of checks.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "common/domain/api_key.h"
#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/raw_http.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

// No worker: tasks stay as they were created.
Stack::Options without_worker() {
  Stack::Options options;
  options.workers = 0;
  return options;
}

void expect_error(const Reply& reply, int status, const std::string& code) {
  EXPECT_EQ(reply.status, status) << reply.body;
  EXPECT_EQ(reply.text("error.code"), code);
  EXPECT_FALSE(reply.text("error.message").empty());
  EXPECT_EQ(reply.text("error.request_id"), reply.header("x-request-id"));
  EXPECT_FALSE(reply.header("x-request-id").empty());
}

TEST(Create, AnswersTheResourceInProcessing) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const Reply reply = stack.create(ann, Stack::body());
  ASSERT_EQ(reply.status, 202) << reply.body;
  EXPECT_TRUE(reply.text("id").starts_with("aud_"));
  EXPECT_EQ(reply.text("id").size(), 30U);
  EXPECT_EQ(reply.text("object"), "audio.generation");
  EXPECT_EQ(reply.text("model"), "svc-audio-1.0");
  EXPECT_EQ(reply.text("status"), "processing");
  EXPECT_EQ(reply.text("billing"), R"({"reserved_credits":150})");
  for (const char* name : {"output", "usage", "error"}) {
    EXPECT_EQ(reply.text(name), "null") << name;
  }
  EXPECT_EQ(reply.header("location"), "/api/v1/audio/generations/" + reply.text("id"));
  const Reply read = stack.get(ann, reply.text("id"));
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(read.body, reply.body);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 150);
}

TEST(Create, ChecksComeInTheirOrder) {
  Stack stack(without_worker());
  const std::string url = stack.base() + "/audio/generations";
  const std::vector<std::string> json = {"Content-Type: application/json"};
  // 401 before everything.
  expect_error(stack.judged("POST", "/audio/generations", http("POST", url, {}, "not json")),
               401,
               "invalid_api_key");
  // 403 before 400.
  const std::string email = "free@example.com";
  stack.admin({"user", "create", "--email", email, "--plan", "free"});
  Account free{
      .user = email,
      .email = email,
      .key = stack.admin({"key", "create", "--user", email, "--name", "k"})["key"].GetString()};
  expect_error(stack.create(free, "not json"), 403, "api_access_required");
  // A purchase opens the door at once.
  stack.admin({"credits",
               "grant",
               "--user",
               email,
               "--credits",
               "149",
               "--kind",
               "purchase",
               "--reference",
               "p1"});
  // 400 before 402.
  expect_error(stack.create(free, "not json"), 400, "invalid_request");
  const Reply poor = stack.create(free, Stack::body());
  expect_error(poor, 402, "insufficient_credits");
  EXPECT_NE(poor.text("error.message").find("150"), std::string::npos);
  // 150 are enough, once.
  stack.admin({"credits",
               "grant",
               "--user",
               email,
               "--credits",
               "1",
               "--kind",
               "bonus",
               "--reference",
               "p2"});
  EXPECT_EQ(stack.create(free, Stack::body()).status, 202);
  expect_error(stack.create(free, Stack::body()), 402, "insufficient_credits");
}

TEST(Create, BadBodiesAndHeadersAre400AndHoldNothing) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::vector<std::pair<std::string, std::string>> bodies = {
      {"", "body"},
      {"[]", "object"},
      {R"({"prompt":"x"})", "model"},
      {R"({"model":"other","prompt":"x"})", "model"},
      {R"({"model":"svc-audio-1.0"})", "prompt"},
      {R"({"model":"svc-audio-1.0","prompt":""})", "prompt"},
      {R"({"model":"svc-audio-1.0","prompt":")" + std::string(2049, 'a') + R"("})", "prompt"},
      {R"({"model":"svc-audio-1.0","prompt":7})", "prompt"},
      {R"({"model":"svc-audio-1.0","prompt":"x","voice":"nobody"})", "aria"},
      {R"({"model":"svc-audio-1.0","prompt":"x","voice":null})", "voice"},
      {R"({"model":"svc-audio-1.0","prompt":"x","user_id":"me"})", "user_id"},
      {R"({"model":"svc-audio-1.0","prompt":"x","prompt":"y"})", "prompt"},
      {R"({"model":"svc-audio-1.0","prompt":"x","output_format":"flac"})", "output_format"},
      {R"({"model":"svc-audio-1.0","prompt":"x","sample_rate":22050})", "sample_rate"},
      {R"({"model":"svc-audio-1.0","prompt":"x","sample_rate":"24000"})", "sample_rate"},
      {R"({"model":"svc-audio-1.0","prompt":"x","speed":0.49})", "speed"},
      {R"({"model":"svc-audio-1.0","prompt":"x","speed":2.01})", "speed"},
      {R"({"model":"svc-audio-1.0","prompt":"x","volume":2.5})", "volume"},
      {R"({"model":"svc-audio-1.0","prompt":"x","pitch":-12.5})", "pitch"},
      {R"({"model":"svc-audio-1.0","prompt":"x","audio_references":["https://a.example/1","https://a.example/2","https://a.example/3","https://a.example/4"]})",
       "audio_references"},
      {R"({"model":"svc-audio-1.0","prompt":"x","audio_references":["http://127.0.0.1/a"]})",
       "audio_references"},
      {R"({"model":"svc-audio-1.0","prompt":"x","audio_references":["https://a.example/1"],"image_url":"https://a.example/i"})",
       "image_url"},
      {R"({"model":"svc-audio-1.0","prompt":"x","image_url":"ftp://a.example/i"})", "image_url"},
      {R"({"model":"svc-audio-1.0","prompt":"x"} trailing)", ""},
  };
  for (const auto& [body, named] : bodies) {
    const Reply reply = stack.create(ann, body);
    expect_error(reply, 400, "invalid_request");
    EXPECT_NE(reply.text("error.message").find(named), std::string::npos) << body << "\n"
                                                                          << reply.body;
  }
  for (const std::string& key :
       {std::string(129, 'k'), std::string("has space"), std::string("k\xc3\xa9y")}) {
    expect_error(
        stack.create(ann, Stack::body(), {"Idempotency-Key: " + key}), 400, "invalid_request");
  }
  expect_error(stack.create(ann, Stack::body(), {"Idempotency-Key: a", "Idempotency-Key: b"}),
               400,
               "invalid_request");
  const std::string url = stack.base() + "/audio/generations";
  for (const char* type : {"text/plain", "application/xml", "application/json; charset=latin1"}) {
    const Reply reply = http(
        "POST", url, Stack::bearer(ann.key, {std::string("Content-Type: ") + type}), Stack::body());
    expect_error(stack.judged("POST", "/audio/generations", reply), 400, "invalid_request");
  }
  expect_error(
      stack.create(ann, Stack::body(), {"Content-Encoding: gzip"}), 400, "invalid_request");
  // Of a key that is known, and of one that is looked up while the body comes.
  expect_error(stack.create(ann, std::string(300 * 1024, ' ')), 400, "invalid_request");
  expect_error(stack.create(stack.account(), std::string(300 * 1024, ' ')), 400, "invalid_request");
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 0);
  EXPECT_EQ(stack.admin({"task", "list", "--user", ann.user})["tasks"].Size(), 0U);
}

TEST(Create, LimitsThatAreStillAllowed) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  std::string longest;
  for (int i = 0; i < 2048; ++i) {
    longest += "\xf0\x9f\x98\x80";  // Four bytes, one character.
  }
  EXPECT_EQ(stack.create(ann, Stack::body(longest)).status, 202);
  EXPECT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: " + std::string(128, 'k')}).status,
            202);
  EXPECT_EQ(
      stack
          .create(
              ann,
              R"({"model":"svc-audio-1.0","prompt":"x","voice":"atlas","output_format":"wav","sample_rate":48000.0,
                             "speed":0.5,"volume":2.0,"pitch":-12})")
          .status,
      202);
  EXPECT_EQ(
      stack
          .create(
              ann,
              R"({"model":"svc-audio-1.0","prompt":"x","audio_references":["https://a.example/1","https://a.example/2","https://a.example/3"]})")
          .status,
      202);
}

TEST(Idempotency, TheSameRequestGivesTheSameTaskAndOneHold) {
  Stack stack(without_worker());
  const Account ann = stack.account(400);
  const std::vector<std::string> key = {"Idempotency-Key: order-1"};
  const Reply first =
      stack.create(ann, R"({"model":"svc-audio-1.0","prompt":"same","speed":1})", key);
  ASSERT_EQ(first.status, 202);
  EXPECT_EQ(first.header("idempotent-replayed"), "");
  // Member order, white space and number spelling do not matter; a quoted key is the same key.
  const Reply again =
      stack.create(ann,
                   R"( { "speed": 1.0 , "prompt":"same", "model":"svc-audio-1.0" } )",
                   {"Idempotency-Key: \"order-1\""});
  ASSERT_EQ(again.status, 202);
  EXPECT_EQ(again.text("id"), first.text("id"));
  EXPECT_EQ(again.header("idempotent-replayed"), "true");
  expect_error(stack.create(ann, R"({"model":"svc-audio-1.0","prompt":"other"})", key),
               409,
               "idempotency_conflict");
  // A replay needs no free credits.
  ASSERT_EQ(stack.create(ann, Stack::body()).status, 202);
  expect_error(stack.create(ann, Stack::body()), 402, "insufficient_credits");
  EXPECT_EQ(
      stack.create(ann, R"({"model":"svc-audio-1.0","prompt":"same","speed":1})", key).text("id"),
      first.text("id"));
  // Another user's key of the same name is another key.
  const Account bob = stack.account();
  const Reply his = stack.create(bob, R"({"model":"svc-audio-1.0","prompt":"other"})", key);
  EXPECT_EQ(his.status, 202);
  EXPECT_NE(his.text("id"), first.text("id"));
  // A refused request stores nothing: after a top-up the same key works.
  const Account poor = stack.account(100);
  expect_error(stack.create(poor, Stack::body(), key), 402, "insufficient_credits");
  stack.admin({"credits",
               "grant",
               "--user",
               poor.user,
               "--credits",
               "100",
               "--kind",
               "purchase",
               "--reference",
               "top"});
  EXPECT_EQ(stack.create(poor, Stack::body(), key).status, 202);
}

TEST(Idempotency, SixtyFourAtOnceGiveOneTask) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  std::mutex mutex;
  std::set<std::string> ids;
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      const Reply reply = stack.create(ann, Stack::body(), {"Idempotency-Key: one"});
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(reply.status, 202) << reply.body;
      ids.insert(reply.text("id"));
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 150);
}

TEST(Idempotency, OfTwoRequestsWithOneKeyAtOnceOneWins) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  std::mutex mutex;
  std::map<int, std::set<std::string>> ids;    // By which of the two.
  std::map<int, std::map<int, int>> statuses;  // Likewise.
  std::vector<std::thread> clients;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&, body = i % 2] {
      const Reply reply = stack.create(
          ann, Stack::body(body == 0 ? "The one." : "The other."), {"Idempotency-Key: one"});
      const std::scoped_lock lock(mutex);
      ++statuses[body][reply.status];
      if (reply.status == 202) {
        ids[body].insert(reply.text("id"));
      } else {
        expect_error(reply, 409, "idempotency_conflict");
      }
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  ASSERT_EQ(ids.size(), 1U) << "the same key made a task of either body, or of none";
  const int winner = ids.begin()->first;
  EXPECT_EQ(ids[winner].size(), 1U);
  EXPECT_EQ(statuses[winner], (std::map<int, int>{{202, 32}}));
  EXPECT_EQ(statuses[1 - winner], (std::map<int, int>{{409, 32}}));
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 150);
  stack.database().expect_invariants();
}

// A client that resets its connection cannot know what became of its creation: perhaps it was never
// read. Either way the key tells, the list agrees, and what there is runs and is paid for once.
TEST(Idempotency, AClientThatResetsFindsOneTaskByItsKey) {
  constexpr int kClients = 100;
  const ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.5); });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  const auto name = [](int i) { return "reset-" + std::to_string(i); };
  const auto key = [&](int i) { return "Idempotency-Key: " + name(i); };
  const auto body = [](int i) { return wav_body("Number " + std::to_string(i)); };
  const auto tasks = [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks"));
  };
  const auto is_there = [&](int i) {
    return stack.database().number(
               store::Sql("SELECT COUNT(*) FROM idempotency WHERE idem_key=").bytes(name(i))) == 1;
  };
  for (int i = 0; i < kClients; ++i) {
    RawConnection client(stack.api_port());
    ASSERT_TRUE(
        client.send(post_request("/api/v1/audio/generations",
                                 body(i),
                                 "Authorization: Bearer " + ann.key +
                                     "\r\nContent-Type: application/json\r\n" + key(i) + "\r\n")));
    if (i % 2 == 0) {  // Of these there surely is a task; only the answer finds nobody.
      ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return is_there(i); }));
    }
    client.reset();
  }
  std::set<std::string> ids;
  for (int i = 0; i < kClients; ++i) {
    const Reply again = stack.create(ann, body(i), {key(i)});
    ASSERT_EQ(again.status, 202) << again.body;
    EXPECT_TRUE(ids.insert(again.text("id")).second) << "another one's task";
  }
  EXPECT_EQ(tasks(), kClients);
  const Reply page = stack.judged(
      "GET",
      "/audio/generations",
      http("GET", stack.base() + "/audio/generations?limit=100", Stack::bearer(ann.key)));
  const auto document = page.json();
  std::set<std::string> listed;
  for (const auto& task : document["data"].GetArray()) {
    listed.insert(task["id"].GetString());
  }
  EXPECT_EQ(listed, ids);
  EXPECT_EQ(page.text("has_more"), "false");
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  }
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["available_credits"].GetDouble(),
            100'000 - kClients * 10);
  stack.database().expect_invariants();
}

TEST(Credits, AHeldBalanceIs503InTimeAndLeavesNothing) {
  Stack stack(without_worker());
  const Account ann = stack.account(), bob = stack.account();
  const auto of_ann = [&](store::Sql sql) {
    return stack.database().number(sql << " WHERE user_id=" << UserId::parse(ann.user).value());
  };
  store::Session holder(stack.database().url(),
                        {.idle_in_transaction_max = std::chrono::seconds(600)});
  holder.execute(store::Sql("BEGIN"));
  ASSERT_TRUE(holder
                  .query(store::Sql("SELECT seq FROM balances WHERE user_id=")
                         << UserId::parse(ann.user).value() << " FOR UPDATE")
                  .next());
  std::vector<std::thread> clients;
  for (const bool with_key : {true, false}) {
    clients.emplace_back([&, with_key] {
      const std::vector<std::string> headers =
          with_key ? std::vector<std::string>{"Idempotency-Key: k"} : std::vector<std::string>{};
      const Reply reply = stack.create(ann, Stack::body(), headers);
      expect_error(reply, 503, "service_unavailable");
      EXPECT_FALSE(reply.header("retry-after").empty());
      // After nine seconds the server itself says so, whoever waits for a row.
      EXPECT_LT(reply.seconds, 9);
    });
  }
  EXPECT_EQ(stack.create(bob, Stack::body()).status, 202) << "nobody else waits";
  for (std::thread& client : clients) {
    client.join();
  }
  holder.execute(store::Sql("ROLLBACK"));

  // Whatever were still to come of them would be before this one.
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202);
  EXPECT_EQ(of_ann(store::Sql("SELECT COUNT(*) FROM tasks")), 1) << "a refused creation came late";
  EXPECT_EQ(of_ann(store::Sql("SELECT COUNT(*) FROM idempotency")), 0);
  const Reply again = stack.create(ann, Stack::body(), {"Idempotency-Key: k"});
  EXPECT_EQ(again.status, 202) << again.body;
  EXPECT_EQ(again.header("idempotent-replayed"), "") << "there was nothing to replay";
  EXPECT_EQ(of_ann(store::Sql("SELECT COUNT(*) FROM tasks")), 2);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 300);
  stack.database().expect_invariants();
}

TEST(Credits, ThirtyTwoCreatesForOneHold) {
  Stack stack(without_worker());
  const Account ann = stack.account(150);
  std::atomic<int> accepted{0}, refused{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i) {
    clients.emplace_back([&] {
      const int status = stack.create(ann, Stack::body()).status;
      (status == 202 ? accepted : refused) += status == 202 || status == 402 ? 1 : 100;
    });
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(refused, 31);
  stack.database().expect_invariants();
}

TEST(Get, ForeignMissingAndMalformedIdsLookTheSame) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const Account bob = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.get(ann, id).status, 200);
  std::set<std::string> bodies;
  for (const std::string& path : {id,
                                  std::string("aud_01jd0000000000000000000000"),
                                  std::string("nonsense"),
                                  std::string("aud_"),
                                  std::string("%00"),
                                  std::string("1%27%20OR%201=1")}) {
    const Reply reply = stack.get(bob, path);
    expect_error(reply, 404, "task_not_found");
    bodies.insert(reply.text("error.message"));
  }
  EXPECT_EQ(bodies.size(), 1U);
}

TEST(Get, WorksWithoutPaidAccess) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const std::string email = "lapsed@example.com";
  stack.admin({"user", "create", "--email", email, "--plan", "free"});
  const Account lapsed{
      .user = email,
      .email = email,
      .key = stack.admin({"key", "create", "--user", email, "--name", "k"})["key"].GetString()};
  expect_error(stack.get(lapsed, id), 404, "task_not_found");
}

TEST(Auth, EveryWrongKeyIsTheSame401) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string url = stack.base() + "/audio/generations/aud_01jd0000000000000000000000";
  std::string almost = ann.key;
  almost.back() = almost.back() == 'a' ? 'b' : 'a';
  std::set<std::string> messages;
  for (const std::vector<std::string>& headers :
       std::vector<std::vector<std::string>>{{},
                                             {"Authorization: "},
                                             {"Authorization: Bearer"},
                                             {"Authorization: Bearer wrong"},
                                             {"Authorization: Bearer " + almost},
                                             {"Authorization: Bearer " + ann.key.substr(0, 20)},
                                             {"Authorization: Basic " + ann.key},
                                             {"X-Api-Key: " + ann.key}}) {
    const Reply reply =
        stack.judged("GET", "/audio/generations/{task_id}", http("GET", url, headers));
    expect_error(reply, 401, "invalid_api_key");
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
    messages.insert(reply.text("error.message"));
  }
  EXPECT_EQ(messages.size(), 1U);
  expect_error(http("GET", url + "?api_key=" + ann.key), 401, "invalid_api_key");
}

// That it does so within a second, tests/api/auth_test.cc shows by a clock of its own.
TEST(Auth, ADeletedKeyStops) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).text("id");
  EXPECT_EQ(stack.get(ann, id).status, 200);
  const auto keys = stack.admin({"key", "list", "--user", ann.user});
  stack.admin({"key", "delete", "--key", keys["keys"][0]["id"].GetString()});
  EXPECT_TRUE(
      eventually(std::chrono::seconds(60), [&] { return stack.get(ann, id).status == 401; }));
  // Not even a replay.
  expect_error(stack.create(ann, Stack::body(), {"Idempotency-Key: k"}), 401, "invalid_api_key");
}

// What a release before seals has left: an address that was forged with a provider's help could
// open it, so it is for the operator to say, or for whoever signs his links.
TEST(Files, WithoutASealAreServedOnlyToWhoeverSaysSo) {
  Stack stack(without_worker());
  const std::string segment = "01m7z5s0123456789abc",
                    name = "01m7z5s000000000000000000a-0123456789abcdefghjkmnpqrs-24000.mp3";
  std::string bytes = "AGblob1\n" + std::string(8, '\0') + '\5' + std::string(7, '\0') + name;
  bytes.resize(128);
  bytes += "audio";
  bytes.resize(4096);
  const std::string folder = stack.log_folder() + "/blobs/01m7z5";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/" + segment, std::ios::binary) << bytes;
  const std::string url = stack.public_url() + "/files/" + segment + "/0-5/" + name;
  EXPECT_EQ(http("GET", url).status, 404);
  stack.api().kill();
  stack.start_api({{"BLOB_UNSEALED", "serve"}});
  const Reply served = http("GET", url);
  EXPECT_EQ(served.status, 200);
  EXPECT_EQ(served.body, "audio");
}

TEST(RateLimit, FilesPerAddress) {
  Stack::Options options = without_worker();
  options.environment = {{"RATE_LIMIT_FILES_PER_MINUTE", "1"}, {"RATE_LIMIT_FILES_BURST", "3"}};
  Stack stack(options);
  const std::string url =
      stack.public_url() + "/files/01j9x4tqkc7v2m8e5r0hfzw3dn-a0b1c2d3e4f5g6h7j8k9mnpqrs-24000.mp3";
  for (int i = 0; i < 3; ++i) {
    expect_error(http("GET", url), 404, "not_found");
  }
  const Reply refused = http("GET", url);
  expect_error(refused, 429, "rate_limit_exceeded");
  EXPECT_GT(std::stoi(refused.header("retry-after")), 0);
  const Account ann = stack.account();
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202) << "a class of its own";
}

TEST(RateLimit, HeadersAnd429PerKeyAndClass) {
  Stack::Options options = without_worker();
  options.environment = {{"RATE_LIMIT_CREATE_PER_MINUTE", "60"},
                         {"RATE_LIMIT_CREATE_BURST", "3"},
                         {"RATE_LIMIT_READ_PER_MINUTE", "60"},
                         {"RATE_LIMIT_READ_BURST", "2"},
                         {"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "4"}};
  Stack stack(options);
  const Account ann = stack.account();
  const Reply first = stack.create(ann, Stack::body());
  EXPECT_EQ(first.header("ratelimit-policy"), R"("create";q=3;w=3)");
  EXPECT_EQ(first.header("ratelimit"), R"("create";r=2;t=1)");
  EXPECT_EQ(first.header("x-ratelimit-limit"), "3");
  EXPECT_EQ(first.header("x-ratelimit-remaining"), "2");
  EXPECT_EQ(first.header("x-ratelimit-reset"), "1");
  Reply refused;
  for (int i = 0; i < 10 && refused.status != 429; ++i) {
    refused = stack.create(ann, "not json");  // Refused requests count too.
  }
  expect_error(refused, 429, "rate_limit_exceeded");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(refused.header("x-ratelimit-remaining"), "0");
  // Another one is there within a second, all of them later.
  EXPECT_EQ(refused.header("ratelimit"), R"("create";r=0;t=1)");
  EXPECT_EQ(refused.header("x-ratelimit-reset"), "3");
  // Reads are another class, other keys another bucket.
  EXPECT_EQ(stack.get(ann, first.text("id")).status, 200);
  EXPECT_EQ(stack.create(stack.account(), Stack::body()).status, 202);
  // Without a valid key: by address; no valid one is disturbed.
  const auto limited = [&](const auto& key) {
    int out = 0;
    for (int i = 0; i < 8; ++i) {
      out += http("GET", stack.base() + "/audio/generations/x", Stack::bearer(key())).status == 429
                 ? 1
                 : 0;
    }
    return out;
  };
  EXPECT_GE(limited([] { return std::string("wrong"); }), 3);
  EXPECT_EQ(stack.get(ann, "aud_x").status, 404);
  EXPECT_EQ(stack.get(stack.account(), "aud_x").status, 404) << "what is no key is counted apart";
  EXPECT_GE(limited([] { return make_api_key("svc").text; }), 3);
  // Which one is valid nobody can tell without asking: one that was not seen lately waits.
  EXPECT_EQ(stack.get(stack.account(), "aud_x").status, 429);
}

TEST(Paths, UnknownOnesAndWrongMethods) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  for (const char* path : {"/nothing",
                           "/api/v1",
                           "/api/v1/audio",
                           "/api/v2/audio/generations",
                           "/api/v1/audio/generations/a/b",
                           "/metrics",
                           "/healthz",
                           "/files/",
                           "/files/../../etc/passwd",
                           "/files/%2e%2e/x"}) {
    const Reply reply = http("GET", stack.public_url() + path, Stack::bearer(ann.key));
    EXPECT_TRUE(reply.status == 404 || reply.status == 400) << path << " " << reply.status;
    EXPECT_FALSE(reply.text("error.code").empty()) << path;
  }
  for (const char* method : {"PUT", "DELETE", "PATCH"}) {
    const Reply reply = http(method, stack.base() + "/audio/generations", Stack::bearer(ann.key));
    expect_error(reply, 405, "method_not_allowed");
    EXPECT_EQ(reply.header("allow"), "POST, GET");
  }
  const Reply reply = http("PUT", stack.base() + "/audio/generations/x", Stack::bearer(ann.key));
  expect_error(reply, 405, "method_not_allowed");
  EXPECT_EQ(reply.header("allow"), "GET, DELETE");
  // The table of the interface has no HEAD.
  EXPECT_EQ(http("HEAD", stack.base() + "/audio/generations/x", Stack::bearer(ann.key)).status,
            405);
  const Reply options = http("OPTIONS", stack.base() + "/audio/generations");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "POST, GET, OPTIONS");
}

TEST(Pages, OfOtherSitesMayCreateAndRead) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string origin = "Origin: https://example.org";
  const Reply preflight = http("OPTIONS",
                               stack.base() + "/audio/generations",
                               {origin, "Access-Control-Request-Method: POST"});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST, GET");
  const Reply created = stack.create(ann, Stack::body(), {origin});
  EXPECT_EQ(created.status, 202);
  EXPECT_EQ(created.header("access-control-allow-origin"), "*");
  EXPECT_NE(created.header("access-control-expose-headers").find("Location"), std::string::npos);
  const std::string url = stack.base() + "/audio/generations/" + created.text("id");
  EXPECT_EQ(
      http("GET", url, Stack::bearer(ann.key, {origin})).header("access-control-allow-origin"),
      "*");
  // A page is told why it is refused as well.
  EXPECT_EQ(http("GET", url, {origin}).header("access-control-allow-origin"), "*");
  // Whoever is no page sees nothing of it.
  for (const Reply& other : {stack.create(ann, Stack::body()), stack.get(ann, "aud_x")}) {
    for (const auto& [name, value] : other.headers) {
      EXPECT_FALSE(name.starts_with("access-control") || name == "vary") << name;
    }
  }
}

TEST(RequestIds, AGoodOneIsKeptABadOneReplaced) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  EXPECT_EQ(stack.create(ann, Stack::body(), {"X-Request-Id: my-id_1.2"}).header("x-request-id"),
            "my-id_1.2");
  const Reply replaced = stack.create(ann, "{}", {"X-Request-Id: has space"});
  EXPECT_TRUE(replaced.header("x-request-id").starts_with("req_"));
  EXPECT_EQ(replaced.text("error.request_id"), replaced.header("x-request-id"));
}

TEST(OpenApiDocument, IsServedAndDescribesTheRoutes) {
  Stack stack(without_worker());
  const Reply reply = http("GET", stack.base() + "/openapi.json");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.text("openapi").substr(0, 3), "3.1");
  EXPECT_EQ(reply.text("info.version"), "1.0.0");
  const OpenApi served = OpenApi::from_text(reply.body);
  EXPECT_EQ(served.operations(),
            OpenApi::from_file(source_path("schema/openapi.json")).operations());
  // What the document allows the service accepts, and the other way round.
  const Account ann = stack.account();
  for (const char* body :
       {R"({"model":"svc-audio-1.0","prompt":"x"})",
        R"({"model":"svc-audio-1.0","prompt":"x","pitch":12,"voice":"mei","sample_rate":8000})",
        R"({"model":"svc-audio-1.0","prompt":"x","pitch":13})",
        R"({"model":"svc-audio-1.0","prompt":"x","extra":1})",
        R"({"model":"svc-audio-1.0"})",
        R"({"model":"svc-audio-2.0","prompt":"x"})",
        R"({"model":"svc-audio-1.0","prompt":"x","output_format":"aac"})"}) {
    EXPECT_EQ(served.check_request("POST", "/audio/generations", body).empty(),
              stack.create(ann, body).status == 202)
        << body;
  }
}

TEST(Brand, NamesTheModelAndTheKeys) {
  Stack::Options options = without_worker();
  options.environment = {{"BRAND", "acme"}};
  Stack stack(options);
  const Account ann = stack.account();
  EXPECT_TRUE(ann.key.starts_with("acme_live_"));
  const std::vector<std::string> headers =
      Stack::bearer(ann.key, {"Content-Type: application/json"});
  const std::string url = stack.base() + "/audio/generations";
  const Reply reply = http("POST", url, headers, R"({"model":"acme-audio-1.0","prompt":"x"})");
  EXPECT_EQ(reply.status, 202) << reply.body;
  EXPECT_EQ(reply.text("model"), "acme-audio-1.0");
  EXPECT_EQ(http("POST", url, headers, Stack::body()).status, 400);
  EXPECT_NE(http("GET", stack.base() + "/openapi.json").body.find("acme-audio-1.0"),
            std::string::npos);
}

TEST(Operations, HealthReadinessAndMetricsOnTheirOwnPort) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  ASSERT_EQ(stack.create(ann, Stack::body()).status, 202);
  EXPECT_EQ(http("GET", stack.ops_url() + "/healthz").status, 200);
  EXPECT_EQ(http("GET", stack.ops_url() + "/readyz").text("database"), "true");
  EXPECT_NE(http("GET", stack.ops_url() + "/metrics")
                .body.find("audiogen_admissions_total{outcome=\"created\"} 1"),
            std::string::npos);
  EXPECT_EQ(http("GET", stack.ops_url() + "/api/v1/openapi.json").status, 404);
}

TEST(Logs, CarryIdsAndNoSecretNorPrompt) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const std::string canary = "canary-prompt-7731";
  const Reply reply = stack.create(
      ann, Stack::body(canary), {"X-Request-Id: trace-me", "Idempotency-Key: canary-key-7731"});
  ASSERT_EQ(reply.status, 202);
  stack.create(
      ann,
      R"({"model":"svc-audio-1.0","prompt":"canary-prompt-7731","voice":"canary-voice-7731"})");
  stack.get(ann, reply.text("id") + "canary-id");
  stack.api().signal(15);
  EXPECT_EQ(stack.api().wait(std::chrono::seconds(60)), 0);
  const std::string log = stack.api().log();
  EXPECT_NE(log.find("trace-me"), std::string::npos);
  EXPECT_NE(log.find(reply.text("id")), std::string::npos);
  EXPECT_EQ(log.find("canary"), std::string::npos);
  EXPECT_EQ(log.find(ann.key), std::string::npos);
  const std::string database_url = stack.database_url("api");
  const auto colon = database_url.find(':', 8);
  const std::string password = database_url.substr(colon + 1, database_url.find('@') - colon - 1);
  if (!password.empty()) {
    EXPECT_EQ(log.find(password), std::string::npos);
  }
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    rapidjson::Document document;
    document.Parse(line.c_str());
    EXPECT_FALSE(document.HasParseError()) << line;
  }
}

}  // namespace
}  // namespace audiogen::test
