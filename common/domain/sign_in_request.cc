#include "common/domain/sign_in_request.h"

#include <array>
#include <utility>

#include "common/base/ascii.h"
#include "common/domain/json_object.h"
#include "common/domain/password.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

constexpr std::size_t kTokenBytesMax = 256;  // Whatever is there instead of one.

}  // namespace

Result<SignInRequest, ApiError> parse_sign_in(std::string_view body) {
  static constexpr std::array<Member, 3> kMembers = {Member{"login_token", kTokenBytesMax},
                                                     Member{"email", kEmailBytesMax},
                                                     Member{"password", kPasswordBytesMax}};
  auto values = read_strings(body, kMembers);
  if (!values) {
    return values.error();
  }
  auto& [token, email, password] = *values;
  if (token && !email && !password) {
    return SignInRequest(LinkSignIn{token_hash(*token)});
  }
  if (!token && email && password) {
    // The database compares as though trailing spaces were not there: so does whoever counts.
    email->erase(email->find_last_not_of(' ') + 1);
    return SignInRequest(PasswordSignIn{ascii::lower(*email), *std::move(password)});
  }
  return invalid_request("The body must have login_token alone, or email and password.");
}

Result<PasswordChange, ApiError> parse_password_change(std::string_view body) {
  static constexpr std::array<Member, 2> kMembers = {Member{"password", kPasswordBytesMax},
                                                     Member{"current_password", kPasswordBytesMax}};
  auto values = read_strings(body, kMembers);
  if (!values) {
    return values.error();
  }
  auto& [password, current] = *values;
  if (!password) {
    return wrong_member("password", "is required.");
  }
  return PasswordChange{.password = *std::move(password), .current = std::move(current)};
}

}  // namespace audiogen
