// Cursors: they come back as they were, or not at all.
#include "api/server/cursor.h"

#include <gtest/gtest.h>

namespace audiogen::api {
namespace {

TEST(Cursor, GoesThereAndBack) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{24}, kCursorMax}) {
    std::vector<std::uint8_t> position(size);
    for (std::size_t i = 0; i < size; ++i) {
      position[i] = static_cast<std::uint8_t>(255 - i);
    }
    const std::string text = encode_cursor(3, position);
    EXPECT_EQ(text.find_first_of("+/=&% "), std::string::npos) << "needs no encoding in a query";
    EXPECT_EQ(decode_cursor(3, text), position);
    EXPECT_EQ(decode_cursor(4, text), std::nullopt) << "of another version";
  }
}

TEST(Cursor, IsRefusedWhenItIsNotOne) {
  const std::string good = encode_cursor(1, std::vector<std::uint8_t>{1, 2, 3});
  for (const std::string& wrong : {std::string(),
                                   std::string("AQ"),  // The version alone.
                                   good + "=",
                                   good.substr(1),
                                   std::string("x y"),
                                   std::string("AQ") + std::string(10'000, 'A')}) {
    EXPECT_EQ(decode_cursor(1, wrong), std::nullopt) << wrong.substr(0, 40);
  }
  EXPECT_FALSE(decode_cursor(1, "AQ" + std::string(kCursorMax * 4 / 3 + 1, 'A')));
}

}  // namespace
}  // namespace audiogen::api
