// What anybody may ask without a key: voices, how they sound, models, prices.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/connect_proxy.h"
#include "tests/support/stack.h"
#include "tests/support/wait.h"

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

class Previews : public testing::Test {
 protected:
  Previews() {
    std::string pattern = std::filesystem::temp_directory_path() / "audiogen-previews-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Previews() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Stack::Options options() const {
    Stack::Options options;
    // One that is missing is made.
    options.environment = {{"VOICE_PREVIEWS_DIR", folder_ + "/previews"}};
    return options;
  }
  std::string file(const std::string& voice) const {
    return folder_ + "/previews/" + voice + ".mp3";
  }

  // How many voices name a preview. The list may be a second old.
  static unsigned listed(Stack& stack) {
    const Reply reply = stack.judged("GET", "/voices", http("GET", stack.base() + "/voices"));
    unsigned count = 0;
    const rapidjson::Document voices = reply.json();
    for (const auto& voice : voices["data"].GetArray()) {
      count += voice["preview_url"].IsString() ? 1U : 0U;
    }
    return count;
  }

  std::string folder_;
};

TEST_F(Previews, AreRenderedOnceAndServed) {
  Stack stack(options());
  const unsigned all = http("GET", stack.base() + "/voices").json()["data"].Size();
  const std::string path = "/voices/{voice_id}/preview",
                    url = stack.base() + "/voices/aria/preview";
  EXPECT_EQ(listed(stack), 0U);
  EXPECT_EQ(stack.judged("GET", path, http("GET", url)).status, 404);

  EXPECT_EQ(stack.admin({"voices", "render"})["rendered"].GetUint(), all);
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] { return listed(stack) == all; }));
  const rapidjson::Document voices = http("GET", stack.base() + "/voices").json();
  for (const auto& voice : voices["data"].GetArray()) {
    const std::string address = voice["preview_url"].GetString();
    EXPECT_EQ(address, stack.base() + "/voices/" + voice["id"].GetString() + "/preview");
    EXPECT_GT(http("GET", address).body.size(), 1000U) << address;
  }

  const Reply whole = http("GET", url, {"Origin: https://a.example"});
  ASSERT_EQ(whole.status, 200);
  EXPECT_EQ(whole.header("content-type"), "audio/mpeg");
  EXPECT_EQ(whole.header("cache-control"), "public, max-age=3600");
  EXPECT_EQ(whole.header("access-control-allow-origin"), "*");
  EXPECT_EQ(whole.header("x-content-type-options"), "nosniff");
  const std::string etag = whole.header("etag");
  const Reply kept = stack.judged("GET", path, http("GET", url, {"If-None-Match: " + etag}));
  EXPECT_EQ(kept.status, 304);
  EXPECT_EQ(kept.header("etag"), etag);
  const Reply part = http("GET", url, {"Range: bytes=10-19", "If-Range: " + etag});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, whole.body.substr(10, 10));
  EXPECT_EQ(part.header("content-range"), "bytes 10-19/" + std::to_string(whole.body.size()));
  const Reply beyond = http("GET", url, {"Range: bytes=9999999-"});
  EXPECT_EQ(stack.judged("GET", path, beyond).status, 416);
  EXPECT_EQ(beyond.header("cache-control"), "no-store") << "a cache goes by the address alone";
  const Reply head = http("HEAD", url);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), std::to_string(whole.body.size()));
  for (const char* const other : {"nobody", "", "..%2Faria", "aria.mp3", "ARIA"}) {
    const Reply none =
        stack.judged("GET", path, http("GET", stack.base() + "/voices/" + other + "/preview"));
    EXPECT_EQ(none.status, 404) << other;
    EXPECT_EQ(none.text("error.code"), "not_found") << other;
  }

  // Whatever an interrupted run left out is made by the next, and nothing else is.
  std::filesystem::remove(file("sage"));
  const auto again = stack.admin({"voices", "render"});
  ASSERT_EQ(again["voices"].Size(), 1U);
  EXPECT_STREQ(again["voices"][0]["id"].GetString(), "sage");
  EXPECT_EQ(stack.admin({"voices", "render"})["rendered"].GetUint(), 0U);
  EXPECT_EQ(http("GET", url).header("etag"), etag);
  EXPECT_EQ(stack.admin({"voices", "render", "--again"})["rendered"].GetUint(), all);
  EXPECT_NE(http("GET", url).header("etag"), etag);

  // By an account of the service's own, whose keys do not stay.
  const auto keys = stack.admin({"key", "list", "--user", "voice-previews@audio.invalid"});
  EXPECT_EQ(keys["keys"].Size(), 3U);
  for (const auto& key : keys["keys"].GetArray()) {
    EXPECT_TRUE(key["deleted_at"].IsString());
  }
  const auto user = stack.admin({"user", "show", "--user", "voice-previews@audio.invalid"});
  EXPECT_EQ(user["reserved_credits"].GetDouble(), 0);
  const auto record = stack.admin({"actions"});
  EXPECT_STREQ(record["actions"][0]["action"].GetString(), "voices render");
  EXPECT_STREQ(record["actions"][0]["result"].GetString(), "ok");
  EXPECT_TRUE(stack.admin({"audit"})["ok"].GetBool());
  stack.database().expect_invariants();
}

TEST_F(Previews, OutliveTheAudioTheyWereMadeAs) {
  Stack::Options with = options();
  with.environment["CDN_SIGNING_KEY"] =
      "0123456789abcdef";  // Its address expires, theirs does not.
  Stack stack(with);
  stack.admin({"voices", "render"});
  const auto tasks = stack.admin({"task", "list"});
  const std::string key = stack
                              .admin({"key",
                                      "create",
                                      "--user",
                                      "voice-previews@audio.invalid",
                                      "--name",
                                      "to delete with"})["key"]
                              .GetString();
  for (const auto& task : tasks["tasks"].GetArray()) {
    const std::string generation = stack.base() + "/audio/generations/" + task["id"].GetString();
    EXPECT_EQ(http("DELETE", generation, Stack::bearer(key)).status, 204);
    // A poll has the interface's members; since when the file is gone, lists tell.
    const auto polled = http("GET", generation, Stack::bearer(key)).json();
    EXPECT_EQ(polled["output"].MemberCount(), 3U);
    EXPECT_TRUE(polled["output"].HasMember("url"));
  }
  const auto listed = http("GET", stack.base() + "/audio/generations", Stack::bearer(key)).json();
  for (const auto& generation : listed["data"].GetArray()) {
    EXPECT_TRUE(generation["output"].HasMember("deleted_at"));
  }
  EXPECT_GT(tasks["tasks"].Size(), 0U);
  EXPECT_EQ(http("GET", stack.base() + "/voices/aria/preview").status, 200);
}

TEST_F(Previews, ThatCannotBeMadeAreTold) {
  Stack::Options without = options();
  without.workers = 0;
  Stack stack(without);
  // Nobody listens on port 1.
  const Output output =
      stack.admin_raw({"voices", "render", "--url", "http://127.0.0.1:1", "--json"});
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.out.find(R"("rendered":0)"), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("not reached (--url)"), std::string::npos) << output.out;
  EXPECT_FALSE(std::filesystem::exists(file("aria")));
  // Two lines of the record: that it began, with its first change, and what came of it.
  const auto record = stack.admin({"actions"});
  const unsigned all = http("GET", stack.base() + "/voices").json()["data"].Size();
  ASSERT_EQ(record["actions"].Size(), 2U);
  for (const auto& line : record["actions"].GetArray()) {
    EXPECT_STREQ(line["action"].GetString(), "voices render");
  }
  EXPECT_STREQ(record["actions"][1]["result"].GetString(), "ok");
  EXPECT_STREQ(record["actions"][0]["result"].GetString(), "failed");
  EXPECT_EQ(record["actions"][0]["message"].GetString(), "kept 0 of " + std::to_string(all));

  Stack elsewhere(without_worker());
  const Output unset = elsewhere.admin_raw({"voices", "render"});
  EXPECT_EQ(unset.code, 1);
  EXPECT_NE(unset.out.find("VOICE_PREVIEWS_DIR"), std::string::npos) << unset.out;
  EXPECT_EQ(listed(elsewhere), 0U);
}

// As every call of the programs does.
TEST_F(Previews, AreAskedForByTheProxyThatCallsGoOutBy) {
  const ConnectProxy proxy;
  Stack::Options out = options();
  out.workers = 0;
  out.environment["EGRESS_PROXY"] = proxy.url();
  out.environment["CONTACT"] = "ops@example.com";
  Stack stack(out);
  const Output output = stack.admin_raw({"voices", "render", "--url", "http://service.invalid"});
  EXPECT_EQ(output.code, 1) << "the proxy was never there";
  const std::vector<std::string> heads = proxy.heads();
  ASSERT_FALSE(heads.empty()) << output.out;
  EXPECT_NE(heads.front().find("service.invalid"), std::string::npos) << heads.front();
  EXPECT_NE(heads.back().find("(+ops@example.com)"), std::string::npos) << heads.back();
}

}  // namespace
}  // namespace audiogen::test
