// Redirects (RFC 9110 15.4). The Client follows none: whoever asked has to judge each address that
// an answer names, and counts them.
#pragma once

#include <optional>
#include <string>

#include "common/http/client.h"

namespace audiogen::http {

inline constexpr int kRedirectsMax = 3;  // One after the other, until whoever asked gives up.

// 301, 302, 303, 307 or 308.
bool is_redirect(int status);

// Where such an answer to a GET of `from` sends us: its Location, which may be relative
// (RFC 3986 section 5). nullopt where it has none, or none that is an address. Pure.
std::optional<std::string> redirect_target(const std::string& from, const ClientResponse& answer);

}  // namespace audiogen::http
