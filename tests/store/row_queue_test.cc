// The queue of commands by row: who is kept back for whom.
#include "common/store/row_queue.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct Item {
  std::string name;
  std::optional<Uuid> row;
  std::size_t bytes = 0;
  std::uint64_t number = 0, batch = 0;
  bool follows = false, was_held = false;
};
using Queue = RowQueue<Item>;

Uuid row(char c) {
  Uuid id;
  id.bytes.fill(static_cast<std::uint8_t>(c));
  return id;
}

// Named after its row: "a1" needs row a.
Item item(const std::string& name) {
  return {.name = name, .row = row(name[0])};
}

// Nobody here waits for so long: what is taken came for another reason.
constexpr std::chrono::milliseconds kLong{std::chrono::hours(1)};

class RowQueueTest : public testing::Test {
 protected:
  static void push(Queue& queue, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      EXPECT_TRUE(queue.push(item(name))) << name;
    }
  }
  static std::vector<std::string> names(const std::vector<Item>& taken) {
    std::vector<std::string> out;
    for (const Item& i : taken) {
      out.push_back(i.name);
    }
    return out;
  }
  // What a thread takes that waits for company to `pushed` when `then` happens.
  static std::vector<std::string> taken_after(Queue& queue,
                                              const std::vector<std::string>& pushed,
                                              const std::function<void()>& then) {
    std::vector<Item> taken;
    std::thread taker([&] { taken = queue.take(10); });
    push(queue, pushed);
    EXPECT_TRUE(test::eventually(60s, [&] { return queue.waiting_for_company() == 1; }));
    then();
    taker.join();
    return names(taken);
  }
  // Ends a batch; those of `held` go back.
  static void finish(Queue& queue, std::vector<Item> taken, const std::string& held = "") {
    std::vector<std::optional<Uuid>> rows;
    std::vector<Item> back;
    const std::uint64_t batch = taken.front().batch;
    for (Item& i : taken) {
      rows.push_back(i.row);
      if (held.find(i.name[0]) != std::string::npos) {
        back.push_back(std::move(i));
      }
    }
    queue.finish(batch, rows, std::move(back));
  }
};

TEST_F(RowQueueTest, WhatCameTogetherIsTakenTogether) {
  Queue queue(10, false);
  push(queue, {"a1", "b1", "a2"});
  EXPECT_EQ(queue.size(), 3U);
  auto taken = queue.take(10);
  EXPECT_THAT(names(taken), ElementsAre("a1", "b1", "a2"));
  EXPECT_FALSE(taken[0].was_held);
  EXPECT_EQ(queue.size(), 0U);
  finish(queue, std::move(taken));
}

TEST_F(RowQueueTest, ABatchEndsWithTheItemThatFillsIt) {
  Queue queue(10, false);
  for (const auto& [name, bytes] : {std::pair("a1", 60), {"b1", 60}, {"c1", 500}, {"d1", 0}}) {
    Item large = item(name);
    large.bytes = static_cast<std::size_t>(bytes);
    EXPECT_TRUE(queue.push(std::move(large)));
  }
  auto first = queue.take(10, 100);
  EXPECT_THAT(names(first), ElementsAre("a1", "b1"));
  auto second = queue.take(10, 100);
  EXPECT_THAT(names(second), ElementsAre("c1"));
  EXPECT_THAT(names(queue.take(10, 100)), ElementsAre("d1"));
  // What comes back carries as much as before.
  finish(queue, std::move(first), "ab");
  finish(queue, std::move(second), "c");
  queue.close();
  std::vector<std::vector<std::string>> batches;
  while (!std::empty(batches.emplace_back(names(queue.take(10, 50))))) {
  }
  EXPECT_THAT(batches,
              testing::UnorderedElementsAre(
                  ElementsAre("a1"), ElementsAre("b1"), ElementsAre("c1"), IsEmpty()));
}

TEST_F(RowQueueTest, AHeldRowKeepsItsItemsAndNoOthers) {
  // Of an ordinary pause a busy machine would see the end here.
  Queue queue(10, false, 0us, 0ms, [](std::chrono::milliseconds) { return kLong; });
  push(queue, {"a1", "b1"});
  finish(queue, queue.take(10), "a");
  push(queue, {"a2", "b2", "c1"});
  EXPECT_THAT(names(queue.take(10)), ElementsAre("b2", "c1"));
}

TEST_F(RowQueueTest, AHeldRowsTimeComesByItself) {
  Queue queue(10, false);
  push(queue, {"a1"});
  finish(queue, queue.take(10), "a");
  push(queue, {"a2"});
  // Everything of it is tried at once, in order.
  auto taken = queue.take(10);
  ASSERT_THAT(names(taken), ElementsAre("a1", "a2"));
  EXPECT_TRUE(taken[0].was_held && taken[1].was_held);
  finish(queue, std::move(taken));
  push(queue, {"a3"});
  taken = queue.take(10);
  EXPECT_THAT(names(taken), ElementsAre("a3"));
  EXPECT_FALSE(taken[0].was_held);
}

TEST(HeldPause, IsRandomWhileItMayBeOneOfOursAndGrowsAfterwards) {
  std::set<std::chrono::milliseconds> seen;
  for (int i = 0; i < 200; ++i) {
    for (const auto held : {0ms, 3ms, 1499ms}) {
      seen.insert(held_pause(held));
    }
  }
  EXPECT_GE(*seen.begin(), 1ms);
  EXPECT_LE(*seen.rbegin(), 10ms);
  EXPECT_GT(seen.size(), 3U) << "rivals must not try in step";
  EXPECT_EQ(held_pause(1500ms), 750ms);
  EXPECT_EQ(held_pause(1h), 1000ms);
}

// What has met another's transaction needs none of its own.
TEST_F(RowQueueTest, ABrieflyHeldRowGoesWithTheNextBatch) {
  Queue queue(10, false, 0us, 1h);
  push(queue, {"a1", "b1"});
  finish(queue, queue.take(10), "a");
  push(queue, {"a2", "b2", "c1"});
  auto taken = queue.take(10);
  EXPECT_THAT(names(taken), UnorderedElementsAre("a1", "a2", "b2", "c1"));
  finish(queue, std::move(taken), "a");
  // Otherwise its time comes as that of any other.
  taken = queue.take(10);
  EXPECT_THAT(names(taken), ElementsAre("a1", "a2"));
  EXPECT_TRUE(taken[0].was_held && taken[1].was_held);
}

// Each try in vain costs the batch a round trip.
TEST_F(RowQueueTest, ARowThatIsHeldForLongerKeepsToItsTime) {
  Queue queue(10, false, 0us, 1ms);
  push(queue, {"a1"});
  const auto since = Queue::Clock::now();
  finish(queue, queue.take(10), "a");
  // Until then its pauses are of up to 10 ms: in many of them a batch goes without it. Later they
  // are longer.
  EXPECT_TRUE(test::eventually(60s, [&] {
    if (Queue::Clock::now() < since + 1ms) {
      return false;
    }
    push(queue, {"b1"});
    auto taken = queue.take(10);
    const bool alone = taken.size() == 1;
    finish(queue, std::move(taken), "a");
    return alone;
  }));
}

// It takes what is left of a batch.
TEST_F(RowQueueTest, ABrieflyHeldRowTakesNobodysRoom) {
  Queue queue(10, false, 0us, 1h);
  const auto large = [&](const std::string& name) {
    Item out = item(name);
    out.bytes = 100;
    EXPECT_TRUE(queue.push(std::move(out)));
  };
  large("a1");
  const auto since = Queue::Clock::now();
  finish(queue, queue.take(10), "a");
  large("b1");
  const auto taken = queue.take(10, 100);
  // On a busy machine its time has come.
  EXPECT_TRUE(names(taken) == std::vector<std::string>{"b1"} || Queue::Clock::now() >= since + 1ms);
}

// Those that came while a sibling had their row are older than what came later for other rows, and
// no older than what came before.
TEST_F(RowQueueTest, ItemsKeepTheirOrderWhoeverTheyWaitedFor) {
  Queue queue(10, true);
  push(queue, {"a1", "b1"});
  auto first = queue.take(1);
  push(queue, {"a2", "c1"});
  finish(queue, std::move(first));
  EXPECT_THAT(names(queue.take(2)), ElementsAre("b1", "a2"));
  EXPECT_THAT(names(queue.take(2)), ElementsAre("c1"));
}

// Nobody asked for it, so nobody knows that it is free.
TEST_F(RowQueueTest, ARowThatWasNotTriedStaysHeld) {
  Queue queue(10, false);
  push(queue, {"a1", "a2"});
  finish(queue, queue.take(10), "a");
  const std::vector<std::optional<Uuid>> rows = {row('a')};
  auto taken = queue.take(4);
  ASSERT_THAT(names(taken), ElementsAre("a1"));
  queue.finish(taken.front().batch, rows, {}, rows);
  EXPECT_EQ(queue.size(), 0U);
  push(queue, {"b1"});
  EXPECT_THAT(names(queue.take(1)), testing::AnyOf(ElementsAre("b1"), ElementsAre("a2")));
  // And when nothing of it is left, it is forgotten.
  Queue other(10, false);
  push(other, {"a1"});
  finish(other, other.take(10), "a");
  taken = other.take(10);
  ASSERT_THAT(names(taken), ElementsAre("a1"));
  other.finish(taken.front().batch, rows, {}, rows);
  push(other, {"a3"});
  EXPECT_THAT(names(other.take(10)), ElementsAre("a3"));
}

TEST_F(RowQueueTest, ManyHeldRowsTakeAQuarterOfABatch) {
  Queue queue(100, false);
  for (char c = 'a'; c < 'm'; ++c) {
    push(queue, {std::string(1, c) + "1"});
  }
  finish(queue, queue.take(12), "abcdefghijkl");
  const auto due = Queue::Clock::now() + 10ms;
  for (int i = 0; i < 12; ++i) {
    push(queue, {"z" + std::to_string(i)});
  }
  while (Queue::Clock::now() <= due) {
    std::this_thread::yield();
  }
  const auto taken = queue.take(8);
  EXPECT_EQ(std::count_if(taken.begin(), taken.end(), [](const Item& i) { return i.was_held; }), 2);
  EXPECT_EQ(taken.size(), 8U);
}

TEST_F(RowQueueTest, SiblingsNeverHaveTheSameRow) {
  Queue queue(10, true);
  push(queue, {"a1", "b1"});
  auto first = queue.take(1);
  EXPECT_THAT(names(first), ElementsAre("a1"));
  push(queue, {"a2", "c1"});
  auto second = queue.take(10);
  EXPECT_THAT(names(second), ElementsAre("b1", "c1"));
  push(queue, {"b2"});
  EXPECT_EQ(queue.size(), 2U) << "waiting for their turn counts as waiting";
  finish(queue, std::move(first));
  auto third = queue.take(10);
  EXPECT_THAT(names(third), ElementsAre("a2"));
  finish(queue, std::move(second), "b");
  finish(queue, std::move(third));
  EXPECT_EQ(queue.size(), 0U) << "waiting for a held row does not";
  EXPECT_THAT(names(queue.take(10)), ElementsAre("b1", "b2"));
}

// What is handed over can be taken before the batch that had it is over, and says so.
TEST_F(RowQueueTest, ARowHandedOverIsTakenBeforeItsBatchIsOver) {
  Queue queue(10, true);
  push(queue, {"a1", "b1"});
  auto first = queue.take(10);
  push(queue, {"a2", "b2", "c1"});
  const std::vector<Uuid> done = {row('a')};
  queue.hand_over(first.front().batch, done);
  auto second = queue.take(10);
  ASSERT_THAT(names(second), ElementsAre("a2", "c1"));
  EXPECT_TRUE(second[0].follows);
  EXPECT_FALSE(second[1].follows);
  push(queue, {"a3"});
  // The end of the first batch frees what it still has, and nothing of the second's.
  finish(queue, std::move(first));
  auto third = queue.take(10);
  EXPECT_THAT(names(third), ElementsAre("b2"));
  EXPECT_FALSE(third[0].follows);
  finish(queue, std::move(second));
  const auto fourth = queue.take(10);
  EXPECT_THAT(names(fourth), ElementsAre("a3"));
  EXPECT_FALSE(fourth[0].follows) << "the batch before it is over";
}

// A batch that has handed a row over and is then found to lack it (its COMMIT failed and it ran
// again) leaves the row to the sibling, and its item comes right after.
TEST_F(RowQueueTest, WhatComesBackAfterTheHandingOverWaitsForTheSibling) {
  Queue queue(10, true);
  push(queue, {"a1"});
  auto first = queue.take(10);
  push(queue, {"a2"});
  const std::vector<Uuid> done = {row('a')};
  queue.hand_over(first.front().batch, done);
  auto second = queue.take(10);
  ASSERT_THAT(names(second), ElementsAre("a2"));
  finish(queue, std::move(first), "a");
  EXPECT_EQ(queue.size(), 1U) << "waiting for its turn, not for a held row";
  finish(queue, std::move(second));
  const auto third = queue.take(10);
  EXPECT_THAT(names(third), ElementsAre("a1"));
  EXPECT_FALSE(third[0].was_held);
}

TEST_F(RowQueueTest, AHeldRowIsNotHandedOver) {
  Queue queue(10, true);
  push(queue, {"a1"});
  finish(queue, queue.take(10), "a");
  auto again = queue.take(10);
  push(queue, {"a2", "b1"});
  const std::vector<Uuid> done = {row('a')};
  queue.hand_over(again.front().batch, done);
  EXPECT_THAT(names(queue.take(10)), ElementsAre("b1"));
  finish(queue, std::move(again));
  EXPECT_THAT(names(queue.take(10)), ElementsAre("a2"));
}

TEST_F(RowQueueTest, WaitersForAHeldRowTakeNobodysPlace) {
  Queue queue(2, false);
  push(queue, {"a1", "a2"});
  EXPECT_FALSE(queue.push(item("b1")));
  finish(queue, queue.take(2), "a");
  push(queue, {"b1", "b2"});
  EXPECT_FALSE(queue.push(item("a3"))) << "as many, not more";
  EXPECT_FALSE(queue.push(item("b3")));
}

TEST_F(RowQueueTest, ClosingDrainsEverything) {
  for (const bool siblings : {false, true}) {
    Queue queue(10, siblings);
    push(queue, {"a1", "b1"});
    finish(queue, queue.take(10), "a");
    push(queue, {"a2", "c1"});
    auto running = queue.take(10);
    queue.close();
    EXPECT_FALSE(queue.push(item("d1")));
    // On a busy machine the time of the held ones may have come before.
    std::vector<std::string> taken = names(running);
    if (taken.size() == 1) {
      auto rest = queue.take(10);
      EXPECT_THAT(names(rest), ElementsAre("a1", "a2"));
      taken.insert(taken.end(), {"a1", "a2"});
      ASSERT_FALSE(rest.empty());
      finish(queue, std::move(rest));
    }
    EXPECT_THAT(taken, UnorderedElementsAre("a1", "a2", "c1"));
    finish(queue, std::move(running));
    EXPECT_THAT(names(queue.take(10)), IsEmpty());
  }
}

TEST_F(RowQueueTest, ItemsWithoutARowAreNeverKeptBack) {
  Queue queue(10, true);
  EXPECT_TRUE(queue.push({.name = "x", .row = std::nullopt}));
  const auto first = queue.take(10);
  EXPECT_TRUE(queue.push({.name = "y", .row = std::nullopt}));
  EXPECT_THAT(names(queue.take(10)), ElementsAre("y"));
}

TEST_F(RowQueueTest, ABatchBesideAnotherWaitsForAsMany) {
  Queue queue(10, true, kLong);
  push(queue, {"a1", "b1", "c1"});
  const auto first = queue.take(10);
  EXPECT_THAT(taken_after(queue, {"d1", "e1"}, [&] { push(queue, {"f1"}); }),
              ElementsAre("d1", "e1", "f1"));
}

TEST_F(RowQueueTest, ABatchBesideAnotherThatEndsGoesAsItIs) {
  Queue queue(10, true, kLong);
  push(queue, {"a1", "b1", "c1"});
  auto first = queue.take(10);
  EXPECT_THAT(taken_after(queue, {"d1"}, [&] { finish(queue, std::move(first)); }),
              ElementsAre("d1"));
}

TEST_F(RowQueueTest, ABatchBesideNobodysWaitsForNoCompany) {
  Queue queue(10, true, kLong);
  push(queue, {"a1", "b1", "c1"});
  finish(queue, queue.take(10));
  push(queue, {"d1"});
  EXPECT_THAT(names(queue.take(10)), ElementsAre("d1"));
}

TEST_F(RowQueueTest, AClosedQueueWaitsForNoCompany) {
  Queue queue(10, true, kLong);
  push(queue, {"a1", "b1", "c1"});
  const auto first = queue.take(10);
  EXPECT_THAT(taken_after(queue, {"d1"}, [&] { queue.close(); }), ElementsAre("d1"));
}

// Whoever has the first batch may be frozen, and never say that it is over.
TEST_F(RowQueueTest, NobodyWaitsLongForCompany) {
  Queue queue(10, true, 1us);
  push(queue, {"a1", "b1", "c1"});
  const auto frozen = queue.take(10);
  // Kept back: it is no company for anybody, and nobody is to be told of it.
  push(queue, {"a2"});
  std::vector<Item> second;
  std::thread sibling([&] { second = queue.take(10); });
  push(queue, {"d1"});
  sibling.join();
  EXPECT_THAT(names(second), ElementsAre("d1"));
}

// Others' held rows come at their time.
TEST_F(RowQueueTest, ADueRetryWaitsForNoCompany) {
  Queue queue(10, true, kLong);
  push(queue, {"a1", "b1", "c1"});
  auto first = queue.take(1);
  auto second = queue.take(10);
  finish(queue, std::move(first), "a");
  push(queue, {"d1"});
  auto third = queue.take(10);
  EXPECT_THAT(names(third), ElementsAre("a1", "d1"));
}

}  // namespace
}  // namespace audiogen::store
