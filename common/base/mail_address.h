// The form of a mail address that we send to: one that can stand in a header and in a command of
// SMTP as it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace audiogen {

inline constexpr std::size_t kMailAddressMax = 254;  // Bytes; RFC 5321 section 4.5.3.1.3.

// Whether `text` is an address of ASCII whose local part is a dot-atom (RFC 5322 section 3.2.3) of
// at most 64 bytes, and whose domain is a name (RFC 1123 section 2.1). Nothing that would want
// quoting anywhere: no spaces, line breaks, brackets, quotation marks. Says nothing about whether
// anybody reads it.
bool is_mail_address(std::string_view text);

// Such an address, in lower case, without what is behind a "+" in its local part, and of Gmail
// without dots: providers deliver them to the same inbox, so what is counted by inbox is counted by
// this. Nothing is ever sent to it.
std::string inbox_of(std::string_view address);

// What is behind the @ of such an address.
std::string_view mail_domain(std::string_view address);

}  // namespace audiogen
