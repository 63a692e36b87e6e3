// What is written is read back by a parser of other making.
#include "common/base/json.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

namespace audiogen {
namespace {

TEST(Json, EveryAsciiCharacterSurvivesAsAString) {
  std::string text;
  for (char c = 0; c < 0x7F; ++c) {
    text += c;
  }
  text += "\x7F \xC3\xA9 \xE6\x97\xA5 \xF0\x9F\x98\x80";
  std::string out = "x";
  append_json_string(out, text);
  for (const char c : out) {
    EXPECT_FALSE(c >= 0 && c < ' ');
  }
  rapidjson::Document read;
  read.Parse(out.c_str() + 1);
  ASSERT_TRUE(read.IsString()) << out;
  EXPECT_EQ(std::string(read.GetString(), read.GetStringLength()), text);
}

TEST(Json, OnlyWhatMustIsEscaped) {
  std::string out;
  append_json_escaped(out, "a\"b\\c/d\n\x1F\x7F\xC3\xA9");
  EXPECT_EQ(out, "a\\\"b\\\\c/d\\u000a\\u001f\x7F\xC3\xA9");
  append_json_escaped(out, "");
  append_json_string(out = "", "");
  EXPECT_EQ(out, "\"\"");
}

TEST(Json, TheWriterSetsTheCommas) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("a", 1).key("empty").begin_object().end_object();
  json.key("list").begin_array().value(1).value("two").null().begin_object().member("x", true);
  json.end_object().begin_array().end_array().end_array().foreign_key("\"y").value(2);
  json.member("z", false).end_object();
  EXPECT_EQ(out, R"({"a":1,"empty":{},"list":[1,"two",null,{"x":true},[]],"\"y":2,"z":false})");
}

TEST(Json, EveryKindOfValue) {
  std::string out;
  JsonWriter json(out);
  const TaskId id = TaskId::make();
  json.begin_array()
      .value(std::numeric_limits<std::int64_t>::min())
      .value(std::numeric_limits<std::uint64_t>::max())
      .value(std::uint8_t{7})
      .value(std::string("s"))
      .value(Instant(std::chrono::microseconds(0)))
      .value(id)
      .value(std::optional<int>())
      .value(std::optional<std::string_view>("v"))
      .raw("1.5")
      .end_array();
  EXPECT_EQ(out,
            R"([-9223372036854775808,18446744073709551615,7,"s","1970-01-01T00:00:00.000Z",")" +
                id.text() + R"(",null,"v",1.5])");
}

}  // namespace
}  // namespace audiogen
