// Base64url against the vectors of RFC 4648 section 10, without their padding.
#include "common/base/base64.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

std::vector<std::uint8_t> bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

TEST(Base64Url, WritesAndReadsTheVectors) {
  for (const auto& [plain, encoded] : {std::pair<std::string_view, std::string_view>{"", ""},
                                       {"f", "Zg"},
                                       {"fo", "Zm8"},
                                       {"foo", "Zm9v"},
                                       {"foob", "Zm9vYg"},
                                       {"fooba", "Zm9vYmE"},
                                       {"foobar", "Zm9vYmFy"},
                                       {"\xFB\xFF\xBF", "-_-_"}}) {
    EXPECT_EQ(encode_base64url(bytes(plain)), encoded);
    EXPECT_EQ(decode_base64url(encoded), bytes(plain)) << encoded;
  }
}

TEST(Base64Url, ReadsNothingElse) {
  for (const char* wrong : {"Zg==", "Zh", "Zm9", "Z", "Zm9vY", "Zm+v", "Zm/v", "Zm9v ", "Zm\n9v"}) {
    EXPECT_FALSE(decode_base64url(wrong)) << wrong;
  }
  EXPECT_FALSE(decode_base64url(std::string_view("Zm9\0", 4)));
}

}  // namespace
}  // namespace audiogen
