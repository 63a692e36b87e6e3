#include "worker/job/scheduler.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;

TEST(Scheduler, RunsInTheOrderOfTimeNotOfCalling) {
  Scheduler scheduler;
  std::vector<int> order;
  std::promise<void> done;
  scheduler.after(milliseconds(60), [&] {
    order.push_back(3);
    done.set_value();
  });
  scheduler.after(milliseconds(30), [&] { order.push_back(2); });
  scheduler.after(milliseconds(0), [&] { order.push_back(1); });
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
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
