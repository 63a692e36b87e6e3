#include "worker/job/workers_told.h"

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using std::chrono::seconds;

TEST(WorkersTold, MoreAreBelievedAtOnceFewerAfterAWhile) {
  const auto start = std::chrono::steady_clock::now();
  WorkersTold workers;
  EXPECT_EQ(workers.count(), 1U);
  workers.tell(4, start + seconds(1));
  EXPECT_EQ(workers.count(), 4U);
  for (int at = 2; at < 17; ++at) {
    workers.tell(2, start + seconds(at));
    EXPECT_EQ(workers.count(), 4U) << at;
  }
  workers.tell(2, start + seconds(17));
  EXPECT_EQ(workers.count(), 2U);
  workers.tell(1, start + seconds(18));
  EXPECT_EQ(workers.count(), 2U) << "those went since";
}

TEST(WorkersTold, WhoIsBackEndsTheWhile) {
  const auto start = std::chrono::steady_clock::now();
  WorkersTold workers;
  workers.tell(4, start);
  for (int at = 1; at < 40; ++at) {
    workers.tell(at % 10 == 0 ? 4 : 3, start + seconds(at));
    EXPECT_EQ(workers.count(), 4U) << at;
  }
}

// The first to tell is the only one that was seen lately.
TEST(WorkersTold, AnOutageIsNobodysSilence) {
  const auto start = std::chrono::steady_clock::now();
  WorkersTold workers;
  workers.tell(4, start);
  workers.tell(3, start + seconds(1));
  workers.tell(1, start + seconds(60));
  EXPECT_EQ(workers.count(), 4U);
  for (int at = 61; at < 75; ++at) {
    workers.tell(1, start + seconds(at));
    EXPECT_EQ(workers.count(), 4U) << at;
  }
  workers.tell(1, start + seconds(75));
  EXPECT_EQ(workers.count(), 1U);
}

}  // namespace
}  // namespace audiogen::worker
