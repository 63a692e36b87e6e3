// Origins as browsers write them.
#include "common/base/origin.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(Origin, IsWrittenAsBrowsersDo) {
  struct Case {
    const char* url;
    const char* text;
    bool secure, loopback, bare;
  };
  for (const Case& c :
       {Case{"https://example.com", "https://example.com", true, false, true},
        Case{"HTTPS://Example.COM:443/", "https://example.com", true, false, false},
        Case{"http://example.com:80", "http://example.com", false, false, true},
        Case{"https://example.com:80/x", "https://example.com:80", true, false, false},
        Case{"http://127.0.0.1:8080", "http://127.0.0.1:8080", false, true, true},
        Case{"http://127.1.2.3?a", "http://127.1.2.3", false, true, false},
        Case{"http://LOCALHOST:8080", "http://localhost:8080", false, true, true},
        Case{"http://[0:0::1]:8080", "http://[::1]:8080", false, true, true},
        Case{"http://[2001:DB8::1]", "http://[2001:db8::1]", false, false, true},
        Case{"http://0.0.0.0:1", "http://0.0.0.0:1", false, false, true},
        Case{"http://127.example.com", "http://127.example.com", false, false, true},
        Case{"http://10.0.0.1#a", "http://10.0.0.1", false, false, false}}) {
    const auto origin = parse_origin(c.url);
    ASSERT_TRUE(origin) << c.url;
    EXPECT_EQ(origin->text, c.text);
    EXPECT_EQ(origin->secure, c.secure) << c.url;
    EXPECT_EQ(origin->loopback, c.loopback) << c.url;
    EXPECT_EQ(origin->bare, c.bare) << c.url;
  }
}

TEST(Origin, IsOfAWebAddressOnly) {
  for (const char* url : {"",
                          "example.com",
                          "ftp://example.com",
                          "http://",
                          "http:///x",
                          "http://:80",
                          "http://ann@example.com",
                          "http://a:b@example.com",
                          "http://example.com:",
                          "http://example.com:0",
                          "http://example.com:65536",
                          "http://example.com:80x",
                          "http://exa mple.com",
                          "http://[::1",
                          "http://[::1]8080",
                          "http://[x]",
                          "http://a;script-src"}) {
    EXPECT_FALSE(parse_origin(url)) << url;
  }
}

}  // namespace
}  // namespace audiogen
