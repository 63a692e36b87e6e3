// This machine's own clocks, for whoever compares them with the database's. Tests put others in
// their place.
#pragma once

#include <chrono>
#include <functional>

#include "common/base/time.h"

namespace audiogen {

struct LocalClocks {
  // Never set, only runs.
  std::function<std::chrono::steady_clock::time_point()> steady = [] {
    return std::chrono::steady_clock::now();
  };
  // What people set, and what makes ids.
  std::function<Instant()> wall = local_now;
};

}  // namespace audiogen
