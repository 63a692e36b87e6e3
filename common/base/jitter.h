// Spreads out in time what would else happen everywhere at once.
#pragma once

#include <random>

namespace audiogen {

// In [-1, 1), each time another. Thread-safe, never blocks.
inline double jitter() {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_real_distribution<double>(-1.0, 1.0)(random);
}

}  // namespace audiogen
