// More tasks than the providers can make in time: those that still can be made are made, no paid
// call is cut off for the rest of them, and a provider that works is never left alone for it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

struct Storm {
  double times;  // As many tasks as the provider can make.
  int slots;
  int deadline, lasts;  // In calls.
};

// What became of it; the tasks that are done, by when they were.
struct Aftermath {
  std::size_t calls = 0;
  std::int64_t refused = 0, succeeded = 0, failed = 0, cut_off = 0, early = 0, codes = 0;
  std::vector<std::int64_t> successes;  // In each of four quarters, the first without its start.
  std::set<std::string> states;         // Of the provider, as operators saw it.
};

constexpr int kClients = 8;
constexpr auto kLookEvery = 2s;  // At the provider, as operators see it.

std::int64_t number(Stack& stack, const std::string& sql) {
  return stack.database().number(store::Sql::trusted(sql));
}

Aftermath weather(const Storm& storm) {
  std::atomic<std::chrono::milliseconds> call{0ms};
  const ProviderDouble provider([&](const DoubleCall&) {
    DoubleReply out = wav_reply(0.3);
    out.delay = call;
    return out;
  });
  const ChainFile chain(
      {openai_entry("only",
                    provider,
                    R"(,"timeout_seconds":120,"max_in_flight":)" + std::to_string(storm.slots))});
  Stack::Options options = chain.options();
  options.api = false;
  options.workers = 0;
  Stack stack(options);
  stack.start_api();
  stack.start_worker();
  const Account ann = stack.account(1'000'000);
  // It is the provider that is to be short, not the machine: a call takes twice as long as all the
  // rest of a task does here and now.
  const auto asked = std::chrono::steady_clock::now();
  stack.wait_final(ann, stack.create(ann, wav_body("x")).text("id"));
  call = std::clamp(
      2 * std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - asked) - 1s,
      1s,
      6s);
  const auto deadline = storm.deadline * call.load(), lasts = storm.lasts * call.load();
  stack.start_api({{"TASK_DEADLINE_SECONDS",
                    std::to_string(std::chrono::ceil<std::chrono::seconds>(deadline).count())}});
  const auto gap = std::chrono::duration_cast<std::chrono::microseconds>(
      call.load() / (storm.slots * storm.times));
  Aftermath out;
  // Several clients, so that the load is what it should be where each of them has to wait for its
  // answers.
  const auto began = std::chrono::steady_clock::now();
  const auto ends = began + lasts;
  std::atomic<std::int64_t> next{0}, refused{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      for (auto due = began + gap * next++; due < ends; due = began + gap * next++) {
        pace(std::chrono::ceil<std::chrono::milliseconds>(
            std::max(due - std::chrono::steady_clock::now(), 0ns)));
        refused += stack.create(ann, wav_body("x")).status == 202 ? 0 : 1;
      }
    });
  }
  for (auto due = began; due < ends; due += kLookEvery) {
    pace(std::chrono::ceil<std::chrono::milliseconds>(
        std::max(due - std::chrono::steady_clock::now(), 0ns)));
    out.states.insert(provider_state(stack, "only"));
  }
  for (std::thread& client : clients) {
    client.join();
  }
  out.refused = refused;
  EXPECT_TRUE(eventually(
      300s, [&] { return number(stack, "SELECT COUNT(*) FROM tasks WHERE state<3") == 0; }));
  out.states.insert(provider_state(stack, "only"));
  out.states.erase("");
  out.calls = provider.call_count();
  out.succeeded = number(stack, "SELECT COUNT(*) FROM tasks WHERE state=3");
  out.failed = number(stack, "SELECT COUNT(*) FROM tasks WHERE state=4");
  out.codes = number(stack, "SELECT COUNT(*) FROM tasks WHERE state=4 AND failure<>6");
  out.cut_off = number(stack,
                       "SELECT (SELECT COUNT(*) FROM tasks WHERE attempt_state=4)+"
                       "(SELECT COUNT(*) FROM past_attempts WHERE state=4)");
  out.early =
      number(stack,
             "SELECT COUNT(*) FROM tasks WHERE state=4 AND updated_at<deadline_at - INTERVAL " +
                 std::to_string(deadline.count() / 2'000) + " SECOND");
  const auto quarter = lasts / 4;
  for (int i = 0; i < 4; ++i) {
    const auto after = [&](int quarters) {
      return "(SELECT MIN(created_at) FROM tasks WHERE id<>(SELECT MIN(id) FROM tasks)) + "
             "INTERVAL " +
             std::to_string((quarter * quarters + call.load()).count() * 1000) + " MICROSECOND";
    };
    out.successes.push_back(number(stack,
                                   "SELECT COUNT(*) FROM tasks WHERE state=3 AND updated_at>=" +
                                       after(i) + " AND updated_at<" + after(i + 1)));
  }
  // What comes after the storm is served, with all the time that it may have.
  stack.start_api();
  const std::string id = stack.create(ann, wav_body("x")).text("id");
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  stack.database().expect_invariants();
  std::printf(
      "%.1f times the load: %zu calls, %ld succeeded, %ld failed, %ld cut off, capacity of "
      "a quarter %.1f, made:",
      storm.times,
      out.calls,
      static_cast<long>(out.succeeded),
      static_cast<long>(out.failed),
      static_cast<long>(out.cut_off),
      storm.slots * static_cast<double>(quarter.count()) /
          static_cast<double>(call.load().count()));
  for (const std::int64_t made : out.successes) {
    std::printf(" %ld", static_cast<long>(made));
  }
  std::printf("\n");
  return out;
}

// Before, each task was called for with the time that was left, the deadline ended the calls, that
// opened the provider's breaker, and the queue was claimed and thrown back in milliseconds.
TEST(Overload, WhatCanBeMadeInTimeIsMade) {
  const Aftermath out = weather({.times = 3, .slots = 4, .deadline = 6, .lasts = 16});
  EXPECT_GT(out.failed + out.refused, 0) << "it was no overload";
  EXPECT_EQ(out.codes, 0) << "failed with another code than deadline_exceeded";
  EXPECT_EQ(out.early, 0) << "failed without a call while there was time for one";
  EXPECT_THAT(out.states, ElementsAre("ready")) << "the breaker of a provider that works";
  // A machine that stands still for seconds may make a few late.
  EXPECT_LE(out.cut_off, out.succeeded / 4) << "paid for, and cut off by our own deadline";
  EXPECT_GE(out.successes.back(), out.successes.front() / 4) << "fewer and fewer come through";
}

// More scenes than their provider can make have nobody refused whose text another one reads, with
// places for all of them in the worker: before, those were refused for what the others waited for,
// and of the scenes none, so that most were refunded in the end.
TEST(Overload, WhoHasAnotherProviderIsNotRefusedForALine) {
  std::atomic<bool> goes_on{false};
  const ProviderDouble slow([&](const DoubleCall&) {
    DoubleReply out = wav_reply(0.3);
    out.delay = goes_on.load() ? 10ms : 2'000ms;
    return out;
  });
  const ProviderDouble fast([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("speech", fast, R"(,"max_in_flight":20)"),
                         openai_entry("scenes", slow, R"(,"makes":"scene","max_in_flight":1)")});
  Stack::Options options = chain.options();
  options.environment["TASK_DEADLINE_SECONDS"] = "60";
  Stack stack(options);
  const Account ann = stack.account(1'000'000), bob = stack.account(1'000'000);
  const std::string scene = wav_body("[a train far away]");
  stack.wait_final(ann, stack.create(ann, scene).text("id"));
  stack.wait_final(bob, stack.create(bob, wav_body("x")).text("id"));
  // As many as are made in 60 s, and more, until it is known that no more are.
  std::vector<std::string> ids;
  bool refused = false;
  ASSERT_TRUE(eventually(120s, [&] {
    const auto asked = stack.create(ann, scene);
    refused = asked.status == 503;
    if (asked.status == 202) {
      ids.push_back(asked.text("id"));
    }
    return refused;
  }));
  EXPECT_FALSE(ids.empty());
  for (int i = 0; i < 20; ++i) {
    const auto asked = stack.create(bob, wav_body("x"));
    ASSERT_EQ(asked.status, 202);
    EXPECT_EQ(stack.wait_final(bob, asked.text("id")).text("status"), "succeeded");
  }
  goes_on = true;
  EXPECT_TRUE(eventually(120s, [&] { return stack.create(ann, scene).status == 202; }))
      << "once the line is short";
  EXPECT_TRUE(eventually(
      120s, [&] { return number(stack, "SELECT COUNT(*) FROM tasks WHERE state<3") == 0; }));
  stack.database().expect_invariants();
}

// While a provider is left alone its tasks wait, and what waits uses up none of its attempts.
TEST(Overload, WhatIsNotCalledUsesUpNoAttempt) {
  std::atomic<bool> broken{true};
  const ProviderDouble provider([&](const DoubleCall&) {
    return broken.load() ? DoubleReply{.status = 501} : wav_reply(0.3);
  });
  const ChainFile chain({openai_entry("only", provider, R"(,"max_in_flight":2)")});
  Stack stack(chain.options());
  const Account ann = stack.account(100'000);
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) {
    ids.push_back(stack.create(ann, wav_body("x")).text("id"));
  }
  ASSERT_TRUE(eventually(60s, [&] { return provider_state(stack, "only") == "open"; }));
  broken = false;
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id, 300s).text("status"), "succeeded");
  }
  EXPECT_EQ(number(stack, "SELECT SUM(claims) FROM tasks"),
            static_cast<std::int64_t>(provider.call_count()));
  stack.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
