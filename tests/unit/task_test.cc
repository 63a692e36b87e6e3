// The states of a task, their names, and the waits between attempts.
#include "common/domain/task.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

constexpr TaskState kStates[] = {TaskState::kQueued,
                                 TaskState::kRunning,
                                 TaskState::kSucceeded,
                                 TaskState::kFailed,
                                 TaskState::kCanceled};
constexpr FailureCode kFailures[] = {FailureCode::kProviderUnavailable,
                                     FailureCode::kProviderRejected,
                                     FailureCode::kContentRejected,
                                     FailureCode::kUnsupportedInput,
                                     FailureCode::kReferenceUnavailable,
                                     FailureCode::kDeadlineExceeded,
                                     FailureCode::kInternalError};

TEST(Task, EveryTransitionIsAsTheDiagramSays) {
  struct Row {
    TaskEvent event;
    std::string to[5];  // From queued, running, succeeded, failed, canceled; "" = not allowed.
  };
  const Row table[] = {
      {TaskEvent::kClaim, {"running", "", "", "", ""}},
      {TaskEvent::kRetry, {"", "queued", "", "", ""}},
      {TaskEvent::kReap, {"", "queued", "", "", ""}},
      {TaskEvent::kSucceed, {"", "succeeded", "", "", ""}},
      {TaskEvent::kFail, {"", "failed", "", "", ""}},
      {TaskEvent::kCancel, {"canceled", "canceled", "", "", ""}},
      {TaskEvent::kDeadline, {"failed", "failed", "", "", ""}},
  };
  for (const Row& row : table) {
    for (std::size_t i = 0; i < 5; ++i) {
      const auto to = next_state(kStates[i], row.event);
      EXPECT_EQ(to ? state_name(*to) : "", row.to[i])
          << state_name(kStates[i]) << " on event " << static_cast<int>(row.event);
    }
  }
}

TEST(Task, ClientsSeeProcessingUntilATaskWaitsForAnotherAttempt) {
  EXPECT_EQ(public_status(TaskState::kQueued, 0), "processing");
  EXPECT_EQ(public_status(TaskState::kRunning, 1), "processing");
  EXPECT_EQ(public_status(TaskState::kQueued, 1), "queued");
  EXPECT_EQ(public_status(TaskState::kRunning, 2), "processing");
  EXPECT_EQ(public_status(TaskState::kSucceeded, 1), "succeeded");
  EXPECT_EQ(public_status(TaskState::kFailed, 5), "failed");
  EXPECT_EQ(public_status(TaskState::kCanceled, 0), "canceled");
}

TEST(Task, NamesReadBack) {
  for (const TaskState state : kStates) {
    EXPECT_EQ(parse_state(state_name(state)), state);
  }
  EXPECT_FALSE(parse_state("processing"));
  EXPECT_FALSE(parse_state(""));
  EXPECT_FALSE(parse_state("QUEUED"));
}

TEST(Task, FailuresHaveDistinctNamesAndOneLine) {
  std::set<std::string_view> names;
  for (const FailureCode code : kFailures) {
    names.insert(failure_code_name(code));
    const std::string message(failure_message(code));
    EXPECT_GT(message.size(), 20U);
    EXPECT_TRUE(message.ends_with('.'));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(names.size(), std::size(kFailures));
}

TEST(Task, OnlyWhatMayPassIsRetriable) {
  EXPECT_TRUE(failure_retriable(FailureCode::kProviderUnavailable));
  EXPECT_FALSE(failure_retriable(FailureCode::kProviderRejected));
  EXPECT_FALSE(failure_retriable(FailureCode::kContentRejected));
  EXPECT_FALSE(failure_retriable(FailureCode::kUnsupportedInput));
  EXPECT_TRUE(failure_retriable(FailureCode::kReferenceUnavailable));
  EXPECT_TRUE(failure_retriable(FailureCode::kDeadlineExceeded));
  EXPECT_TRUE(failure_retriable(FailureCode::kInternalError));
}

TEST(Task, WaitsGrowAndSpread) {
  EXPECT_EQ(retry_delay(1, 0), 2s);
  EXPECT_EQ(retry_delay(2, 0), 8s);
  EXPECT_EQ(retry_delay(3, 0), 30s);
  EXPECT_EQ(retry_delay(4, 0), 90s);
  EXPECT_EQ(retry_delay(1000, 0), 90s);
  EXPECT_EQ(retry_delay(1, 1), 2400ms);
  EXPECT_EQ(retry_delay(1, -1), 1600ms);
  EXPECT_EQ(retry_delay(4, 0.5), 99s);
}

TEST(TaskDeathTest, WaitsAreForAttemptsThatWereMade) {
  EXPECT_DEATH(static_cast<void>(retry_delay(0, 0)), "claims >= 1");
  EXPECT_DEATH(static_cast<void>(retry_delay(1, 1.01)), "jitter");
}

}  // namespace
}  // namespace audiogen
