#include "common/domain/waiting.h"

#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

struct Delivery {
  Hint hint;
  int message = 0;
};

Hint hint_of(std::uint8_t n, Lane lane) {
  Hint hint{.task = {}, .lane = lane};
  hint.task.uuid.bytes[15] = n;
  return hint;
}

class WaitingTest : public testing::Test {
 protected:
  // All that get one of so many places, by the last byte of their ids.
  std::vector<int> take(Room room) {
    std::vector<int> out;
    const auto reserve = [&](Lane lane) {
      --(lane == Lane::kExpress ? room.express : room.bulk);
      return true;
    };
    while (const auto next = waiting_.next(room, reserve)) {
      out.push_back(next->hint.task.uuid.bytes[15]);
    }
    return out;
  }

  Waiting<Delivery> waiting_;
};

TEST_F(WaitingTest, InEachLaneTheFirstComesFirst) {
  for (std::uint8_t n = 1; n <= 3; ++n) {
    waiting_.add({hint_of(n, Lane::kBulk), n});
  }
  EXPECT_EQ(take({.bulk = 2, .express = 2}), (std::vector{1, 2}));
  EXPECT_EQ(take({.bulk = 0, .express = 2}), (std::vector<int>{}));
  EXPECT_EQ(take({.bulk = 2, .express = 0}), (std::vector{3}));
  EXPECT_TRUE(waiting_.empty());
}

// It is one worker's eighth that only they may have.
TEST_F(WaitingTest, ATriedOneThatHasNoRoomKeepsNoneOfTheOtherLaneWaiting) {
  waiting_.add_tried(hint_of(1, Lane::kBulk));
  waiting_.add_tried(hint_of(2, Lane::kExpress));
  EXPECT_EQ(take({.bulk = 0, .express = 1}), (std::vector{2}));
  EXPECT_EQ(take({.bulk = 1, .express = 1}), (std::vector{1}));
}

TEST_F(WaitingTest, ATriedOneWaitsOnceHoweverOftenItIsFound) {
  EXPECT_TRUE(waiting_.add_tried(hint_of(1, Lane::kBulk)));
  EXPECT_TRUE(waiting_.add_tried(hint_of(1, Lane::kBulk)));
  EXPECT_EQ(take({.bulk = 9, .express = 9}), (std::vector{1}));
}

TEST_F(WaitingTest, OnlySoManyTriedOnesWait) {
  for (std::size_t i = 0; i < Waiting<Delivery>::kTriedMax; ++i) {
    Hint hint;
    hint.task.uuid.bytes[0] = static_cast<std::uint8_t>(i / 256);
    hint.task.uuid.bytes[1] = static_cast<std::uint8_t>(i);
    EXPECT_TRUE(waiting_.add_tried(hint));
  }
  EXPECT_FALSE(waiting_.add_tried(hint_of(1, Lane::kExpress)));
}

TEST_F(WaitingTest, WhoGetsNoPlaceHasHadNoTurn) {
  waiting_.add_tried(hint_of(1, Lane::kBulk));
  waiting_.add_tried(hint_of(2, Lane::kBulk));
  waiting_.add({hint_of(3, Lane::kBulk), 3});
  const Room room{.bulk = 1, .express = 1};
  for (int i = 0; i < 9; ++i) {
    EXPECT_FALSE(waiting_.next(room, [](Lane) { return false; }));
  }
  EXPECT_EQ(take({.bulk = 3, .express = 0}), (std::vector{1, 2, 3}));
}

TEST_F(WaitingTest, WhatWaitsIsBeforeOthersInItsOwnLane) {
  const Room room{.bulk = 4, .express = 5};
  EXPECT_EQ(waiting_.beside(room).bulk, 4U);
  waiting_.add({hint_of(1, Lane::kExpress), 1});
  EXPECT_EQ(waiting_.beside(room).bulk, 3U);
  EXPECT_EQ(waiting_.beside(room).express, 4U);
  waiting_.add({hint_of(2, Lane::kBulk), 2});
  EXPECT_EQ(waiting_.beside(room).bulk, 2U);
  EXPECT_EQ(waiting_.beside(room).express, 4U);
  waiting_.add_tried(hint_of(3, Lane::kBulk));
  EXPECT_EQ(waiting_.beside(room).bulk, 1U);
  EXPECT_EQ(waiting_.beside(room).express, 3U);
}

// However many there are, they may not have what is the express lane's alone.
TEST_F(WaitingTest, BulkTasksThatWereTriedSpeakForNoPlaceThatTheyMayNotHave) {
  for (std::uint8_t n = 0; n < 20; ++n) {
    waiting_.add_tried(hint_of(n, Lane::kBulk));
  }
  EXPECT_EQ(waiting_.beside({.bulk = 0, .express = 2}).express, 2U);
  EXPECT_EQ(waiting_.beside({.bulk = 3, .express = 5}).express, 2U);
}

TEST_F(WaitingTest, TellsHowOldTheFirstOfEachQueueIs) {
  EXPECT_FALSE(waiting_.queues_seen().bulk);
  const Hint first = hint_of(1, Lane::kBulk), second = hint_of(2, Lane::kBulk);
  waiting_.add({first, 1});
  waiting_.add({second, 2});
  EXPECT_EQ(waiting_.queues_seen().bulk, made_at(first.task.uuid));
  EXPECT_FALSE(waiting_.queues_seen().express);
}

// What was parked for minutes was hinted a moment ago.
TEST_F(WaitingTest, WhatWasReleasedOrGivenBackTellsNothingOfTheQueue) {
  Hint released = hint_of(1, Lane::kBulk);
  released.epoch = 1;
  waiting_.add({released, 1});
  EXPECT_FALSE(waiting_.queues_seen().bulk);
  Hint behind = hint_of(2, Lane::kBulk);
  behind.task.uuid.bytes[5] = 7;
  waiting_.add({behind, 2});
  EXPECT_EQ(waiting_.queues_seen().bulk, made_at(behind.task.uuid));
}

}  // namespace
}  // namespace audiogen
