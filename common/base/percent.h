// Percent encoding (RFC 3986 section 2.1), taken off.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

// Each %XX as the byte it stands for, everything else as it is, "+" too. Nullopt where a "%" is not
// followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

// The same of a name or a value of a form or a query (application/x-www-form-urlencoded), in which
// a space is a "+".
std::optional<std::string> form_decode(std::string_view text);

}  // namespace audiogen
