// The door to what the queue of record looks like: what waits, and what has begun lately.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/domain/outlook.h"
#include "common/store/door.h"

namespace audiogen::store {

// What one look reads at most: open tasks, above which it counts nothing, and tasks among the
// newest that have begun.
inline constexpr std::uint64_t kOpenSeen = 20'000, kStartsSeen = 500;

// See Door for threads, blocking and failures.
class QueueFigures : private Door {
 public:
  explicit QueueFigures(Session& session) : Door(session) {}

  // Without locks: a task that others hold is in nobody's way.
  Result<QueueSample, Fault> sample();
};

}  // namespace audiogen::store
