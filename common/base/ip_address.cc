#include "common/base/ip_address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int kMappedBits = 96;

IpAddress masked(const IpAddress& address, int bits) {
  IpAddress out;
  for (std::size_t i = 0; i < out.bytes.size(); ++i) {
    const int kept = std::clamp(bits - static_cast<int>(i) * 8, 0, 8);
    out.bytes[i] = static_cast<std::uint8_t>(address.bytes[i] & (0xff00U >> kept));
  }
  return out;
}

}  // namespace

bool IpAddress::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> out{};
  const bool v4 = is_v4();
  ::inet_ntop(v4 ? AF_INET : AF_INET6,
              bytes.data() + (v4 ? kMapped.size() : 0),
              out.data(),
              static_cast<socklen_t>(out.size()));
  return out.data();
}

IpAddress IpAddress::limited() const {
  constexpr int kCustomerBits = 64;
  return is_v4() ? *this : masked(*this, kCustomerBits);
}

IpAddress IpAddress::home() const {
  constexpr int kHomeBits = 56;
  return is_v4() ? *this : masked(*this, kHomeBits);
}

IpAddress IpAddress::site() const {
  constexpr int kSiteBits = 48;
  return is_v4() ? *this : masked(*this, kSiteBits);
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  std::copy(text.begin(), text.end(), terminated.begin());
  IpAddress out;
  if (::inet_pton(AF_INET6, terminated.data(), out.bytes.data()) == 1) {
    return out;
  }
  std::copy(kMapped.begin(), kMapped.end(), out.bytes.begin());
  if (::inet_pton(AF_INET, terminated.data(), out.bytes.data() + kMapped.size()) == 1) {
    return out;
  }
  return std::nullopt;
}

IpAddress IpAddress::of(const sockaddr_storage& address) {
  IpAddress out;
  if (address.ss_family == AF_INET) {
    std::copy(kMapped.begin(), kMapped.end(), out.bytes.begin());
    std::memcpy(out.bytes.data() + kMapped.size(),
                &reinterpret_cast<const sockaddr_in&>(address).sin_addr,
                out.bytes.size() - kMapped.size());
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(out.bytes.data(),
                &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr,
                out.bytes.size());
  }
  return out;
}

std::size_t HashOfIpAddress::operator()(const IpAddress& address) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(address.bytes.data()), address.bytes.size()});
}

bool IpNetwork::contains(const IpAddress& address) const {
  return masked(address, bits) == base;
}

std::optional<IpNetwork> IpNetwork::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) {
    return std::nullopt;
  }
  IpNetwork out{.base = *address};
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const char* const end = digits.data() + digits.size();
    int bits = 0;
    const auto [stopped, error] = std::from_chars(digits.data(), end, bits);
    // An IPv4 network counts its own 32 bits; a mapped one written as IPv6 counts all 128.
    const bool written_v4 = text.substr(0, slash).find(':') == std::string_view::npos;
    if (error != std::errc() || stopped != end || bits < 0 || bits > (written_v4 ? 32 : 128)) {
      return std::nullopt;
    }
    out.bits = bits + (written_v4 ? kMappedBits : 0);
  }
  return masked(*address, out.bits) == *address ? std::optional(out) : std::nullopt;
}

std::optional<std::vector<IpNetwork>> parse_networks(std::string_view text) {
  std::vector<IpNetwork> out;
  if (ascii::trim(text).empty()) {
    return out;
  }
  for (;;) {
    const auto comma = text.find(',');
    const auto network = IpNetwork::parse(ascii::trim(text.substr(0, comma)));
    if (!network) {
      return std::nullopt;
    }
    out.push_back(*network);
    if (comma == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace audiogen
