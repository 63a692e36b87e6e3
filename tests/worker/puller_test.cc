// How often a worker looks for tasks that no hint brings.
#include "worker/upkeep/puller.h"

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

TEST(PauseOfPull, ALostHintCostsSecondsAndManyNoneEach) {
  EXPECT_EQ(pause_of_pull(true, false, false), 3s) << "hints come: it only reads";
  // A broker without memory takes none from the API, and a worker that sends none cannot see that:
  // each lone task waited for 3 s.
  EXPECT_LE(pause_of_pull(true, false, true), 500ms);
  EXPECT_LE(pause_of_pull(false, false, false), 500ms);
  for (const bool hints_come : {false, true}) {
    EXPECT_LE(pause_of_pull(hints_come, true, true), 250ms) << hints_come;
  }
}

}  // namespace
}  // namespace audiogen::worker
