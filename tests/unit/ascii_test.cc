// The classes of characters, checked over all 256 bytes.
#include "common/base/ascii.h"

#include <gtest/gtest.h>

namespace audiogen::ascii {
namespace {

TEST(Ascii, EveryByteIsInItsClasses) {
  const std::string_view upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const std::string_view lower_case = "abcdefghijklmnopqrstuvwxyz";
  const std::string_view digits = "0123456789";
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto in = [c](std::string_view set) { return set.find(c) != std::string_view::npos; };
    EXPECT_EQ(is_upper(c), in(upper)) << byte;
    EXPECT_EQ(is_lower(c), in(lower_case)) << byte;
    EXPECT_EQ(is_digit(c), in(digits)) << byte;
    EXPECT_EQ(is_alnum(c), in(upper) || in(lower_case) || in(digits)) << byte;
    EXPECT_EQ(is_visible(c), byte > 0x20 && byte < 0x7F) << byte;
    EXPECT_EQ(is_control(c), byte < 0x20 || byte == 0x7F) << byte;
    EXPECT_EQ(lower(c), in(upper) ? lower_case[upper.find(c)] : c) << byte;
    const auto hex = std::string_view("0123456789abcdef").find(lower(c));
    EXPECT_EQ(hex_value(c), hex == std::string_view::npos ? -1 : static_cast<int>(hex)) << byte;
  }
}

TEST(Ascii, TextIsLoweredAndCompared) {
  EXPECT_EQ(lower("Ab-\xC3\x84 9Z"), "ab-\xC3\x84 9z");
  EXPECT_TRUE(equals_ignoring_case("ChunKed", "chunked"));
  EXPECT_TRUE(equals_ignoring_case("", ""));
  EXPECT_FALSE(equals_ignoring_case("chunke", "chunked"));
  EXPECT_FALSE(equals_ignoring_case("chunkedd", "chunked"));
  EXPECT_FALSE(equals_ignoring_case("[", "{")) << "only letters have a case";
}

TEST(Ascii, BlanksGoAtTheEndsOnly) {
  EXPECT_EQ(trim(" \t a b\t "), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" \t"), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("\na\r"), "\na\r");
}

}  // namespace
}  // namespace audiogen::ascii
