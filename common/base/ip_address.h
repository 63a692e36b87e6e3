// IP addresses and networks as values: what limits by address, and lists of networks in the
// configuration, are about.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sockaddr_storage;

namespace audiogen {

// An IPv4 address is kept as the IPv4-mapped IPv6 one (RFC 4291 2.5.5.2): the two are the same.
// A default one ("::") means that the address is not known.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  bool operator==(const IpAddress&) const = default;
  bool is_v4() const;
  // "192.0.2.1", "2001:db8::1" (RFC 5952).
  std::string text() const;
  // What limits by address count: an IPv4 address itself, an IPv6 one's /64, which one customer
  // has all of.
  IpAddress limited() const;
  // What one who acts may have all of: an IPv4 address itself, of IPv6 a home's /56, or a site's
  // /48 (RFC 6177, section 2), which has 65,536 of limited(), but may be many customers' as well.
  IpAddress home() const;
  IpAddress site() const;

  // Four decimal numbers or RFC 4291 text, nothing around it: no port, brackets or zone.
  static std::optional<IpAddress> parse(std::string_view text);
  // Of a socket; the unknown one for any other family.
  static IpAddress of(const sockaddr_storage& address);
};

struct HashOfIpAddress {
  std::size_t operator()(const IpAddress& address) const;
};

// The addresses whose first `bits` are those of `base`. `bits` count from the start of the 16
// bytes, so an IPv4 network has 96 and more.
struct IpNetwork {
  IpAddress base;
  int bits = 128;

  bool operator==(const IpNetwork&) const = default;
  bool contains(const IpAddress& address) const;

  // "10.0.0.0/8", "2001:db8::/32", or one address. Nullopt when malformed, or when bits behind the
  // prefix are set: that is a typing error more often than a wish.
  static std::optional<IpNetwork> parse(std::string_view text);
};

// A comma-separated list of them; nullopt when one is malformed. An empty text is an empty list.
std::optional<std::vector<IpNetwork>> parse_networks(std::string_view text);

}  // namespace audiogen
