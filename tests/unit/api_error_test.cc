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
                        Case{spend_limit_reached({}, {}), 402, "insufficient_credits"},
                        Case{api_access_required(), 403, "api_access_required"},
                        Case{task_not_found(), 404, "task_not_found"},
                        Case{not_found(), 404, "not_found"},
                        Case{method_not_allowed("POST"), 405, "method_not_allowed"},
                        Case{idempotency_conflict(), 409, "idempotency_conflict"},
                        Case{rate_limit_exceeded(3s), 429, "rate_limit_exceeded"},
                        Case{service_unavailable(), 503, "service_unavailable"},
                        Case{invalid_parameter("limit", "x"), 400, "invalid_request"},
                        Case{insufficient_scope("manage"), 403, "insufficient_scope"},
                        Case{generate_scope_required(), 403, "api_access_required"},
                        Case{scope_not_own("manage"), 403, "insufficient_scope"},
                        Case{expiry_not_own("x"), 403, "insufficient_scope"},
                        Case{unknown_member("nmae"), 400, "invalid_request"},
                        Case{key_not_found(), 404, "not_found"},
                        Case{already_final(TaskState::kSucceeded), 409, "already_final"},
                        Case{not_final(), 409, "not_final"},
                        Case{limit_reached("x"), 409, "limit_reached"},
                        Case{invalid_login(), 401, "invalid_login"},
                        Case{not_signed_in(), 401, "invalid_api_key"},
                        Case{step_up_required(), 403, "step_up_required"},
                        Case{cross_site_request(), 403, "cross_site_request"},
                        Case{session_not_found(), 404, "not_found"},
                        Case{other_account(), 409, "other_account"},
                        Case{passkey_not_found(), 404, "not_found"},
                        Case{last_way_in(), 409, "last_way_in"}}) {
    EXPECT_EQ(http_status(c.error.code), c.status);
    EXPECT_EQ(error_name(c.error.code), c.name);
    EXPECT_FALSE(c.error.message.empty());
    EXPECT_EQ(c.error.retry_after.has_value(), c.status == 429 || c.status == 503) << c.name;
  }
}

TEST(ApiError, OnlyAConflictThatStaysIsNotWorthRepeating) {
  for (const ApiError& stays : {already_final(TaskState::kSucceeded),
                                not_final(),
                                limit_reached("x"),
                                other_account(),
                                last_way_in()}) {
    EXPECT_TRUE(retry_is_pointless(stays.code)) << error_name(stays.code);
  }
  for (const ApiError& other : {idempotency_conflict(), service_unavailable(), invalid_api_key()}) {
    EXPECT_FALSE(retry_is_pointless(other.code)) << error_name(other.code);
  }
}

TEST(ApiError, SaysWhatToDo) {
  EXPECT_EQ(invalid_parameter("limit", "x").param, "limit");
  EXPECT_EQ(invalid_request("x").param, std::nullopt);
  EXPECT_THAT(insufficient_scope("manage").message, HasSubstr("manage"));
  EXPECT_THAT(generate_scope_required().message, HasSubstr("generate"));
  EXPECT_EQ(scope_not_own("manage").param, "scopes");
  EXPECT_THAT(expiry_not_own("2027-01-01T00:00:00.000Z").message, HasSubstr("2027-01-01"));
  EXPECT_EQ(expiry_not_own("x").param, "expires_at");
  EXPECT_EQ(unknown_member("nmae").param, "nmae");
  EXPECT_EQ(invalid_request("prompt is required.").message, "prompt is required.");
  EXPECT_THAT(insufficient_credits().message, HasSubstr("At least 150 credits are required"));
  const auto over = spend_limit_reached({credits(1000), SpendPeriod::kDay}, Units{925'500});
  EXPECT_THAT(over.message, HasSubstr("1000 credits a day"));
  EXPECT_THAT(over.message, HasSubstr("925.5"));
  EXPECT_THAT(over.message, HasSubstr("at least 150 credits are required"));
  EXPECT_EQ(over.param, std::nullopt) << "the two endpoints have none";
  EXPECT_EQ(spending_not_own().param, "scopes");
  EXPECT_EQ(limit_not_own("x").param, "spend_limit");
  EXPECT_THAT(rate_limit_exceeded(7s).message, HasSubstr("7 s"));
  EXPECT_EQ(rate_limit_exceeded(7s).retry_after, 7s);
  EXPECT_GE(service_unavailable().retry_after, 1s);
}

// It may be a secret at the wrong place.
TEST(ApiError, ShowsANameOnlyWhenItLooksLikeOne) {
  for (const char* name : {"nmae", "expires_at", "a"}) {
    EXPECT_TRUE(may_be_shown(name)) << name;
  }
  for (const std::string& name : {std::string(),
                                  std::string("Name"),
                                  std::string("a1"),
                                  std::string("a b"),
                                  std::string("\xC3\xA4"),
                                  std::string(33, 'a')}) {
    EXPECT_FALSE(may_be_shown(name)) << name;
    EXPECT_EQ(unknown_member(name).param, std::nullopt);
  }
}

TEST(Voices, AreSortedDistinctAndListed) {
  const std::string list = voice_list();
  std::string_view last;
  for (const Voice& voice : voices()) {
    EXPECT_LT(last, voice.id);
    last = voice.id;
    EXPECT_TRUE(is_voice(voice.id));
    EXPECT_THAT(list, HasSubstr(std::string(voice.id)));
    EXPECT_FALSE(voice.name.empty() || voice.description.empty()) << voice.id;
    EXPECT_EQ(voice.language.empty(), voice.id == kSceneVoice) << voice.id;
    EXPECT_FALSE(voice.sample.empty()) << voice.id;
  }
  EXPECT_TRUE(is_voice(kDefaultVoice));
  for (const char* wrong : {"", "Aria", "aria ", "ari", "zzz", "nova,sage"}) {
    EXPECT_FALSE(is_voice(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace audiogen
