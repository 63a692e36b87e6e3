// Is an address written so that it can be public? Syntax only: the worker checks the resolved
// address again at connect time (common/http/README.md, "Addresses").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace audiogen {

// Accepts http and https, ports 80 and 443, no userinfo, a host that is a public name or a public
// literal address; refuses private, loopback, link-local, mapped, decimal, octal and hexadecimal
// hosts. The error is a clause such as "must not name a private host".
Result<Done> check_public_url(std::string_view url);

// http or https with a host, nothing more (URL_POLICY=any).
Result<Done> check_any_url(std::string_view url);

// True for an IPv4 (4 bytes) or IPv6 (16 bytes) address of the public internet: IPv6 only from
// 2000::/3, and nothing that IANA's special-purpose address registries name.
bool is_public_address(std::span<const std::uint8_t> address);

}  // namespace audiogen
