// Handlers as coroutines: where they run, when they end, and that nothing of them is left.
#include "api/server/handling.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/server/asking.h"

namespace audiogen::api {
namespace {

using Witness = std::shared_ptr<int>;  // Counts who is still there.

// Something to wait for, that the test lets come, or never come.
class Event {
 public:
  bool await_ready() const noexcept { return false; }
  void await_suspend(Handling::Frame frame) {
    wake_ = [waiting = Handling::Share(frame)] { waiting.resume(); };
  }
  void await_resume() const noexcept {}

  bool awaited() const { return static_cast<bool>(wake_); }
  void come() { std::exchange(wake_, nullptr)(); }
  void never_come() { wake_ = nullptr; }

 private:
  std::function<void()> wake_;
};

Handling wait_for(Event& event, std::string& log, Witness witness) {
  const Witness local = witness;
  log += "begun ";
  co_await event;
  log += "resumed ";
  co_await event;
  log += "ended";
}

TEST(Handling, RunsAtOnceToItsFirstWaitAndOnFromThere) {
  Event event;
  std::string log;
  const Witness witness = std::make_shared<int>();
  wait_for(event, log, witness);
  EXPECT_EQ(log, "begun ");
  EXPECT_EQ(witness.use_count(), 3);
  std::thread([&] { event.come(); }).join();
  EXPECT_EQ(log, "begun resumed ");
  event.come();
  EXPECT_EQ(log, "begun resumed ended");
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(Handling, EndsWhereItStandsWhenNobodyCanResumeIt) {
  Event event;
  std::string log;
  const Witness witness = std::make_shared<int>();
  wait_for(event, log, witness);
  event.never_come();
  EXPECT_EQ(witness.use_count(), 1);
  wait_for(event, log, witness);
  event.come();
  event.never_come();
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(log, "begun begun resumed ");
}

Handling throw_after(Event* event, Witness witness) {
  const Witness local = witness;
  if (event != nullptr) {
    co_await *event;
  }
  throw std::runtime_error("nobody is to read this");
}

TEST(Handling, AnExceptionEndsItAndNobodyElse) {
  const Witness witness = std::make_shared<int>();
  throw_after(nullptr, witness);
  EXPECT_EQ(witness.use_count(), 1);
  Event event;
  throw_after(&event, witness);
  EXPECT_EQ(witness.use_count(), 3);
  event.come();
  EXPECT_EQ(witness.use_count(), 1);
}

// A wait that ends before it has begun, on the same thread or on another.
class AtOnce {
 public:
  explicit AtOnce(bool elsewhere) : elsewhere_(elsewhere) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(Handling::Frame frame) const {
    const Handling::Share waiting(frame);
    if (elsewhere_) {
      std::thread([waiting] { waiting.resume(); }).join();
    } else {
      waiting.resume();
    }
  }
  void await_resume() const noexcept {}

 private:
  bool elsewhere_;
};

Handling hurry(bool elsewhere, int& waits, Witness witness) {
  for (int i = 0; i < 10; ++i) {
    AtOnce event(elsewhere);
    co_await event;
    waits += witness ? 1 : 0;
  }
}

TEST(Handling, MayBeResumedWhileItGoesToWait) {
  const Witness witness = std::make_shared<int>();
  for (const bool elsewhere : {false, true}) {
    int waits = 0;
    hurry(elsewhere, waits, witness);
    EXPECT_EQ(waits, 10);
    EXPECT_EQ(witness.use_count(), 1);
  }
}

using Group = store::GroupCommit<store::FindCommand, store::FindOutcome>;

Handling find(Group& group,
              std::chrono::steady_clock::time_point arrived,
              http::Loop& loop,
              std::promise<Result<store::FindOutcome, store::StoreFault>>& told) {
  store::FindCommand command{.id = TaskId::make(), .user = {}};
  Asking<store::FindCommand, store::FindOutcome> asking(group, std::move(command), arrived, &loop);
  auto found = co_await asking;
  told.set_value(std::move(found));
}

store::Batch<store::FindOutcome> nothing(store::TaskStore&,
                                         std::span<const store::FindCommand> commands) {
  return store::Batch<store::FindOutcome>(commands.size(), store::FindOutcome());
}

TEST(Ask, AnswersWhatTheGroupAnswers) {
  Group group(DatabaseUrl{}, {.threads = 1}, nothing);
  http::Loop loop;
  std::promise<Result<store::FindOutcome, store::StoreFault>> told;
  find(group, std::chrono::steady_clock::now(), loop, told);
  auto answer = told.get_future();
  group.stop();
  // Here, and not before, though the group has answered.
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  loop.run_posted();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  const auto found = answer.get();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, std::nullopt);
}

TEST(Ask, IsRefusedAtOnceByAGroupThatTakesNoMore) {
  Group group(DatabaseUrl{}, {.threads = 1}, nothing);
  group.stop();
  http::Loop loop;
  std::promise<Result<store::FindOutcome, store::StoreFault>> told;
  find(group, std::chrono::steady_clock::now(), loop, told);
  auto answer = told.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(answer.get().error(), store::StoreFault::kUnavailable);
}

// Under the sanitizers: answers that come while their handlers still go to wait.
TEST(Ask, ManyAtATime) {
  http::Loop loop;
  loop.end();
  Group group(DatabaseUrl{}, {.threads = 2, .batch_max = 4}, nothing);
  std::vector<std::promise<Result<store::FindOutcome, store::StoreFault>>> told(2'000);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < told.size(); i += 2) {
        find(group, std::chrono::steady_clock::now(), loop, told[i]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (auto& one : told) {
    one.get_future().wait();
  }
}

}  // namespace
}  // namespace audiogen::api
