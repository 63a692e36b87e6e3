#include "common/domain/call_failure.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(CallFailure, IsToldByTheStatusThatWasRecorded) {
  for (const int busy : {429, 503, 529}) {
    EXPECT_EQ(call_failure("HTTP " + std::to_string(busy)), CallFailure::kBusy) << busy;
  }
  for (const char* refused : {"HTTP 400", "HTTP 400 invalid_value voice", "HTTP 401", "HTTP 499"}) {
    EXPECT_EQ(call_failure(refused), CallFailure::kRefused) << refused;
  }
  for (const char* trouble : {"HTTP 500", "HTTP 502 upstream", "HTTP 599"}) {
    EXPECT_EQ(call_failure(trouble), CallFailure::kTrouble) << trouble;
  }
  EXPECT_EQ(call_failure("bad audio: empty"), CallFailure::kUnusable);
}

TEST(CallFailure, OfWhatSaysNoMoreNothingIsMadeUp) {
  for (const char* other : {"",
                            "HTTP",
                            "HTTP ",
                            "HTTP x",
                            "HTTP 200",
                            "HTTP 600",
                            "HTTP 99999999999",
                            "HTTP/2 stream 429",
                            "connection refused"}) {
    EXPECT_EQ(call_failure(other), CallFailure::kOther) << other;
  }
}

}  // namespace
}  // namespace audiogen
