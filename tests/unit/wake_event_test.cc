// Waking a thread: no ring is lost, and many are one.
#include "common/base/wake_event.h"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

namespace audiogen {
namespace {

// Waits at most ten seconds for a ring.
bool woken(WakeEvent& event) {
  pollfd watched{.fd = event.fd(), .events = POLLIN, .revents = 0};
  ::poll(&watched, 1, 10'000);
  event.answer(watched.revents != 0);
  return watched.revents != 0;
}

bool readable(const WakeEvent& event) {
  pollfd watched{.fd = event.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&watched, 1, 0) == 1;
}

TEST(WakeEventTest, ManyRingsAreOneWakeUp) {
  WakeEvent event;
  EXPECT_FALSE(readable(event));
  event.ring();
  event.ring();
  EXPECT_TRUE(woken(event));
  EXPECT_FALSE(readable(event));
}

TEST(WakeEventTest, RingsAgainAfterAnAnswerWithoutASleep) {
  WakeEvent event;
  event.ring();
  event.answer(false);  // Its poll ended for something else.
  event.ring();
  EXPECT_TRUE(woken(event));
  event.ring();
  EXPECT_TRUE(woken(event));
}

// What is done before a ring is found, whoever rings at the same time.
TEST(WakeEventTest, NoRingIsLost) {
  constexpr int kThreads = 4, kEach = 20'000;
  WakeEvent event;
  std::mutex mutex;
  int waiting = 0;
  std::vector<std::thread> ringing;
  for (int i = 0; i < kThreads; ++i) {
    ringing.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        {
          const std::scoped_lock lock(mutex);
          ++waiting;
        }
        event.ring();
      }
    });
  }
  int found = 0;
  bool rung = true;
  while (found < kThreads * kEach && rung) {
    {
      const std::scoped_lock lock(mutex);
      found += waiting;
      waiting = 0;
    }
    rung = found == kThreads * kEach || woken(event);
  }
  EXPECT_TRUE(rung);
  EXPECT_EQ(found, kThreads * kEach);
  for (std::thread& thread : ringing) {
    thread.join();
  }
}

}  // namespace
}  // namespace audiogen
