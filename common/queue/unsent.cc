// Hints are counted by the second, not kept: what is missing is looked at second by second, too.
#include "common/queue/unsent.h"

#include <algorithm>

namespace audiogen::queue {
namespace {

std::chrono::sys_seconds second_of(TaskId task) {
  return std::chrono::floor<std::chrono::seconds>(made_at(task.uuid));
}

}  // namespace

void UnsentHints::expect(TaskId task) {
  ++open_[second_of(task)];
}

void UnsentHints::settled(TaskId task) {
  const auto found = open_.find(second_of(task));
  if (found != open_.end() && --found->second == 0) {
    open_.erase(found);
  }
}

void UnsentHints::forget(Instant before) {
  open_.erase(open_.begin(), open_.lower_bound(std::chrono::floor<std::chrono::seconds>(before)));
}

TaskId UnsentHints::from(Instant now) const {
  // An id is made shortly before it is expected: one second for that.
  const auto next = std::chrono::floor<std::chrono::seconds>(now) - std::chrono::seconds(1);
  return {first_uuid_at(open_.empty() ? next : std::min(open_.begin()->first, next))};
}

}  // namespace audiogen::queue
