// What a client may say about a generation beyond the sound: what it may cost, and its own notes;
// and what one would cost.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

Stack::Options without_worker() {
  Stack::Options options;
  options.workers = 0;
  return options;
}

Reply estimate(Stack& stack, const Account& account, std::string_view body) {
  return stack.judged("POST",
                      "/audio/estimates",
                      http("POST",
                           stack.base() + "/audio/estimates",
                           Stack::bearer(account.key, {"Content-Type: application/json"}),
                           body));
}

TEST(MaxCredits, CutsAndCapsWhateverTheProviderDelivers) {
  const ProviderDouble provider([](const DoubleCall&) { return wav_reply(30); });
  const ChainFile chain({openai_entry("one", provider)});
  Stack stack(chain.options());
  const Account ann = stack.account(1'000);
  const std::string id =
      stack.create(ann, wav_body("long", R"(,"max_credits":12.345,"sample_rate":44100)"))
          .text("id");
  const Reply reply = stack.wait_final(ann, id);
  EXPECT_EQ(reply.text("status"), "succeeded");
  EXPECT_EQ(reply.text("usage.credits"), "12.345");
  EXPECT_EQ(reply.text("output.duration_seconds"), "9.876");
  EXPECT_EQ(reply.text("billing.reserved_credits"), "150") << "whatever the cap";
  const Reply whole = stack.wait_final(ann, stack.create(ann, wav_body("long")).text("id"));
  EXPECT_EQ(whole.text("usage.credits"), "37.5");
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 1'000 - 12.345 - 37.5);
  stack.database().expect_invariants();
}

TEST(MaxCredits, TheHoldStaysWhatItIs) {
  Stack stack(without_worker());
  const Account ann = stack.account(149);
  EXPECT_EQ(stack.create(ann, R"({"model":"svc-audio-1.0","prompt":"x","max_credits":10})").status,
            402);
}

// As clients send it that write nothing but ASCII.
TEST(Terms, TheLargestRequestFitsHoweverSpelledAndNoLargerOne) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const auto escaped = [](std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
      out += R"(\ud83d\ude00)";
    }
    return out;
  };
  std::string body = R"({"model":"svc-audio-1.0","prompt":")" + escaped(2048) + R"(","metadata":{)";
  for (char name = 'a'; name < 'a' + 16; ++name) {
    body += (name == 'a' ? "\"" : ",\"") + std::string(1, name) + escaped(39) + "\":\"" +
            escaped(500) + "\"";
  }
  EXPECT_EQ(stack.create(ann, body + "}}").status, 202);
  // And no byte more than a body may have (Call::kBytesMax).
  const std::string padding(192 * 1024 - body.size() - 2, ' ');
  EXPECT_EQ(stack.create(ann, body + padding + "}}").status, 202);
  const Reply refused = stack.create(ann, body + padding + " }}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.text("error.code"), "invalid_request");
}

TEST(Terms, AreWhatMustBeTheSameUnderOneKey) {
  Stack stack(without_worker());
  const Account ann = stack.account();
  const auto create = [&](const std::string& key, const std::string& more) {
    return stack.create(
        ann, R"({"model":"svc-audio-1.0","prompt":"x")" + more + "}", {"Idempotency-Key: " + key});
  };
  const std::string plain = create("plain", "").text("id");
  EXPECT_EQ(create("plain", R"(,"max_credits":150.0,"metadata":{})").text("id"), plain);
  EXPECT_EQ(create("plain", R"(,"max_credits":149)").status, 409);
  EXPECT_EQ(create("plain", R"(,"metadata":{"a":"b"})").status, 409);
  const std::string noted = create("noted", R"(,"metadata":{"a":"1","b":"ü"})").text("id");
  EXPECT_EQ(create("noted", R"(,"metadata":{"b":"\u00fc","a":"1"})").text("id"), noted);
  EXPECT_EQ(create("noted", R"(,"metadata":{"a":"1"})").status, 409);
  // Stored with the task, and nowhere in the resource.
  store::Sql sql("SELECT request FROM tasks WHERE id=");
  sql << TaskId::parse(noted).value();
  EXPECT_NE(stack.database().text(sql).find(R"("metadata":{"a":"1","b":"ü"})"), std::string::npos);
  EXPECT_EQ(stack.get(ann, noted).text("metadata"), "");
  const Reply refused = create("bad", R"(,"metadata":{"order":7})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.text("error.message"), "metadata.order must be a string, not a number.");
  EXPECT_EQ(refused.text("error.param"), "") << "of other paths only";
  const Reply unknown = create("bad", R"(,"promt":"y")");
  EXPECT_EQ(unknown.text("error.message"), R"(Unknown member "promt".)");
  EXPECT_EQ(unknown.text("error.param"), "");
}

TEST(Estimate, SaysWhatACreationWouldCostAndHoldsNothing) {
  Stack stack(without_worker());
  const Account ann = stack.account(1);
  const Reply reply = estimate(stack, ann, Stack::body(std::string(900, 'a')));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.text("object"), "audio.estimate");
  EXPECT_EQ(reply.text("expected_credits"), "75.375");
  EXPECT_EQ(reply.text("min_credits"), "10");
  EXPECT_EQ(reply.text("max_credits"), "150");
  EXPECT_EQ(reply.text("seconds.p10"), "39.195");
  EXPECT_EQ(reply.header("ratelimit-policy").substr(0, 6), "\"read\"");
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  EXPECT_EQ(estimate(stack, ann, R"({"model":"svc-audio-1.0","prompt":"x","max_credits":40})")
                .text("max_credits"),
            "40");
  EXPECT_EQ(stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks")), 0);
  EXPECT_EQ(stack.admin({"user", "show", "--user", ann.user})["reserved_credits"].GetDouble(), 0);
  // What a creation refuses is refused, and the member named.
  for (const auto& [body, param] :
       {std::pair<std::string, std::string>{R"({"model":"svc-audio-1.0"})", "prompt"},
        {R"({"model":"svc-audio-1.0","prompt":"x","speed":3})", "speed"},
        {R"({"model":"svc-audio-1.0","prompt":"x","metadata":{"order":1}})", "metadata.order"},
        {R"({"model":"svc-audio-1.0","prompt":"x","audio_references":["http://127.0.0.1/a"]})",
         "audio_references[0]"},
        {R"({"model":"svc-audio-1.0","prompt":"x","promt":"y"})", "promt"},
        {"not json", ""}}) {
    const Reply refused = estimate(stack, ann, body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(refused.text("error.code"), "invalid_request");
    EXPECT_EQ(refused.text("error.param"), param);
  }
  // Nobody but whoever has a key, paid for or not.
  EXPECT_EQ(estimate(stack, {.user = "", .email = "", .key = "wrong"}, Stack::body()).status, 401);
  stack.admin({"user", "create", "--email", "free@example.com", "--plan", "free"});
  const auto key = stack.admin({"key", "create", "--user", "free@example.com", "--name", "k"});
  EXPECT_EQ(estimate(stack, {.user = "", .email = "", .key = key["key"].GetString()}, Stack::body())
                .status,
            200);
}

}  // namespace
}  // namespace audiogen::test
