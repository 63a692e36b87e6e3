// Who works for whom next: windows, lanes, turns.
#include "common/domain/shares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;

WorkersSeen workers(std::uint64_t places, std::uint64_t room = 0) {
  return {.at = {}, .workers = 1, .places = places, .room = room, .ended = 0};
}

// Looks of a second each; the window as it becomes.
class WindowTest : public testing::Test {
 protected:
  std::optional<std::uint32_t> look(WorkersSeen seen, std::uint32_t crowds) {
    seen.at = Instant(now_ += std::chrono::seconds(1));
    const auto size = watch_.look(seen, crowds, last_, std::chrono::seconds(5));
    last_ = {.size = size.value_or(last_.size), .crowds = crowds};
    return size;
  }
  std::uint32_t after(int looks, const WorkersSeen& seen, std::uint32_t crowds) {
    for (int i = 0; i < looks; ++i) {
      EXPECT_TRUE(look(seen, crowds));
    }
    return last_.size;
  }

  WindowWatch watch_;
  ReleaseWindow last_;
  std::chrono::seconds now_{1000};
};

TEST_F(WindowTest, IsTwiceThePlacesSharedByTheCrowds) {
  EXPECT_EQ(look(workers(0), 0), std::nullopt);
  EXPECT_EQ(look(workers(0), 7), std::nullopt);
  EXPECT_EQ(look(workers(200), 0), 400U) << "the first who comes is a crowd, too";
  EXPECT_EQ(look(workers(200), 1), 400U);
  EXPECT_EQ(look(workers(200), 3), 134U) << "rounded up";
  EXPECT_EQ(look(workers(200), 1'000'000), kWindowMin);
  EXPECT_EQ(look(workers(1), 1'000'000), kWindowMin);
  EXPECT_EQ(look(workers(UINT64_MAX), 1), kWindowMax);
  EXPECT_EQ(look(workers(UINT64_MAX), UINT32_MAX), kWindowMin);
}

TEST_F(WindowTest, ThatIsTooLargeForThePlacesIsNotKept) {
  last_.size = 1000;
  EXPECT_EQ(look(workers(10, 10), 0), 20U);
}

// What is released of others waits for slow servers, say: then this one's share alone leaves
// workers without work.
TEST_F(WindowTest, GrowsWhileWorkersHaveRoomAndShrinksSlowlyAfterwards) {
  constexpr std::uint32_t kShare = 16, kAlone = 128;
  EXPECT_EQ(after(20, workers(64, 6), 8), kShare) << "as good as full";
  EXPECT_EQ(after(6, workers(64, 48), 8), kShare) << "the workers may have come just now";
  EXPECT_EQ(after(1, workers(64, 48), 8), 24U);
  EXPECT_EQ(after(5, workers(64, 48), 8), 24U) << "nothing was heard of them since";
  EXPECT_EQ(after(1, workers(64, 48), 8), 36U);
  EXPECT_EQ(after(100, workers(64, 48), 8), kAlone) << "as though nobody else were there";
  const std::uint32_t full = after(1, workers(64), 8);
  EXPECT_LT(full, kAlone);
  EXPECT_GT(full, kAlone * 9 / 10);
  EXPECT_EQ(after(100, workers(64), 8), kShare);
}

TEST_F(WindowTest, ATimeWithoutLooksSaysNothing) {
  after(5, workers(64, 48), 8);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(after(5, workers(64, 48), 8), 16U);
}

TEST_F(WindowTest, WhoeverHasJustComeWaitsBehindNoMoreThanShares) {
  after(100, workers(64, 48), 8);
  EXPECT_EQ(look(workers(64, 48), 9), 15U);
}

// Batch after batch: each makes him a crowd for a moment.
TEST_F(WindowTest, WhoBecomesACrowdAgainAndAgainMakesItNoSmaller) {
  const WorkersSeen idle = workers(64, 48);
  for (int round = 0; round < 10; ++round) {
    after(2, idle, 8);
    after(1, idle, 9);
  }
  EXPECT_GT(last_.size, 16U) << "the places are used";
  after(40, workers(64), 8);
  EXPECT_EQ(look(idle, 9), 15U) << "that was long ago";
  EXPECT_EQ(look(idle, 10), 13U) << "one more than ever";
}

TEST(OpenTasks, TheFirstGoExpressThenInBulkAndWhatIsBeyondTheWindowIsParked) {
  OpenTasks open;
  std::map<Lane, int> lanes;
  for (std::uint64_t seq = 10; seq < 30; ++seq) {
    ++lanes[add_task(open, 12, seq)];
  }
  EXPECT_EQ(lanes[Lane::kExpress], static_cast<int>(kExpressMax));
  EXPECT_EQ(lanes[Lane::kBulk], 12 - static_cast<int>(kExpressMax));
  EXPECT_EQ(lanes[Lane::kParked], 8);
  EXPECT_EQ(open, (OpenTasks{.released = 12, .parked = 8, .parked_after = 22, .released_max = 0}));
  EXPECT_EQ(open.count(), 20U);
  EXPECT_TRUE(open.crowded());
}

TEST(OpenTasks, NobodyOvertakesWhatIsParked) {
  OpenTasks open{.released = 1, .parked = 1, .parked_after = 5, .released_max = 0};
  EXPECT_EQ(add_task(open, 100, 9), Lane::kParked);
  EXPECT_EQ(open.parked_after, 5U) << "the oldest is where it was";
}

TEST(OpenTasks, APlanMayAllowLessThanTheWindow) {
  OpenTasks open{.released = 0, .parked = 0, .parked_after = 0, .released_max = 2};
  EXPECT_EQ(add_task(open, 100, 1), Lane::kExpress);
  EXPECT_EQ(add_task(open, 100, 2), Lane::kExpress);
  EXPECT_EQ(add_task(open, 100, 3), Lane::kParked);
  EXPECT_EQ(may_release(open, 100), 0U);
  end_task(open, Lane::kExpress);
  EXPECT_EQ(may_release(open, 100), 1U);
}

TEST(OpenTasks, OneIsAlwaysReleased) {
  OpenTasks open;
  EXPECT_EQ(add_task(open, 0, 1), Lane::kExpress);
  EXPECT_EQ(add_task(open, 0, 2), Lane::kParked);
  end_task(open, Lane::kExpress);
  EXPECT_EQ(may_release(open, 0), 1U);
}

TEST(OpenTasks, AsManyAreReleasedAsHaveRoom) {
  OpenTasks open{.released = 3, .parked = 10, .parked_after = 7, .released_max = 0};
  EXPECT_EQ(may_release(open, 2), 0U) << "the window has become smaller";
  EXPECT_EQ(may_release(open, 3), 0U);
  EXPECT_EQ(may_release(open, 8), 5U);
  EXPECT_EQ(may_release(open, 1000), 10U);
  release_tasks(open, 5, 12);
  EXPECT_EQ(open, (OpenTasks{.released = 8, .parked = 5, .parked_after = 12, .released_max = 0}));
  end_task(open, Lane::kBulk);
  end_task(open, Lane::kParked);
  EXPECT_EQ(open, (OpenTasks{.released = 7, .parked = 4, .parked_after = 12, .released_max = 0}));
}

TEST(OpenTasks, NoCountFallsBelowNothing) {
  OpenTasks open;
  end_task(open, Lane::kParked);
  end_task(open, Lane::kExpress);
  release_tasks(open, 3, 0);
  EXPECT_EQ(open, OpenTasks());
}

TEST(OpenTasks, WhatIsParkedWaitsForAllBeforeItAtAShareThatMayGrow) {
  const OpenTasks open{.released = 10, .parked = 89, .parked_after = 0, .released_max = 0};
  const auto begins = [&](std::uint32_t crowds, std::uint32_t pace, std::uint64_t tasks) {
    return begins_in(
        open,
        {.size = 10, .crowds = crowds, .tasks = tasks, .pace = pace, .bulk_share = 1'000'000},
        Route());
  };
  EXPECT_EQ(begins(1, 0, 99), std::nullopt) << "not known";
  EXPECT_EQ(begins(1, 2000, 99), 50s);
  EXPECT_EQ(begins(0, 2000, 0), 50s) << "he is the first";
  EXPECT_EQ(begins(5, 2000, 10'000), 248s);
  EXPECT_EQ(begins(5, 2000, 300), 200s)
      << "151 if the others, who have little, are soon gone; 248 if they go on asking";
  EXPECT_EQ(begins(5, 2000, 103), 104s) << "52 if they are, and no more than twice that";
  ReleaseWindow window{.size = 10, .crowds = 1, .tasks = 99, .pace = 2000, .bulk_share = 1'000'000};
  window.takes = 8;
  EXPECT_EQ(begins_in(open, window, Route()), 42s) << "to its begin, and not to its end";
  window.bulk_wait = 70;
  EXPECT_EQ(begins_in(open, window, Route()), 70s) << "behind what others have released";
  window.bulk_wait = 0;
  window.bulk_share = 500'000;
  EXPECT_EQ(begins_in(open, window, Route()), 92s) << "half of the places are others'";
  window.bulk_share = 0;
  EXPECT_GT(begins_in(open, window, Route()), 1h) << "all of them are";
  EXPECT_GT(
      *begins_in(
          {.released = UINT32_MAX, .parked = UINT32_MAX, .parked_after = 0, .released_max = 0},
          {.size = 1, .crowds = UINT32_MAX, .tasks = UINT64_MAX, .pace = 1},
          Route()),
      1h);
  EXPECT_TRUE(would_park(open, 1000)) << "behind what is parked";
  EXPECT_TRUE(would_park({.released = 5, .parked = 0, .parked_after = 0, .released_max = 0}, 5));
  EXPECT_FALSE(would_park({.released = 4, .parked = 0, .parked_after = 0, .released_max = 0}, 5));
}

// However much crowds want.
TEST(OpenTasks, WhatIsReleasedWaitsBehindItsOwnLaneAlone) {
  const ReleaseWindow window{.size = 100,
                             .crowds = 50,
                             .tasks = 1'000'000,
                             .pace = 4000,
                             .bulk_share = 250'000,
                             .takes = 5,
                             .express_wait = 7,
                             .bulk_wait = 300};
  const auto begins = [&](std::uint32_t released) {
    return begins_in(
        {.released = released, .parked = 0, .parked_after = 0, .released_max = 0}, window, Route());
  };
  EXPECT_EQ(begins(0), 7s);
  EXPECT_EQ(begins(kExpressMax - 1), 7s);
  EXPECT_EQ(begins(kExpressMax), 300s);
  EXPECT_EQ(begins(99), 300s);
}

using Waiting = QueueSeen::Waiting;

class WaitsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPlacesThere = 20;
  // Calls take 5 s, 4 end in a second.
  ReleaseWindow waits(const ReleaseWindow& last = {}) const {
    return with_waits({.size = 40, .pace = pace_}, queue_, kPlacesThere, last);
  }

  QueueSeen queue_;
  std::uint32_t pace_ = 4000;
};

TEST_F(WaitsTest, AreThoseOfAllBeforeAtThePaceOfTheirLane) {
  EXPECT_FALSE(queue_.somebody_waits());
  EXPECT_EQ(waits().takes, 5U);
  EXPECT_EQ(waits().express_wait, 0U);
  EXPECT_EQ(waits().bulk_wait, 0U);
  queue_.express = {{.left = 800s, .count = 30}, {.left = 900s, .count = 11}};
  queue_.called_express = 20;
  EXPECT_TRUE(queue_.somebody_waits());
  EXPECT_EQ(waits().express_wait, 11U) << "41 at 4 a second, rounded up";
  EXPECT_EQ(waits().bulk_wait, 0U);
  EXPECT_EQ(waits().bulk_share, 250'000U) << "every fourth place could be theirs";
  queue_.bulk = {{.left = 900s, .count = 40}};
  queue_.called_express = 15;
  queue_.called_bulk = 5;
  EXPECT_EQ(waits().express_wait, 14U) << "at 3 a second";
  EXPECT_EQ(waits().bulk_wait, 40U) << "at 1";
  queue_.called_express = 8;
  queue_.called_bulk = 12;
  EXPECT_EQ(waits().express_wait, 14U) << "no fewer than 3";
  EXPECT_EQ(waits().bulk_wait, 17U);
  queue_.express.clear();
  queue_.called_express = 0;
  EXPECT_EQ(waits().bulk_wait, 10U) << "at all 4";
  queue_.called_bulk = 0;
  EXPECT_EQ(waits().bulk_wait, 40U) << "nobody is called for: nobody knows whose places they are";
}

TEST_F(WaitsTest, OfAnUnknownPaceAreNotKnown) {
  pace_ = 0;
  queue_.express = {{.left = 900s, .count = 1'000'000}};
  EXPECT_EQ(waits(), (ReleaseWindow{.size = 40, .pace = 0}));
}

// A few places change hands by chance, and what has just begun to wait is called for later.
TEST_F(WaitsTest, TheSharesOfTheLanesAreThoseOfSomeTime) {
  queue_.bulk = {{.left = 900s, .count = 1}};
  queue_.called_bulk = 10;
  queue_.called_express = 10;
  const ReleaseWindow first = waits();
  EXPECT_EQ(first.bulk_share, 500'000U);
  queue_.called_bulk = 20;
  queue_.called_express = 0;
  const ReleaseWindow next = waits(first);
  EXPECT_EQ(next.bulk_share, 531'250U) << "a 16th: the time in which 64 end";
  EXPECT_EQ(with_waits({.size = 40, .pace = 400}, queue_, kPlacesThere, first).bulk_share, 503'125U)
      << "which may be long";
  EXPECT_EQ(with_waits({.size = 40, .pace = 4000}, queue_, 200, first).bulk_share, 505'000U)
      << "and no shorter than twice what a call takes";
  ReleaseWindow last = next;
  for (int i = 0; i < 100; ++i) {
    last = waits(last);
  }
  EXPECT_GT(last.bulk_share, 990'000U);
}

// While there are places nobody is counted, and the crowd that had all of them has them again.
TEST_F(WaitsTest, TheSharesStayWhatTheyWereWhileNothingIsCounted) {
  queue_.bulk = {{.left = 900s, .count = 1}};
  queue_.called_bulk = 20;
  ReleaseWindow last = waits();
  EXPECT_EQ(last.bulk_share, 1'000'000U);
  queue_ = QueueSeen();
  for (int i = 0; i < 100; ++i) {
    last = waits(last);
  }
  EXPECT_EQ(last.bulk_share, 1'000'000U);
}

// A count of very many takes some looks, each of whoever has just begun to look.
TEST_F(WaitsTest, UntilACountIsWholeTheWaitsStayWhatTheyWere) {
  queue_.express = {{.left = 900s, .count = 400}};
  queue_.bulk = {{.left = 900s, .count = 40}};
  const ReleaseWindow told = waits();
  ASSERT_GT(told.express_wait, 0U);
  ReleaseWindow expected = told;
  expected.size = 80;
  expected.pace = 2000;
  EXPECT_EQ(uncounted({.size = 80, .pace = 2000}, told), expected);
  EXPECT_EQ(uncounted({.size = 80, .pace = 2000}, {}).pace, 0U) << "nobody has told";
}

// In the first look, perhaps, all calls are the other lane's.
TEST_F(WaitsTest, AtFirstABulkLaneHasItsTurnsAtTheLeast) {
  queue_.bulk = {{.left = 900s, .count = 40}};
  queue_.express = {{.left = 900s, .count = 40}};
  queue_.called_express = 20;
  EXPECT_EQ(waits().bulk_share, 250'000U);
}

// One user's tasks wait for a slow server with their references: each has had a turn of the lane,
// and nobody is called for it. Others were refused for that who would have begun within a minute.
TEST_F(WaitsTest, ABulkLaneThatNobodyIsCalledForKeepsItsTurns) {
  constexpr std::uint64_t kCalls = 72;
  pace_ = 7200;
  queue_.bulk = {{.left = 870s, .count = 110}};
  queue_.called_express = kCalls;
  ReleaseWindow last;
  for (int i = 0; i < 300; ++i) {
    last = with_waits({.size = 40, .pace = pace_}, queue_, kCalls, last);
  }
  EXPECT_EQ(last.bulk_share, 250'000U);
  EXPECT_EQ(last.bulk_wait, 62U) << "every fourth of 7.2 a second";
  EXPECT_EQ(refused_for({.released = kExpressMax}, last, Route(), 900s, 0), std::nullopt);
  // As programs of the release before have told it.
  last.bulk_share = 0;
  for (int i = 0; i < 60; ++i) {
    last = with_waits({.size = 40, .pace = pace_}, queue_, kCalls, last);
  }
  EXPECT_LT(last.bulk_wait, 100U);
}

// 1,000 came at once before anybody knew the pace. Most of them are never begun, and whoever comes
// now, when those are nearly over, is behind the few that are.
TEST_F(WaitsTest, WhatWillBeTooLateIsNotWaitedFor) {
  queue_.express = {{.left = 60s, .count = 1000}};
  queue_.called_express = 20;
  EXPECT_EQ(waits().express_wait, 53U) << "60 s but for a call, a quarter of one, and a second";
  queue_.express = {{.left = 30s, .count = 1000}};
  EXPECT_EQ(waits().express_wait, 23U);
  queue_.express = {{.left = 5s, .count = 1000}};
  EXPECT_EQ(waits().express_wait, 0U);
  queue_.express = {{.left = 30s, .count = 1000}, {.left = 60s, .count = 40}};
  EXPECT_EQ(waits().express_wait, 33U) << "and those who came after them";
}

TEST_F(WaitsTest, OfTheSlowestPaceAreWhatTheyAre) {
  pace_ = 1;
  queue_.express = {{.left = 86'400s, .count = UINT64_MAX}};
  queue_.bulk = queue_.express;
  EXPECT_EQ(waits().takes, 20'000U);
  EXPECT_LT(waits().express_wait, 86'400U);
  pace_ = UINT32_MAX;
  EXPECT_GE(waits().express_wait, 86'000U) << "so many do not end in time at any pace";
}

// Two kinds of request, two providers: that of the one has a long line.
class RoutesTest : public testing::Test {
 protected:
  static constexpr Route kSlow{0}, kFree{1}, kUnknown{2};

  static Counted counted(std::uint64_t express, std::uint64_t bulk) {
    return {.first = {.express = express, .bulk = bulk}, .here = {}};
  }
  ReleaseWindow with_lines() const { return with_routes(window_, &queue_, workers_); }
  std::optional<std::chrono::seconds> begins(Route route, std::uint32_t released = 0) const {
    return begins_in({.released = released}, with_lines(), route);
  }
  RouteLine& slow() { return workers_.lines.of[kSlow]; }

  // 20 places, of which each does a task in 2 s; 400 wait express and 200 in bulk, all but a few
  // of them for the slow one, which makes two a second.
  ReleaseWindow window_{.size = 100,
                        .crowds = 3,
                        .tasks = 900,
                        .pace = 10'000,
                        .bulk_share = 250'000,
                        .takes = 2,
                        .express_wait = 54,
                        .bulk_wait = 80,
                        .needs = 20};
  QueueSeen queue_{.express = {{.left = 900s, .count = 400}},
                   .bulk = {{.left = 900s, .count = 200}}};
  WorkersSeen workers_{
      .at = {},
      .in_flight = 20,
      .lines = {
          .of = {{kSlow, {.before = counted(460, 580), .pace = 2000, .takes = 10, .needs = 20}},
                 {kFree, {.before = {}, .pace = 8000, .takes = 1, .needs = 3}}},
          .waiting = counted(390, 190)}};
};

TEST_F(RoutesTest, WhoWaitsForOneProviderIsNotBeforeWhoHasAnother) {
  EXPECT_EQ(begins(kUnknown), 54s) << "behind everybody";
  EXPECT_EQ(begins(kUnknown, kExpressMax), 80s);
  EXPECT_EQ(begins(kFree), 1s) << "a 40th of them wait for nobody who is known";
  EXPECT_EQ(begins(kFree, kExpressMax), 4s);
  EXPECT_EQ(begins(kSlow), 231s) << "460 at two a second, and those";
  EXPECT_EQ(begins(kSlow, kExpressMax), 294s);
}

// While there are places for others nobody is counted, and no pace of all is known.
TEST_F(RoutesTest, ALineIsKnownWhereWorkersHaveRoom) {
  window_ = {.size = 100, .crowds = 3, .tasks = 900};
  queue_ = {};
  EXPECT_EQ(begins(kUnknown), std::nullopt);
  EXPECT_EQ(begins(kFree), std::nullopt);
  EXPECT_EQ(begins(kSlow), 230s);
  const ReleaseWindow window = with_lines();
  EXPECT_EQ(refused_for({}, window, kFree, 60s, 0), std::nullopt);
  EXPECT_EQ(refused_for({}, window, kSlow, 900s, 0), std::nullopt);
  EXPECT_TRUE(refused_for({}, window, kSlow, 60s, 0));
  slow().before = {};
  EXPECT_TRUE(with_lines().routes.empty()) << "nobody waits: nothing is to be written";
}

TEST_F(RoutesTest, UntilThereIsACountEverybodyMayBeBefore) {
  const ReleaseWindow window = with_routes(window_, nullptr, workers_);
  EXPECT_EQ(begins_in({}, window, kFree), 54s);
  EXPECT_EQ(begins_in({}, window, kSlow), 284s);
}

// As when the worker that heard of it first has ended.
TEST_F(RoutesTest, WhatOneWorkerHasWaitsForCertain) {
  slow().before = {.first = {}, .here = {.express = 460, .bulk = 580}};
  slow().alone = {.express = 800, .bulk = 800};
  workers_.lines.waiting = {.first = {}, .here = {.express = 390, .bulk = 190}};
  EXPECT_EQ(begins(kSlow), 231s) << "with all that have come, also what it could not do alone";
  EXPECT_EQ(begins(kFree), 1s);
  slow().alone = {.express = 40, .bulk = 60};
  EXPECT_EQ(begins(kSlow), 41s) << "what would be too late even so is not begun at all";
}

TEST_F(RoutesTest, WhatWaitsTwiceIsCountedOnce) {
  workers_.lines.waiting.first.express = 4000;  // By several workers.
  EXPECT_EQ(begins(kFree), 0s);
}

TEST_F(RoutesTest, OfAProviderThatHasShownNothingNobodyKnowsTheWait) {
  slow().pace = slow().takes = 0;
  EXPECT_EQ(begins(kSlow), 1s) << "behind those that have no line";
  window_.pace = 0;
  EXPECT_EQ(begins(kSlow), std::nullopt);
}

// Its only call was an odd one. While nobody waits for it, nobody is refused for that: else no
// other call would ever show what it usually takes.
TEST_F(RoutesTest, WhoIsFreeIsNotJudgedByWhatOneCallTook) {
  workers_.lines.of[kFree] = {.before = {}, .pace = 1, .takes = 600, .needs = 751};
  EXPECT_EQ(refused_for({}, with_lines(), kFree, 900s, 0.99), std::nullopt);
}

// Nor by what all seem to take: where places are held by those that wait for one slow provider that
// is no call's time.
TEST_F(RoutesTest, WhoIsFreeIsNotJudgedByWhatOthersTake) {
  window_.takes = 606;
  EXPECT_EQ(refused_for({}, with_lines(), kFree, 900s, 0.0), std::nullopt);
  EXPECT_TRUE(refused_for({}, with_lines(), kUnknown, 900s, 0.0)) << "of whom nothing is known";
  workers_.lines.of[kFree] = {};
  EXPECT_EQ(refused_for({}, with_lines(), kFree, 900s, 0.0), std::nullopt) << "never called";
  // Where what waits is in no line it may wait for the same.
  workers_.lines.waiting = {};
  workers_.lines.of.erase(kSlow);
  EXPECT_TRUE(refused_for({}, with_lines(), kFree, 900s, 0.0));
}

// Of what crowds have as much waits for that provider as of what workers have: else one task there
// would have all that is parked wait for it.
TEST_F(RoutesTest, WhatIsParkedGoesNoFasterThanItsProvider) {
  const OpenTasks open{.released = 10, .parked = 89, .parked_after = 0, .released_max = 10};
  window_.tasks = 198;
  EXPECT_EQ(begins_in(open, with_lines(), kUnknown), 98s);
  // Nearly all wait there: as long as at the pace of it alone, 249 tasks at one in 2 s.
  window_.pace = 0;
  slow().before = counted(390, 580);
  slow().pace = 500;
  EXPECT_EQ(begins_in(open, with_lines(), kSlow), 1160s) << "behind its line";
  slow().before = counted(10, 20);
  workers_.lines.waiting = counted(10, 10);
  workers_.in_flight = 0;
  EXPECT_EQ(begins_in(open, with_lines(), kSlow), 487s);
  // Half of what workers have is something else.
  workers_.in_flight = 20;
  EXPECT_EQ(begins_in(open, with_lines(), kSlow), 239s);
  workers_.in_flight = 10'000;
  EXPECT_EQ(begins_in(open, with_lines(), kSlow), 40s) << "behind its line at the least";
  EXPECT_EQ(begins_in(open, with_lines(), kFree), std::nullopt);
}

// 300 users with two tasks at a time by their plan, and one more that waits for a slow provider.
TEST_F(RoutesTest, OneThatWaitsForASlowProviderHasNoCrowdRefused) {
  window_ = {.size = 100, .crowds = 300, .tasks = 1500};
  workers_.in_flight = 600;
  workers_.lines.waiting = counted(0, 1);
  slow() = {.before = counted(0, 1), .pace = 100, .takes = 10, .needs = 20};
  const OpenTasks open{.released = 2, .parked = 3, .parked_after = 0, .released_max = 2};
  EXPECT_EQ(refused_for(open, with_lines(), kSlow, 900s, 0.5), std::nullopt);
}

TEST_F(RoutesTest, WhatWasSeenLongAgoSaysNothingOfRoutes) {
  const Instant now = Instant(std::chrono::sys_days(std::chrono::year(2026) / 1 / 1));
  const ReleaseWindow window = with_lines();
  EXPECT_EQ(known_at(window, now, now + 10s), window);
  EXPECT_TRUE(known_at(window, now, now + 11s).routes.empty());
}

TEST_F(RoutesTest, BeforeANewcomerIsWhatIsBegunBeforeHim) {
  const RouteLine pace{.before = {}, .pace = 2000, .takes = 10, .needs = 20};
  EXPECT_EQ(before_newcomer({}, pace), LaneCounts());
  QueueSeen waiting{.express = {{.left = 900s, .count = 40}},
                    .bulk = {{.left = 900s, .count = 90}}};
  EXPECT_EQ(before_newcomer(waiting, pace), (LaneCounts{.express = 53, .bulk = 130}))
      << "and every fourth is of the other lane";
  waiting.bulk = {{.left = 900s, .count = 6}};
  EXPECT_EQ(before_newcomer(waiting, pace).express, 46U);
  // Of 1,000 that came at once only those of the first 40 s are ever called for.
  waiting = {.express = {{.left = 60s, .count = 1000}, {.left = 900s, .count = 5}}, .bulk = {}};
  EXPECT_EQ(before_newcomer(waiting, pace), (LaneCounts{.express = 85, .bulk = 85}));
  EXPECT_EQ(before_newcomer(waiting, {}).bulk, 1005U) << "of an unknown pace all";
  const RouteLine line = with_line(pace, waiting, {});
  EXPECT_EQ(line.before.first, LaneCounts());
  EXPECT_EQ(line.before.here.bulk, 1005U) << "others may have it as well";
  EXPECT_EQ(line.alone, (LaneTimes{.express = 43, .bulk = 43})) << "85 at two a second";
  EXPECT_EQ(with_line({}, waiting, waiting).alone, LaneTimes());
  // Nobody is kept from a provider who has half of his time left.
  waiting = {.express = {{.left = 59s, .count = 100}}, .bulk = {}};
  EXPECT_EQ(before_newcomer(waiting, {.before = {}, .pace = 100, .takes = 10, .needs = 64}).bulk,
            3U);
}

class RefusalTest : public testing::Test {
 protected:
  std::optional<std::chrono::seconds> refused(std::uint32_t wait,
                                              std::chrono::seconds deadline = 60s,
                                              double draw = 0) const {
    ReleaseWindow window = window_;
    window.express_wait = wait;
    return refused_for(OpenTasks(), window, Route(), deadline, draw);
  }

  // Of 60 s the last 20.75 are needed: its call of 5 s, that before it, three quarters of one, and
  // 7 s more. In the last eighth of the others, from 34.3 to 39.25, some are refused.
  ReleaseWindow window_{.size = 40, .pace = 4000, .takes = 5};
};

TEST_F(RefusalTest, IsForWhatCannotBeginInTime) {
  EXPECT_EQ(refused(0), std::nullopt);
  EXPECT_EQ(refused(34), std::nullopt);
  EXPECT_EQ(refused(35), 1s);
  EXPECT_EQ(refused(35, 60s, 0.2), std::nullopt);
  EXPECT_EQ(refused(39, 60s, 0.9), 5s);
  EXPECT_EQ(refused(38, 60s, 0.9), std::nullopt);
  EXPECT_EQ(refused(40, 60s, 0.9999999), 6s) << "all are";
  EXPECT_EQ(refused(1034), 1000s) << "until it is worth trying again";
}

TEST_F(RefusalTest, IsForNobodyWhoHasNothingBeforeHim) {
  window_.takes = 100'000;
  EXPECT_EQ(refused(0), std::nullopt) << "somebody is called for it, whatever is believed of him";
  EXPECT_EQ(refused(1), 1s) << "while no slot is free it must wait for a call, and then nobody is";
  EXPECT_EQ(refused(0, 1s), std::nullopt);
}

TEST_F(RefusalTest, LeavesAShortDeadlineHalfOfWhatTwoCallsLeave) {
  window_.takes = 20;
  EXPECT_EQ(refused(6), std::nullopt) << "of 60 s it needs 46";
  EXPECT_EQ(refused(8), 2s);
  window_.takes = 27;
  EXPECT_EQ(refused(1), std::nullopt) << "57 with half of its time for a call";
  window_.takes = 1;
  EXPECT_EQ(refused(2, 8s), std::nullopt);
  EXPECT_EQ(refused(4, 8s), 2s);
}

TEST_F(RefusalTest, IsForNobodyWhereThePaceIsNotKnown) {
  window_.pace = 0;
  EXPECT_EQ(refused(UINT32_MAX), std::nullopt);
}

TEST_F(RefusalTest, IsForMoreAndMoreTheLaterItIs) {
  std::map<std::uint32_t, int> of;
  constexpr int kOf = 1000;
  for (int i = 0; i < kOf; ++i) {
    for (const std::uint32_t wait : {34U, 36U, 38U, 40U}) {
      of[wait] += refused(wait, 60s, draw_of(TaskId::make())) ? 1 : 0;
    }
  }
  EXPECT_EQ(of[34], 0);
  EXPECT_NEAR(of[36], 0.34 * kOf, 0.1 * kOf);
  EXPECT_NEAR(of[38], 0.75 * kOf, 0.1 * kOf);
  EXPECT_EQ(of[40], kOf);
}

TEST_F(RefusalTest, GoesByNothingThatIsOld) {
  const Instant at(1000s);
  EXPECT_EQ(known_at(window_, at, at), window_);
  EXPECT_EQ(known_at(window_, at, at + 10s), window_);
  EXPECT_EQ(known_at(window_, at, at + 11s).pace, 0U) << "its workers may be gone";
  EXPECT_EQ(known_at(window_, at, at - 1s).pace, 0U) << "a clock was set";
  EXPECT_EQ(known_at(window_, std::nullopt, at).pace, 0U) << "of a release before";
  EXPECT_EQ(known_at(window_, std::nullopt, at).size, window_.size);
}

TEST(Pace, IsTasksInAThousandSeconds) {
  EXPECT_EQ(pace_of(0, 20s), 0U);
  EXPECT_EQ(pace_of(40, 20s), 2000U);
  EXPECT_EQ(pace_of(1, 3s), 333U);
  EXPECT_EQ(pace_of(UINT64_MAX, 1us), 4'000'000'000U);
}

class PaceWatchTest : public testing::Test {
 protected:
  std::uint32_t look(WorkersSeen seen, bool somebody_waits = true) {
    seen.at = Instant(now_ += std::chrono::seconds(10));
    return last_ = watch_.look(seen, somebody_waits, last_, std::chrono::seconds(20));
  }
  static WorkersSeen full(std::uint64_t ended, std::uint64_t workers = 2) {
    return {.at = {}, .workers = workers, .places = 20, .room = 0, .ended = ended};
  }

  PaceWatch watch_;
  std::chrono::seconds now_{1000};
  std::uint32_t last_ = 0;
};

TEST_F(PaceWatchTest, IsMeasuredOverATimeAndKeptUntilTheNext) {
  EXPECT_EQ(look(full(100)), 0U);
  EXPECT_EQ(look(full(150)), 5000U) << "the first soon";
  EXPECT_EQ(look(full(170)), 5000U) << "not yet";
  EXPECT_EQ(look(full(190)), 2000U);
}

// Calls of minutes that began together end together: the first few of a wave, or the time between
// two, say nothing.
TEST_F(PaceWatchTest, IsMeasuredOverAsManyEndsAsThereArePlaces) {
  look(full(100));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(look(full(100)), 0U);
  }
  EXPECT_EQ(look(full(103)), 0U);
  EXPECT_EQ(look(full(120)), 166U) << "20 in 120 s";
}

// A few tasks in a quiet minute are no reason to refuse the many that come after it.
TEST_F(PaceWatchTest, WhatEndsWhileNobodyWaitsSaysNothing) {
  look(full(100), false);
  look(full(150), false);
  EXPECT_EQ(look(full(200), false), 0U);
  EXPECT_EQ(look(full(250)), 0U) << "nor when somebody has just come";
  EXPECT_EQ(look(full(270)), 2000U);
}

// Of calls that end together 20 end at once, and for a moment nobody waits.
TEST_F(PaceWatchTest, WhatATaskTakesIsKnownForAWhile) {
  look(full(100));
  ASSERT_EQ(look(full(120)), 2000U);
  EXPECT_EQ(look(full(130), false), 2000U) << "for a moment";
  EXPECT_EQ(look(full(130), false), 0U) << "nobody is refused for how much was asked for";
  EXPECT_EQ(look(full(131)), 2000U) << "at once, when somebody waits";
  for (int i = 0; i < 7; ++i) {
    look(full(131), false);
    EXPECT_EQ(look(full(131)), i < 4 ? 2000U : 0U) << "that too many wait renews nothing";
  }
}

TEST_F(PaceWatchTest, WhatTakesLongIsKnownForFourOfIts) {
  const auto known_for = [this](std::uint64_t waves) {
    std::uint64_t ended = 100;
    look(full(ended));
    for (std::uint64_t i = 0; i < waves; ++i) {
      look(full(ended));
    }
    EXPECT_GT(look(full(ended += 20)), 0U);
    std::chrono::seconds known{0};
    do {
      known += 20s;
      look(full(ended), false);
    } while (look(full(ended)) != 0 && known < 1h);
    return known - 20s;
  };
  EXPECT_EQ(known_for(4), 200s) << "calls of 50 s";
  EXPECT_EQ(known_for(100), 600s) << "ten minutes are enough";
}

// The turn to look goes from worker to worker.
TEST_F(PaceWatchTest, WhatAnotherHasToldIsGoneOnWith) {
  last_ = 700;
  EXPECT_EQ(look(full(100)), 700U);
  EXPECT_EQ(look(full(120)), 2000U) << "and measured soon: its places may have gone with it";
  last_ = 900;
  EXPECT_EQ(look(full(120)), 2000U) << "what it has told itself may not have been written";
}

// A provider is called again, just before the look: what half of the places have ended is not what
// all can.
TEST_F(PaceWatchTest, WhatFewerPlacesHaveEndedIsNotThePaceOfAll) {
  WorkersSeen half = full(100), all = full(160);
  all.places = 40;
  look(half);
  half.ended = 120;
  ASSERT_EQ(look(half), 2000U);
  half.ended = 140;
  look(half);
  EXPECT_EQ(look(all), 4000U);
  all.ended = 200;
  look(all);
  all.ended = 240;
  EXPECT_EQ(look(all), 4000U);
  all.ended = 300;
  EXPECT_EQ(look(all), 4000U) << "not yet";
}

// A wave in 20 s, or two: each time it ends the same time has gone by.
TEST_F(PaceWatchTest, OfCallsThatEndTogetherWholeWavesAreCounted) {
  look(full(100));
  std::uint64_t ended = 100;
  for (int wave = 0; wave < 10; ++wave) {
    look(full(ended));
    look(full(ended));
    EXPECT_EQ(look(full(ended += 20)), 666U) << "20 in 30 s, " << wave;
  }
}

// A few of a minute's looks tell nothing.
TEST_F(PaceWatchTest, AMomentOfQuietDoesNotEndTheMeasuring) {
  look(full(100));
  ASSERT_EQ(look(full(120)), 2000U);
  look(full(120));
  look(full(120));
  look(full(120));
  look(full(120), false);
  EXPECT_EQ(look(full(140)), 400U) << "20 in 50 s";
}

TEST_F(PaceWatchTest, MoreOrFewerPlacesHaveTheirPaceAtOnce) {
  look(full(100));
  ASSERT_EQ(look(full(120)), 2000U);
  WorkersSeen others = full(120, 3);
  others.places = 40;
  EXPECT_EQ(look(others), 4000U);
  others.places = 10;
  EXPECT_EQ(look(others), 1000U);
  others.places = 0;
  EXPECT_EQ(look(others), 0U);
  others.places = 20;
  EXPECT_EQ(look(others), 2000U);
}

// Somebody waits because of his plan, or for his references: the places are there.
TEST_F(PaceWatchTest, WhatEndsWhileWorkersHaveRoomSaysNothing) {
  WorkersSeen seen = full(100);
  for (int i = 0; i < 4; ++i) {
    seen.room = 3;
    seen.ended += 50;
    EXPECT_EQ(look(seen), 0U);
  }
  seen.room = 2;
  look(seen);
  seen.ended += 20;
  EXPECT_EQ(look(seen), 2000U) << "nearly full will do";
}

// One that is started and dies again and again would leave the others without any pace.
TEST_F(PaceWatchTest, IsThatOfWhoeverStaysWhileOthersComeAndGo) {
  look(full(100));
  EXPECT_EQ(look(full(120)), 2000U);
  look(full(130, 3));
  EXPECT_EQ(look(full(140, 2)), 1000U);
  EXPECT_EQ(look(full(50, 3)), 1000U) << "fewer than before, of another program";
}

TEST(EndsCount, GoesOnWhileWorkersComeAndGo) {
  const WorkerId first = WorkerId::make(), second = WorkerId::make(), third = WorkerId::make();
  EndsCount count;
  Instant now(std::chrono::seconds(1000));
  const auto look = [&](std::vector<EndsCount::Told> told) {
    now += std::chrono::seconds(1);
    return count.look(told, now);
  };
  EXPECT_EQ(look({{first, 1'000}, {second, 500}}), 0U) << "nobody knows when";
  EXPECT_EQ(look({{first, 1'010}, {second, 501}}), 11U);
  EXPECT_EQ(look({{first, 1'012}}), 13U) << "what it had ended stays";
  EXPECT_EQ(look({{first, 1'012}, {third, 7}}), 13U) << "that may be long ago";
  EXPECT_EQ(look({{first, 1'012}, {third, 9}}), 15U);
  EXPECT_EQ(look({{second, 601}}), 115U) << "it was only not heard of";
  EXPECT_EQ(look({{second, 3}}), 115U);
  now += std::chrono::hours(2);
  EXPECT_EQ(look({{first, 5'000}}), 115U) << "another time";
}

// Every provider is left alone: what ends before and after that is no pace of such a time.
TEST_F(PaceWatchTest, ATimeInWhichNobodyCanBeCalledSaysNothing) {
  look(full(100));
  WorkersSeen nobody = full(110);
  nobody.places = 0;
  EXPECT_EQ(look(nobody), 0U);
  EXPECT_EQ(look(full(110)), 0U);
  EXPECT_EQ(look(full(150)), 4000U);
}

// Somebody else had the turn, or a clock was set: nobody knows what was in between.
TEST_F(PaceWatchTest, ATimeWithoutLooksSaysNothing) {
  look(full(100));
  now_ += std::chrono::hours(1);
  EXPECT_EQ(look(full(200)), 0U);
  now_ -= std::chrono::hours(2);
  EXPECT_EQ(look(full(300)), 0U);
  EXPECT_EQ(look(full(320)), 2000U);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(look(full(340), false), 0U) << "nor was anything kept";
}

TEST(LaneTurns, ExpressGoesFirstAndEveryFourthIsForTheOthers) {
  LaneTurns turns;
  std::vector<Lane> taken;
  for (int i = 0; i < 8; ++i) {
    taken.push_back(turns.next(true, true));
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), Lane::kBulk), 2);
  EXPECT_EQ(taken.front(), Lane::kExpress);
  EXPECT_EQ(turns.next(false, true), Lane::kBulk);
  EXPECT_EQ(turns.next(true, false), Lane::kExpress);
}

// The first of its tasks are too late, say.
TEST(LaneTurns, ATurnForNothingComesAgainAfterOneOfTheOther) {
  for (const Lane of : {Lane::kBulk, Lane::kExpress}) {
    LaneTurns turns;
    int taken = 0;
    std::optional<Lane> last;
    for (int i = 0; i < 30; ++i) {
      const Lane lane = turns.next(true, true);
      if (lane == of) {
        ++taken;
        turns.give_back(lane);
      } else {
        EXPECT_TRUE(taken == 0 || last != lane) << "at " << i;
      }
      last = lane;
    }
    EXPECT_GE(taken, 13)
        << "half of the turns, but for the first three, however many are for nothing";
    EXPECT_LE(taken, 26) << "and the other lane waits for no more than four";
    for (int i = 0; i < 200; ++i) {
      turns.next(true, true);  // What is still owed.
    }
    taken = 0;
    for (int i = 0; i < 40; ++i) {
      taken += turns.next(true, true) == Lane::kBulk ? 1 : 0;
    }
    EXPECT_EQ(taken, 10) << "as before";
  }
}

// Several are drawn before the first is known to be for nothing, and the other lane's as well.
TEST(LaneTurns, EachTurnForNothingComesAgain) {
  LaneTurns turns;
  for (int i = 0; i < 5; ++i) {
    turns.give_back(Lane::kBulk);
  }
  turns.give_back(Lane::kExpress);
  int bulk = 0;
  for (int i = 0; i < 11; ++i) {
    bulk += turns.next(true, true) == Lane::kBulk ? 1 : 0;
  }
  EXPECT_GE(bulk, 5);
  for (int i = 0; i < 1000; ++i) {
    turns.give_back(Lane::kBulk);
  }
  bulk = 0;
  for (int i = 0; i < 200; ++i) {
    bulk += turns.next(true, true) == Lane::kBulk ? 1 : 0;
  }
  EXPECT_LE(bulk, 200 / 4 + 16) << "no more is owed than is drawn together";
}

// One place at a time, by somebody who begins anew each time: neither lane starves.
TEST(TriedTurns, EveryThirdPlaceIsForTheOthers) {
  TriedTurns turns;
  int tried = 0;
  for (int i = 0; i < 30; ++i) {
    tried += turns.next(true, true) ? 1 : 0;
  }
  EXPECT_EQ(tried, 20);
  EXPECT_TRUE(turns.next(true, false));
  EXPECT_TRUE(turns.next(true, false)) << "nobody else wants it";
  EXPECT_FALSE(turns.next(false, true));
  EXPECT_TRUE(turns.next(true, true)) << "the other one was the last";
}

TEST(LaneTurns, WhoeverTakesOneAtATimeDoesNotAlwaysTakeTheSame) {
  std::map<Lane, int> taken;
  for (std::uint32_t begin = 0; begin < 400; ++begin) {
    ++taken[LaneTurns(begin).next(true, true)];
  }
  EXPECT_EQ(taken[Lane::kBulk], 100);
}

constexpr std::size_t kPlaces = 20;

// The whole protocol in small: users with different demands, one queue in the order of release.
class Service {
 public:
  explicit Service(std::size_t places) : places_(places) {}

  void create(int user) {
    User& u = users_[user];
    const Lane lane = add_task(u.open, window(), u.seq++);
    if (lane == Lane::kParked) {
      ++u.waiting;
    } else {
      (lane == Lane::kExpress ? express_ : bulk_).push_back({user, lane});
    }
  }

  // As many tasks as there are places begin and end. The users they were of.
  std::vector<int> work() {
    std::vector<Released> taken;
    while (taken.size() < places_ && (!express_.empty() || !bulk_.empty())) {
      auto& from =
          turns_.next(!express_.empty(), !bulk_.empty()) == Lane::kExpress ? express_ : bulk_;
      taken.push_back(from.front());
      from.pop_front();
    }
    std::vector<int> out;
    for (const auto& [user, lane] : taken) {
      out.push_back(user);
      end_task(users_[user].open, lane);
      release(user);
    }
    return out;
  }

 private:
  struct User {
    OpenTasks open;
    std::uint64_t seq = 0;
    std::uint32_t waiting = 0;
  };
  struct Released {
    int user;
    Lane lane;
  };

  std::uint32_t window() const {
    std::uint64_t crowds = 0;
    for (const auto& [id, user] : users_) {
      crowds += user.open.crowded() ? 1U : 0U;
    }
    return WindowWatch().look(workers(places_), crowds, {}, std::chrono::seconds(5)).value();
  }
  void release(int user) {
    User& u = users_[user];
    const std::uint32_t count = may_release(u.open, window());
    release_tasks(u.open, count, 0);
    u.waiting -= count;
    bulk_.insert(bulk_.end(), count, Released{user, Lane::kBulk});
  }

  const std::size_t places_;
  std::map<int, User> users_;
  std::deque<Released> express_, bulk_;
  LaneTurns turns_;
};

TEST(Shares, WhoeverAsksForLittleIsNextWhateverOthersWant) {
  Service service(kPlaces);
  for (int i = 0; i < 100'000; ++i) {
    service.create(1);
  }
  for (int round = 0; round < 50; ++round) {
    service.create(2);
    const std::vector<int> served = service.work();
    EXPECT_EQ(std::count(served.begin(), served.end(), 2), 1) << "in the first round";
    EXPECT_EQ(served.size(), kPlaces) << "and nobody else's place stays empty";
  }
}

TEST(Shares, CrowdsGetOnEquallyFastHoweverLargeTheyAre) {
  Service service(kPlaces);
  constexpr int kUsers = 7;
  for (int user = 0; user < kUsers; ++user) {
    for (int i = 0; i < 2000 * (user + 1); ++i) {
      service.create(user);
    }
  }
  for (int round = 0; round < 50; ++round) {
    service.work();  // Those who came first had the queue for themselves.
  }
  std::map<int, int> served;
  constexpr int kRounds = 350;
  for (int round = 0; round < kRounds; ++round) {
    for (const int user : service.work()) {
      ++served[user];
    }
  }
  for (int user = 0; user < kUsers; ++user) {
    constexpr double kShare = 1.0 * kRounds * kPlaces / kUsers;
    EXPECT_NEAR(served[user], kShare, 0.1 * kShare) << user;
  }
}

// All of it in small, in virtual time: more work than can be done, for some minutes.
class Overload {
 public:
  using Time = std::chrono::milliseconds;
  // A worker claims some more than it has slots for.
  static constexpr std::size_t kSlots = 20, kReserve = 6;
  static constexpr Time kStep{50}, kDeadline{60'000};

  struct Asked {
    int accepted = 0, refused = 0, succeeded = 0, refunded = 0;
  };

  explicit Overload(bool refuses = true, Time call = 5s) : refuses_(refuses) { set_call(call); }

  // What a call takes from now on.
  void set_call(Time call) {
    call_ = call;
    needed_ = call * 5 / 4 + 1s;
    long_every_ = 0;
  }

  // One of so many takes so long, one of ten at least, and the others as much less: the mean stays.
  void set_long_calls(int every, Time length) {
    long_every_ = every;
    long_ = length;
    short_ = (call_ * every - length) / (every - 1);
    needed_ = std::min<Time>(length * 5 / 4 + 1s, kDeadline / 2);
  }

  // What the worker tells that calls need, whatever they do.
  void tell_needs(Time needs) { told_ = needs; }

  // Of tasks, a second.
  double capacity() const { return kSlots * (1s / std::chrono::duration<double>(call_)); }

  // So many times the capacity is asked for by so many users in turn, beside all others.
  void add_users(std::size_t count, double times) {
    groups_.push_back(
        {.first = users_.size(), .count = count, .rate = times * capacity(), .due = 0, .next = 0});
    users_.resize(users_.size() + count);
    asked_.emplace_back();
  }

  // Nobody asks for anything any more.
  void stop() {
    for (Group& group : groups_) {
      group.rate = 0;
    }
  }

  void run(Time time) {
    for (const Time end = now_ + time; now_ < end; now_ += kStep) {
      end_calls();
      expire();
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        Group& group = groups_[i];
        for (group.due += group.rate * kStep / 1s; group.due >= 1; group.due -= 1) {
          ask(i, group.first + group.next++ % group.count);
        }
      }
      begin_calls();
      if (now_ % 5000ms == 0ms) {
        const auto needs = std::chrono::ceil<std::chrono::seconds>(told_.value_or(needed_)).count();
        reported_ = {.at = {},
                     .workers = 1,
                     .places = kSlots,
                     .room = free_slots(),
                     .ended = ended_,
                     .needs = static_cast<std::uint32_t>(needs)};
      }
      if (now_ % 1000ms == 0ms) {
        look();
      }
    }
  }

  const Asked& asked(std::size_t group) const { return asked_[group]; }
  const ReleaseWindow& window() const { return window_; }

 private:
  struct Group {
    std::size_t first, count;
    double rate, due;
    std::size_t next;
  };
  struct Task {
    std::size_t group, user;
    Time deadline;
    Lane lane;
  };
  struct Call {
    Task task;
    Time ends;
  };
  struct User {
    OpenTasks open;
    std::deque<Task> parked;
  };

  Instant instant() const { return Instant(now_); }
  std::size_t free_slots() const {
    return express_.empty() && bulk_.empty() ? kSlots - calls_.size() : 0;
  }

  void ask(std::size_t group, std::size_t whose) {
    User& user = users_[whose];
    const ReleaseWindow known = known_at(known_, looked_at_, instant());
    constexpr double kGolden = 0.6180339887498949;
    draw_ = std::fmod(draw_ + kGolden, 1.0);
    if (refuses_ && refused_for(user.open, known, Route(), 60s, draw_)) {
      ++asked_[group].refused;
      return;
    }
    ++asked_[group].accepted;
    const Task task{group, whose, now_ + kDeadline, add_task(user.open, known.size, 0)};
    (task.lane == Lane::kParked    ? user.parked
     : task.lane == Lane::kExpress ? express_
                                   : bulk_)
        .push_back(task);
  }

  void end(const Task& task, bool well) {
    ++(well ? asked_[task.group].succeeded : asked_[task.group].refunded);
    ended_ += well ? 1U : 0U;
    User& user = users_[task.user];
    end_task(user.open, task.lane);
    for (std::uint32_t count = may_release(user.open, window_.size); count > 0; --count) {
      release_tasks(user.open, 1, 0);
      user.parked.front().lane = Lane::kBulk;
      bulk_.push_back(user.parked.front());
      user.parked.pop_front();
    }
  }

  void end_calls() {
    std::vector<Call> calls;
    calls.swap(calls_);
    for (const Call& call : calls) {
      if (call.ends <= now_) {
        end(call.task, true);
      } else {
        calls_.push_back(call);
      }
    }
  }

  void expire() {
    for (auto* const lane : {&express_, &bulk_}) {
      while (!lane->empty() && lane->front().deadline <= now_) {
        const Task task = lane->front();
        lane->pop_front();
        end(task, false);
      }
    }
    for (User& user : users_) {
      while (!user.parked.empty() && user.parked.front().deadline <= now_) {
        const Task task = user.parked.front();
        user.parked.pop_front();
        end(task, false);
      }
    }
  }

  void begin_calls() {
    while (calls_.size() < kSlots && !claimed_.empty()) {
      begin_call(claimed_.front());
      claimed_.pop_front();
    }
    while (calls_.size() + claimed_.size() < kSlots + kReserve &&
           (!express_.empty() || !bulk_.empty())) {
      const Lane lane = turns_.next(!express_.empty(), !bulk_.empty());
      auto& from = lane == Lane::kExpress ? express_ : bulk_;
      const Task task = from.front();
      from.pop_front();
      const bool idle = calls_.size() < kSlots;
      if (task.deadline - now_ < needed_ + (idle ? Time(0) : call_)) {
        turns_.give_back(lane);
        end(task, false);
      } else if (idle) {
        begin_call(task);
      } else {
        claimed_.push_back(task);
      }
    }
  }

  void begin_call(const Task& task) {
    if (task.deadline - now_ < needed_) {
      end(task, false);
    } else {
      calls_.push_back({task, now_ + length_of_next()});
    }
  }

  Time length_of_next() {
    return long_every_ == 0 ? call_ : ++begun_ % long_every_ == 0 ? long_ : short_;
  }

  void look() {
    const ReleaseWindow last = known_at(window_, looked_at_, instant());
    WorkersSeen seen = reported_;
    seen.at = instant();
    ReleaseWindow next;
    for (const User& user : users_) {
      next.crowds += user.open.crowded() ? 1U : 0U;
      next.tasks += user.open.crowded() ? user.open.count() : 0;
    }
    QueueSeen queue;
    const auto see = [&](const std::deque<Task>& lane, std::vector<QueueSeen::Waiting>& out) {
      for (const Task& task : lane) {
        const Time left = std::max(task.deadline - now_, Time(0));
        out.push_back({.left = std::chrono::floor<std::chrono::seconds>(left), .count = 1});
      }
      std::sort(
          out.begin(), out.end(), [](const auto& a, const auto& b) { return a.left < b.left; });
    };
    see(express_, queue.express);
    see(bulk_, queue.bulk);
    const auto called = [&](const Task& task) {
      ++(task.lane == Lane::kExpress ? queue.called_express : queue.called_bulk);
    };
    for (const Call& call : calls_) {
      called(call.task);
    }
    std::for_each(claimed_.begin(), claimed_.end(), called);
    next.size = window_watch_.look(seen, next.crowds, last, 5s).value_or(last.size);
    next.pace = pace_watch_.look(seen, next.crowds > 0 || queue.somebody_waits(), last.pace, 20s);
    known_ = window_;  // Whoever asks may know no more than what the look before has seen.
    next.needs = seen.needs;
    window_ = with_waits(next, queue, seen.places, last);
    looked_at_ = instant();
  }

  const bool refuses_;
  Time call_{0}, needed_{0};
  std::optional<Time> told_;
  int long_every_ = 0, begun_ = 0;
  Time long_{0}, short_{0};
  Time now_{0};
  double draw_ = 0;
  std::vector<Group> groups_;
  std::vector<User> users_;
  std::vector<Asked> asked_;
  std::deque<Task> express_, bulk_, claimed_;
  std::vector<Call> calls_;
  LaneTurns turns_;
  std::uint64_t ended_ = 0;
  WorkersSeen reported_;
  WindowWatch window_watch_;
  PaceWatch pace_watch_;
  ReleaseWindow window_{.size = 1000}, known_ = window_;
  std::optional<Instant> looked_at_;
};

constexpr int kMinutes = 10;

// Times the capacity, by 16 users with a dozen tasks each, by 400 with one or two, and by 4.
struct Load {
  const char* name;
  double few, small, crowds;
};
class OverloadTest : public testing::TestWithParam<std::tuple<Load, std::chrono::seconds>> {
 protected:
  static constexpr std::array<std::size_t, 3> kUsers{16, 400, 4};

  void add_users() {
    const Load& load = std::get<0>(GetParam());
    service_.add_users(kUsers[0], load.few);
    service_.add_users(kUsers[1], load.small);
    service_.add_users(kUsers[2], load.crowds);
  }
  Overload::Asked all() const {
    Overload::Asked sum;
    for (std::size_t group = 0; group < kUsers.size(); ++group) {
      sum.accepted += service_.asked(group).accepted;
      sum.refused += service_.asked(group).refused;
      sum.succeeded += service_.asked(group).succeeded;
      sum.refunded += service_.asked(group).refunded;
    }
    return sum;
  }

  Overload service_{true, std::get<1>(GetParam())};
};

TEST_P(OverloadTest, WhatIsAcceptedEndsInTimeAndNoPlaceIsEmpty) {
  constexpr int kKnown = 3;  // Before, what came while nobody knew the pace is refunded.
  add_users();
  service_.run(60s);
  Overload::Asked at_first;
  for (int minute = 1; minute < kMinutes; ++minute) {
    const Overload::Asked before = all();
    at_first = minute == kKnown ? before : at_first;
    service_.run(60s);
    EXPECT_GE(all().succeeded - before.succeeded, 0.98 * 60 * service_.capacity()) << minute;
  }
  EXPECT_LE(at_first.refunded, at_first.accepted / 10);
  EXPECT_LE(all().refunded - at_first.refunded, (all().accepted - at_first.accepted) / 100);
  EXPECT_GT(all().refused, 0);
  if (const Load& load = std::get<0>(GetParam()); load.small > 0 && load.small >= load.few) {
    EXPECT_GT(service_.asked(1).succeeded, service_.asked(0).succeeded * 0.9)
        << "whoever wants little comes first";
  }
}

INSTANTIATE_TEST_SUITE_P(Shares,
                         OverloadTest,
                         testing::Combine(testing::Values(Load{"few_at_1_5", 1.5, 0, 0},
                                                          Load{"few_at_3", 3, 0, 0},
                                                          Load{"small_at_1_5", 0, 1.5, 0},
                                                          Load{"small_at_3", 0, 3, 0},
                                                          Load{"crowds_at_3", 0, 0, 3},
                                                          Load{"both_at_1_5", 0.75, 0.75, 0},
                                                          Load{"both_at_3", 1.5, 1.5, 0},
                                                          Load{"all_at_1_5", 0.5, 0.5, 0.5},
                                                          Load{"all_at_3", 1, 1, 1}),
                                          testing::Values(1s, 5s, 15s)),
                         [](const auto& of) {
                           return std::get<0>(of.param).name + std::string("_of_") +
                                  std::to_string(std::get<1>(of.param).count()) + "_s";
                         });

// Ten minutes of the first group's, after three in which the pace becomes known: no place is empty,
// and no more than one of `in_vain` of what is accepted is refunded.
void expect_steady(Overload& service, int in_vain) {
  service.run(180s);
  const Overload::Asked before = service.asked(0);
  service.run(600s);
  const Overload::Asked& asked = service.asked(0);
  EXPECT_GE(asked.succeeded - before.succeeded, 0.98 * 600 * service.capacity());
  EXPECT_LE(asked.refunded - before.refunded, (asked.accepted - before.accepted) / in_vain);
}

// A provider wants what nearly all of its calls take. By the mean a quarter of what was accepted
// was never called for, and refunded.
TEST(Overload, OfCallsThatAreNotAllOfALengthIsAcceptedWhatThoseNeed) {
  for (const auto& [every, length] : {std::pair(10, 20s), std::pair(5, 15s), std::pair(2, 9s)}) {
    for (const double times : {1.5, 3.0}) {
      for (const std::size_t users : {16U, 400U, 4U}) {
        SCOPED_TRACE(std::to_string(every) + " " + std::to_string(times) + " " +
                     std::to_string(users));
        Overload service;
        service.set_long_calls(every, length);
        service.add_users(users, times);
        expect_steady(service, 20);
      }
    }
  }
}

// One that is believed to want minutes, wrongly or not, is asked with half of a task's time all the
// same: more than that must not be taken for what keeps all from it, or nobody would wait.
TEST(Overload, WhatProvidersWantIsNoMoreThanHalfOfTheTime) {
  for (const auto needs : {30s, 50s, 55s, 600s}) {
    for (const auto call : {5s, 10s}) {
      SCOPED_TRACE(std::to_string(needs.count()) + " " + std::to_string(call.count()));
      Overload service(true, call);
      service.tell_needs(needs);
      service.add_users(400, 3);
      expect_steady(service, 100);
    }
  }
}

// What the tests above are for.
TEST(Overload, WithoutRefusalsMostIsRefunded) {
  Overload service(false);
  service.add_users(400, 3);
  service.run(600s);
  EXPECT_GT(service.asked(0).refunded, service.asked(0).accepted / 2);
}

TEST(Overload, OfCrowdsRefusesNobodyWhoWantsLittle) {
  Overload service;
  service.add_users(5, 20);
  service.add_users(100, 0.4);
  service.run(600s);
  EXPECT_GT(service.asked(0).refused, 40'000);
  EXPECT_EQ(service.asked(1).refused, 0);
  EXPECT_EQ(service.asked(1).refunded, 0);
}

TEST(Overload, ThatIsNoneRefusesNobody) {
  Overload service;
  service.add_users(3, 0.5);
  service.add_users(400, 0.45);
  service.run(600s);
  service.add_users(400, 10);
  service.run(3s);  // 120 at once, half a minute of work.
  service.stop();
  service.run(60s);
  for (const std::size_t group : {0U, 1U, 2U}) {
    EXPECT_EQ(service.asked(group).refused, 0) << group;
    EXPECT_EQ(service.asked(group).refunded, 0) << group;
  }
}

// A customer who asks for 100 at once, now and then: 25 s of work.
TEST(Overload, ABatchNowAndThenIsNone) {
  Overload service;
  for (int batch = 0; batch < 5; ++batch) {
    service.add_users(1, 25);
    service.run(1s);
    service.stop();
    service.run(60s);
    EXPECT_EQ(service.asked(static_cast<std::size_t>(batch)).refused, 0) << batch;
    EXPECT_EQ(service.asked(static_cast<std::size_t>(batch)).refunded, 0) << batch;
  }
}

// A provider was slow, and is not any more. Batches of 5 s are too short to tell how fast it is.
TEST(Overload, ThatAProviderHadOnceRefusesNobodyForLong) {
  Overload service(true, 15s);
  service.add_users(400, 3);
  service.run(180s);
  EXPECT_GT(service.asked(0).refused, 0);
  service.stop();
  service.run(30s);
  service.set_call(1s);
  int refused = 0;
  for (int batch = 0; batch < 20; ++batch) {
    service.add_users(1, 5);
    service.run(1s);
    service.stop();
    service.run(11s);
    refused = batch < 10 ? 0 : refused + service.asked(static_cast<std::size_t>(batch) + 1).refused;
  }
  EXPECT_EQ(refused, 0) << "two minutes later";
}

TEST(Overload, ThatIsOverIsForgotten) {
  Overload service;
  service.add_users(400, 3);
  service.run(180s);
  EXPECT_GT(service.window().express_wait, 30U);
  service.stop();
  service.run(180s);
  EXPECT_EQ(service.window().pace, 0U) << "nobody waits, nobody knows";
  service.add_users(400, 0.9);
  service.run(120s);
  EXPECT_EQ(service.asked(1).refused, 0);
}

}  // namespace
}  // namespace audiogen
