// The access log holds up nobody: what there is no room for is lost, and counted.
#include "api/server/access_log.h"

#include <algorithm>
#include <any>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/metrics.h"

namespace audiogen::api {
namespace {

using testing::HasSubstr;
using testing::Not;

http::Answered some_answer(const http::Request& request, const std::any& note) {
  return {.request = request,
          .note = &note,
          .status = 202,
          .headers = "Content-Type: a/b\r\nX-Request-Id: req-of-mine\r\nAllow: GET\r\n",
          .bytes = 5,
          .took = std::chrono::milliseconds(250)};
}

TEST(AccessLog, ALineForWhichThereIsNoRoomIsCountedAndLost) {
  auto& dropped = metrics::counter("access_log_dropped_total",
                                   "Lines of the access log that were lost: too many waited");
  const double before = dropped.Value();
  const http::Request request;
  const std::any note;
  testing::internal::CaptureStderr();
  {
    AccessLog log(0);
    log.answered(some_answer(request, note));
    EXPECT_EQ(dropped.Value(), before + 1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(AccessLog, WhatWaitsIsWrittenBeforeTheEnd) {
  const http::Request request;
  const std::any note;
  testing::internal::CaptureStderr();
  {
    AccessLog log;
    for (int i = 0; i < 300; ++i) {
      log.answered(some_answer(request, note));
    }
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 300);
  EXPECT_THAT(lines, HasSubstr(R"("request_id":"req-of-mine")"));
  EXPECT_THAT(lines, HasSubstr(R"("seconds":0.25)"));
  EXPECT_THAT(lines, Not(HasSubstr("Allow")));
}

}  // namespace
}  // namespace audiogen::api
