// Consumer acknowledgements: few, and never one for work that is not done.
#include "common/queue/ack_window.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::queue {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

AckWindow with_delivered(std::uint64_t count) {
  AckWindow out;
  for (std::uint64_t tag = 1; tag <= count; ++tag) {
    EXPECT_TRUE(out.delivered(tag));
  }
  return out;
}

TEST(AckWindow, AContiguousStartIsOneAck) {
  AckWindow window = with_delivered(4);
  for (const std::uint64_t tag : {3U, 1U, 2U}) {
    window.done(tag);
  }
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{3, true}));
  EXPECT_THAT(window.take(), IsEmpty());
}

TEST(AckWindow, AMessageIsDoneWithItsLastPart) {
  AckWindow window;
  ASSERT_TRUE(window.delivered(1, 3));
  ASSERT_TRUE(window.delivered(2));
  window.done(1);
  window.done(1);
  window.done(2);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{2, false}));
  window.done(1);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{1, false}));
  window.done(1);
  EXPECT_THAT(window.take(), IsEmpty());
}

TEST(AckWindow, NothingOpenIsCovered) {
  AckWindow window = with_delivered(4);
  window.done(2);
  window.done(4);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{2, false}, AckWindow::Ack{4, false}));
  window.done(1);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{1, false}));
  window.done(3);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{3, false}));
}

TEST(AckWindow, TheCoveringTagIsOneTheBrokerStillKnows) {
  AckWindow window = with_delivered(4);
  window.done(3);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{3, false}));
  window.done(1);
  window.done(2);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{2, true}));
}

TEST(AckWindow, RejectedOnesDoNotHoldTheRestBack) {
  AckWindow window = with_delivered(4);
  window.settled(2);
  window.settled(4);
  window.done(1);
  window.done(3);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{3, true}));
}

TEST(AckWindow, RepeatedAndUnknownTagsAreIgnored) {
  AckWindow window = with_delivered(2);
  window.done(0);
  window.done(3);
  window.done(2);
  window.done(2);
  EXPECT_THAT(window.take(), ElementsAre(AckWindow::Ack{2, false}));
  window.done(2);
  EXPECT_THAT(window.take(), IsEmpty());
}

TEST(AckWindow, TagsComeInOrder) {
  AckWindow window;
  EXPECT_FALSE(window.delivered(2));
  EXPECT_TRUE(window.delivered(1));
  EXPECT_FALSE(window.delivered(1));
}

// The broker's side: an ack must name a tag it still knows, and must settle only what is done.
TEST(AckWindow, RandomWorkAgreesWithAModelOfTheBroker) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    AckWindow window;
    std::set<std::uint64_t> unacknowledged;
    std::set<std::uint64_t> open;
    std::set<std::uint64_t> done;
    std::uint64_t last = 0;
    for (int step = 0; step < 200; ++step) {
      if (open.empty() || random() % 3 == 0) {
        ASSERT_TRUE(window.delivered(++last));
        unacknowledged.insert(last);
        open.insert(last);
        continue;
      }
      const auto pick =
          std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
      if (random() % 8 == 0) {
        window.settled(*pick);
        unacknowledged.erase(*pick);
      } else {
        window.done(*pick);
        done.insert(*pick);
      }
      open.erase(pick);
      if (random() % 4 != 0) {
        continue;
      }
      for (const AckWindow::Ack& ack : window.take()) {
        ASSERT_TRUE(unacknowledged.contains(ack.tag)) << "seed " << seed;
        const auto to = unacknowledged.find(ack.tag);
        const auto end = std::next(to);
        for (auto at = ack.multiple ? unacknowledged.begin() : to; at != end;
             at = unacknowledged.erase(at)) {
          ASSERT_EQ(done.erase(*at), 1U) << "seed " << seed;
        }
      }
      ASSERT_THAT(done, IsEmpty()) << "seed " << seed;
      ASSERT_EQ(unacknowledged, open) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace audiogen::queue
