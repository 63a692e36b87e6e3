// Who works for whom next: windows, lanes, turns.
#include "common/domain/shares.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

WorkersSeen workers(std::uint64_t places, std::uint64_t room = 0) {
  return {.at = {}, .workers = 1, .places = places, .room = room, .ended = 0};
}

// Looks of a second each; the window as it becomes.
class WindowTest : public testing::Test {
 protected:
  std::optional<std::uint32_t> look(WorkersSeen seen, std::uint32_t crowds) {
    seen.at = Instant(now_ += std::chrono::seconds(1));
    const auto size = watch_.look(seen, crowds, last_, std::chrono::seconds(5));
    last_ = {.size = size.value_or(last_.size), .crowds = crowds, .tasks = 0, .pace = 0};
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

TEST(OpenTasks, WhatIsParkedTakesAsLongAsAllBeforeItAtTheUsersShareOfThePace) {
  using namespace std::chrono_literals;
  const OpenTasks open{.released = 10, .parked = 89, .parked_after = 0, .released_max = 0};
  const auto ends_in = [&](std::uint32_t crowds, std::uint32_t pace, std::uint64_t tasks) {
    return parked_for(open, {.size = 10, .crowds = crowds, .tasks = tasks, .pace = pace});
  };
  EXPECT_EQ(ends_in(1, 0, 99), std::nullopt) << "not known";
  EXPECT_EQ(ends_in(1, 2000, 99), 50s);
  EXPECT_EQ(ends_in(0, 2000, 0), 50s) << "he is the first";
  EXPECT_EQ(ends_in(5, 2000, 10'000), 248s);
  EXPECT_EQ(ends_in(5, 2000, 103), 52s) << "the others have little: they will soon be gone";
  EXPECT_GT(
      *parked_for(
          {.released = UINT32_MAX, .parked = UINT32_MAX, .parked_after = 0, .released_max = 0},
          {.size = 1, .crowds = UINT32_MAX, .tasks = UINT64_MAX, .pace = 1}),
      1h);
  EXPECT_TRUE(would_park(open, 1000)) << "behind what is parked";
  EXPECT_TRUE(would_park({.released = 5, .parked = 0, .parked_after = 0, .released_max = 0}, 5));
  EXPECT_FALSE(would_park({.released = 4, .parked = 0, .parked_after = 0, .released_max = 0}, 5));
}

TEST(Pace, IsTasksInAThousandSeconds) {
  using namespace std::chrono_literals;
  EXPECT_EQ(pace_of(0, 20s), 0U);
  EXPECT_EQ(pace_of(40, 20s), 2000U);
  EXPECT_EQ(pace_of(1, 3s), 333U);
  EXPECT_EQ(pace_of(UINT64_MAX, 1us), 4'000'000'000U);
}

class PaceWatchTest : public testing::Test {
 protected:
  std::uint32_t look(WorkersSeen seen, std::uint64_t crowds = 1) {
    seen.at = Instant(now_ += std::chrono::seconds(10));
    return last_ = watch_.look(seen, crowds, last_, std::chrono::seconds(20));
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
  EXPECT_EQ(look(full(150)), 0U) << "not yet";
  EXPECT_EQ(look(full(200)), 5000U);
  EXPECT_EQ(look(full(220)), 5000U);
  EXPECT_EQ(look(full(240)), 2000U);
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
  look(full(100), 0);
  look(full(150), 0);
  EXPECT_EQ(look(full(200), 0), 0U);
  EXPECT_EQ(look(full(250)), 0U) << "nor when somebody has just come";
  look(full(270));
  EXPECT_EQ(look(full(290)), 2000U);
  EXPECT_EQ(look(full(300), 0), 0U);
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
  look(seen);
  seen.ended += 40;
  EXPECT_EQ(look(seen), 2000U) << "nearly full will do";
}

TEST_F(PaceWatchTest, WorkersThatComeOrGoBringNothingAlong) {
  look(full(100));
  look(full(120));
  EXPECT_EQ(look(full(140)), 2000U);
  EXPECT_EQ(look(full(1'000'000, 3)), 2000U);
  EXPECT_EQ(look(full(50, 3)), 2000U) << "fewer than before";
  look(full(60, 3));
  EXPECT_EQ(look(full(70, 3)), 1000U);
}

// Every provider is left alone: what ends before and after that is no pace of such a time.
TEST_F(PaceWatchTest, ATimeInWhichNobodyCanBeCalledSaysNothing) {
  look(full(100));
  WorkersSeen nobody = full(110);
  nobody.places = 0;
  EXPECT_EQ(look(nobody), 0U);
  EXPECT_EQ(look(full(110)), 0U);
  look(full(120));
  EXPECT_EQ(look(full(150)), 2000U);
}

// Somebody else had the turn, or a clock was set: nobody knows what was in between.
TEST_F(PaceWatchTest, ATimeWithoutLooksSaysNothing) {
  look(full(100));
  now_ += std::chrono::hours(1);
  EXPECT_EQ(look(full(200)), 0U);
  now_ -= std::chrono::hours(2);
  EXPECT_EQ(look(full(300)), 0U);
  look(full(320));
  EXPECT_EQ(look(full(340)), 2000U);
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

// One place at a time, by somebody who begins anew each time: neither lane starves.
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

}  // namespace
}  // namespace audiogen
