#include "common/base/percent.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

using namespace std::string_literals;

TEST(Percent, IsTakenOff) {
  for (const auto& decode : {percent_decode, form_decode}) {
    EXPECT_EQ(decode(""), "");
    EXPECT_EQ(decode("plain/text?&=#"), "plain/text?&=#");
    EXPECT_EQ(decode("%41%6a%6A"), "Ajj");
    EXPECT_EQ(decode("%2B%25%20"), "+% ");
    EXPECT_EQ(decode("%2541"), "%41") << "once";
    EXPECT_EQ(decode("a%00b"), "a\0b"s);
    EXPECT_EQ(decode("%ff\xC3"), "\xFF\xC3") << "bytes, whatever they mean";
  }
}

TEST(Percent, APlusIsASpaceInFormsAlone) {
  EXPECT_EQ(percent_decode("a+b"), "a+b");
  EXPECT_EQ(form_decode("a+b"), "a b");
}

TEST(Percent, WithoutTwoDigitsItIsNothing) {
  for (const char* const text :
       {"%", "a%", "%4", "%4g", "%g4", "%%41", "% 41", "%+1", "%-1", "%0x41", "%4\xC3"}) {
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
    EXPECT_EQ(form_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace audiogen
