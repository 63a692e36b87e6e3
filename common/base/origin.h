// The origin of an address (RFC 6454): what browsers say where a page comes from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

struct Origin {
  std::string text;     // As browsers write it: lower case, no port where it is the scheme's own.
  bool secure = false;  // https.
  bool loopback =
      false;          // 127.0.0.0/8, ::1 or localhost: what is sent there stays on this machine.
  bool bare = false;  // Nothing came behind it: no path, not even "/".
};

// Of an http or https address without user information; nullopt for anything else.
std::optional<Origin> parse_origin(std::string_view url);

}  // namespace audiogen
