// What anybody may ask without a key: voices, models, prices.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

Stack::Options without_worker(std::map<std::string, std::string> environment = {}) {
  Stack::Options options;
  options.workers = 0;
  options.environment = std::move(environment);
  return options;
}

TEST(Catalogue, IsForAnybodyAndKept) {
  Stack stack(without_worker());
  for (const char* const path : {"/voices", "/models", "/pricing", "/openapi.json"}) {
    const std::string url = stack.base() + path;
    const Reply reply = stack.judged("GET", path, http("GET", url));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.header("cache-control"), "public, max-age=300");
    EXPECT_EQ(reply.header("ratelimit"), "") << "of a key only";
    const std::string etag = reply.header("etag");
    EXPECT_FALSE(etag.empty());
    const Reply kept = stack.judged("GET", path, http("GET", url, {"If-None-Match: " + etag}));
    EXPECT_EQ(kept.status, 304);
    EXPECT_EQ(kept.header("etag"), etag);
    EXPECT_EQ(http("GET", url, {"If-None-Match: \"other\""}).body, reply.body);
    // A key that is sent is not looked at, and pages of other sites may ask.
    const Reply page =
        http("GET", url, {"Authorization: Bearer wrong", "Origin: https://a.example"});
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.header("access-control-allow-origin"), "*");
    const Reply head = http("HEAD", url);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.header("etag"), etag);
    EXPECT_EQ(http("POST", url, {}, "{}").header("allow"), "GET, HEAD");
  }
}

TEST(Catalogue, NamesWhatACreationTakes) {
  Stack stack(without_worker({{"BRAND", "acme"}}));
  const Account ann = stack.account();
  const std::vector<std::string> headers =
      Stack::bearer(ann.key, {"Content-Type: application/json"});
  const auto create = [&](const std::string& more) {
    return http("POST",
                stack.base() + "/audio/generations",
                headers,
                R"({"model":"acme-audio-1.0","prompt":"x",)" + more + "}")
        .status;
  };
  const rapidjson::Document voices = http("GET", stack.base() + "/voices").json();
  EXPECT_GT(voices["data"].Size(), 0U);
  for (const auto& voice : voices["data"].GetArray()) {
    EXPECT_EQ(create(R"("voice":")" + std::string(voice["id"].GetString()) + "\""), 202);
  }
  const rapidjson::Document models = http("GET", stack.base() + "/models").json();
  ASSERT_EQ(models["data"].Size(), 1U);
  const auto& model = models["data"][0];
  EXPECT_STREQ(model["id"].GetString(), "acme-audio-1.0");
  EXPECT_STREQ(model["owned_by"].GetString(), "acme");
  for (const auto& format : model["output_formats"].GetArray()) {
    EXPECT_EQ(create(R"("output_format":")" + std::string(format.GetString()) + "\""), 202);
  }
  for (const auto& rate : model["sample_rates"].GetArray()) {
    EXPECT_EQ(create(R"("sample_rate":)" + std::to_string(rate.GetInt())), 202);
  }
}

TEST(Catalogue, PricesAreTheRulesOfBilling) {
  Stack stack(without_worker());
  EXPECT_EQ(
      http("GET", stack.base() + "/pricing").body,
      R"({"object":"pricing","model":"svc-audio-1.0","credits_per_minute":75,"min_credits":10,)"
      R"("max_credits":150,"reserved_credits":150,"audio_seconds_max":120,"failed_credits":0,)"
      R"("examples":[{"audio_seconds":1.724,"credits":10},{"audio_seconds":15.000,"credits":18.75},)"
      R"({"audio_seconds":120.000,"credits":150}]})");
}

TEST(Catalogue, AnAddressMayAskAsOftenAsForFiles) {
  Stack stack(
      without_worker({{"RATE_LIMIT_FILES_PER_MINUTE", "1"}, {"RATE_LIMIT_FILES_BURST", "4"}}));
  const auto paths = {"/voices", "/models", "/pricing", "/openapi.json"};
  for (const char* const path : paths) {
    EXPECT_EQ(http("GET", stack.base() + path).status, 200);
  }
  for (const char* const path : paths) {
    const Reply refused = stack.judged("GET", path, http("GET", stack.base() + path));
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.text("error.code"), "rate_limit_exceeded");
    EXPECT_NE(refused.header("retry-after"), "");
  }
  EXPECT_EQ(stack.create(stack.account(), Stack::body()).status, 202) << "a class of its own";
}

}  // namespace
}  // namespace audiogen::test
