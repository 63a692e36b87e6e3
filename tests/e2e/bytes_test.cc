// A client that knows the two endpoints and nothing else sees these bytes, whatever has been built
// around them: every header line in its order, every member of the body.
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/raw_http.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

// Ids, times and counts of requests, which are others every time, as words.
std::string masked(std::string text) {
  for (const auto& [pattern, word] :
       {std::pair<const char*, const char*>{"Date: [^\r]*", "Date: D"},
        {"aud_[0-9a-z]{26}", "aud_I"},
        {"\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z", "T"},
        {"t=\\d+", "t=N"},
        {"r=\\d+", "r=N"},
        {"(X-RateLimit-(Remaining|Reset)): \\d+", "$1: N"},
        {"(Retry-After:|the next one in) \\d\\d", "$1 N"},
        {"http://127\\.0\\.0\\.1:\\d+/files/([0-9a-z-]+/)*[0-9a-z]{26}-[0-9a-z]{26}-24000", "FILE"},
        {"Content-Length: \\d+", "Content-Length: L"}}) {
    text = std::regex_replace(text, std::regex(pattern), word);
  }
  return text;
}

std::string lines_of(const std::string& kind, const std::string& burst, const std::string& window) {
  return "X-Request-Id: mine\r\nRateLimit-Policy: \"" + kind + "\";q=" + burst + ";w=" + window +
         "\r\nX-RateLimit-Limit: " + burst + "\r\nRateLimit: \"" + kind +
         "\";r=N;t=N\r\nX-RateLimit-Remaining: N\r\nX-RateLimit-Reset: N\r\n";
}

constexpr const char* kHead =
    "Date: D\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n";
constexpr const char* kTask =
    R"({"id":"aud_I","object":"audio.generation","model":"svc-audio-1.0","status":"processing",)"
    R"("created_at":"T","updated_at":"T","output":null,"usage":null,)"
    R"("billing":{"reserved_credits":150},"error":null})";

TEST(Bytes, OfTheTwoEndpointsAreWhatTheyWere) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"RATE_LIMIT_CREATE_PER_MINUTE", "60"},
                         {"RATE_LIMIT_CREATE_BURST", "20"},
                         {"RATE_LIMIT_READ_PER_MINUTE", "60"},
                         {"RATE_LIMIT_READ_BURST", "30"}};
  Stack stack(options);
  const Account ann = stack.account(150);
  const std::string who = "Authorization: Bearer " + ann.key + "\r\nX-Request-Id: mine\r\n";
  RawConnection client(stack.api_port());
  const auto create = [&](const std::string& body) {
    const auto response = client.exchange(post_request(
        "/api/v1/audio/generations", body, who + "Content-Type: application/json\r\n"));
    return response ? *response : RawResponse{};
  };
  const std::string creating = lines_of("create", "20", "20");
  const std::string reading = lines_of("read", "30", "30");

  const RawResponse created = create(Stack::body());
  EXPECT_EQ(masked(created.head),
            "HTTP/1.1 202 Accepted\r\n" + std::string(kHead) + creating +
                "Location: /api/v1/audio/generations/aud_I\r\nContent-Length: L\r\n");
  EXPECT_EQ(masked(created.body), kTask);

  const std::string place = created.header("location");
  const auto read = client.exchange(get_request(place, who));
  ASSERT_TRUE(read);
  EXPECT_EQ(masked(read->head),
            // When to ask again, which a client may leave unread: the one header that came later.
            "HTTP/1.1 200 OK\r\n" + std::string(kHead) + reading +
                "Retry-After: 3\r\nContent-Length: L\r\n");
  EXPECT_EQ(read->body, created.body);

  const RawResponse poor = create(Stack::body());
  EXPECT_EQ(masked(poor.head),
            "HTTP/1.1 402 Payment Required\r\n" + std::string(kHead) + creating +
                "Content-Length: L\r\n");
  EXPECT_EQ(poor.body,
            R"({"error":{"code":"insufficient_credits","message":"At least 150 credits are )"
            R"(required to create a generation.","request_id":"mine"}})");
  EXPECT_EQ(create("{}").body,
            R"({"error":{"code":"invalid_request","message":"model is required.",)"
            R"("request_id":"mine"}})");
  const auto missing =
      client.exchange(get_request("/api/v1/audio/generations/aud_01jd0000000000000000000000", who));
  ASSERT_TRUE(missing);
  EXPECT_EQ(masked(missing->head),
            "HTTP/1.1 404 Not Found\r\n" + std::string(kHead) + reading + "Content-Length: L\r\n");
  EXPECT_EQ(missing->body,
            R"({"error":{"code":"task_not_found","message":"There is no such task.",)"
            R"("request_id":"mine"}})");
}

// The rest of what the two may answer: every end of a task, and every refusal.
TEST(Bytes, OfEveryEndAndEveryRefusalAreWhatTheyWere) {
  const ProviderDouble provider([](const DoubleCall& call) {
    return member_of(call, "input") == "good"
               ? wav_reply(10.4)
               : DoubleReply{.status = 400,
                             .headers = {"Content-Type: application/json"},
                             .body = R"({"error":{"code":"content_policy_violation"}})"};
  });
  const ChainFile chain({openai_entry("primary", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  // So few that none comes back while this runs.
  options.environment["RATE_LIMIT_CREATE_PER_MINUTE"] = "1";
  options.environment["RATE_LIMIT_CREATE_BURST"] = "8";
  Stack stack(options);
  const std::string creating = lines_of("create", "8", "480");
  const std::string reading = lines_of("read", "1000000", "60");
  const auto who = [](const std::string& key) {
    return "Authorization: Bearer " + key + "\r\nX-Request-Id: mine\r\n";
  };
  RawConnection client(stack.api_port());
  const auto create = [&](const std::string& key, const std::string& body, const char* more = "") {
    const auto response = client.exchange(post_request(
        "/api/v1/audio/generations", body, who(key) + "Content-Type: application/json\r\n" + more));
    return response ? *response : RawResponse{};
  };
  const auto read = [&](const std::string& key, const std::string& place) {
    const auto response = client.exchange(get_request(place, who(key)));
    return response ? *response : RawResponse{};
  };
  const auto head = [](const char* status, const std::string& lines, const std::string& more) {
    return "HTTP/1.1 " + std::string(status) + "\r\n" + kHead + lines + more +
           "Content-Length: L\r\n";
  };
  const auto error = [](const std::string& code, const std::string& message) {
    return R"({"error":{"code":")" + code + R"(","message":")" + message +
           R"(","request_id":"mine"}})";
  };
  const auto task = [](const char* status, const char* more) {
    return R"({"id":"aud_I","object":"audio.generation","model":"svc-audio-1.0","status":")" +
           std::string(status) + R"(","created_at":"T","updated_at":"T",)" + more + "}";
  };

  const Account ann = stack.account();
  constexpr const char* kOnce = "Idempotency-Key: once\r\n";
  const RawResponse created = create(ann.key, wav_body("good"), kOnce);
  const RawResponse replayed = create(ann.key, wav_body("good"), kOnce);
  EXPECT_EQ(masked(replayed.head),
            head("202 Accepted",
                 creating,
                 "Location: /api/v1/audio/generations/aud_I\r\nIdempotent-Replayed: true\r\n"));
  EXPECT_EQ(replayed.body, created.body);
  const RawResponse conflict = create(ann.key, wav_body("another"), kOnce);
  EXPECT_EQ(masked(conflict.head), head("409 Conflict", creating, ""));
  EXPECT_EQ(conflict.body,
            error("idempotency_conflict",
                  "This Idempotency-Key was already used with a different request."));

  for (const bool creates : {true, false}) {
    const RawResponse nobody =
        creates ? create("wrong", Stack::body()) : read("wrong", created.header("location"));
    EXPECT_EQ(masked(nobody.head),
              head("401 Unauthorized", "X-Request-Id: mine\r\n", "WWW-Authenticate: Bearer\r\n"));
    EXPECT_EQ(nobody.body, error("invalid_api_key", "The API key is missing, invalid or deleted."));
  }
  stack.admin({"user", "create", "--email", "free@example.com", "--plan", "free"});
  const RawResponse barred =
      create(stack.admin({"key", "create", "--user", "free@example.com", "--name", "k"})["key"]
                 .GetString(),
             Stack::body());
  EXPECT_EQ(masked(barred.head), head("403 Forbidden", creating, ""));
  EXPECT_EQ(barred.body,
            error("api_access_required", "API access requires a paid plan or a credit purchase."));
  const Account eve = stack.account();
  RawResponse limited;
  for (int i = 0; i < 9; ++i) {
    limited = create(eve.key, "{}");
  }
  EXPECT_EQ(masked(limited.head),
            head("429 Too Many Requests",
                 "X-Request-Id: mine\r\nRetry-After: N\r\n" +
                     creating.substr(creating.find("RateLimit-Policy")),
                 ""));
  EXPECT_EQ(masked(limited.body),
            error("rate_limit_exceeded", "Requests are too frequent; send the next one in N s."));

  // One that a worker had and gave back; one that was canceled.
  const std::string place = created.header("location");
  stack.database().execute(store::Sql("UPDATE tasks SET claims=1"));
  const RawResponse queued = read(ann.key, place);
  EXPECT_EQ(masked(queued.head), head("200 OK", reading, "Retry-After: 3\r\n"));
  EXPECT_EQ(masked(queued.body),
            task("queued",
                 R"("output":null,"usage":null,"billing":{"reserved_credits":150},"error":null)"));
  const std::string ended = create(ann.key, wav_body("good")).header("location");
  ASSERT_TRUE(client.exchange(post_request(ended + "/cancel", "", who(ann.key))));
  const RawResponse canceled = read(ann.key, ended);
  EXPECT_EQ(masked(canceled.head), head("200 OK", reading, ""));
  EXPECT_EQ(masked(canceled.body),
            task("canceled",
                 R"("output":null,"usage":null,"billing":{"reserved_credits":150,)"
                 R"("charged_credits":0,"returned_credits":150},"error":null)"));

  stack.start_worker();
  const std::string bad = create(ann.key, wav_body("bad")).header("location");
  for (const std::string& path : {place, bad}) {
    stack.wait_final(ann, path.substr(path.rfind('/') + 1));
  }
  const RawResponse succeeded = read(ann.key, place);
  EXPECT_EQ(masked(succeeded.head), head("200 OK", reading, ""));
  EXPECT_EQ(masked(succeeded.body),
            task("succeeded",
                 R"("output":{"url":"FILE.wav","duration_seconds":10.400,"format":"wav"},)"
                 R"("usage":{"credits":13},"billing":{"reserved_credits":150,)"
                 R"("charged_credits":13,"returned_credits":137},"error":null)"));
  const RawResponse failed = read(ann.key, bad);
  EXPECT_EQ(masked(failed.head), head("200 OK", reading, ""));
  EXPECT_EQ(
      masked(failed.body),
      task("failed",
           R"("output":null,"usage":null,"billing":{"reserved_credits":150,)"
           R"("charged_credits":0,"returned_credits":150},"error":{"code":"content_rejected",)"
           R"("message":"The prompt or a reference was refused by the content rules; change it )"
           R"(before sending it again.","retriable":false})"));
  stack.database().expect_invariants();
}

// Nobody learns from an answer whether a task of somebody else is there.
TEST(Bytes, OfAForeignTaskARandomIdAndNonsenseAreTheSame) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"RATE_LIMIT_MANAGE_BURST", "1000"}};
  Stack stack(options);
  const Account ann = stack.account(), bob = stack.account();
  const std::string foreign = stack.create(ann, Stack::body()).text("id");
  const std::string who = "Authorization: Bearer " + bob.key + "\r\nX-Request-Id: mine\r\n";
  // All that may differ is the time, and how many requests are left.
  const auto answer_to = [&](const std::string& method, const std::string& path) {
    RawConnection client(stack.api_port());
    const std::string length = method == "POST" ? "Content-Length: 0\r\n" : "";
    if (!client.send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + who + length + "\r\n")) {
      return std::string("nothing sent");
    }
    const auto response = client.response(method == "HEAD");
    if (!response) {
      return std::string("no answer");
    }
    std::string text = response->head + response->body;
    for (const auto& [pattern, word] :
         {std::pair<const char*, const char*>{"Date: [^\r]*", "Date: D"},
          {";r=\\d+;t=\\d+", ";r=N;t=N"},
          {"(X-RateLimit-(Remaining|Reset)): \\d+", "$1: N"}}) {
      text = std::regex_replace(text, std::regex(pattern), word);
    }
    return text;
  };
  for (const auto& [method, more] : {std::pair<const char*, const char*>{"GET", ""},
                                     {"GET", "/details"},
                                     {"GET", "/events"},
                                     {"HEAD", "/events"},
                                     {"POST", "/cancel"},
                                     {"DELETE", ""}}) {
    SCOPED_TRACE(std::string(method) + " " + more);
    const auto ask = [&, method = method, more = more](const std::string& id) {
      return answer_to(method, "/api/v1/audio/generations/" + id + more);
    };
    const std::string expected = ask(foreign);
    EXPECT_EQ(expected.substr(0, 22), "HTTP/1.1 404 Not Found") << expected;
    for (const char* id : {"aud_01jd0000000000000000000000",
                           "aud_01JD0000000000000000000000",
                           "aud_01jd000000000000000000000",
                           "aud_",
                           "nonsense",
                           "%00",
                           "1%27%20OR%201=1"}) {
      EXPECT_EQ(ask(id), expected) << id;
    }
    EXPECT_EQ(ask(std::string(3000, 'a')), expected) << "as long as no task's is";
  }
  EXPECT_EQ(stack.get(ann, foreign).text("status"), "processing") << "nothing was done to it";
}

// A read has four answers, whatever comes with it that is nobody's business, or is a key too many.
TEST(Bytes, OfAReadAreNeverABadRequest) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account();
  const std::string place =
      "/api/v1/audio/generations/" + stack.create(ann, Stack::body()).text("id");
  const std::string key = "Authorization: Bearer " + ann.key + "\r\n";
  RawConnection client(stack.api_port());
  const auto read = [&](const std::string& path, const std::string& lines) {
    const auto response = client.exchange(get_request(path, lines + "X-Request-Id: mine\r\n"));
    return response ? *response : RawResponse{};
  };
  const RawResponse known = read(place, key), nobody = read(place, "");
  EXPECT_EQ(known.status, 200);
  EXPECT_EQ(nobody.status, 401);
  for (const char* lines : {"Content-Type: a/b\r\nContent-Type: c/d\r\n",
                            "Idempotency-Key: a\r\nIdempotency-Key: b\r\n"}) {
    const RawResponse reply = read(place, key + lines);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.body, known.body) << lines;
  }
  for (const std::string& lines : {key + key, key + "Authorization: Bearer other\r\n"}) {
    const RawResponse reply = read(place, lines);
    EXPECT_EQ(reply.status, 401) << reply.body;
    EXPECT_EQ(reply.body, nobody.body);
  }
  const std::string far = "/api/v1/audio/generations/" + std::string(15'000, 'a');
  EXPECT_EQ(read(far, key).status, 404);
  EXPECT_EQ(read(far, "").status, 401);
  EXPECT_EQ(read(place + "?" + std::string(15'000, 'a'), key).status, 200);
}

}  // namespace
}  // namespace audiogen::test
