// The states of a task, why one fails, and their names.
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

}  // namespace
}  // namespace audiogen
