// How many of a process's latest creations were refused because it had no room or no database: what
// tells operators that clients are turned away while every number of the queue looks well.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

namespace audiogen {

// Answers to creations.
struct CreationCount {
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;  // Of these, with 503; not what an operator has paused.

  // 0 to 1; 0 where there was none to refuse.
  double refused_share() const {
    return answered == 0 ? 0 : static_cast<double>(refused) / static_cast<double>(answered);
  }
};

// Those of the last minute, from counts that only grow. For one thread at a time.
class Refusals {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSpan{60};

  // `so_far`: since the process began. The answer is of at least kSpan once that much is known, and
  // of no more than that and the time between two looks. At most one look a second is kept.
  CreationCount look(Clock::time_point now, CreationCount so_far);

 private:
  struct Look {
    Clock::time_point at;
    CreationCount so_far;
  };
  std::deque<Look> looks_;  // The first is the newest of those that are kSpan old, if any is.
};

}  // namespace audiogen
