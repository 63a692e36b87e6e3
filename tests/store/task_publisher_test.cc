// What an API process says of the hints of its tasks: a sweeper leaves those alone that count as
// sent. Without a broker.
#include <gtest/gtest.h>

#include "api/generations/publishing.h"
#include "tests/support/test_database.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using store::Sql;

class TaskPublisherTest : public testing::Test {
 protected:
  TaskPublisherTest() {
    config_.database = db_.url();
    config_.amqp = {.user = "u", .password = "p", .host = "127.0.0.1", .port = 1};
    publisher_.emplace(
        config_, id_, std::vector<const http::RequestMeter*>{&creations_, &console_});
  }
  std::int64_t row(const Sql& what) {
    return db_.number(Sql("SELECT ").append(what) << " FROM api_processes WHERE id=" << id_);
  }
  // As one that has ended and left nothing.
  bool counts_as_ended() { return row(Sql("seen_at<=UTC_TIMESTAMP(6) - INTERVAL 60 SECOND")) == 1; }

  test::TestDatabase db_;
  Config config_;
  const ApiId id_ = ApiId::make();
  http::RequestMeter creations_{"/test/publisher"}, console_{"/test/publisher/console"};
  const TaskId task_ = TaskId::make();
  std::optional<TaskPublisher> publisher_;
};

// Else a sweeper would take another process's word for its first task.
TEST_F(TaskPublisherTest, TheDatabaseKnowsOfItBeforeItsFirstTask) {
  EXPECT_EQ(row(Sql("COUNT(*)")), 1);
}

TEST_F(TaskPublisherTest, AHintThatNobodyConfirmedIsMissingToTheEnd) {
  publisher_->expect(task_);
  publisher_->publish(task_, Lane::kExpress, {});
  publisher_->stop(0ms);
  EXPECT_EQ(row(Sql("unsent_from<=") << task_), 1);
  EXPECT_FALSE(counts_as_ended());
}

// Nobody knows whether it was committed: the sweeper looks.
TEST_F(TaskPublisherTest, SoIsOneThatNobodyKnowsOf) {
  publisher_->expect(task_);
  publisher_->stop(0ms);
  EXPECT_EQ(row(Sql("unsent_from<=") << task_), 1);
  EXPECT_FALSE(counts_as_ended());
}

// A pause refuses at both doors. What it refused at the console's was taken for what was refused
// for want of room at the other one, later.
TEST_F(TaskPublisherTest, WhatAPauseRefusedHidesNothingElse) {
  const auto refuse = [](http::RequestMeter& route, int times) {
    for (int i = 0; i < times; ++i) {
      route.count("POST", 503);
    }
  };
  paused_creations().Increment(20);
  refuse(console_, 20);
  refuse(creations_, 10);
  publisher_->stop(0ms);
  EXPECT_EQ(row(Sql("refused")), 10);
}

TEST_F(TaskPublisherTest, WhatIsParkedOrWasNotMadeHasNone) {
  const TaskId other = TaskId::make();
  publisher_->expect(task_);
  publisher_->expect(other);
  publisher_->publish(task_, Lane::kParked, {});
  publisher_->forget(other);
  publisher_->stop(0ms);
  EXPECT_TRUE(counts_as_ended());
}

}  // namespace
}  // namespace audiogen::api
