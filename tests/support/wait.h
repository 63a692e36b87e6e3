// Waiting in tests: for an event, with a deadline. Nothing else in the tests sleeps.
#pragma once

#include <chrono>
#include <thread>

namespace audiogen::test {

// Spaces out what a test sends or how often it looks.
inline void pace(std::chrono::milliseconds gap) {
  std::this_thread::sleep_for(gap);
}

// Asks `done` until it says yes, every few milliseconds, at most for `limit`. False: it never did.
template <class Condition>
bool eventually(std::chrono::milliseconds limit, const Condition& done) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    pace(std::chrono::milliseconds(3));
  }
  return true;
}

}  // namespace audiogen::test
