// What a client may say about a key.
#include "common/domain/key_request.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen {
namespace {

using testing::HasSubstr;

TEST(NewKeyRequest, HasDefaults) {
  const auto terms = parse_new_key(R"({"name":"laptop"})");
  ASSERT_TRUE(terms) << terms.error().message;
  EXPECT_EQ(terms->name, "laptop");
  EXPECT_EQ(terms->scopes, kUsualScopes);
  EXPECT_EQ(terms->expires_at, std::nullopt);
}

TEST(KeyRotation, SaysForHowLongBothWork) {
  for (const int hours : {0, 1, 168}) {
    const auto overlap = parse_key_rotation(R"({"overlap_hours":)" + std::to_string(hours) + "}");
    ASSERT_TRUE(overlap) << hours;
    EXPECT_EQ(overlap->count(), hours);
  }
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::optional<std::string>>>{
           {"{}", "overlap_hours"},
           {R"({"overlap_hours":null})", "overlap_hours"},
           {R"({"overlap_hours":"1"})", "overlap_hours"},
           {R"({"overlap_hours":-1})", "overlap_hours"},
           {R"({"overlap_hours":169})", "overlap_hours"},
           {R"({"overlap_hours":1.5})", "overlap_hours"},
           {R"({"overlap_hours":168.5})", "overlap_hours"},
           {R"({"overlap_hours":-0.5})", "overlap_hours"},
           {R"({"overlap_hours":1e300})", "overlap_hours"},
           {R"({"overlap_hours":4294967297})", "overlap_hours"},
           {R"({"overlap_hours":true})", "overlap_hours"},
           {R"({"overlap_hours":1,"overlap_hours":1})", "overlap_hours"},
           {R"({"overlap":1})", "overlap"},
           {R"({"svc_live_4f9a":1})", std::nullopt},
           {"[]", std::nullopt},
           {"7", std::nullopt},
           {"", std::nullopt}}) {
    const auto overlap = parse_key_rotation(body);
    ASSERT_FALSE(overlap) << body;
    EXPECT_EQ(overlap.error().code, ApiErrorCode::kInvalidRequest);
    EXPECT_EQ(overlap.error().param, param) << body;
  }
}

// To JSON Schema a number without a fraction is an integer, however it is written.
TEST(KeyRequest, IntegersMayBeWrittenWithADot) {
  for (const char* const hours : {"24", "24.0", "2.4e1", "2400E-2"}) {
    const auto overlap = parse_key_rotation(R"({"overlap_hours":)" + std::string(hours) + "}");
    ASSERT_TRUE(overlap) << hours;
    EXPECT_EQ(overlap->count(), 24) << hours;
  }
  EXPECT_EQ(parse_key_rotation(R"({"overlap_hours":0.0})")->count(), 0);
  EXPECT_EQ(parse_key_rotation(R"({"overlap_hours":168.0})")->count(), 168);
  for (const auto& [text, amount] : {std::pair("150.0", 150),
                                     {"1000.0", 1'000},
                                     {"1e3", 1'000},
                                     {"1000000000.0", 1'000'000'000}}) {
    const auto terms = parse_new_key(R"({"name":"k","spend_limit":{"period":"day","credits":)" +
                                     std::string(text) + "}}");
    ASSERT_TRUE(terms) << text << ": " << terms.error().message;
    EXPECT_EQ(terms->spend_limit, (SpendLimit{credits(amount), SpendPeriod::kDay})) << text;
  }
}

TEST(NewKeyRequest, HasScopesAndAnEnd) {
  const auto terms = parse_new_key(
      R"( {"expires_at":"2027-01-01T01:00:00+01:00","scopes":["manage","generate"],"name":"k"} )");
  ASSERT_TRUE(terms) << terms.error().message;
  EXPECT_TRUE(terms->scopes.has(Scope::kManage) && terms->scopes.has(Scope::kGenerate));
  EXPECT_EQ(format_iso(*terms->expires_at), "2027-01-01T00:00:00.000Z");
  EXPECT_EQ(parse_new_key(R"({"name":"k","scopes":[]})")->scopes, Scopes{});
}

TEST(NewKeyRequest, NamesTheMemberAtFault) {
  struct Case {
    std::string body, param;
  };
  for (const Case& c : {Case{R"({})", "name"},
                        Case{R"({"name":7})", "name"},
                        Case{R"({"name":null})", "name"},
                        Case{R"({"name":""})", "name"},
                        Case{R"({"name":" a"})", "name"},
                        Case{R"({"name":"a\u0000b"})", "name"},
                        Case{R"({"name":"a\nb"})", "name"},
                        Case{"{\"name\":\"a\u200Bb\"}", "name"},
                        Case{R"({"name":"a\u202Eb"})", "name"},
                        Case{R"({"name":"a","spend_limit":null})", "spend_limit"},
                        Case{R"({"name":")" + std::string(101, 'a') + R"("})", "name"},
                        Case{R"({"name":"a","name":"b"})", "name"},
                        Case{R"({"name":"a","scopes":"manage"})", "scopes"},
                        Case{R"({"name":"a","scopes":null})", "scopes"},
                        Case{R"({"name":"a","scopes":["admin"]})", "scopes"},
                        Case{R"({"name":"a","scopes":[1]})", "scopes"},
                        Case{R"({"name":"a","scopes":["manage","manage"]})", "scopes"},
                        Case{R"({"name":"a","scopes":[],"scopes":[]})", "scopes"},
                        Case{R"({"name":"a","expires_at":"tomorrow"})", "expires_at"},
                        Case{R"({"name":"a","expires_at":1893456000})", "expires_at"},
                        Case{R"({"name":"a","expires_at":null})", "expires_at"},
                        Case{R"({"nmae":"a"})", "nmae"}}) {
    const auto terms = parse_new_key(c.body);
    ASSERT_FALSE(terms) << c.body;
    EXPECT_EQ(terms.error().code, ApiErrorCode::kInvalidRequest);
    EXPECT_EQ(terms.error().param, c.param) << c.body;
    EXPECT_THAT(terms.error().message, HasSubstr(c.param));
  }
}

TEST(NewKeyRequest, ANameThatIsRefusedIsToldWhy) {
  EXPECT_THAT(parse_new_key(R"({"name":"a\u202Eb"})").error().message,
              HasSubstr("invisible or change the direction of text"));
}

TEST(NewKeyRequest, HasALimit) {
  const auto terms =
      parse_new_key(R"({"name":"k","spend_limit":{"period":"month","credits":25000}})");
  ASSERT_TRUE(terms) << terms.error().message;
  EXPECT_EQ(terms->spend_limit, (SpendLimit{credits(25'000), SpendPeriod::kMonth}));
  EXPECT_EQ(parse_new_key(R"({"name":"k"})")->spend_limit, std::nullopt);
  for (const char* const wrong : {"7",
                                  "[]",
                                  "{}",
                                  R"({"credits":1000})",
                                  R"({"period":"day"})",
                                  R"({"credits":149,"period":"day"})",
                                  R"({"credits":1000000001,"period":"day"})",
                                  R"({"credits":-1000,"period":"day"})",
                                  R"({"credits":1000.5,"period":"day"})",
                                  R"({"credits":149.0,"period":"day"})",
                                  R"({"credits":1e300,"period":"day"})",
                                  R"({"credits":"1000","period":"day"})",
                                  R"({"credits":null,"period":"day"})",
                                  R"({"credits":1000,"period":"week"})",
                                  R"({"credits":1000,"period":1})",
                                  R"({"credits":1000,"period":"day","period":"day"})",
                                  R"({"credits":1000,"credits":1000,"period":"day"})",
                                  R"({"credits":1000,"period":"day","per":1})"}) {
    for (const std::string& limit : {std::string(wrong), std::string(wrong) + R"(,"name":"a")"}) {
      const std::string body = R"({"spend_limit":)" + limit + "}";
      const auto refused = parse_key_change(body);
      ASSERT_FALSE(refused) << body;
      EXPECT_EQ(refused.error().param, "spend_limit") << body;
      EXPECT_THAT(refused.error().message, HasSubstr("from 150 to 1000000000")) << body;
    }
  }
}

TEST(NewKeyRequest, SaysHowLongANameIs) {
  const std::string longest(100, 'a');
  EXPECT_EQ(parse_new_key(R"({"name":")" + longest + R"("})")->name, longest);
  for (const std::string& name : {std::string(), longest + "a"}) {
    EXPECT_THAT(parse_new_key(R"({"name":")" + name + R"("})").error().message,
                HasSubstr("must be 1 to 100 characters long"));
  }
}

TEST(NewKeyRequest, IsAJsonObject) {
  for (const std::string& body : {std::string(),
                                  std::string("null"),
                                  std::string("[]"),
                                  std::string("{\"name\":\"a\"} x"),
                                  std::string("{\"name\":\"\xFF\"}"),
                                  std::string("{\"name\":\"a\"}\0", 13),
                                  std::string("{\"svc_live_Ab3d\":1}"),
                                  std::string(100'000, '[')}) {
    const auto terms = parse_new_key(body);
    ASSERT_FALSE(terms) << body;
    EXPECT_EQ(terms.error().param, std::nullopt) << body;
    EXPECT_THAT(terms.error().message, HasSubstr("body"));
    EXPECT_THAT(terms.error().message, testing::Not(HasSubstr("svc_live")));
  }
}

TEST(KeyChangeRequest, IsOfWhatIsGiven) {
  const auto nothing = parse_key_change("{}");
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->name || nothing->scopes || nothing->expires_at || nothing->spend_limit);
  const auto all =
      parse_key_change(R"({"name":"b","scopes":[],"expires_at":"2027-01-01T00:00:00Z"})");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->name, "b");
  EXPECT_EQ(all->scopes, Scopes{});
  EXPECT_EQ(format_iso(all->expires_at->value()), "2027-01-01T00:00:00.000Z");
}

TEST(KeyChangeRequest, AnEndThatIsNullIsNone) {
  const auto never = parse_key_change(R"({"expires_at":null})");
  ASSERT_TRUE(never);
  ASSERT_TRUE(never->expires_at);
  EXPECT_EQ(*never->expires_at, std::nullopt);
  EXPECT_EQ(parse_key_change(R"({"expires_at":null,"expires_at":null})").error().param,
            "expires_at");
  EXPECT_EQ(parse_key_change(R"({"name":null})").error().param, "name");
  const auto unlimited = parse_key_change(R"({"spend_limit":null})");
  ASSERT_TRUE(unlimited && unlimited->spend_limit);
  EXPECT_EQ(*unlimited->spend_limit, std::nullopt);
  EXPECT_FALSE(unlimited->expires_at);
  EXPECT_EQ(parse_key_change(R"({"spend_limit":null,"spend_limit":null})").error().param,
            "spend_limit");
}

}  // namespace
}  // namespace audiogen
