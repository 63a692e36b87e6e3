#include "worker/job/scheduler.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPatience{60};  // For what must happen; never waited out.

// Everything is there before the first of it can run, and their times are hours apart: so only
// those decide, however long this thread is kept from calling.
TEST(Scheduler, RunsInTheOrderOfTimeNotOfCalling) {
  constexpr milliseconds kDelay{50};
  std::promise<void> begun, all_there, done;
  std::vector<int> order;  // Of the scheduler's thread, until it is done.
  bool early = false;      // The same.
  const auto ran = [&](int which) {
    order.push_back(which);
    if (order.size() == 4) {
      done.set_value();
    }
  };
  Scheduler scheduler;  // It ends before what its functions use.
  scheduler.after(milliseconds(0), [&, there = all_there.get_future().share()] {
    begun.set_value();
    there.wait();
  });
  EXPECT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  const auto due = Scheduler::Clock::now() + kDelay;
  scheduler.after(kDelay, [&] {
    early = Scheduler::Clock::now() < due;
    ran(4);
  });
  scheduler.after(std::chrono::hours(-1), [&] { ran(3); });
  scheduler.after(std::chrono::hours(-2), [&] { ran(2); });
  scheduler.after(std::chrono::hours(-3), [&] { ran(1); });
  all_there.set_value();
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_FALSE(early);
}

TEST(Scheduler, DropsWhatIsToComeWhenItStops) {
  Scheduler scheduler;
  bool ran = false;
  scheduler.after(std::chrono::hours(1), [&] { ran = true; });
  scheduler.stop();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace audiogen::worker
