// Addresses, networks, and whose request it is behind proxies: one row each.
#include "common/domain/client_address.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

IpAddress address(const std::string& text) {
  const auto parsed = IpAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress());
}

TEST(IpAddress, IsReadAndWritten) {
  for (const auto& [given, written] : {std::pair{"192.0.2.1", "192.0.2.1"},
                                       {"::ffff:192.0.2.1", "192.0.2.1"},
                                       {"::1", "::1"},
                                       {"2001:DB8:0:0::1", "2001:db8::1"}}) {
    EXPECT_EQ(address(given).text(), written);
  }
  for (const char* bad : {"",
                          "1.2.3",
                          "1.2.3.4.5",
                          "1.2.3.256",
                          "01.2.3.4 ",
                          "0x1.2.3.4",
                          "::1%lo",
                          "[::1]",
                          "1.2.3.4:5",
                          "localhost",
                          "1111:2222:3333:4444:5555:6666:255.255.255.255.255.255.255.255"}) {
    EXPECT_FALSE(IpAddress::parse(bad)) << bad;
  }
  EXPECT_FALSE(IpAddress::parse(std::string("1.2.3.4\0", 8) + "x"));
}

TEST(IpAddress, LimitsCountAnIPv6AddressByItsNetwork) {
  EXPECT_EQ(address("2001:db8:1:2:3:4:5:6").limited(), address("2001:db8:1:2::"));
  EXPECT_EQ(address("2001:db8:1:2:ffff::").limited(), address("2001:db8:1:2::1").limited());
  EXPECT_NE(address("2001:db8:1:3::1").limited(), address("2001:db8:1:2::1").limited());
  EXPECT_EQ(address("192.0.2.1").limited(), address("192.0.2.1"));
  EXPECT_EQ(address("2001:db8:1:f2:3:4:5:6").home(), address("2001:db8:1::"));
  EXPECT_NE(address("2001:db8:1:1f2:3:4:5:6").home(), address("2001:db8:1::"));
  EXPECT_EQ(address("192.0.2.1").home(), address("192.0.2.1"));
  EXPECT_EQ(address("2001:db8:1:2:3:4:5:6").site(), address("2001:db8:1::"));
  EXPECT_NE(address("2001:db8:2:2:3:4:5:6").site(), address("2001:db8:1::"));
  EXPECT_EQ(address("192.0.2.1").site(), address("192.0.2.1"));
  EXPECT_EQ(address("::ffff:192.0.2.1").limited(), address("192.0.2.1"));
}

TEST(IpNetwork, HoldsItsAddressesOnly) {
  const struct {
    const char* network;
    const char* inside;
    const char* outside;
  } rows[] = {
      {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
      {"10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"},
      {"192.0.2.128/25", "192.0.2.128", "192.0.2.127"},
      {"192.0.2.1", "192.0.2.1", "192.0.2.2"},
      {"192.0.2.1/32", "192.0.2.1", "192.0.2.0"},
      {"0.0.0.0/0", "8.8.8.8", "2001:db8::1"},
      {"2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"},
      {"::1", "::1", "::2"},
      {"fd00::/9", "fd7f::1", "fd80::1"},
      {"::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"},
  };
  for (const auto& row : rows) {
    const auto network = IpNetwork::parse(row.network);
    ASSERT_TRUE(network) << row.network;
    EXPECT_TRUE(network->contains(address(row.inside))) << row.network;
    EXPECT_FALSE(network->contains(address(row.outside))) << row.network;
  }
  EXPECT_TRUE(IpNetwork::parse("::/0")->contains(address("8.8.8.8")));
  for (const char* bad : {"",
                          "10.0.0.0/",
                          "10.0.0.0/33",
                          "10.0.0.0/-1",
                          "10.0.0.0/8x",
                          "10.0.0.1/8",
                          "2001:db8::/129",
                          "2001:db8::1/64",
                          "/8",
                          "any"}) {
    EXPECT_FALSE(IpNetwork::parse(bad)) << bad;
  }
}

TEST(IpNetwork, ListsAreReadWholeOrNotAtAll) {
  EXPECT_EQ(parse_networks("")->size(), 0U);
  EXPECT_EQ(parse_networks(" 10.0.0.0/8 , ::1,192.0.2.1")->size(), 3U);
  for (const char* bad : {",", "10.0.0.0/8,", "10.0.0.0/8,,::1", "10.0.0.0/8;::1", "x"}) {
    EXPECT_FALSE(parse_networks(bad)) << bad;
  }
}

struct Row {
  const char* name;
  const char* peer;
  std::string forwarded;
  const char* client;
};

std::string row_name(const testing::TestParamInfo<Row>& row) {
  return row.param.name;
}

class ClientAddress : public testing::TestWithParam<Row> {};

// Trusted: 10.0.0.0/8 and fd00::/8.
TEST_P(ClientAddress, IsTheRightmostHopThatIsNotTrusted) {
  const auto trusted = parse_networks("10.0.0.0/8, fd00::/8");
  const Row& row = GetParam();
  EXPECT_EQ(client_address(address(row.peer), row.forwarded, *trusted).text(), row.client);
}

INSTANTIATE_TEST_SUITE_P(
    Hops,
    ClientAddress,
    testing::ValuesIn(std::vector<Row>{
        {"NoProxy", "192.0.2.1", "", "192.0.2.1"},
        {"AnUntrustedPeerSaysNothing", "192.0.2.1", "203.0.113.9", "192.0.2.1"},
        {"OneHop", "10.0.0.1", "203.0.113.9", "203.0.113.9"},
        {"MappedPeer", "::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9"},
        {"MappedHop", "10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"},
        {"TheClientsOwnWordIsNotBelieved", "10.0.0.1", "198.51.100.1, 203.0.113.9", "203.0.113.9"},
        {"ClaimsToBeAProxy", "10.0.0.1", "10.9.9.9, 203.0.113.9", "203.0.113.9"},
        {"TwoProxies", "10.0.0.1", "198.51.100.1, 203.0.113.9, 10.0.0.2", "203.0.113.9"},
        {"BothFamilies", "fd00::1", "2001:db8::7, 10.0.0.2", "2001:db8::7"},
        {"AllTrusted", "10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"},
        {"NoHeader", "10.0.0.1", "", "10.0.0.1"},
        {"EmptyMembers", "10.0.0.1", " , 203.0.113.9, ,", "203.0.113.9"},
        {"OnlyCommas", "10.0.0.1", ",,,", "10.0.0.1"},
        {"Port", "10.0.0.1", "203.0.113.9:4711", "203.0.113.9"},
        {"BracketsAndPort", "10.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"},
        {"Brackets", "10.0.0.1", "[2001:db8::7]", "2001:db8::7"},
        {"Tabs", "10.0.0.1", "\t203.0.113.9\t", "203.0.113.9"},
        {"NoAddress", "10.0.0.1", "203.0.113.9, unknown", "10.0.0.1"},
        {"NoAddressBehindAProxy", "10.0.0.1", "203.0.113.9, _x, 10.0.0.2", "10.0.0.2"},
        {"NoPort", "10.0.0.1", "203.0.113.9:", "10.0.0.1"},
        {"LongPort", "10.0.0.1", "203.0.113.9:123456", "10.0.0.1"},
        {"SignedPort", "10.0.0.1", "203.0.113.9:+1", "10.0.0.1"},
        {"OpenBracket", "10.0.0.1", "[2001:db8::7", "10.0.0.1"},
        {"AfterBracket", "10.0.0.1", "[2001:db8::7]x", "10.0.0.1"},
        {"IPv4InBrackets", "10.0.0.1", "[203.0.113.9]", "10.0.0.1"},
        {"Zone", "10.0.0.1", "fe80::1%eth0", "10.0.0.1"},
        {"Quotes", "10.0.0.1", "\"203.0.113.9\"", "10.0.0.1"},
        {"TwoInOne", "10.0.0.1", "203.0.113.9 198.51.100.1", "10.0.0.1"},
        {"VeryLong", "10.0.0.1", "203.0.113.9," + std::string(16'000, '1'), "10.0.0.1"},
    }),
    row_name);

}  // namespace
}  // namespace audiogen
