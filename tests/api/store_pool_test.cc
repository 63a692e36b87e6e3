// The pool of blocking stores: its turns, its bounds, its end.
#include "api/server/store_pool.h"

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;

struct FakeStore {
  std::thread::id made_on = std::this_thread::get_id();
  std::string name() const { return "store"; }
};
using Pool = StorePool<FakeStore>;

std::unique_ptr<FakeStore> make_store() {
  return std::make_unique<FakeStore>();
}

// Nobody gives up waiting while the test is slow.
StorePoolOptions patient(std::size_t threads) {
  return {.threads = threads, .wait_max = std::chrono::hours(1)};
}

// Jobs that stop where the test can see them, and end when it says so.
class Gate {
 public:
  Pool::Job job(int user) {
    return [this, user](FakeStore* store) {
      EXPECT_NE(store, nullptr);
      EXPECT_EQ(store->made_on, std::this_thread::get_id()) << "each thread has its own";
      std::unique_lock lock(mutex_);
      order_.push_back(user);
      ++running_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_ > 0; });
      --open_;
      --running_;
      changed_.notify_all();
    };
  }
  // Lets one job end.
  void let_one_end() {
    const std::scoped_lock lock(mutex_);
    ++open_;
    changed_.notify_all();
  }
  void let_all_end() {
    const std::scoped_lock lock(mutex_);
    open_ = 1'000'000;
    changed_.notify_all();
  }
  void wait_for_begun(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return order_.size() >= count; }));
  }
  std::vector<int> order() {
    const std::scoped_lock lock(mutex_);
    return order_;
  }
  int running() {
    const std::scoped_lock lock(mutex_);
    return running_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> order_;
  int running_ = 0, open_ = 0;
};

// However many requests one user has, another waits for what runs and for no more.
TEST(StorePool, AUserWithAThousandSlowJobsDelaysNobodyByMoreThanOne) {
  Gate gate;
  StorePoolOptions options = patient(1);
  options.per_user = 1'000;
  options.total = 2'000;
  Pool pool(make_store, options);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(pool.submit(1, gate.job(1)));
  }
  gate.wait_for_begun(1);
  ASSERT_TRUE(pool.submit(2, gate.job(2)));
  gate.let_one_end();
  gate.wait_for_begun(2);
  // The first user's turn came before the second one was there, or not: one of his at the most.
  gate.let_one_end();
  gate.wait_for_begun(3);
  const auto order = gate.order();
  EXPECT_TRUE(order[1] == 2 || order[2] == 2);
  gate.let_all_end();
}

TEST(StorePool, UsersWhoWaitAreServedInTurn) {
  Gate gate;
  Pool pool(make_store, patient(1));
  ASSERT_TRUE(pool.submit(9, gate.job(9)));
  gate.wait_for_begun(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.submit(1, gate.job(1)));
  }
  ASSERT_TRUE(pool.submit(2, gate.job(2)));
  ASSERT_TRUE(pool.submit(3, gate.job(3)));
  ASSERT_TRUE(pool.submit(2, gate.job(2)));
  gate.let_all_end();
  pool.stop();
  EXPECT_EQ(gate.order(), (std::vector<int>{9, 1, 2, 3, 1, 2, 1}));
}

TEST(StorePool, OneUserRunsOneAtATime) {
  Gate gate;
  Pool pool(make_store, patient(2));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool.submit(1, gate.job(1)));
  }
  gate.wait_for_begun(1);
  ASSERT_TRUE(pool.submit(2, gate.job(2)));
  gate.wait_for_begun(2);  // The other thread has been free for her.
  EXPECT_EQ(gate.order(), (std::vector<int>{1, 2}));
  EXPECT_EQ(gate.running(), 2);
  gate.let_all_end();
}

TEST(StorePool, HasRoomForSoManyOfAUserAndSoManyOfAll) {
  Gate gate;
  StorePoolOptions options = patient(1);
  options.per_user = 2;
  options.total = 3;
  Pool pool(make_store, options);
  ASSERT_TRUE(pool.submit(1, gate.job(1)));
  gate.wait_for_begun(1);
  EXPECT_TRUE(pool.submit(1, gate.job(1)));
  EXPECT_TRUE(pool.submit(1, gate.job(1)));
  EXPECT_FALSE(pool.submit(1, gate.job(1))) << "two of one user";
  EXPECT_TRUE(pool.submit(2, gate.job(2)));
  EXPECT_FALSE(pool.submit(3, gate.job(3))) << "three of all";
  gate.let_one_end();
  gate.wait_for_begun(2);
  EXPECT_TRUE(pool.submit(3, gate.job(3))) << "one has gone";
  gate.let_all_end();
  pool.stop();
  EXPECT_EQ(gate.order().size(), 5U);
}

TEST(StorePool, WhatHasWaitedTooLongIsToldAndNotRun) {
  Gate gate;
  Pool pool(make_store, {.threads = 1, .wait_max = 0ms});
  std::promise<bool> told;
  // The job itself is not late: it begins with what it has for a moment only.
  std::promise<void> begun, go_on;
  ASSERT_TRUE(pool.submit(1, [&](FakeStore*) {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  ASSERT_TRUE(pool.submit(2, [&](FakeStore* store) { told.set_value(store != nullptr); }));
  go_on.set_value();
  EXPECT_FALSE(told.get_future().get());
}

TEST(StorePool, StoppingFinishesWhatWasAcceptedAndTakesNoMore) {
  std::atomic<int> ran{0};
  Gate gate;
  Pool pool(make_store, patient(2));
  ASSERT_TRUE(pool.submit(1, gate.job(1)));
  gate.wait_for_begun(1);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(pool.submit(1, [&](FakeStore*) { ++ran; }));
    ASSERT_TRUE(pool.submit(2, [&](FakeStore*) { ++ran; }));
    ASSERT_TRUE(test::eventually(20s, [&] { return ran > i; }));  // Hers.
  }
  std::thread stopping([&] { pool.stop(); });
  ASSERT_TRUE(test::eventually(20s, [&] { return !pool.submit(3, [](FakeStore*) {}); }));
  gate.let_all_end();
  stopping.join();
  EXPECT_EQ(ran, 16);
}

TEST(StorePool, AnEndWithinATimeTellsWhatHasNotBegun) {
  Gate gate;
  std::atomic<int> ran{0}, told{0};
  Pool pool(make_store, patient(1));
  ASSERT_TRUE(pool.submit(1, gate.job(1)));
  gate.wait_for_begun(1);
  for (int user = 2; user < 5; ++user) {
    ASSERT_TRUE(pool.submit(static_cast<std::uint64_t>(user),
                            [&](FakeStore* store) { ++(store == nullptr ? told : ran); }));
  }
  std::thread stopping([&] { pool.stop(0ms); });
  ASSERT_TRUE(test::eventually(20s, [&] { return !pool.submit(6, [](FakeStore*) {}); }));
  EXPECT_EQ(told, 0) << "what runs is waited for";
  gate.let_all_end();
  stopping.join();
  EXPECT_EQ(told, 3);
  EXPECT_EQ(ran, 0);
}

struct Told {
  std::promise<std::optional<std::string>> value;
};

Handling use(Pool& pool, std::string argument, Told& told, bool throws) {
  const std::string local = "local " + argument;
  // What it holds is long enough not to lie within the string: the sanitizer sees it go twice.
  auto work = [copy = local + std::string(64, '.'), throws](FakeStore& store) {
    if (throws) {
      throw std::runtime_error("nobody is to read this");
    }
    return store.name() + " " + copy;
  };
  try {
    const auto got = co_await on_store(pool, 1, std::move(work));
    told.value.set_value(got);
  } catch (const std::runtime_error&) {
    told.value.set_value("thrown here");
  }
}

Handling use_reference(Pool& pool, std::string argument, Told& told) {
  const auto got =
      co_await on_store(pool, 1, [&](FakeStore& store) { return store.name() + " " + argument; });
  told.value.set_value(got);
}

TEST(OnStore, GivesTheHandlerWhatTheStoreSaid) {
  Pool pool(make_store, patient(2));
  Told value, reference, thrown;
  use(pool, "argument", value, false);
  EXPECT_EQ(value.value.get_future().get(), "store local argument" + std::string(64, '.'));
  use_reference(pool, std::string(64, 'a'), reference);
  EXPECT_EQ(reference.value.get_future().get(), "store " + std::string(64, 'a'));
  use(pool, "argument", thrown, true);
  EXPECT_EQ(thrown.value.get_future().get(), "thrown here");
}

TEST(OnStore, IsRefusedWhenThereIsNoRoomOrNoTime) {
  Told full, late;
  {
    Pool pool(make_store, patient(1));
    pool.stop();
    use(pool, "", full, false);
    EXPECT_EQ(full.value.get_future().get(), std::nullopt);
  }
  Pool pool(make_store, {.threads = 1, .wait_max = 0ms});
  std::promise<void> begun, go_on;
  ASSERT_TRUE(pool.submit(2, [&](FakeStore*) {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  use(pool, "", late, false);
  go_on.set_value();
  EXPECT_EQ(late.value.get_future().get(), std::nullopt);
}

}  // namespace
}  // namespace audiogen::api
