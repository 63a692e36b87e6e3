// The error table of the interface, and the catalogue of voices.
#include "common/domain/api_error.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/voices.h"

namespace audiogen {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(ApiError, HasTheStatusAndNameOfTheInterface) {
  struct Case {
    ApiError error;
    int status;
    const char* name;
  };
  for (const Case& c : {Case{invalid_request("x"), 400, "invalid_request"},
                        Case{invalid_api_key(), 401, "invalid_api_key"},
                        Case{insufficient_credits(), 402, "insufficient_credits"},
                        Case{api_access_required(), 403, "api_access_required"},
                        Case{task_not_found(), 404, "task_not_found"},
                        Case{not_found(), 404, "not_found"},
                        Case{method_not_allowed(), 405, "method_not_allowed"},
                        Case{idempotency_conflict(), 409, "idempotency_conflict"},
                        Case{rate_limit_exceeded(3s), 429, "rate_limit_exceeded"},
                        Case{service_unavailable(), 503, "service_unavailable"}}) {
    EXPECT_EQ(http_status(c.error.code), c.status);
    EXPECT_EQ(error_name(c.error.code), c.name);
    EXPECT_FALSE(c.error.message.empty());
    EXPECT_EQ(c.error.retry_after.has_value(), c.status == 429 || c.status == 503) << c.name;
  }
}

TEST(ApiError, SaysWhatToDo) {
  EXPECT_EQ(invalid_request("prompt is required.").message, "prompt is required.");
  EXPECT_THAT(insufficient_credits().message, HasSubstr("At least 150 credits are required"));
  EXPECT_THAT(rate_limit_exceeded(7s).message, HasSubstr("7 s"));
  EXPECT_EQ(rate_limit_exceeded(7s).retry_after, 7s);
  EXPECT_GE(service_unavailable().retry_after, 1s);
}

TEST(Voices, AreSortedDistinctAndListed) {
  const auto ids = voice_ids();
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  const std::string list = voice_list();
  for (const auto id : ids) {
    EXPECT_TRUE(is_voice(id));
    EXPECT_THAT(list, HasSubstr(std::string(id)));
  }
  EXPECT_TRUE(is_voice(kDefaultVoice));
  for (const char* wrong : {"", "Aria", "aria ", "ari", "zzz", "nova,sage"}) {
    EXPECT_FALSE(is_voice(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace audiogen
