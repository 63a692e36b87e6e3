// One user's wishes keep nobody else waiting, and have limits that say so.
#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/group_commit.h"
#include "tests/e2e/chain.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::size_t kPlaces = 8;

// A provider that works on kPlaces calls at once, a while on each.
class FairnessTest : public testing::Test {
 protected:
  FairnessTest()
      : provider_([](const DoubleCall&) {
          DoubleReply reply = wav_reply(1);
          reply.delay = 400ms;
          return reply;
        }),
        chain_({openai_entry(
            "upstream", provider_, ",\"max_in_flight\":" + std::to_string(kPlaces))}) {}

  // Without a worker: what is asked for waits until all of it is there, however slow the machine.
  Stack::Options options() {
    Stack::Options out = chain_.options();
    out.workers = 0;
    out.environment["WORKER_IN_FLIGHT"] = std::to_string(kPlaces);
    return out;
  }
  // The numbers of the calls with `prompt`, in the order in which they came.
  std::vector<std::size_t> calls_with(std::string_view prompt) const {
    std::vector<std::size_t> out;
    for (const DoubleCall& call : provider_.calls()) {
      if (member_of(call, "input") == prompt) {
        out.push_back(call.number);
      }
    }
    return out;
  }
  // How many of them came before that one: on a busy machine others have come before anybody looks.
  std::size_t calls_before(std::size_t number, std::string_view prompt) const {
    const auto calls = calls_with(prompt);
    return static_cast<std::size_t>(std::lower_bound(calls.begin(), calls.end(), number) -
                                    calls.begin());
  }
  // As a worker would have it; before the first has said so a user's first thousand are released.
  static void set_window(Stack& stack) {
    stack.database().execute(store::Sql("UPDATE release_window SET size=") << 2 * kPlaces);
  }
  void create_many(Stack& stack,
                   const Account& account,
                   std::size_t count,
                   std::string_view prompt) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(stack.create(account, wav_body(prompt)).status, 202);
    }
  }

  ProviderDouble provider_;
  ChainFile chain_;
};

TEST_F(FairnessTest, BehindOneUsersBacklogAnothersTaskIsNext) {
  Stack stack(options());
  set_window(stack);
  const Account many = stack.account(1'000'000), few = stack.account();
  constexpr std::size_t kBacklog = 100;
  create_many(stack, many, kBacklog, "many");
  const std::string id = stack.create(few, wav_body("few")).text("id");
  stack.start_worker();
  ASSERT_TRUE(provider_.wait_until([&] { return calls_with("few").size() == 1; }, 120s));
  EXPECT_LT(calls_before(calls_with("few").front(), "many"), kBacklog / 2)
      << "the others were not all before it";
  EXPECT_EQ(stack.wait_final(few, id).text("status"), "succeeded");
  stack.database().expect_invariants();
}

TEST_F(FairnessTest, WhoWantsMuchGetsAsMuchAsTheOthersWhoDo) {
  Stack stack(options());
  set_window(stack);
  const std::array<Account, 3> users = {
      stack.account(1'000'000), stack.account(1'000'000), stack.account(1'000'000)};
  const std::array<std::string, 3> names = {"first", "second", "third"};
  // First come, first served, the last would begin when all the others have.
  constexpr std::array<std::size_t, 3> kWanted = {120, 60, 60};
  for (std::size_t i = 0; i < users.size(); ++i) {
    create_many(stack, users[i], kWanted[i], names[i]);
  }
  stack.start_worker();
  constexpr std::size_t kEach = 40;
  ASSERT_TRUE(provider_.wait_until([&] { return calls_with("third").size() >= kEach; }, 240s));
  const std::size_t last = calls_with("third").at(kEach - 1);
  EXPECT_NEAR(static_cast<double>(calls_before(last, "first")), kEach, 2.0 * kPlaces);
  EXPECT_NEAR(static_cast<double>(calls_before(last, "second")), kEach, 2.0 * kPlaces);
  stack.database().expect_invariants();
}

// Its worker is gone before it could say what it has released; nobody else knows.
TEST_F(FairnessTest, AfterALostWorkerTheNextOneReleasesTheRest) {
  Stack stack(options());
  set_window(stack);
  const Account many = stack.account(1'000'000);
  constexpr std::size_t kBacklog = 60;
  create_many(stack, many, kBacklog, "many");
  stack.start_worker();
  ASSERT_TRUE(provider_.wait_until([&] { return provider_.call_count() >= 2 * kPlaces; }, 120s));
  stack.worker(0).signal(SIGKILL);
  stack.worker(0).wait(30s);
  stack.start_worker();
  const auto open = [&] {
    return stack.database().number(
        store::Sql("SELECT COUNT(*) FROM tasks WHERE wake_at IS NOT NULL"));
  };
  ASSERT_TRUE(eventually(240s, [&] { return open() == 0; })) << open();
  EXPECT_EQ(stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=3")),
            static_cast<std::int64_t>(kBacklog));
  stack.database().expect_invariants();
}

TEST(OpenTasks, AreLimitedByPlanAndTheAnswerSaysSo) {
  Stack::Options options;
  options.workers = 0;
  options.environment = {{"OPEN_TASKS_PAID", "3"}};
  Stack stack(options);
  const Account ann = stack.account(), bob = stack.account();
  std::string last;
  for (int i = 0; i < 3; ++i) {
    last = stack.create(ann, Stack::body(), {"Idempotency-Key: k" + std::to_string(i)}).text("id");
  }
  const Reply refused = stack.create(ann, Stack::body());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.text("error.code"), "rate_limit_exceeded");
  EXPECT_THAT(refused.text("error.message"), HasSubstr("3 generations"));
  EXPECT_GE(std::stoi("0" + refused.header("retry-after")), 1);
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 450) << "nothing is held for it";
  EXPECT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: k1"}).status, 202) << "a replay";
  EXPECT_EQ(stack.create(bob, Stack::body()).status, 202) << "of one user";
  stack.admin({"task", "cancel", last});
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202);
  stack.database().expect_invariants();
}

// As many small users would have filled the queue; there is no worker that would say something
// else.
TEST(OpenTasks, ThatCouldNotEndInTimeAreRefusedAtOnceAndTheAnswerSaysForHowLong) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account();
  ASSERT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).status, 202);
  const auto set_wait = [&](std::uint32_t seconds) {
    stack.database().execute(
        store::Sql("UPDATE release_window SET pace=4000, takes=5, looked_at=UTC_TIMESTAMP(6), "
                   "express_wait=")
        << seconds);
    test::pace(store::kWindowAge);  // From then on nobody goes by what he read before.
  };
  set_wait(2000);
  const Reply refused = stack.create(ann, Stack::body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.text("error.code"), "service_unavailable");
  EXPECT_THAT(refused.text("error.message"), HasSubstr("in time"));
  EXPECT_EQ(refused.header("retry-after"), "1231") << "then it may begin after 769 s";
  EXPECT_EQ(credits_of(stack, ann, "reserved_credits"), 150) << "nothing is held for it";
  set_wait(2000);
  EXPECT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).status, 202) << "a replay";
  set_wait(769);
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202);
  stack.database().expect_invariants();
}

TEST(RateLimit, HoldsForAllKeysOfAUserTogether) {
  Stack::Options options;
  options.workers = 0;
  // So slow that none comes back meanwhile.
  options.environment = {{"RATE_LIMIT_CREATE_PER_MINUTE", "1"}, {"RATE_LIMIT_CREATE_BURST", "3"}};
  Stack stack(options);
  const Account ann = stack.account(), bob = stack.account();
  std::map<int, int> answers;
  for (int key = 0; key < 5; ++key) {
    Account one = ann;
    one.key =
        stack
            .admin(
                {"key", "create", "--user", ann.email, "--name", "k" + std::to_string(key)})["key"]
            .GetString();
    for (int i = 0; i < 3; ++i) {
      ++answers[stack.create(one, Stack::body()).status];
    }
  }
  // Twice what one key may; one or two more where these requests took a minute.
  EXPECT_GE(answers[202], 6);
  EXPECT_LE(answers[202], 10);
  EXPECT_GE(answers[429], 5);
  EXPECT_EQ(stack.create(bob, Stack::body()).status, 202);
}

}  // namespace
}  // namespace audiogen::test
