// Errors as clients read them.
#include "api/server/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Answer, AnErrorOfTheTwoEndpointsNamesNoMember) {
  const auto response = error_response(invalid_request("x is wrong."), "r-1");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            R"({"error":{"code":"invalid_request","message":"x is wrong.","request_id":"r-1"}})");
  EXPECT_EQ(response.headers,
            "Content-Type: application/json\r\nCache-Control: no-store\r\nX-Request-Id: r-1\r\n");
}

TEST(Answer, AnErrorMayNameTheMemberAtFault) {
  const auto response = error_response(invalid_parameter("limit", "limit is wrong."), "r-1");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(
      response.body,
      R"({"error":{"code":"invalid_request","message":"limit is wrong.","request_id":"r-1","param":"limit"}})");
}

TEST(Answer, AConflictThatStaysIsNotWorthRepeating) {
  for (const ApiError& error :
       {already_final(TaskState::kSucceeded), not_final(), limit_reached("At most 50 keys.")}) {
    const auto response = error_response(error, "r-1");
    EXPECT_EQ(response.status, 409);
    EXPECT_THAT(response.headers, HasSubstr("\r\nx-should-retry: false\r\n"));
    EXPECT_THAT(response.body, HasSubstr(error_name(error.code)));
  }
  const auto scope = error_response(insufficient_scope("manage"), "r-1");
  EXPECT_EQ(scope.status, 403);
  EXPECT_THAT(scope.body, HasSubstr("\"insufficient_scope\""));
  // What clients of the two endpoints have always got.
  EXPECT_THAT(error_response(idempotency_conflict(), "r-1").headers, Not(HasSubstr("retry")));
}

}  // namespace
}  // namespace audiogen::api
