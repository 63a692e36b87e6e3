// Whose request it is, as far as addresses tell.
#pragma once

#include <span>
#include <string_view>

#include "common/base/ip_address.h"

namespace audiogen {

// The address of the client behind `peer`, the other end of the connection: `peer` itself unless it
// is a trusted proxy; behind trusted proxies the rightmost hop of `forwarded_for` that is none (all
// X-Forwarded-For lines, joined by commas in their order). A hop may have a port, and brackets
// around an IPv6 address. What is left of an untrusted hop is anybody's word and never looked at;
// at a hop that is no address the search ends with the last good one, so that no spelling gets a
// client an address of its choice. Pure.
IpAddress client_address(const IpAddress& peer,
                         std::string_view forwarded_for,
                         std::span<const IpNetwork> trusted);

}  // namespace audiogen
