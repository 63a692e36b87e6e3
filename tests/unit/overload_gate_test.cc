// Who is refused under overload, in a time of its own.
#include "common/base/overload_gate.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSlack = 10;

class OverloadGateTest : public testing::Test {
 protected:
  bool refuses(std::chrono::milliseconds waited, std::size_t queued) {
    return gate_.refuses(now_, now_ - waited, [&] { return queued; });
  }
  // The oldest of the queue had waited that long when its turn came.
  void begun(std::chrono::milliseconds waited) { gate_.begun(now_, now_ - waited); }
  void overload() {
    begun(101ms);
    ASSERT_TRUE(refuses(0ms, kSlack + 1));
    begun(0ms);
  }

  OverloadGate gate_{{.burst = 100ms, .standing = 20ms, .slack = kSlack}};
  OverloadGate::Clock::time_point now_{1h};
};

TEST_F(OverloadGateTest, TakesABurst) {
  begun(100ms);
  EXPECT_FALSE(refuses(0ms, 5'000));
  EXPECT_FALSE(refuses(100ms, 5'000));
}

TEST_F(OverloadGateTest, RefusesBehindAQueueThatIsTooSlow) {
  begun(101ms);
  EXPECT_TRUE(refuses(0ms, kSlack + 1));
}

TEST_F(OverloadGateTest, RefusesWhatComesOutOfTheSocketTooLate) {
  EXPECT_TRUE(refuses(101ms, kSlack + 1));
}

// What the next transactions take is no backlog.
TEST_F(OverloadGateTest, APauseRefusesNobody) {
  begun(5s);
  EXPECT_FALSE(refuses(0ms, kSlack));
  EXPECT_FALSE(refuses(5s, kSlack));
}

TEST_F(OverloadGateTest, AnOverloadIsHeldToAShorterQueue) {
  begun(21ms);
  EXPECT_FALSE(refuses(0ms, kSlack + 1));
  overload();
  begun(20ms);
  EXPECT_FALSE(refuses(0ms, kSlack + 1));
  begun(21ms);
  EXPECT_TRUE(refuses(0ms, kSlack + 1));
  EXPECT_FALSE(refuses(0ms, kSlack));
}

// Whatever the queue: it is the processor that lacks, and a short queue is its effect.
TEST_F(OverloadGateTest, AnOverloadRefusesEverythingThatWaitedInTheSocket) {
  EXPECT_FALSE(refuses(21ms, 0));
  overload();
  EXPECT_TRUE(refuses(21ms, 0));
  EXPECT_FALSE(refuses(20ms, 0));
}

TEST_F(OverloadGateTest, AnOverloadPassesInASecond) {
  overload();
  now_ += 999ms;
  EXPECT_TRUE(refuses(21ms, 0));
  now_ += 1ms;
  EXPECT_FALSE(refuses(21ms, 0));
}

TEST_F(OverloadGateTest, ManyRefusalsKeepAnOverloadUp) {
  overload();
  now_ += 999ms;
  for (std::size_t i = 0; i <= kSlack; ++i) {
    EXPECT_TRUE(refuses(21ms, 0));
  }
  now_ += 999ms;
  EXPECT_TRUE(refuses(21ms, 0));
}

}  // namespace
}  // namespace audiogen
