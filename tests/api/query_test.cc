// Query parameters: what is read, and how a wrong one is named.
#include "api/server/query.h"

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

namespace audiogen::api {
namespace {

Result<Query, ApiError> parse(std::string_view text) {
  return Query::parse(text, {"limit", "cursor", "created_after"});
}

TEST(Query, ReadsWhatFormsWrite) {
  const auto query = parse("cursor=a%2Bb%3d&created_after=2026-01-01+00%3A00&limit=7");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->text("cursor"), "a+b=");
  EXPECT_EQ(query->text("created_after"), "2026-01-01 00:00");
  EXPECT_EQ(*query->page_limit(), 7);
}

TEST(Query, WhatIsNotThereHasADefault) {
  for (const char* text : {"", "&", "&&"}) {
    const auto query = parse(text);
    ASSERT_TRUE(query) << text;
    EXPECT_EQ(query->text("cursor"), std::nullopt);
    EXPECT_EQ(*query->page_limit(), 20);
  }
  EXPECT_EQ(parse("cursor=")->text("cursor"), "");
  EXPECT_EQ(parse("cursor")->text("cursor"), "");
  EXPECT_EQ(parse("cursor=a=b")->text("cursor"), "a=b");
  EXPECT_EQ(parse("%63ursor=x&")->text("cursor"), "x");
}

TEST(Query, NamesTheParameterAtFault) {
  struct Case {
    std::string text, param;
  };
  for (const Case& c : {Case{"page=2", "page"},
                        Case{"limit=1&limit=1", "limit"},
                        Case{"cursor=%", "cursor"},
                        Case{"cursor=%4", "cursor"},
                        Case{"cursor=%4g", "cursor"},
                        Case{"cursor=%00", "cursor"},
                        Case{"cursor=%0A", "cursor"},
                        Case{"cursor=%7F", "cursor"},
                        Case{"cursor=%FF", "cursor"},
                        Case{"cursor=" + std::string(513, 'x'), "cursor"}}) {
    const auto query = parse(c.text);
    ASSERT_FALSE(query) << c.text;
    EXPECT_EQ(query.error().code, ApiErrorCode::kInvalidRequest);
    EXPECT_EQ(query.error().param, c.param) << c.text;
    EXPECT_TRUE(query.error().message.starts_with(c.param)) << query.error().message;
  }
  EXPECT_TRUE(parse("cursor=" + std::string(512, 'x')));
  EXPECT_TRUE(parse("cursor=%C3%A9"));
}

// What schema/openapi.json gives as an example is what is answered.
TEST(Query, AnUnknownParameterIsToldAsItIsDescribed) {
  std::ifstream in(OPENAPI_FILE);
  std::ostringstream text;
  text << in.rdbuf();
  rapidjson::Document document;
  document.Parse(text.str().c_str());
  ASSERT_FALSE(document.HasParseError()) << OPENAPI_FILE;
  const rapidjson::Pointer example(
      "/get/responses/400/content/application~1json/examples/unknown/value/error");
  int examples = 0;
  for (const auto& path : document["paths"].GetObject()) {
    if (const rapidjson::Value* const error = example.Get(path.value)) {
      const std::string param = (*error)["param"].GetString();
      EXPECT_EQ((*error)["message"].GetString(), parse(param + "=1").error().message)
          << path.name.GetString();
      ++examples;
    }
  }
  EXPECT_GT(examples, 0);
}

// A key pasted into an address is no reason to show it once more.
TEST(Query, ShowsNothingThatMayBeASecret) {
  for (const std::string& name : {std::string("svc_live_4f9a"),
                                  std::string("Token"),
                                  std::string(33, 'a'),
                                  std::string("%ff"),
                                  std::string("=x"),
                                  std::string("a%22b")}) {
    const auto query = parse(name + "=1");
    ASSERT_FALSE(query) << name;
    EXPECT_EQ(query.error().param, std::nullopt) << name;
    EXPECT_EQ(query.error().message.find(name), std::string::npos) << name;
  }
  EXPECT_EQ(parse("limit=secret")->page_limit().error().message.find("secret"), std::string::npos);
}

TEST(Query, TimesAreMovedToWhatADatabaseHolds) {
  const auto time = [](const std::string& text) {
    const auto out = Query::parse("at=" + text, {"at"})->time("at");
    EXPECT_TRUE(out) << text;
    return out && *out ? format_iso(**out) : "none";
  };
  EXPECT_EQ(time("2026-11-01T01:00:00%2B01:00"), "2026-11-01T00:00:00.000Z");
  EXPECT_EQ(time("0001-01-01T00:00:00Z"), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(time("9999-12-31T00:00:00Z"), "9999-01-01T00:00:00.000Z");
  EXPECT_FALSE(*Query::parse("", {"at"})->time("at"));
  for (const char* const wrong : {"", "now", "2026-11-01", "2026-02-30T00:00:00Z"}) {
    const auto out = Query::parse(std::string("at=") + wrong, {"at"})->time("at");
    ASSERT_FALSE(out) << wrong;
    EXPECT_EQ(out.error().param, "at");
    EXPECT_EQ(out.error().message, "at must be an RFC 3339 time such as 2026-11-01T00:00:00Z.");
  }
}

TEST(Query, NumbersHaveBounds) {
  for (const char* good : {"1", "100", "007"}) {
    EXPECT_TRUE(parse(std::string("limit=") + good)->page_limit()) << good;
  }
  for (const char* wrong : {"",
                            "0",
                            "101",
                            "-1",
                            "+1",
                            "1.0",
                            "1e2",
                            "x",
                            "1x",
                            "%31+",
                            "0x1",
                            "99999999999999999999"}) {
    const auto limit = parse(std::string("limit=") + wrong)->page_limit();
    ASSERT_FALSE(limit) << wrong;
    EXPECT_EQ(limit.error().param, "limit");
    EXPECT_EQ(limit.error().message, "limit must be a whole number from 1 to 100.");
  }
}

}  // namespace
}  // namespace audiogen::api
