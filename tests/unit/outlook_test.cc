// When tasks begin and end, from what waits and what has begun lately.
#include "common/domain/outlook.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using Waiting = QueueSample::Waiting;
using Start = QueueSample::Start;

const Instant kNow = Instant(1'000'000s);

TaskView task_in(TaskState state, Instant due = kNow, TaskId id = TaskId::make()) {
  TaskView out;
  out.id = id;
  out.state = state;
  out.next_run_at = due;
  out.updated_at = due;
  return out;
}

// `count` tasks that each waited for the one before, which began `pace` earlier, the last one just
// now; each took `work`.
std::vector<Start> steady(std::size_t count,
                          std::chrono::milliseconds pace,
                          std::chrono::milliseconds work) {
  std::vector<Start> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Instant began = kNow - pace * static_cast<int>(i);
    out.push_back({.created = kNow - 1h, .began = began, .done = began + work});
  }
  return out;
}

std::vector<Waiting> waiting(std::size_t count, Lane lane = Lane::kBulk) {
  std::vector<Waiting> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(
        {.due = kNow - 10s + std::chrono::milliseconds(i), .id = TaskId::make(), .lane = lane});
  }
  return out;
}

TEST(WaitingOn, IsWhatTheTaskSays) {
  EXPECT_EQ(waiting_on(task_in(TaskState::kQueued), kNow), WaitingOn::kCapacity);
  EXPECT_EQ(waiting_on(task_in(TaskState::kQueued, kNow + 1s), kNow), WaitingOn::kRetry);
  TaskView referring = task_in(TaskState::kQueued, kNow + 1s);
  referring.waits_for_reference = true;
  EXPECT_EQ(waiting_on(referring, kNow), WaitingOn::kReference);
  EXPECT_EQ(waiting_on(referring, kNow + 1s), WaitingOn::kCapacity) << "its time has come";
  EXPECT_EQ(waiting_on(task_in(TaskState::kRunning), kNow), WaitingOn::kProvider);
  referring.state = TaskState::kRunning;
  EXPECT_EQ(waiting_on(referring, kNow), WaitingOn::kReference);
  for (const TaskState final : {TaskState::kSucceeded, TaskState::kFailed, TaskState::kCanceled}) {
    EXPECT_EQ(waiting_on(task_in(final), kNow), std::nullopt);
  }
  EXPECT_EQ(waiting_on_name(WaitingOn::kCapacity), "capacity");
  EXPECT_EQ(waiting_on_name(WaitingOn::kProvider), "provider");
  EXPECT_EQ(waiting_on_name(WaitingOn::kRetry), "retry");
  EXPECT_EQ(waiting_on_name(WaitingOn::kReference), "reference");
}

TEST(Outlook, WithoutFiguresTellsOnlyWhatTheTaskSays) {
  for (const Outlook& outlook : {Outlook(), Outlook({.at = kNow, .whole = true})}) {
    EXPECT_EQ(outlook.start_in(Lane::kBulk), std::nullopt);
    const Prospect open = outlook.of(task_in(TaskState::kRunning), kNow);
    EXPECT_EQ(open, (Prospect{.waiting_on = WaitingOn::kProvider}));
    EXPECT_EQ(outlook.of(task_in(TaskState::kQueued), kNow).start_in, std::nullopt);
    EXPECT_EQ(outlook.of(task_in(TaskState::kFailed), kNow), Prospect());
  }
  EXPECT_EQ(Outlook().of(task_in(TaskState::kQueued), kNow).position, std::nullopt);
}

TEST(Outlook, WhoComesWaitsForAllWhoWait) {
  const Outlook idle({.at = kNow, .starts = steady(9, 500ms, 4s)});
  EXPECT_EQ(idle.start_in(Lane::kBulk), (Spread{500ms, 500ms}));
  const Outlook busy({.at = kNow, .waiting = waiting(19), .starts = steady(9, 500ms, 4s)});
  // Eight gaps of 500 ms, and the one that has only begun.
  ASSERT_TRUE(busy.start_in(Lane::kBulk));
  EXPECT_EQ(busy.start_in(Lane::kBulk)->p50, 8'889ms);
  EXPECT_EQ(busy.start_in(Lane::kBulk)->p90, 10'000ms);
}

// The gap between tasks that come seldom says nothing of how fast they would be taken.
TEST(Outlook, OnlyTimeInWhichSomebodyWaitedCounts) {
  std::vector<Start> starts;
  for (int i = 0; i < 8; ++i) {
    const Instant created = kNow - 1min * (8 - i);
    starts.push_back({.created = created, .began = created + 20ms});
  }
  EXPECT_EQ(Outlook({.at = kNow, .starts = starts}).start_in(Lane::kBulk), (Spread{20ms, 20ms}));
  starts.resize(1);
  EXPECT_EQ(Outlook({.at = kNow, .starts = starts}).start_in(Lane::kBulk), (Spread{20ms, 20ms}));
}

// Tasks are taken many at once.
TEST(Outlook, ABatchCountsAsAllItsTasks) {
  std::vector<Start> starts;
  for (int batch = 0; batch < 4; ++batch) {
    for (int i = 0; i < 100; ++i) {
      starts.push_back({.created = kNow - 1h, .began = kNow - 1s * batch});
    }
  }
  const auto start =
      Outlook({.at = kNow, .waiting = waiting(199), .starts = starts}).start_in(Lane::kBulk);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->p50, 1'500ms);  // 3 s for 400 gaps, 200 turns.
  EXPECT_GE(start->p90, start->p50);
  EXPECT_LE(start->p90, 2 * start->p50 + 100ms);
}

TEST(Outlook, WhatIsTooOldOrHasStoppedIsNoFigure) {
  auto starts = steady(5, 500ms, 4s);
  EXPECT_EQ(Outlook({.at = kNow + kStartsKept + 10s, .starts = starts}).start_in(Lane::kBulk),
            std::nullopt);
  EXPECT_TRUE(Outlook({.at = kNow + kStallMax + 10s, .starts = starts}).start_in(Lane::kBulk))
      << "nobody waits";
  EXPECT_EQ(Outlook({.at = kNow + kStallMax + 10s, .waiting = waiting(1), .starts = starts})
                .start_in(Lane::kBulk),
            std::nullopt)
      << "somebody does, and nothing begins";
  EXPECT_EQ(Outlook({.at = kNow, .whole = false, .starts = starts}).start_in(Lane::kBulk),
            std::nullopt);
}

TEST(Outlook, APlaceIsCountedFromTheOneThatIsTakenNext) {
  const auto queue = waiting(3);
  const Outlook outlook({.at = kNow, .waiting = queue, .starts = steady(9, 90ms, 4s)});
  const auto of = [&](const Waiting& place) {
    return outlook.of(task_in(TaskState::kQueued, place.due, place.id), kNow);
  };
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const Prospect prospect = of(queue[i]);
    EXPECT_EQ(prospect.waiting_on, WaitingOn::kCapacity);
    EXPECT_EQ(prospect.position, i + 1);
    ASSERT_TRUE(prospect.start_in && prospect.done_in);
    EXPECT_EQ(prospect.start_in->p50, 80ms * static_cast<int>(i + 1));
    EXPECT_EQ(prospect.done_in->p50, prospect.start_in->p50 + 4s);
  }
  EXPECT_EQ(of({kNow, TaskId::make()}).position, 4u) << "it came after the look";
  EXPECT_EQ(Outlook({.at = kNow, .whole = false}).of(task_in(TaskState::kQueued), kNow).position,
            std::nullopt);
}

// Whoever has little under way does not wait behind crowds.
TEST(Outlook, APlaceIsOneOfItsOwnLane) {
  auto queue = waiting(40);
  queue.push_back({.due = kNow - 1s, .id = TaskId::make(), .lane = Lane::kExpress});
  const Outlook outlook({.at = kNow, .waiting = queue, .starts = steady(9, 90ms, 4s)});
  const auto of = [&](Instant due, TaskId id, Lane lane) {
    TaskView task = task_in(TaskState::kQueued, due, id);
    task.lane = lane;
    return outlook.of(task, kNow);
  };
  const Prospect express = of(queue.back().due, queue.back().id, Lane::kExpress);
  EXPECT_EQ(express.position, 1U);
  ASSERT_TRUE(express.start_in);
  EXPECT_EQ(express.start_in->p50, 80ms);
  EXPECT_EQ(of(queue[39].due, queue[39].id, Lane::kBulk).position, 40U);
  EXPECT_EQ(of(kNow, TaskId::make(), Lane::kExpress).position, 2U) << "it came after the look";
  EXPECT_EQ(of(kNow, TaskId::make(), Lane::kParked), (Prospect{.waiting_on = WaitingOn::kCapacity}))
      << "it is in no lane yet";
}

TEST(Outlook, WhereBothLanesWaitEveryFourthTurnIsTheBulkLanes) {
  const auto turns = [](std::size_t bulk, std::size_t express, Lane lane) {
    auto queue = waiting(bulk);
    const auto others = waiting(express, Lane::kExpress);
    queue.insert(queue.end(), others.begin(), others.end());
    std::sort(queue.begin(), queue.end());
    const Outlook outlook({.at = kNow, .waiting = queue, .starts = steady(9, 90ms, 4s)});
    return outlook.start_in(lane).value_or(Spread{}).p50 / 80ms;
  };
  EXPECT_EQ(turns(40, 0, Lane::kExpress), 1);
  EXPECT_EQ(turns(40, 7, Lane::kExpress), 8 + 2);
  EXPECT_EQ(turns(1, 7, Lane::kExpress), 8 + 1) << "nobody else of the other lane";
  EXPECT_EQ(turns(0, 40, Lane::kBulk), 1 + 3);
  EXPECT_EQ(turns(9, 40, Lane::kBulk), 10 + 30);
  EXPECT_EQ(turns(99, 40, Lane::kBulk), 100 + 40);
  EXPECT_EQ(turns(0, 0, Lane::kParked), 0) << "not known";
}

TEST(Outlook, WhatWasPutBackWaitsForItsTimeAndThenItsTurn) {
  const Outlook outlook({.at = kNow, .starts = steady(9, 100ms, 4s)});
  const Prospect prospect = outlook.of(task_in(TaskState::kQueued, kNow + 8s), kNow);
  EXPECT_EQ(prospect.waiting_on, WaitingOn::kRetry);
  EXPECT_EQ(prospect.position, std::nullopt);
  EXPECT_EQ(prospect.start_in, (Spread{8'100ms, 8'100ms}));
  EXPECT_EQ(prospect.done_in, (Spread{12'100ms, 12'100ms}));
}

TEST(Outlook, HowLongReferencesTakeNobodyCanTell) {
  const Outlook outlook({.at = kNow, .starts = steady(9, 100ms, 4s)});
  TaskView task = task_in(TaskState::kRunning);
  task.waits_for_reference = true;
  EXPECT_EQ(outlook.of(task, kNow), (Prospect{.waiting_on = WaitingOn::kReference}));
}

TEST(Outlook, WorkIsExpectedToLastAsWorkThatLastedSoLong) {
  std::vector<Start> starts;
  for (int i = 1; i <= 10; ++i) {
    starts.push_back({.created = kNow - 1min, .began = kNow - 1min, .done = kNow - 1min + 1s * i});
  }
  const Outlook outlook({.at = kNow, .starts = starts});
  const auto after = [&](std::chrono::seconds worked) {
    return outlook.of(task_in(TaskState::kRunning, kNow - worked), kNow).done_in;
  };
  EXPECT_EQ(after(0s), (Spread{5s, 9s}));
  EXPECT_EQ(after(6s), (Spread{2s, 4s})) << "6 to 10 s are left";
  EXPECT_EQ(after(10s), (Spread{0s, 0s}));
  EXPECT_EQ(after(11s), std::nullopt) << "longer than any";
  EXPECT_EQ(after(-1s), (Spread{5s, 9s})) << "a clock that is ahead";
}

TEST(ReadAgain, IsFromOneToFiveSeconds) {
  EXPECT_EQ(read_again_after(std::nullopt), 3s);
  EXPECT_EQ(read_again_after(Spread{0ms, 9s}), 1s);
  EXPECT_EQ(read_again_after(Spread{1'001ms, 9s}), 2s);
  EXPECT_EQ(read_again_after(Spread{5s, 9s}), 5s);
  EXPECT_EQ(read_again_after(Spread{1h, 2h}), 5s);
}

}  // namespace
}  // namespace audiogen
