// Reading what the console sends to sign in and to set a password.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/crypto.h"
#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen {

inline constexpr std::size_t kEmailBytesMax = 254;  // RFC 5321 section 4.5.3.1.3.

struct LinkSignIn {
  std::optional<Sha256> hash;  // Of its token; nullopt: no link was ever like it.
};
struct PasswordSignIn {
  std::string email;  // In lower case, as accounts have it; not checked any further.
  std::string password;
};
using SignInRequest = std::variant<LinkSignIn, PasswordSignIn>;

// {"login_token"} or {"email","password"}: closed, everything a string. An error never repeats a
// value.
Result<SignInRequest, ApiError> parse_sign_in(std::string_view body);

struct PasswordChange {
  std::string password;  // At most kPasswordBytesMax; otherwise not judged (password_fault()).
  std::optional<std::string> current;
};

// {"password", "current_password"?}, likewise.
Result<PasswordChange, ApiError> parse_password_change(std::string_view body);

}  // namespace audiogen
