// Well-formed UTF-8 and nothing else.
#include "common/base/utf8.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(Utf8, LengthsOfSequences) {
  EXPECT_EQ(utf8_sequence_length(""), 0U);
  EXPECT_EQ(utf8_sequence_length(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(utf8_sequence_length("\x7F"), 1U);
  EXPECT_EQ(utf8_sequence_length("\xC2\x80"), 2U);
  EXPECT_EQ(utf8_sequence_length("\xDF\xBF"
                                 "x"),
            2U);
  EXPECT_EQ(utf8_sequence_length("\xE0\xA0\x80"), 3U);
  EXPECT_EQ(utf8_sequence_length("\xEF\xBF\xBF"), 3U);
  EXPECT_EQ(utf8_sequence_length("\xF0\x90\x80\x80"), 4U);
  EXPECT_EQ(utf8_sequence_length("\xF4\x8F\xBF\xBF"), 4U);
  for (const char* bad : {"\x80",
                          "\xBF",
                          "\xC0\xAF",
                          "\xC1\xBF",
                          "\xC2",
                          "\xC2x",
                          "\xE0\x9F\xBF",
                          "\xED\xA0\x80",
                          "\xE2\x82",
                          "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80",
                          "\xFF"}) {
    EXPECT_EQ(utf8_sequence_length(bad), 0U) << bad;
  }
}

TEST(Utf8, CharactersOfSequences) {
  EXPECT_EQ(utf8_code_point(std::string_view("\0", 1)), U'\0');
  EXPECT_EQ(utf8_code_point("\x7F"), U'\x7F');
  EXPECT_EQ(utf8_code_point("\xC2\x80"), U'\x80');
  EXPECT_EQ(utf8_code_point("\xDF\xBF"), U'\x7FF');
  EXPECT_EQ(utf8_code_point("\xE0\xA0\x80"), U'\x800');
  EXPECT_EQ(utf8_code_point("\xEF\xBF\xBF"), U'\xFFFF');
  EXPECT_EQ(utf8_code_point("\xF0\x90\x80\x80"), U'\x10000');
  EXPECT_EQ(utf8_code_point("\xF4\x8F\xBF\xBF"), U'\x10FFFF');
}

TEST(Utf8, CharactersAreCounted) {
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8E\xB5"), 4U);
  EXPECT_EQ(utf8_length("\xE2\x82"
                        "a\xFF"),
            4U)
      << "what is malformed counts byte by byte";
}

TEST(Utf8, ClippedTextIsWellFormed) {
  EXPECT_EQ(clip_utf8("", 5), "");
  EXPECT_EQ(clip_utf8("abcdef", 5), "abcde");
  EXPECT_EQ(clip_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8E\xB5x", 3),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8E\xB5");
  EXPECT_EQ(clip_utf8("\xFF"
                      "a\x80",
                      9),
            "?a?");
  EXPECT_EQ(clip_utf8("\xC0\xAF", 9), "??") << "overlong";
  EXPECT_EQ(clip_utf8("\xE0\x80\xAF", 9), "???") << "overlong";
  EXPECT_EQ(clip_utf8("\xED\xA0\x80", 9), "???") << "surrogate";
  EXPECT_EQ(clip_utf8("\xF4\x90\x80\x80", 9), "????") << "above U+10FFFF";
  EXPECT_EQ(clip_utf8("\xE2\x82", 9), "??") << "cut";
}

}  // namespace
}  // namespace audiogen
