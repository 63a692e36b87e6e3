// Passwords as they are stored: argon2id (RFC 9106), which costs whoever has stolen the table as
// much for each guess as it costs us.
//
// 19 MiB and two passes in one lane are the least that OWASP names for it: about 26 ms of a core
// here. More memory would be better against stolen tables and worse against whoever sends us
// passwords to check: what is hashed at once is bounded by the threads that do it (SignIns), and
// each needs as much.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace audiogen::api {

// `password`, at most some kilobytes, with a new salt, in argon2's own text form (97 characters,
// parameters included). Nullopt: there is no memory for it just now. Blocks for the whole work; any
// thread.
std::optional<std::string> argon2_encode(std::string_view password);

// Whether `encoded` was made of this password; nullopt as above. As much work, whatever the answer.
std::optional<bool> argon2_matches(const std::string& encoded, std::string_view password);

}  // namespace audiogen::api
