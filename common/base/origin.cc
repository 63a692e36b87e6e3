#include "common/base/origin.h"

#include <algorithm>
#include <charconv>

#include "common/base/ascii.h"
#include "common/base/ip_address.h"

namespace audiogen {
namespace {

bool is_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return ascii::is_alnum(c) || c == '-' || c == '.';
  });
}

// "" when there is none, ":8080" for any but the scheme's own; nullopt when malformed.
std::optional<std::string> port_text(std::string_view after_host, bool secure) {
  if (after_host.empty()) {
    return "";
  }
  int port = 0;
  const char* const end = after_host.data() + after_host.size();
  const auto read = std::from_chars(after_host.data() + 1, end, port);
  if (after_host[0] != ':' || read.ec != std::errc() || read.ptr != end || port < 1 ||
      port > 65535) {
    return std::nullopt;
  }
  return port == (secure ? 443 : 80) ? "" : ":" + std::to_string(port);
}

}  // namespace

std::optional<Origin> parse_origin(std::string_view url) {
  const std::string lower = ascii::lower(url);
  std::string_view rest = lower;
  Origin out;
  out.secure = rest.starts_with("https://");
  if (!out.secure && !rest.starts_with("http://")) {
    return std::nullopt;
  }
  rest.remove_prefix(out.secure ? 8 : 7);
  const auto end = std::min(rest.find_first_of("/?#"), rest.size());
  out.bare = end == rest.size();
  const std::string_view authority = rest.substr(0, end);
  const bool bracketed = authority.starts_with('[');
  const auto host_end = bracketed ? authority.find(']') : authority.find(':');
  if (bracketed && host_end == std::string_view::npos) {
    return std::nullopt;
  }
  std::string host(bracketed ? authority.substr(1, host_end - 1) : authority.substr(0, host_end));
  const auto address = IpAddress::parse(host);
  if (bracketed ? !address : !is_name(host)) {
    return std::nullopt;
  }
  if (bracketed) {
    host = "[" + address->text() + "]";
  }
  const auto port =
      port_text(authority.substr(std::min(authority.size(), bracketed ? host_end + 1 : host_end)),
                out.secure);
  if (!port) {
    return std::nullopt;
  }
  out.loopback =
      host == "localhost" || host == "[::1]" || (!bracketed && address && host.starts_with("127."));
  out.text = (out.secure ? "https://" : "http://") + host + *port;
  return out;
}

}  // namespace audiogen
