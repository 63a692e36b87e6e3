// Which hints may be missing, by seconds.
#include "common/queue/unsent.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace audiogen::queue {
namespace {

TaskId made(std::chrono::milliseconds at) {
  TaskId id = TaskId::make();
  const Uuid time = first_uuid_at(Instant(at));
  std::copy_n(time.bytes.begin(), 6, id.uuid.bytes.begin());
  return id;
}

TaskId bound(std::chrono::seconds at) {
  return {first_uuid_at(Instant(at))};
}

TEST(UnsentHints, WithoutAnyEverythingBeforeNowIsSent) {
  const UnsentHints unsent;
  EXPECT_EQ(unsent.from(Instant(100'900ms)), bound(99s));
}

TEST(UnsentHints, TheOldestSecondCounts) {
  UnsentHints unsent;
  const TaskId first = made(10'000ms), second = made(10'999ms), third = made(11'000ms);
  for (const TaskId task : {third, second, first}) {
    unsent.expect(task);
  }
  EXPECT_EQ(unsent.from(Instant(20s)), bound(10s));
  EXPECT_LT(unsent.from(Instant(20s)), first);
  EXPECT_EQ(unsent.from(Instant(5s)), bound(4s)) << "the clock was put back: new ids sort below";
  unsent.settled(first);
  EXPECT_EQ(unsent.from(Instant(20s)), bound(10s));
  unsent.settled(second);
  EXPECT_EQ(unsent.from(Instant(20s)), bound(11s));
  unsent.settled(third);
  EXPECT_EQ(unsent.from(Instant(20s)), bound(19s));
}

TEST(UnsentHints, OldSecondsAreForgotten) {
  UnsentHints unsent;
  const TaskId first = made(10'500ms), later = made(12'000ms);
  unsent.expect(later);
  unsent.expect(first);
  unsent.forget(Instant(10'999ms));
  EXPECT_EQ(unsent.from(Instant(90s)), bound(10s)) << "that second is not over";
  unsent.forget(Instant(12'999ms));
  EXPECT_EQ(unsent.from(Instant(90s)), bound(12s));
  unsent.settled(first);  // Too late, and ignored.
  EXPECT_EQ(unsent.from(Instant(90s)), bound(12s));
  unsent.forget(Instant(13s));
  EXPECT_EQ(unsent.from(Instant(90s)), bound(89s));
  unsent.settled(later);
  EXPECT_EQ(unsent.from(Instant(90s)), bound(89s));
}

}  // namespace
}  // namespace audiogen::queue
