// Which addresses may be given: every spelling of a private host that resolvers understand.
#include "common/domain/public_url.h"

#include <array>
#include <string>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace audiogen {
namespace {

using testing::HasSubstr;

TEST(PublicUrl, TakesPublicAddresses) {
  for (const char* url : {"https://example.com/a.mp3",
                          "http://example.com",
                          "HTTPS://Example.COM/A.MP3",
                          "https://example.com:443/a",
                          "http://example.com:80?x=1",
                          "https://a-b.c_d.example.co.uk/p%20q?x[0]=1&u=http://127.0.0.1/#f",
                          "https://xn--bcher-kva.example/a",
                          "https://1.1.1.1/a",
                          "https://93.184.216.34/a",
                          "https://[2606:4700:4700::1111]/a",
                          "https://[2606:4700:4700::1111]:443/a",
                          "https://example.com/@user",
                          "https://local.example.com/",
                          "https://localhost.example.com/",
                          "https://10.example.com/",
                          "https://r1---sn-x.example.com/",
                          "https://bucket.s3.eu-west-1.amazonaws.com/k?X-Amz-Signature=0a"}) {
    const auto result = check_public_url(url);
    EXPECT_TRUE(result) << url << ": " << result.error().message;
  }
}

TEST(PublicUrl, RefusesPrivateHostsInEverySpelling) {
  for (const char* host :
       {// Loopback.
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "0x7F.0.0.1",
        "0177.0.0.1",
        "0177.0.0.01",
        "127.0.0.0x1",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.1.",
        "127.1.",
        "0",
        "0x0",
        "0x",
        "00.0.0.0",
        // This network, private, shared, link-local (and the metadata service).
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.1",
        "3232235777",
        // Special purposes, multicast, reserved, broadcast.
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        // Numbers that are no address at all.
        "256.1.1.1",
        "1.2.3.4.5",
        "1.2.3",
        "99999999999",
        "1.2.3.04",
        "example.1",
        "example.0x1",
        "1..2.3",
        // IPv6: unspecified, loopback, mapped, compatible, NAT64, local NAT64, 6to4, Teredo,
        // unique local, link-local, site-local, multicast, documentation, discard.
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:8.8.8.8]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::8.8.8.8]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:808:808::1]",
        "[2001::1]",
        "[2001:1ff::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[fc00::1]",
        "[fd12:3456::1]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "[fe80::1%eth0]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[5f00::1]",
        "[4000::1]",
        "[::1",
        "::1",
        "[127.0.0.1]",
        "[]",
        "[1::2]x",
        "x[::1]",
        // Names.
        "localhost",
        "LOCALHOST",
        "LocalHost",
        "localhost.",
        "a.localhost",
        "foo.LocalHost.",
        "localhost.localdomain",
        "printer.local",
        "db.internal",
        "metadata.google.internal",
        "metadata",
        "intranet",
        "host.intranet",
        "nas.lan",
        "nas.home",
        "x.home.arpa",
        "1.0.0.127.in-addr.arpa",
        "build.corp",
        "x.private",
        "abc.onion",
        "com",
        "example",
        // Names that are none.
        "exa mple.com",
        "-a.example.com",
        "a-.example.com",
        "a..example.com",
        ".example.com",
        "example.com.",
        "example.com..",
        "exa$mple.com",
        "exa+mple.com",
        "a,b.com",
        "*.example.com",
        // Percent-encoded and full-width.
        "127.0.0.%31",
        "%31%32%37.0.0.1",
        "loc%61lhost",
        "example%2Ecom",
        "%00.example.com",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "ｌｏｃａｌｈｏｓｔ",
        "bücher.example",
        "127。0。0。1",
        // User names and other ports.
        "user@example.com",
        "user:pw@example.com",
        "example.com@127.0.0.1",
        "@example.com",
        "example.com:22",
        "example.com:8080",
        "example.com:",
        "example.com:080",
        "example.com:443x",
        "example.com:+80",
        "example.com:80:80",
        "example.com:65616",
        "1.1.1.1:6379",
        "[2606:4700:4700::1111]:25",
        "[2606:4700:4700::1111]80"}) {
    for (const char* scheme : {"http://", "https://"}) {
      for (const char* tail : {"", "/", "/a.mp3", "?x", "#x"}) {
        const std::string url = std::string(scheme) + host + tail;
        EXPECT_FALSE(check_public_url(url)) << url;
      }
    }
  }
}

TEST(PublicUrl, RefusesOtherSchemesAndForms) {
  for (const char* url : {"",
                          "example.com/a",
                          "//example.com/a",
                          "/a.mp3",
                          "http:/example.com",
                          "http:example.com",
                          "http:///a",
                          "http://",
                          "https://?x",
                          "http://:80/",
                          "file:///etc/passwd",
                          "gopher://example.com:70/x",
                          "ftp://example.com/a",
                          "data:audio/mp3;base64,AA",
                          "javascript:alert(1)",
                          "dict://example.com",
                          "httpx://example.com",
                          "http+unix://example.com",
                          "httphttp://example.com",
                          "blob:https://example.com/x",
                          " https://example.com/",
                          "https://example.com/ ",
                          "https://example.com/a b",
                          "https://example.com\t/",
                          "https://exam\nple.com/",
                          "https://example.com/\r\nHost: x",
                          "https://example.com/\x7F",
                          "https://example.com\\@127.0.0.1/",
                          "https:\\\\127.0.0.1\\",
                          "https://127.0.0.1\\.example.com/",
                          "https://example.com/<x>",
                          "https://example.com/%",
                          "https://example.com/%2",
                          "https://example.com/%zz",
                          "https://example.com/ü"}) {
    EXPECT_FALSE(check_public_url(url)) << url;
    EXPECT_FALSE(check_any_url(url)) << url;
  }
  EXPECT_FALSE(check_public_url(std::string_view("https://example.com\0.evil/", 26)));
}

TEST(PublicUrl, RefusesNamesThatAreTooLong) {
  const std::string label(63, 'a');
  const std::string longest =
      label + "." + label + "." + label + "." + std::string(57, 'a') + ".com";
  ASSERT_EQ(longest.size(), 253U);
  EXPECT_TRUE(check_public_url("https://" + longest + "/"));
  EXPECT_FALSE(check_public_url("https://a" + longest.substr(62) + "a." + longest + "/"));
  EXPECT_FALSE(check_public_url("https://a" + label + ".com/"));
}

TEST(PublicUrl, SaysWhatIsWrong) {
  const auto message = [](const char* url) { return check_public_url(url).error().message; };
  EXPECT_EQ(message("ftp://example.com"), "must start with http:// or https://");
  EXPECT_EQ(message("https://localhost/"), "must not name a private host");
  EXPECT_EQ(message("https://[::1]/"), "must not name a private host");
  EXPECT_EQ(message("https://u@example.com/"), "must not contain a user name or password");
  EXPECT_EQ(message("https://example.com:22/"), "must use port 80 or 443");
  EXPECT_EQ(message("https://example.com./"), "must not end the host with a dot");
  EXPECT_THAT(message("https://bücher.example/"), HasSubstr("punycode"));
  EXPECT_THAT(message("https://0x7f.1/"), HasSubstr("four decimal numbers"));
  EXPECT_THAT(message("https://example.com/a b"), HasSubstr("spaces"));
}

TEST(PublicUrl, TestsMayAllowAnyHost) {
  for (const char* url : {"http://127.0.0.1:9101/a.wav",
                          "http://localhost:8080",
                          "https://[::1]:9000/x",
                          "http://mock/a"}) {
    EXPECT_TRUE(check_any_url(url)) << url;
    EXPECT_FALSE(check_public_url(url)) << url;
  }
  EXPECT_FALSE(check_any_url("http://u:p@127.0.0.1/"));
  EXPECT_FALSE(check_any_url("file:///etc/passwd"));
}

// First and last address of each network, and the neighbours outside.
TEST(PublicAddress, FollowsTheTable) {
  struct Case {
    const char* text;
    bool is_public;
  };
  for (const Case& c : {Case{"0.0.0.0", false},
                        Case{"0.255.255.255", false},
                        Case{"1.0.0.0", true},
                        Case{"9.255.255.255", true},
                        Case{"10.0.0.0", false},
                        Case{"10.255.255.255", false},
                        Case{"11.0.0.0", true},
                        Case{"100.63.255.255", true},
                        Case{"100.64.0.0", false},
                        Case{"100.127.255.255", false},
                        Case{"100.128.0.0", true},
                        Case{"126.255.255.255", true},
                        Case{"127.0.0.0", false},
                        Case{"127.255.255.255", false},
                        Case{"128.0.0.0", true},
                        Case{"168.63.129.15", true},
                        Case{"168.63.129.16", false},
                        Case{"168.63.129.17", true},
                        Case{"169.253.255.255", true},
                        Case{"169.254.0.0", false},
                        Case{"169.254.255.255", false},
                        Case{"169.255.0.0", true},
                        Case{"172.15.255.255", true},
                        Case{"172.16.0.0", false},
                        Case{"172.31.255.255", false},
                        Case{"172.32.0.0", true},
                        Case{"191.255.255.255", true},
                        Case{"192.0.0.0", false},
                        Case{"192.0.0.255", false},
                        Case{"192.0.1.0", true},
                        Case{"192.0.2.0", false},
                        Case{"192.0.3.0", true},
                        Case{"192.88.98.255", true},
                        Case{"192.88.99.0", false},
                        Case{"192.88.100.0", true},
                        Case{"192.167.255.255", true},
                        Case{"192.168.0.0", false},
                        Case{"192.169.0.0", true},
                        Case{"198.17.255.255", true},
                        Case{"198.18.0.0", false},
                        Case{"198.19.255.255", false},
                        Case{"198.20.0.0", true},
                        Case{"198.51.99.255", true},
                        Case{"198.51.100.0", false},
                        Case{"198.51.101.0", true},
                        Case{"203.0.112.255", true},
                        Case{"203.0.113.0", false},
                        Case{"203.0.114.0", true},
                        Case{"223.255.255.255", true},
                        Case{"224.0.0.0", false},
                        Case{"255.255.255.255", false},
                        Case{"::", false},
                        Case{"::1", false},
                        Case{"::ffff:8.8.8.8", false},
                        Case{"64:ff9b::8.8.8.8", false},
                        Case{"1fff:ffff::", false},
                        Case{"2000::", true},
                        Case{"2001::", false},
                        Case{"2001:1ff:ffff::", false},
                        Case{"2001:200::", true},
                        Case{"2001:db7:ffff::", true},
                        Case{"2001:db8::", false},
                        Case{"2001:db8:ffff::", false},
                        Case{"2001:db9::", true},
                        Case{"2002::", false},
                        Case{"2002:ffff::", false},
                        Case{"2003::", true},
                        Case{"2606:4700:4700::1111", true},
                        Case{"3ffe:ffff::", true},
                        Case{"3fff::", false},
                        Case{"3fff:fff:ffff::", false},
                        Case{"3fff:1000::", true},
                        Case{"4000::", false},
                        Case{"fc00::1", false},
                        Case{"fe80::1", false},
                        Case{"ff02::1", false}}) {
    std::array<std::uint8_t, 16> bytes{};
    if (inet_pton(AF_INET, c.text, bytes.data()) == 1) {
      EXPECT_EQ(is_public_address(std::span(bytes).first(4)), c.is_public) << c.text;
    } else {
      ASSERT_EQ(inet_pton(AF_INET6, c.text, bytes.data()), 1) << c.text;
      EXPECT_EQ(is_public_address(bytes), c.is_public) << c.text;
    }
  }
  const std::array<std::uint8_t, 16> other{};
  EXPECT_FALSE(is_public_address(std::span(other).first(0)));
  EXPECT_FALSE(is_public_address(std::span(other).first(5)));
}

}  // namespace
}  // namespace audiogen
