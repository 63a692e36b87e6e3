// What keeps an open task from its end, as an operator is told. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/time.h"
#include "common/domain/task.h"

namespace audiogen {

enum class Cause : std::uint8_t {
  kNoWorker,   // It is ready, and nobody has taken it.
  kOwnTasks,   // It is parked behind others of its user.
  kRetry,      // It was put back, and is not due.
  kReference,  // What it refers to is fetched, or it was put back because that cannot be yet.
  kProvider,   // A provider works on it.
  kLeaseOver,  // Its worker is lost, its lease over: the sweeper is about to put it back.
};
std::string_view cause_name(Cause cause);  // no_worker, own_tasks, …

// Nullopt: it is final.
std::optional<Cause> cause_of(const TaskView& task,
                              const std::optional<Instant>& lease_until,
                              Instant now);

}  // namespace audiogen
