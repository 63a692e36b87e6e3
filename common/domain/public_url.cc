#include "common/domain/public_url.h"

#include <algorithm>
#include <array>
#include <optional>

#include <arpa/inet.h>

#include "common/base/ascii.h"

namespace audiogen {
namespace {

constexpr std::string_view kPrivateHost = "must not name a private host";

bool is_hex(char c) {
  return ascii::hex_value(c) >= 0;
}

struct Authority {
  std::string host;  // Lower case, brackets kept.
  std::string_view port;
  bool has_port = false;
};

// Everything both checks refuse. Characters outside RFC 3986 go first: what one program drops or
// rewrites there (a tab, a backslash, a full-width digit) another one follows.
Result<Authority> split(std::string_view url) {
  for (std::size_t i = 0; i < url.size(); ++i) {
    const auto byte = static_cast<unsigned char>(url[i]);
    if (byte >= 0x80) {
      return Error{"must be ASCII: percent-encode the path, write the host in punycode"};
    }
    if (byte <= 0x20 || byte == 0x7F) {
      return Error{"must not contain spaces or control characters"};
    }
    if (std::string_view("\"<>\\^`{|}").find(url[i]) != std::string_view::npos) {
      return Error{"must percent-encode the characters \"<>\\^`{|}"};
    }
    if (url[i] == '%' && (i + 2 >= url.size() || !is_hex(url[i + 1]) || !is_hex(url[i + 2]))) {
      return Error{"must follow % with two hexadecimal digits"};
    }
  }
  const auto scheme_end = url.find("://");
  const std::string scheme = ascii::lower(url.substr(0, scheme_end));
  if (scheme_end == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return Error{"must start with http:// or https://"};
  }
  std::string_view rest = url.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (rest.find('@') != std::string_view::npos) {
    return Error{"must not contain a user name or password"};
  }
  Authority out;
  const auto bracket = rest.rfind(']');
  const auto colon = rest.find(':', bracket == std::string_view::npos ? 0 : bracket);
  out.has_port = colon != std::string_view::npos;
  if (out.has_port) {
    out.port = rest.substr(colon + 1);
  }
  out.host = rest.substr(0, colon);
  out.host = ascii::lower(out.host);
  if (out.host.empty()) {
    return Error{"must name a host"};
  }
  return out;
}

std::string_view last_label(std::string_view host) {
  const auto dot = host.rfind('.');
  return dot == std::string_view::npos ? host : host.substr(dot + 1);
}

// Resolvers read such a host as an IPv4 address: decimal, octal, hexadecimal and shortened forms
// (WHATWG URL, "ends in a number").
bool ends_in_number(std::string_view host) {
  std::string_view label = last_label(host);
  if (label.starts_with("0x")) {
    label.remove_prefix(2);
    return std::all_of(label.begin(), label.end(), is_hex);
  }
  return std::all_of(label.begin(), label.end(), ascii::is_digit);
}

// RFC 952 and 1123 names, and underscores, which real hosts have.
bool is_host_name(std::string_view host) {
  constexpr std::size_t kNameMax = 253;
  constexpr std::size_t kLabelMax = 63;
  if (host.size() > kNameMax) {
    return false;
  }
  while (true) {
    const auto label = host.substr(0, host.find('.'));
    if (label.empty() || label.size() > kLabelMax || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), [](char c) {
          return ascii::is_alnum(c) || c == '-' || c == '_';
        })) {
      return false;
    }
    if (label.size() == host.size()) {
      return true;
    }
    host.remove_prefix(label.size() + 1);
  }
}

// Names that never mean a host of the public internet: RFC 6761, 6762, 7686, 8375, ICANN's
// "internal", and what routers and companies use.
constexpr std::array<std::string_view, 12> kPrivateTopLevels = {"localhost",
                                                                "localdomain",
                                                                "local",
                                                                "internal",
                                                                "intranet",
                                                                "private",
                                                                "corp",
                                                                "home",
                                                                "lan",
                                                                "arpa",
                                                                "onion",
                                                                "alt"};

Result<Done> check_name(std::string_view host) {
  if (!is_host_name(host)) {
    return Error{"must name a valid host"};
  }
  const bool single = host.find('.') == std::string_view::npos;
  const bool reserved =
      std::find(kPrivateTopLevels.begin(), kPrivateTopLevels.end(), last_label(host)) !=
      kPrivateTopLevels.end();
  if (single || reserved) {
    return Error{std::string(kPrivateHost)};
  }
  return Done{};
}

template <std::size_t kSize>
std::optional<std::array<std::uint8_t, kSize>> parse_address(int family, const std::string& text) {
  std::array<std::uint8_t, kSize> bytes{};
  // inet_pton takes neither zones nor any form of IPv4 but four decimal numbers.
  if (inet_pton(family, text.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  return bytes;
}

template <std::size_t kSize>
Result<Done> check_literal(const std::optional<std::array<std::uint8_t, kSize>>& address) {
  if (!address) {
    return Error{"must write an address as four decimal numbers or as IPv6 in brackets"};
  }
  if (!is_public_address(*address)) {
    return Error{std::string(kPrivateHost)};
  }
  return Done{};
}

struct Network {
  std::array<std::uint8_t, 4> first;  // The first 32 bits.
  int length;
};

// What IANA's two special-purpose address registries (RFC 6890) hold for other uses than the public
// internet.
constexpr std::array kPrivateV4 = {Network{{0, 0, 0, 0}, 8},
                                   Network{{10, 0, 0, 0}, 8},
                                   Network{{100, 64, 0, 0}, 10},
                                   Network{{127, 0, 0, 0}, 8},
                                   // Azure's platform services, in every virtual network.
                                   Network{{168, 63, 129, 16}, 32},
                                   Network{{169, 254, 0, 0}, 16},
                                   Network{{172, 16, 0, 0}, 12},
                                   Network{{192, 0, 0, 0}, 24},
                                   Network{{192, 0, 2, 0}, 24},
                                   Network{{192, 88, 99, 0}, 24},
                                   Network{{192, 168, 0, 0}, 16},
                                   Network{{198, 18, 0, 0}, 15},
                                   Network{{198, 51, 100, 0}, 24},
                                   Network{{203, 0, 113, 0}, 24},
                                   Network{{224, 0, 0, 0}, 3}};
constexpr Network kGlobalV6{{0x20, 0, 0, 0}, 3};
constexpr std::array kPrivateV6 = {Network{{0x20, 0x01, 0, 0}, 23},
                                   Network{{0x20, 0x01, 0x0D, 0xB8}, 32},
                                   Network{{0x20, 0x02, 0, 0}, 16},
                                   Network{{0x3F, 0xFF, 0, 0}, 20}};

constexpr std::uint32_t leading_bits(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U |
         std::uint32_t{bytes[2]} << 8U | bytes[3];
}

}  // namespace

Result<Done> check_public_url(std::string_view url) {
  const auto authority = split(url);
  if (!authority) {
    return authority.error();
  }
  if (authority->has_port && authority->port != "80" && authority->port != "443") {
    return Error{"must use port 80 or 443"};
  }
  const std::string& host = authority->host;
  if (host.front() == '[') {
    const bool closed = host.back() == ']';
    return check_literal(closed ? parse_address<16>(AF_INET6, host.substr(1, host.size() - 2))
                                : std::nullopt);
  }
  if (host.find('%') != std::string::npos) {
    return Error{"must not percent-encode the host"};
  }
  if (host.back() == '.') {
    return Error{"must not end the host with a dot"};
  }
  return ends_in_number(host) ? check_literal(parse_address<4>(AF_INET, host)) : check_name(host);
}

Result<Done> check_any_url(std::string_view url) {
  const auto authority = split(url);
  if (!authority) {
    return authority.error();
  }
  return Done{};
}

bool is_public_address(std::span<const std::uint8_t> address) {
  if (address.size() != 4 && address.size() != 16) {
    return false;
  }
  const std::uint32_t bits = leading_bits(address);
  const auto inside = [&](const Network& network) {
    return ((bits ^ leading_bits(network.first)) >> (32 - network.length)) == 0;
  };
  if (address.size() == 4) {
    return std::none_of(kPrivateV4.begin(), kPrivateV4.end(), inside);
  }
  return inside(kGlobalV6) && std::none_of(kPrivateV6.begin(), kPrivateV6.end(), inside);
}

}  // namespace audiogen
