// Validators: when a client that has it already gets 304.
#include "api/server/etag.h"

#include <string>

#include <gtest/gtest.h>

#include "common/http/framer.h"

namespace audiogen::api {
namespace {

bool matches(const std::string& lines, std::string_view etag) {
  http::Framer framer;
  framer.append("GET / HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n");
  EXPECT_EQ(framer.advance(http::FramerLimits{}), http::Framer::Status::kComplete) << lines;
  return none_match(framer.request(), etag);
}

TEST(ETag, IsOfTheContent) {
  EXPECT_EQ(strong_etag("a"), strong_etag("a"));
  EXPECT_NE(strong_etag("a"), strong_etag("b"));
  EXPECT_TRUE(strong_etag("").starts_with('"'));
  EXPECT_TRUE(strong_etag("").ends_with('"'));
}

TEST(ETag, IsFoundInTheList) {
  for (const char* lines : {"If-None-Match: \"a\"\r\n",
                            "If-None-Match: W/\"a\"\r\n",
                            "If-None-Match: *\r\n",
                            "If-None-Match: \"b\", \"a\"\r\n",
                            "If-None-Match: \"b\",W/\"a\" ,\"c\"\r\n",
                            "If-None-Match: \"x,y\", \"a\"\r\n",
                            "If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n"}) {
    EXPECT_TRUE(matches(lines, "\"a\"")) << lines;
  }
  for (const char* lines : {"",
                            "If-None-Match: \"b\"\r\n",
                            "If-None-Match: a\r\n",
                            "If-None-Match: \"aa\"\r\n",
                            "If-None-Match: \"b\"a\"\r\n",
                            "If-None-Match: \"a\r\n",
                            "If-None-Match: \"*\"\r\n",
                            "If-None-Match: \r\n"}) {
    EXPECT_FALSE(matches(lines, "\"a\"")) << lines;
  }
}

}  // namespace
}  // namespace audiogen::api
