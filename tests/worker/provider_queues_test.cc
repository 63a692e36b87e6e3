// Tasks that wait for their provider, and whose turn it is.
#include "worker/job/provider_queues.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using namespace std::chrono_literals;

constexpr ProviderQueues::Time kNow{24h};
constexpr ProviderQueues::Seen kLater{.now = kNow, .left = 8h};
constexpr ProviderQueues::Seen kHeardFirst{.now = kNow, .left = 8h, .arrival = {.first = true}};
constexpr Room kRoom{.bulk = 100, .express = 100};
constexpr std::size_t kTriedMax = Waiting<ProviderQueues::Taken>::kTriedMax;

class ProviderQueuesTest : public testing::Test {
 protected:
  static Hint hint(Lane lane = Lane::kBulk, std::uint32_t epoch = 0) {
    return {.task = TaskId::make(), .epoch = epoch, .lane = lane};
  }
  std::optional<ProviderQueues::Taken> next(const Room& room = kRoom, bool has_place = true) {
    return queues_.next(
        room,
        [this](Position provider) { return openings_[provider]; },
        [&](Lane) { return has_place; });
  }

  std::optional<Hint> due(ProviderQueues::Time now) {
    return queues_.due(now, [](Lane) { return true; });
  }

  void put_back(const ProviderQueues::Taken& taken) {
    queues_.put_back(taken.provider,
                     taken.hint,
                     taken.tried,
                     {.now = kNow, .left = 8h, .arrival = taken.arrival});
  }

  ProviderQueues queues_;
  std::map<Position, std::size_t> openings_;
};

TEST_F(ProviderQueuesTest, WhoseProviderHasAnOpeningWaitsForNobodyElse) {
  const Hint first = hint(), second = hint(), other = hint();
  queues_.add(0, first, false, kLater);
  queues_.add(0, second, false, kLater);
  queues_.add(2, other, false, kLater);
  EXPECT_FALSE(next());
  openings_[2] = 1;
  const auto taken = next();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->hint, other);
  EXPECT_EQ(taken->provider, 2U);
  EXPECT_FALSE(next()) << "that opening is asked for";
  EXPECT_EQ(queues_.size(), 2U);
  openings_[0] = 2;
  EXPECT_EQ(next()->hint, first);
  EXPECT_EQ(next()->hint, second);
  EXPECT_TRUE(queues_.empty());
}

TEST_F(ProviderQueuesTest, AnOpeningIsAskedForOnceUntilThatIsJudged) {
  openings_[0] = 1;
  for (int i = 0; i < 3; ++i) {
    queues_.add(0, hint(), false, kLater);
  }
  const auto first = next();
  ASSERT_TRUE(first);
  EXPECT_FALSE(next());
  queues_.judged(0, TaskId::make(), false);
  EXPECT_FALSE(next()) << "that was no task from here";
  queues_.judged(0, first->hint.task, false);
  queues_.judged(0, first->hint.task, false);
  EXPECT_TRUE(next()) << "it was not wanted after all";
  EXPECT_FALSE(next());
}

TEST_F(ProviderQueuesTest, WhoeverHasNoTurnAfterAllHasTheNext) {
  openings_[0] = 1;
  const Hint first = hint(), second = hint();
  queues_.add(0, first, false, kLater);
  queues_.add(0, second, false, kLater);
  const auto taken = next();
  ASSERT_EQ(taken->hint, first);
  queues_.judged(0, first.task, false);
  put_back(*taken);
  EXPECT_TRUE(queues_.has(first));
  EXPECT_EQ(next()->hint, first);
}

TEST_F(ProviderQueuesTest, OpeningsAreForWhoWasHereFirst) {
  openings_[0] = 1;
  const Hint first = hint(), second = hint(), late = hint();
  EXPECT_EQ(queues_.before(late.task, Lane::kBulk, 0), 0U);
  queues_.add(0, first, false, kLater);
  queues_.add(0, second, false, kLater);
  EXPECT_EQ(queues_.before(late.task, Lane::kBulk, 0), 2U);
  EXPECT_EQ(queues_.before(late.task, Lane::kBulk, 1), 0U) << "another provider";
  ASSERT_EQ(next()->hint, first);
  EXPECT_EQ(queues_.before(late.task, Lane::kBulk, 0), 2U) << "one is asked for, one waits";
  EXPECT_EQ(queues_.before(first.task, Lane::kBulk, 0), 0U) << "it has waited";
  queues_.judged(0, first.task, false);
  EXPECT_EQ(queues_.before(late.task, Lane::kBulk, 0), 1U);
  EXPECT_EQ(queues_.line(late.task, Lane::kBulk, 0, 1, false), 1U);
  EXPECT_EQ(queues_.line(second.task, Lane::kBulk, 0, 1, false), 0U) << "it waits there itself";
  EXPECT_TRUE(queues_.knows(second.task));
  EXPECT_FALSE(queues_.knows(first.task));
  EXPECT_FALSE(queues_.knows(late.task));
}

// Else one whose line goes slower than it did expired there, beside one that was idle.
TEST_F(ProviderQueuesTest, WhoeverWaitsIsAsFarAsThoseBeforeHim) {
  const Hint first = hint(), second = hint(), third = hint();
  for (const Hint& one : {first, second, third}) {
    queues_.add(0, one, false, kLater);
  }
  const auto line = [this](const Hint& of) { return queues_.line(of.task, of.lane, 0, 1, false); };
  EXPECT_EQ(line(first), 0U);
  EXPECT_EQ(line(third), 2U);
  openings_[0] = 1;
  const auto taken = next();
  ASSERT_EQ(taken->hint, first);
  EXPECT_EQ(line(third), 2U) << "that one is not judged yet";
  queues_.judged(0, first.task, false);
  EXPECT_EQ(line(third), 1U);
  put_back(*taken);
  EXPECT_EQ(line(third), 2U);
  std::vector<Hint> express;
  for (int i = 0; i < 6; ++i) {
    express.push_back(hint(Lane::kExpress));
    queues_.add(0, express.back(), false, kLater);
  }
  EXPECT_EQ(line(first), 6U);
  EXPECT_EQ(line(express[0]), 0U);
  EXPECT_EQ(line(express[5]), 5U + 1U) << "every fourth is one of the others";
  const Hint tried = hint();
  queues_.add(0, tried, true, kLater);
  EXPECT_EQ(line(tried), 0U);
  EXPECT_EQ(line(first), 7U);
  EXPECT_EQ(line(express[5]), 7U);
}

// Each of two has what both wait for.
TEST_F(ProviderQueuesTest, WhatOthersHaveAsWellIsHalfTheirs) {
  std::vector<Hint> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(hint());
    queues_.add(0, all.back(), false, i % 2 == 0 ? kHeardFirst : kLater);
    queues_.add(1, hint(), false, kLater);
  }
  const auto line = [&](const Hint& of, Position provider, std::uint64_t workers) {
    return queues_.line(of.task, Lane::kBulk, provider, workers, false);
  };
  EXPECT_EQ(line(all[80], 0, 2), 40U);
  EXPECT_EQ(line(hint(), 0, 2), 50U) << "whoever comes is measured by the same";
  EXPECT_EQ(line(all[80], 0, 4), 40U) << "heard of here first";
  EXPECT_EQ(line(all[80], 0, 1), 80U) << "nobody else has them";
  EXPECT_EQ(line(hint(), 1, 4), 25U) << "first nowhere, as after a start";
  for (int i = 0; i < 18; ++i) {
    queues_.add(1, hint(Lane::kExpress), false, kHeardFirst);
  }
  EXPECT_EQ(queues_.line(hint().task, Lane::kExpress, 1, 4, false), 18U + 6U)
      << "each lane by itself";
  EXPECT_EQ(line(hint(), 1, 4), 18U + 25U);
  queues_.add(1, hint(), true, kLater);
  EXPECT_EQ(queues_.line(hint().task, Lane::kBulk, 1, 1, true), 1U) << "behind those tried before";
}

// Every third turn is of those that were not tried; while some are that has the others wait longer.
TEST_F(ProviderQueuesTest, WhatWasTriedIsAsFarAsThoseBeforeItThatWere) {
  std::vector<Hint> tried;
  for (int i = 0; i < 40; ++i) {
    tried.push_back(hint());
    queues_.add(0, tried.back(), true, kLater);
  }
  const auto line = [this](const Hint& of) {
    return queues_.line(of.task, Lane::kBulk, 0, 1, true);
  };
  EXPECT_EQ(line(hint()), 40U);
  EXPECT_EQ(line(tried[30]), 30U) << "it waits there itself";
  for (int i = 0; i < 18; ++i) {
    queues_.add(0, hint(i % 2 == 0 ? Lane::kBulk : Lane::kExpress), false, kLater);
  }
  EXPECT_EQ(line(hint()), 40U + 18U);
  EXPECT_EQ(line(tried[30]), 30U + 15U);
  EXPECT_EQ(line(tried[0]), 0U);
  const Hint elsewhere = hint();
  queues_.add(1, elsewhere, true, kLater);
  EXPECT_EQ(line(elsewhere), 40U + 18U);
}

// By when it came it has its turn there, too, before those that came since.
TEST_F(ProviderQueuesTest, WhoeverWaitsElsewhereIsAsFarThereAsHeWouldBe) {
  const Hint early = hint(), late = hint();
  queues_.add(0, early, false, kLater);
  for (int i = 0; i < 60; ++i) {
    queues_.add(1, hint(), false, kLater);
  }
  queues_.add(0, late, false, kLater);
  EXPECT_EQ(queues_.line(early.task, Lane::kBulk, 1, 1, false), 0U);
  EXPECT_EQ(queues_.line(late.task, Lane::kBulk, 1, 1, false), 60U);
  EXPECT_EQ(queues_.waits_at(early.task), Position{0});
  EXPECT_EQ(queues_.waits_at(hint().task), std::nullopt);
}

// A crowd's whole backlog was before one of somebody who has little under way.
TEST_F(ProviderQueuesTest, BeforeWhoGoesByTheExpressLaneAreThoseOfThatLane) {
  for (int i = 0; i < 400; ++i) {
    queues_.add(0, hint(), false, kLater);
  }
  const TaskId late = TaskId::make();
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 0U);
  EXPECT_EQ(queues_.line(late, Lane::kExpress, 0, 1, false), 0U);
  for (int i = 0; i < 6; ++i) {
    queues_.add(0, hint(Lane::kExpress), false, kLater);
  }
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 8U) << "every fourth is one of the others";
  EXPECT_EQ(queues_.before(late, Lane::kBulk, 0), 406U);
  const Hint tried = hint();
  queues_.add(0, tried, true, kLater);
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 9U);
  openings_[0] = 1;
  ASSERT_EQ(next()->hint, tried);
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 9U) << "asked for";
  queues_.judged(0, tried.task, false);
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 8U);
  for (std::size_t i = 0; i < kTriedMax + 5; ++i) {
    queues_.add(0, hint(), true, kLater);
  }
  EXPECT_EQ(queues_.before(late, Lane::kExpress, 0), 8U + 18U)
      << "of what was tried two before each, as long as others wait";
  EXPECT_EQ(queues_.before(late, Lane::kBulk, 0), 1411U);
}

TEST_F(ProviderQueuesTest, ANewerHintTakesThePlaceOfTheOlder) {
  openings_[0] = 10;
  const Hint older = hint(), newer{.task = older.task, .epoch = 2};
  queues_.add(0, older, false, kLater);
  queues_.add(0, newer, false, kLater);
  EXPECT_FALSE(queues_.has(older));
  EXPECT_TRUE(queues_.has(newer));
  EXPECT_EQ(queues_.size(), 1U);
  EXPECT_EQ(next()->hint, newer);
  EXPECT_FALSE(next());
}

// It was taken, and came again while that was not judged.
TEST_F(ProviderQueuesTest, WhatIsTakenTwiceIsJudgedTwice) {
  openings_[0] = 2;
  const Hint first = hint(), second = hint();
  queues_.add(0, first, false, kLater);
  ASSERT_TRUE(next());
  queues_.add(0, first, false, kLater);
  ASSERT_TRUE(next());
  queues_.add(0, second, false, kLater);
  EXPECT_FALSE(next());
  queues_.judged(0, first.task, false);
  EXPECT_TRUE(next());
  queues_.judged(0, first.task, false);
  queues_.judged(0, second.task, false);
  EXPECT_EQ(queues_.before(TaskId::make(), Lane::kBulk, 0), 0U);
}

TEST_F(ProviderQueuesTest, WhoIsToBeLookedAtStaysWhereItIs) {
  const Hint soon = hint(), late = hint();
  queues_.add(0, late, false, {.now = kNow, .left = 80s});
  queues_.add(0, soon, false, {.now = kNow, .left = 16s});
  EXPECT_FALSE(due(kNow + 1s));
  EXPECT_FALSE(queues_.due(kNow + 2s, [](Lane) { return false; })) << "there is no place";
  EXPECT_EQ(due(kNow + 2s), soon);
  EXPECT_FALSE(due(kNow + 9s)) << "its answer is awaited";
  queues_.add(0, soon, false, {.now = kNow + 9s, .left = 3s});  // It is left again.
  EXPECT_FALSE(due(kNow + 9s));
  EXPECT_TRUE(due(kNow + 10s));
  EXPECT_TRUE(due(kNow + 10s)) << "after a second at the least";
  EXPECT_FALSE(due(kNow + 10s));
  EXPECT_EQ(queues_.size(), 2U);
  queues_.drop(late);
  openings_[0] = 10;
  EXPECT_EQ(next()->hint, soon);
  EXPECT_FALSE(next());
}

TEST_F(ProviderQueuesTest, ALaneWithoutAPlaceKeepsTheOtherFromNoLook) {
  const Hint bulk = hint(), express = hint(Lane::kExpress);
  queues_.add(0, bulk, false, {.now = kNow, .left = 8s});
  queues_.add(0, express, false, {.now = kNow, .left = 16s});
  const auto express_only = [](Lane lane) { return lane == Lane::kExpress; };
  EXPECT_EQ(queues_.due(kNow + 5s, express_only), express);
  EXPECT_FALSE(queues_.due(kNow + 5s, express_only));
  EXPECT_EQ(due(kNow + 5s), bulk);
}

TEST_F(ProviderQueuesTest, WhatIsPutBackKeepsItsOrder) {
  openings_[0] = 10;
  std::vector<Hint> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(hint());
  }
  // Not by their age: what is parked is older than others that came before it was released.
  std::sort(all.begin(), all.end(), [](const Hint& a, const Hint& b) { return b.task < a.task; });
  for (const Hint& one : all) {
    queues_.add(0, one, false, kLater);
  }
  std::vector<ProviderQueues::Taken> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(*next());
  }
  for (const auto& one : {taken[1], taken[0], taken[2]}) {
    queues_.judged(0, one.hint.task, false);
    put_back(one);
  }
  for (const Hint& one : all) {
    EXPECT_EQ(next()->hint, one);
  }
}

TEST_F(ProviderQueuesTest, WhatWasTriedAndIsPutBackIsTheNextOfThose) {
  openings_[0] = 10;
  const Hint first = hint(), second = hint(), late = hint();
  queues_.add(0, first, true, kLater);
  queues_.add(0, second, true, kLater);
  queues_.add(0, late, false, kLater);
  const auto taken = next();
  ASSERT_EQ(taken->hint, first);
  EXPECT_TRUE(taken->tried);
  queues_.judged(0, first.task, false);
  put_back(*taken);
  EXPECT_EQ(next()->hint, first);
  EXPECT_EQ(next()->hint, late) << "every third place is for what was not tried";
  EXPECT_EQ(next()->hint, second);
  EXPECT_EQ(queues_.before(TaskId::make(), Lane::kBulk, 0), 3U) << "all are taken, and not judged";
}

// Of many that are all to be looked at, and go elsewhere then, who came last was the first one.
TEST_F(ProviderQueuesTest, WhereverTheyWaitWhoCameFirstHasHisTurnFirst) {
  std::vector<Hint> all;
  for (int i = 0; i < 50; ++i) {
    all.push_back(hint());
    queues_.add(0, all.back(), false, kLater);
  }
  const auto look_at_all = [&](ProviderQueues::Time now, Position to) {
    for (const Hint& one : all) {
      EXPECT_EQ(due(now), one);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      queues_.add(to, all[i * 7 % all.size()], false, {.now = now, .left = 8h});
    }
  };
  queues_.look_at_all(bit_of(0), kNow + 8s);
  const Hint late = hint();
  queues_.add(1, late, false, {.now = kNow + 8s, .left = 8h});
  look_at_all(kNow + 8s, 1);
  queues_.begin_anew(kNow + 20s);
  all.push_back(late);
  look_at_all(kNow + 20s, 2);
  openings_[2] = 100;
  for (const Hint& one : all) {
    EXPECT_EQ(next()->hint, one);
  }
}

TEST_F(ProviderQueuesTest, WhoseRowIsSomebodysIsLookedAtAgainInASecond) {
  const Hint one = hint();
  EXPECT_FALSE(queues_.look_later(one, kNow));
  queues_.add(0, one, false, kLater);
  ASSERT_EQ(due(kNow + 1h), one);
  EXPECT_TRUE(queues_.look_later(one, kNow + 1h));
  EXPECT_FALSE(due(kNow + 1h));
  EXPECT_EQ(due(kNow + 1h + 1s), one);
}

TEST_F(ProviderQueuesTest, WhoseProviderIsAskedAfterIsLookedAtSoon) {
  const Hint first = hint(), second = hint(), other = hint();
  queues_.add(0, first, false, kLater);
  queues_.add(1, other, false, kLater);
  queues_.add(0, second, false, {.now = kNow + 5s, .left = 8h});
  queues_.look_at_all(bit_of(0), kNow + 8s);
  EXPECT_EQ(due(kNow + 8s), first);
  EXPECT_FALSE(due(kNow + 9s)) << "the other one of it was seen just now";
  EXPECT_EQ(due(kNow + 10s), second);
  EXPECT_FALSE(due(kNow + 10s));
}

class InvitesTest : public ProviderQueuesTest {
 protected:
  void invite(ProviderQueues::Time now) {
    queues_.invite(
        3, [this](Position provider) { return openings_[provider]; }, now);
  }
  std::size_t count_due(ProviderQueues::Time now) {
    std::size_t out = 0;
    while (due(now)) {
      ++out;
    }
    return out;
  }
};

// A breaker that is half open closes by a call, and those that could make it wait elsewhere.
TEST_F(InvitesTest, WhoHasOpeningsAndNobodyBehindHimHasSomeOfThoseThatWaitForOthers) {
  for (int i = 0; i < 30; ++i) {
    queues_.add(2, hint(), false, {.now = kNow, .left = 8h, .sooner = bit_of(0)});
  }
  openings_[1] = 5;
  invite(kNow + 4500ms);
  EXPECT_EQ(count_due(kNow + 4500ms), 0U) << "it has no opening";
  openings_[0] = 3;
  invite(kNow + 4750ms);
  EXPECT_EQ(count_due(kNow + 4750ms), 0U) << "they were seen just now";
  invite(kNow + 4900ms);
  invite(kNow + 5s);
  EXPECT_EQ(count_due(kNow + 5s), 12U) << "four for each; the other one could have none of them";
  invite(kNow + 5250ms);
  EXPECT_EQ(count_due(kNow + 5250ms), 12U) << "those that were asked for are awaited";
}

TEST_F(InvitesTest, WhoHasALineOfHisOwnInvitesNobody) {
  queues_.add(0, hint(), false, kLater);
  queues_.add(2, hint(), false, {.now = kNow, .left = 8h, .sooner = bit_of(0)});
  openings_[0] = 3;
  invite(kNow + 10s);
  EXPECT_EQ(count_due(kNow + 10s), 0U);
  ASSERT_TRUE(next());
  invite(kNow + 11s);
  EXPECT_EQ(count_due(kNow + 11s), 1U);
}

// Others have had them: the next that is wanted must not wait behind a hundred of those.
TEST_F(ProviderQueuesTest, AfterWhatIsTakenInVainMoreAreTakenAtATime) {
  openings_[0] = 1;
  for (int i = 0; i < 10; ++i) {
    queues_.add(0, hint(), false, kLater);
  }
  auto taken = next();
  EXPECT_FALSE(next());
  queues_.judged(0, taken->hint.task, true);
  taken = next();
  EXPECT_TRUE(next());
  EXPECT_FALSE(next());
  queues_.judged(0, taken->hint.task, true);
  EXPECT_TRUE(next());
  EXPECT_TRUE(next());
  taken = next();
  EXPECT_FALSE(next());
  queues_.judged(0, taken->hint.task, false);
  EXPECT_FALSE(next()) << "that one was wanted";
}

TEST_F(ProviderQueuesTest, WhoIsLeftForAnotherGoesThere) {
  const Hint moved = hint();
  queues_.add(0, moved, false, kLater);
  queues_.add(1, moved, false, kLater);
  openings_[0] = 10;
  EXPECT_FALSE(next());
  openings_[1] = 10;
  EXPECT_EQ(next()->provider, 1U);
  EXPECT_TRUE(queues_.empty());
}

// Taken from one, it is nobody's before whom another waits.
TEST_F(ProviderQueuesTest, TheLineIsThatOfEachProvider) {
  const Hint here = hint();
  queues_.add(0, hint(), false, kLater);
  queues_.add(1, here, false, kLater);
  EXPECT_EQ(queues_.line(here.task, Lane::kBulk, 0, 1, false), 1U);
  EXPECT_EQ(queues_.line(here.task, Lane::kBulk, 1, 1, false), 0U);
  openings_[1] = 1;
  ASSERT_EQ(next()->hint, here);
  EXPECT_EQ(queues_.line(here.task, Lane::kBulk, 0, 1, false), 1U);
  EXPECT_EQ(queues_.before(here.task, Lane::kBulk, 0), 1U);
  EXPECT_EQ(queues_.line(here.task, Lane::kBulk, 1, 1, false), 0U);
}

// What another worker told of already is hinted once more: of several workers each counts its own.
TEST_F(ProviderQueuesTest, ALineIsOfWhatWasHeardOfHereFirst) {
  const auto seen = [](std::chrono::seconds left, bool first) {
    return ProviderQueues::Seen{.now = kNow, .left = left, .arrival = {.first = first}};
  };
  using Waiting = QueueSeen::Waiting;
  const auto of = [this](Position provider) { return queues_.lines(kNow + 10s)[provider].first; };
  const auto are = [](std::vector<std::pair<int, int>> all) {
    return testing::Pointwise(
        testing::Truly([](const auto& pair) {
          const Waiting& waiting = std::get<0>(pair);
          return waiting.left == std::chrono::seconds(std::get<1>(pair).first) &&
                 waiting.count == static_cast<std::uint64_t>(std::get<1>(pair).second);
        }),
        std::move(all));
  };
  const Hint kept = hint(), late = hint();
  queues_.add(0, kept, false, seen(900s, true));
  queues_.add(0, hint(Lane::kExpress), false, seen(60s, true));
  queues_.add(0, hint(Lane::kExpress), false, seen(30s, true));
  queues_.add(0, hint(), false, seen(900s, false));
  queues_.add(1, late, false, seen(5s, true));
  EXPECT_THAT(of(0).bulk, are({{890, 1}}));
  EXPECT_THAT(of(0).express, are({{20, 1}, {50, 1}})) << "the least time first";
  EXPECT_THAT(of(1).bulk, are({{0, 1}})) << "over, and not seen yet";
  EXPECT_THAT(of(2).bulk, IsEmpty());
  EXPECT_THAT(queues_.lines(kNow + 10s)[0].here.bulk, are({{890, 1}, {890, 1}}));
  // Wherever it goes from here, it stays one that was heard of here first.
  queues_.add(2, kept, false, seen(800s, false));
  EXPECT_THAT(of(0).bulk, IsEmpty());
  EXPECT_THAT(of(2).bulk, are({{790, 1}}));
  openings_[2] = 1;
  const auto taken = next();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->hint, kept);
  EXPECT_TRUE(taken->arrival.first);
  EXPECT_THAT(of(2).bulk, IsEmpty());
  put_back(*taken);
  EXPECT_THAT(of(2).bulk, are({{28790, 1}}));
}

TEST_F(ProviderQueuesTest, ForAnotherChainAllAreLookedAtAnewInTheirTurn) {
  openings_[0] = 1;
  const Hint taken = hint(), first = hint(), second = hint();
  for (const Hint& one : {taken, first, second}) {
    queues_.add(0, one, false, kLater);
  }
  ASSERT_EQ(next()->hint, taken);
  queues_.begin_anew(kNow + 1s);
  EXPECT_FALSE(queues_.knows(taken.task)) << "it is none of this one's";
  std::vector<TaskId> looks;
  while (const auto look = due(kNow + 1s)) {
    looks.push_back(look->task);
  }
  EXPECT_THAT(looks, UnorderedElementsAre(first.task, second.task));
  EXPECT_EQ(next()->hint, first);
}

TEST_F(ProviderQueuesTest, ProvidersTakeTurns) {
  for (int i = 0; i < 2; ++i) {
    for (const Position provider : {1U, 4U, 5U}) {
      queues_.add(provider, hint(), false, kLater);
      openings_[provider] = 10;
    }
  }
  std::vector<Position> order;
  while (const auto taken = next()) {
    order.push_back(taken->provider);
  }
  EXPECT_THAT(order, ElementsAre(1, 4, 5, 1, 4, 5));
}

// Two entries of an account of which one opening comes after the other: the later one had none.
TEST_F(ProviderQueuesTest, WhoIsPutBackIsOfTheOneWhoseTurnItIs) {
  openings_[1] = openings_[4] = 1;
  for (int i = 0; i < 3; ++i) {
    queues_.add(1, hint(), false, kLater);
    queues_.add(4, hint(), false, kLater);
  }
  const auto first = next(), second = next();
  ASSERT_EQ(first->provider, 1U);
  ASSERT_EQ(second->provider, 4U);
  queues_.judged(1, first->hint.task, false);
  queues_.judged(4, second->hint.task, false);
  put_back(*second);
  EXPECT_EQ(next()->hint, second->hint);
  EXPECT_EQ(next()->provider, 1U);
}

TEST_F(ProviderQueuesTest, WithoutAPlaceNobodyIsTaken) {
  openings_[0] = 10;
  queues_.add(0, hint(Lane::kBulk), false, kLater);
  EXPECT_FALSE(next(kRoom, false));
  EXPECT_FALSE(next({.bulk = 0, .express = 5}));
  const Hint quick = hint(Lane::kExpress);
  queues_.add(0, quick, false, kLater);
  EXPECT_EQ(next({.bulk = 0, .express = 5})->hint, quick);
  EXPECT_EQ(queues_.size(), 1U);
}

TEST_F(ProviderQueuesTest, WhatWasTriedComesFirst) {
  openings_[0] = 10;
  const Hint fresh = hint(), tried = hint();
  queues_.add(0, fresh, false, kLater);
  queues_.add(0, tried, true, kLater);
  EXPECT_EQ(next()->hint, tried);
  EXPECT_EQ(next()->hint, fresh);
}

TEST_F(ProviderQueuesTest, AHintIsHereOnce) {
  openings_[0] = 10;
  const Hint once = hint(), other = hint();
  queues_.add(0, once, false, kLater);
  queues_.add(0, other, false, kLater);
  queues_.add(0, once, false, kLater);
  EXPECT_TRUE(queues_.has(once));
  EXPECT_FALSE(queues_.has({.task = once.task, .epoch = 1}));
  EXPECT_EQ(next()->hint, once) << "it keeps its turn";
  EXPECT_FALSE(queues_.has(once));
  EXPECT_EQ(next()->hint, other);
  EXPECT_TRUE(queues_.empty());
  EXPECT_FALSE(next());
}

TEST_F(ProviderQueuesTest, AllOfThemAreTold) {
  const Hint one = hint(), two = hint(Lane::kExpress), three = hint();
  queues_.add(0, one, false, kLater);
  queues_.add(1, two, false, kLater);
  queues_.add(1, three, true, kLater);
  EXPECT_THAT(queues_.tasks(), UnorderedElementsAre(one.task, two.task, three.task));
  for (const Hint& hint : {one, two, three}) {
    queues_.drop(hint);
  }
  EXPECT_THAT(queues_.tasks(), IsEmpty());
  EXPECT_FALSE(due(kNow + 24h)) << "nothing is left of them";
}

}  // namespace
}  // namespace audiogen::worker
