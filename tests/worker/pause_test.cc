// A pause between two calls keeps nobody who leaves.
#include "worker/job/pause.h"

#include <atomic>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/wait.h"
#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

class PauseTest : public testing::Test {
 protected:
  void begin(const JobPtr& job, std::chrono::milliseconds length) {
    pause(scheduler_, job, length, [this] { ++ended_; });
  }
  std::atomic<int> ended_{0};
  Scheduler scheduler_;
};

TEST_F(PauseTest, EndsByItselfAndOnce) {
  const JobPtr job = idle_job();
  begin(job, 1ms);
  ASSERT_TRUE(test::eventually(30s, [&] { return ended_ == 1; }));
  job->give_back();
  begin(idle_job(), 50ms);  // By then the first would have ended once more.
  ASSERT_TRUE(test::eventually(30s, [&] { return ended_ >= 2; }));
  EXPECT_EQ(ended_, 2);
}

TEST_F(PauseTest, EndsAtOnceWhenItsJobIsGivenBackOrLost) {
  const JobPtr given_back = idle_job(), lost = idle_job();
  begin(given_back, 1h);
  begin(lost, 1h);
  given_back->give_back();
  EXPECT_TRUE(test::eventually(30s, [&] { return ended_ == 1; }));
  lost->lose(false);
  EXPECT_TRUE(test::eventually(30s, [&] { return ended_ == 2; }));
}

TEST_F(PauseTest, OfAJobThatWasGivenBackBeforeEndsAtOnce) {
  const JobPtr job = idle_job();
  job->give_back();
  begin(job, 1h);
  EXPECT_TRUE(test::eventually(30s, [&] { return ended_ == 1; }));
}

TEST_F(PauseTest, KeepsNoJobWhenTheSchedulerHasStopped) {
  JobPtr job = idle_job();
  begin(job, 1h);
  const std::weak_ptr<Job> left = job;
  job.reset();
  EXPECT_FALSE(left.expired()) << "it is to go on";
  scheduler_.stop();
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace audiogen::worker
