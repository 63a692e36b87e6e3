#include "common/domain/client_address.h"

#include <algorithm>
#include <optional>

namespace audiogen {
namespace {

bool digits_only(std::string_view text) {
  constexpr std::size_t kPortDigitsMax = 5;
  return !text.empty() && text.size() <= kPortDigitsMax &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" or "[2001:db8::1]:80".
std::optional<IpAddress> parse_hop(std::string_view hop) {
  if (hop.starts_with('[')) {
    const auto end = hop.find(']');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view inner = hop.substr(1, end - 1);
    const std::string_view rest = hop.substr(end + 1);
    const bool port = rest.empty() || (rest.front() == ':' && digits_only(rest.substr(1)));
    // Brackets are an IPv6 address's.
    return port && inner.find(':') != std::string_view::npos ? IpAddress::parse(inner)
                                                             : std::nullopt;
  }
  const auto colon = hop.find(':');
  if (colon != std::string_view::npos && hop.find(':', colon + 1) == std::string_view::npos) {
    return digits_only(hop.substr(colon + 1)) ? IpAddress::parse(hop.substr(0, colon))
                                              : std::nullopt;
  }
  return IpAddress::parse(hop);
}

}  // namespace

IpAddress client_address(const IpAddress& peer,
                         std::string_view forwarded_for,
                         std::span<const IpNetwork> trusted) {
  const auto is_trusted = [&](const IpAddress& address) {
    return std::any_of(trusted.begin(), trusted.end(), [&](const IpNetwork& network) {
      return network.contains(address);
    });
  };
  IpAddress client = peer;
  while (!forwarded_for.empty() && is_trusted(client)) {
    const auto comma = forwarded_for.rfind(',');
    std::string_view hop =
        comma == std::string_view::npos ? forwarded_for : forwarded_for.substr(comma + 1);
    forwarded_for = comma == std::string_view::npos ? "" : forwarded_for.substr(0, comma);
    const auto begin = hop.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      continue;  // Empty members of a list say nothing (RFC 9110 5.6.1).
    }
    hop = hop.substr(begin, hop.find_last_not_of(" \t") - begin + 1);
    const auto address = parse_hop(hop);
    if (!address) {
      break;
    }
    client = *address;
  }
  return client;
}

}  // namespace audiogen
