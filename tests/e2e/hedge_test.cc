// A hedged provider: when it is slow, the next one is asked as well, and the client pays once.
#include <atomic>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using Form = DoubleReply::Form;

constexpr const char* kHedged = R"(,"timeout_seconds":600,"hedge_after_seconds":0.2)";

// Holds back what a double answers until that has happened which is to come before it. Where it
// never happens the double answers in the end, and what the test expects of it does not come true.
class Gate {
 public:
  void open() { open_ = true; }
  void wait() const {
    static_cast<void>(eventually(60s, [this] { return open_.load(); }));
  }

 private:
  std::atomic<bool> open_{false};
};

// Waits until the worker has so often been told that one of two has failed while the other is at
// work.
bool has_failed_beside_another(Stack& stack, int times) {
  return eventually(60s, [&] {
    constexpr std::string_view kLine = "provider call failed, its hedge goes on";
    const std::string log = stack.worker(0).log();
    int found = 0;
    for (auto at = log.find(kLine); at != std::string::npos; at = log.find(kLine, at + 1)) {
      ++found;
    }
    return found >= times;
  });
}

// Else whoever waits is sent to both, and both are paid.
TEST(Hedge, WhoeverWaitsForItsTurnIsNotRaced) {
  std::atomic<int> asked{0};
  const ProviderDouble first([&](const DoubleCall&) {
    DoubleReply out = wav_reply(0.3);
    out.delay = asked++ == 0 ? 3'000ms : 0ms;  // So much longer than it is waited for.
    return out;
  });
  const ProviderDouble second([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  const ChainFile chain(
      {openai_entry("first", first, std::string(kHedged) + R"(,"max_in_flight":1)"),
       openai_entry("second", second)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string slow = stack.create(ann, wav_body("x")).text("id");
  ASSERT_TRUE(first.wait_until([&] { return first.call_count() == 1; }));
  const std::string waits = stack.create(ann, wav_body("y")).text("id");
  EXPECT_EQ(stack.wait_final(ann, waits).text("status"), "succeeded");
  EXPECT_EQ(stack.wait_final(ann, slow).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, waits), ElementsAre("first succeeded"));
  EXPECT_THAT(calls_of(stack, slow), ElementsAre("first succeeded", "second unknown outcome"));
  stack.database().expect_invariants();
}

TEST(Hedge, TheFasterOfTwoIsDeliveredAndChargedOnce) {
  const ProviderDouble slow([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  const ProviderDouble fast([](const DoubleCall&) { return wav_reply(1.5); });
  const std::string price = R"(,"price":{"amount":0.02,"per":"call"})";
  const ChainFile chain(
      {openai_entry("slow", slow, kHedged + price), openai_entry("fast", fast, price)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  const Reply done = stack.wait_final(ann, id);
  EXPECT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(done.text("output.duration_seconds"), "1.5");
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 990);
  EXPECT_THAT(calls_of(stack, id), ElementsAre("slow unknown outcome", "fast succeeded"));
  EXPECT_TRUE(slow.wait_until([&] { return slow.open_connections() == 0; })) << "hung up on";
  stack.database().expect_invariants();
  // What it cost is known, and which part of that was for nothing.
  const auto calls = [&] {
    return stack.database().text(
        store::Sql("SELECT GROUP_CONCAT(CONCAT_WS(' ', provider, outcome, cost, earned) ORDER BY n "
                   "SEPARATOR ', ') FROM provider_calls"));
  };
  EXPECT_TRUE(eventually(60s, [&] { return calls() == "slow 5 20000, fast 1 20000 10000"; }))
      << calls();
  const auto told = [&](const std::string& metric) {
    const std::string metrics = http("GET", stack.worker_ops_url(0) + "/metrics").body;
    return metrics.find("audiogen_provider_" + metric) != std::string::npos;
  };
  EXPECT_TRUE(eventually(60s, [&] {
    return told(R"(cost_wasted_total{provider="slow"} 0.02)") &&
           told("cost_wasted_total{provider=\"fast\"} 0\n") &&
           told(R"(cost_total{provider="fast"} 0.02)") &&
           told(R"(first_byte_seconds_count{provider="fast"} 1)");
  }));
  const auto days = stack.admin({"providers"});
  ASSERT_EQ(days["days"].Size(), 2U);
  EXPECT_EQ(days["days"][0]["delivered"].GetInt(), 1);
  EXPECT_EQ(days["days"][1]["beaten"].GetInt(), 1);
}

TEST(Hedge, AQuickProviderIsNotDoubled) {
  const ProviderDouble quick([](const DoubleCall&) { return wav_reply(1.0); });
  const ProviderDouble spare([](const DoubleCall&) { return wav_reply(2.0); });
  const ChainFile chain(
      {openai_entry("quick", quick, R"(,"hedge_after_seconds":60)"), openai_entry("spare", spare)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("output.duration_seconds"), "1.0");
  EXPECT_EQ(spare.call_count(), 0U);
}

// The local engine is always faster: it delivered what somebody else was paid for.
TEST(Hedge, StaysWithinATier) {
  const ProviderDouble good([](const DoubleCall&) {
    DoubleReply reply = wav_reply(1.5);
    reply.delay = 1500ms;
    return reply;
  });
  const ProviderDouble lesser([](const DoubleCall&) { return wav_reply(3.0); });
  const ChainFile chain({openai_entry("good", good, kHedged),
                         openai_entry("lesser", lesser, R"(,"tier":3)"),
                         kLocalEntry});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("output.duration_seconds"), "1.5");
  EXPECT_THAT(calls_of(stack, id), ElementsAre("good succeeded"));
  EXPECT_EQ(lesser.call_count(), 0U);
}

TEST(Hedge, OneFailureWaitsForTheOther) {
  // The hedged one fails while its hedge is at work; then the hedge fails while the first is.
  Gate hedged, first_failed, second_failed;
  const ProviderDouble first([&](const DoubleCall& call) {
    if (member_of(call, "input") == "a") {
      hedged.wait();
      return DoubleReply{.status = 404};
    }
    second_failed.wait();
    return wav_reply(1.0);
  });
  const ProviderDouble second([&](const DoubleCall& call) {
    if (member_of(call, "input") == "a") {
      hedged.open();
      first_failed.wait();
      return wav_reply(2.0);
    }
    return DoubleReply{.status = 404};
  });
  const ChainFile chain({openai_entry("first", first, kHedged), openai_entry("second", second)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string a = stack.create(ann, wav_body("a")).text("id");
  EXPECT_TRUE(has_failed_beside_another(stack, 1));
  first_failed.open();
  EXPECT_EQ(stack.wait_final(ann, a).text("output.duration_seconds"), "2.0");
  const std::string b = stack.create(ann, wav_body("b")).text("id");
  EXPECT_TRUE(has_failed_beside_another(stack, 2));
  second_failed.open();
  EXPECT_EQ(stack.wait_final(ann, b).text("output.duration_seconds"), "1.0");
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 980);
  EXPECT_EQ(first.call_count(), 2U);
  EXPECT_EQ(second.call_count(), 2U);
  stack.database().expect_invariants();
}

TEST(Hedge, BothFailingGoesOnAfterBoth) {
  Gate second_failed;
  const ProviderDouble first([&](const DoubleCall&) {
    second_failed.wait();
    return DoubleReply{.status = 404};
  });
  const ProviderDouble second([](const DoubleCall&) { return DoubleReply{.status = 404}; });
  const ProviderDouble third([](const DoubleCall&) { return wav_reply(3.0); });
  const ChainFile chain({openai_entry("first", first, kHedged),
                         openai_entry("second", second),
                         openai_entry("third", third)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_TRUE(has_failed_beside_another(stack, 1));
  second_failed.open();
  EXPECT_EQ(stack.wait_final(ann, id).text("output.duration_seconds"), "3.0");
  EXPECT_THAT(calls_of(stack, id),
              ElementsAre("first failed", "second unknown outcome", "third succeeded"));
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 990);
  stack.database().expect_invariants();
}

// It is of another tier, so it does not race; but it is asked when both have failed, whoever of
// them failed last.
TEST(Hedge, WhoWasLeftOutOfARaceIsAskedAfterIt) {
  Gate hedged, first_failed;
  const ProviderDouble first([&](const DoubleCall&) {
    hedged.wait();
    return DoubleReply{.status = 404};
  });
  const ProviderDouble between([](const DoubleCall&) { return wav_reply(3.0); });
  const ProviderDouble beside([&](const DoubleCall&) {
    hedged.open();
    first_failed.wait();
    return DoubleReply{.status = 404};
  });
  const ChainFile chain({openai_entry("first", first, kHedged),
                         openai_entry("between", between, R"(,"tier":2)"),
                         openai_entry("beside", beside)});
  Stack stack(chain.options());
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_TRUE(has_failed_beside_another(stack, 1));
  first_failed.open();
  EXPECT_EQ(stack.wait_final(ann, id).text("output.duration_seconds"), "3.0");
  EXPECT_EQ(beside.call_count(), 1U) << "once";
  stack.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
