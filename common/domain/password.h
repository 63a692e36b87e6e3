// What a password must be. No rule asks for kinds of characters: they make passwords that people
// write down or build the same way (NIST SP 800-63B). It must be long, and none that is tried
// first.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace audiogen {

inline constexpr std::size_t kPasswordMin = 12;         // Characters.
inline constexpr std::size_t kPasswordBytesMax = 1024;  // More is no password; hashing it is work.

// What is wrong with `password` for the owner of `email`, as a sentence that does not repeat it;
// nullopt when it will do.
std::optional<std::string> password_fault(std::string_view password, std::string_view email);

}  // namespace audiogen
