// Is an address written so that it can be public? (DESIGN 1, reliability 7.) Syntax only: the
// worker checks the resolved address again at connect time.
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

// True for an IPv4 (4 bytes) or IPv6 (16 bytes) address of the public internet (the table in
// reliability 7).
bool is_public_address(std::span<const std::uint8_t> address);

}  // namespace audiogen
