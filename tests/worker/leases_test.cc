// A worker stops by its own clock, whatever the database says, or does not say.
#include "worker/job/leases.h"

#include <gtest/gtest.h>

#include "common/store/session.h"
#include "tests/support/wait.h"
#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

// With a database that nobody reaches.
class LeasesTest : public testing::Test {
 protected:
  LeasesTest() { store::init_driver(); }
  ~LeasesTest() override {
    scheduler_.stop();
    leases_.stop();
  }
  // Its lease was asked for so long ago.
  JobPtr enter(std::chrono::seconds ago) {
    EXPECT_TRUE(roster_.reserve(Lane::kBulk, kMany));
    JobPtr job = idle_job(TaskId::make(), 0, ago);
    roster_.enter(job, Lane::kBulk);
    return job;
  }

  Roster roster_{3, [] {}};
  Scheduler scheduler_;
  Leases leases_{
      {.user = "u", .password = "p", .host = "127.0.0.1", .database = "d", .socket = "", .port = 1},
      WorkerId::make(),
      roster_,
      scheduler_};
};

TEST_F(LeasesTest, AJobIsLostOnceItsLeaseIsOverAndNoOtherIs) {
  const JobPtr over = enter(kLeaseSelfStop), good = enter(0s);
  EXPECT_TRUE(test::eventually(30s, [&] { return over->is_lost(); }));
  EXPECT_FALSE(good->is_lost());
  EXPECT_EQ(roster_.size(), 2U) << "whoever carries it drops it";
}

TEST_F(LeasesTest, SaysByHowMuchTheLatestRenewalIsLate) {
  EXPECT_EQ(leases_.lag(), 0ms);
  enter(0s);
  enter(kLeaseRenew + 3s);
  EXPECT_TRUE(test::eventually(30s, [&] { return leases_.lag() >= 3s; }));
}

}  // namespace
}  // namespace audiogen::worker
