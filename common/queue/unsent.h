// Which tasks' hints the broker may not have, by the second in which the tasks' ids were made.
// Pure; one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace audiogen::queue {

class UnsentHints {
 public:
  // Before the task's transaction: its hint is missing until it is settled.
  void expect(TaskId task);
  // The broker has confirmed it, or there is no such task. Others than those expected are ignored.
  void settled(TaskId task);
  // Ids made before that are not waited for any more.
  void forget(Instant before);

  // No task whose hint is missing, or will be, sorts below this. `now` by the clock that makes ids.
  TaskId from(Instant now) const;
  // No hint is missing.
  bool empty() const { return open_.empty(); }

 private:
  std::map<std::chrono::sys_seconds, std::size_t> open_;  // Never 0.
};

}  // namespace audiogen::queue
