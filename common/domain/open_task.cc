#include "common/domain/open_task.h"

#include "common/domain/outlook.h"

namespace audiogen {

std::string_view cause_name(Cause cause) {
  switch (cause) {
    case Cause::kNoWorker:
      return "no_worker";
    case Cause::kOwnTasks:
      return "own_tasks";
    case Cause::kRetry:
      return "retry";
    case Cause::kReference:
      return "reference";
    case Cause::kProvider:
      return "provider";
    case Cause::kLeaseOver:
      break;
  }
  return "worker_lost";
}

std::optional<Cause> cause_of(const TaskView& task,
                              const std::optional<Instant>& lease_until,
                              Instant now) {
  const auto waits = waiting_on(task, now);
  if (!waits) {
    return std::nullopt;
  }
  if (task.state == TaskState::kRunning && lease_until && *lease_until <= now) {
    return Cause::kLeaseOver;
  }
  if (task.state == TaskState::kQueued && task.lane == Lane::kParked) {
    return Cause::kOwnTasks;
  }
  switch (*waits) {
    case WaitingOn::kCapacity:
      return Cause::kNoWorker;
    case WaitingOn::kProvider:
      return Cause::kProvider;
    case WaitingOn::kRetry:
      return Cause::kRetry;
    case WaitingOn::kReference:
      break;
  }
  return Cause::kReference;
}

}  // namespace audiogen
