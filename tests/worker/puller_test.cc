// How often a worker looks for tasks that no hint brings.
#include "worker/upkeep/puller.h"

#include <gtest/gtest.h>

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;

TEST(PauseOfPull, ALostHintCostsSecondsAndManyNoneEach) {
  EXPECT_EQ(pause_of_pull(true, false, false, 0ms), 3s) << "hints come: it only reads";
  // A broker without memory takes none from the API, and a worker that sends none cannot see that:
  // each lone task waited for 3 s.
  EXPECT_LE(pause_of_pull(true, false, true, 0ms), 500ms);
  EXPECT_LE(pause_of_pull(false, false, false, 0ms), 500ms);
  for (const bool hints_come : {false, true}) {
    EXPECT_LE(pause_of_pull(hints_come, true, true, 0ms), 250ms) << hints_come;
  }
}

// Thousands that wait for a provider here were read twenty times a second.
TEST(PauseOfPull, ALookThatTakesLongIsTakenLessOften) {
  EXPECT_EQ(pause_of_pull(false, true, true, 10ms), pause_of_pull(false, true, true, 0ms));
  EXPECT_EQ(pause_of_pull(false, true, true, 100ms), 400ms);
  EXPECT_EQ(pause_of_pull(false, true, true, 1min), 3s)
      << "but often enough for a hint that is lost";
}

}  // namespace
}  // namespace audiogen::worker
