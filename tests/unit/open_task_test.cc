// What keeps an open task from its end.
#include "common/domain/open_task.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using std::chrono::seconds;

const Instant kNow = Instant(std::chrono::hours(500'000));

std::string_view cause(const TaskView& task, std::optional<Instant> lease = std::nullopt) {
  const auto out = cause_of(task, lease, kNow);
  return out ? cause_name(*out) : "none";
}

TEST(CauseOf, IsWhatAnOpenTaskWaitsFor) {
  TaskView task;
  task.next_run_at = kNow;
  EXPECT_EQ(cause(task), "no_worker");
  task.lane = Lane::kParked;
  EXPECT_EQ(cause(task), "own_tasks");
  task.lane = Lane::kExpress;
  task.next_run_at = kNow + seconds(1);
  EXPECT_EQ(cause(task), "retry");
  task.waits_for_reference = true;
  EXPECT_EQ(cause(task), "reference");
  task.state = TaskState::kRunning;
  EXPECT_EQ(cause(task, kNow + seconds(1)), "reference");
  task.waits_for_reference = false;
  EXPECT_EQ(cause(task, kNow + seconds(1)), "provider");
  EXPECT_EQ(cause(task, kNow), "worker_lost");
  for (const TaskState state : {TaskState::kSucceeded, TaskState::kFailed, TaskState::kCanceled}) {
    task.state = state;
    EXPECT_EQ(cause(task), "none");
  }
}

}  // namespace
}  // namespace audiogen
