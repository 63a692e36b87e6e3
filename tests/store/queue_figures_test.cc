// What the queue of record looks like: what waits, what has begun, and what a look leaves alone.
#include "common/store/queue_figures.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class QueueFiguresTest : public TaskStoreTest {
 protected:
  QueueSample sample() {
    auto out = figures_.sample();
    if (!out) {
      ADD_FAILURE() << out.error().detail;
      return {};
    }
    return *std::move(out);
  }
  static std::vector<TaskId> ids_of(const QueueSample& sample) {
    std::vector<TaskId> out;
    for (const auto& waiting : sample.waiting) {
      out.push_back(waiting.id);
    }
    return out;
  }

  Session session_{db_.as("api")};  // Who looks.
  QueueFigures figures_{session_};
};

TEST_F(QueueFiguresTest, NothingIsThereWhenNothingIs) {
  const QueueSample none = sample();
  EXPECT_TRUE(none.whole);
  EXPECT_THAT(none.waiting, IsEmpty());
  EXPECT_THAT(none.starts, IsEmpty());
  const std::int64_t off =
      db_.number(Sql("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), ") << none.at << "))");
  EXPECT_LE(off, 60) << "the database's clock";
}

TEST_F(QueueFiguresTest, WhoIsDueWaitsInTheOrderOfTheirTimes) {
  const UserId user = db_.add_user();
  const TaskId first = create(user), second = create(user), running = create(user),
               later = create(user), canceled = create(user);
  ASSERT_TRUE(claim(running));
  SettleCommand retry = settle_command(Settle::kRetry, *claim(later));
  retry.call = 1;
  retry.call_state = kCallFailed;
  retry.retry_after = std::chrono::minutes(5);
  EXPECT_EQ(settle(retry), SettleOutcome::kRequeued);
  must(store_.cancel(canceled));
  EXPECT_THAT(ids_of(sample()), ElementsAre(first, second));
  // A row that another session holds is read like any other.
  const RowHolder holder(db_.url(), row_of_task(first));
  EXPECT_THAT(ids_of(sample()), ElementsAre(first, second));
  make_due(later);
  const auto waiting = ids_of(sample());
  ASSERT_THAT(waiting, SizeIs(3));
  EXPECT_EQ(waiting.front(), later) << "due a second ago";
}

TEST_F(QueueFiguresTest, WhoWaitsDoesInHisLane) {
  const UserId user = db_.add_user();
  for (std::uint32_t i = 0; i < kExpressMax + 2; ++i) {
    create(user);
  }
  std::vector<Lane> lanes;
  for (const auto& waiting : sample().waiting) {
    lanes.push_back(waiting.lane);
  }
  EXPECT_THAT(lanes,
              ElementsAre(Lane::kExpress,
                          Lane::kExpress,
                          Lane::kExpress,
                          Lane::kExpress,
                          Lane::kBulk,
                          Lane::kBulk));
}

TEST_F(QueueFiguresTest, AStartIsOfTheFirstAndOnlyCall) {
  const UserId user = db_.add_user();
  const TaskId done = create(user), running = create(user), failed = create(user),
               again = create(user);
  create(user);
  const auto end = [&](TaskId task, Settle kind, std::uint8_t state) {
    SettleCommand command = settle_command(kind, *claim(task));
    command.call = 1;
    command.call_state = state;
    settle(command);
  };
  end(done, Settle::kSucceed, kCallSucceeded);
  end(failed, Settle::kFail, kCallFailed);
  end(again, Settle::kRetry, kCallFailed);
  make_due(again);
  ASSERT_TRUE(claim(again, 2));
  ASSERT_TRUE(claim(running));
  const auto starts = sample().starts;
  ASSERT_THAT(starts, SizeIs(3));
  for (const auto& start : starts) {
    EXPECT_GE(start.began, start.created);
    EXPECT_LE(start.began - start.created, std::chrono::hours(1));
  }
  EXPECT_EQ(
      std::count_if(starts.begin(), starts.end(), [](const auto& start) { return start.done; }), 1);
}

// Of those that wait there may be more than a look has room for.
TEST_F(QueueFiguresTest, StartsAreFoundBehindManyWhoWait) {
  const UserId user = db_.add_user();
  db_.execute(Sql("UPDATE release_window SET size=") << 3 * kStartsSeen);
  claim_many(user, 20);
  std::vector<CreateCommand> commands;
  for (std::size_t i = 0; i < 2 * kStartsSeen; ++i) {
    commands.push_back(create_command(user));
    if (commands.size() == 100) {
      must(store_.create(commands));
      commands.clear();
    }
  }
  const QueueSample seen = sample();
  EXPECT_THAT(seen.waiting, SizeIs(2 * kStartsSeen));
  EXPECT_TRUE(std::is_sorted(seen.waiting.begin(), seen.waiting.end()));
  EXPECT_THAT(seen.starts, SizeIs(20));
}

// They are nobody's to take yet, and there may be very many.
TEST_F(QueueFiguresTest, ParkedTasksAreNotAmongThoseThatWait) {
  const UserId user = db_.add_user();
  db_.execute(Sql("UPDATE release_window SET size=5"));
  for (int i = 0; i < 9; ++i) {
    create(user);
  }
  EXPECT_THAT(sample().waiting, SizeIs(5));
}

}  // namespace
}  // namespace audiogen::store
