#include "common/domain/sign_in_request.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/base/ascii.h"
#include "common/domain/json_object.h"
#include "common/domain/password.h"
#include "common/domain/sign_in.h"

namespace audiogen {
namespace {

// A member that a body may have, and how long it may be.
struct Member {
  std::string_view name;
  std::size_t bytes_max;
};
constexpr std::size_t kTokenBytesMax = 256;  // Whatever is there instead of one.

using Values = std::array<std::optional<std::string>, 3>;  // In the order of the members.

// A JSON object of strings, each of `known`, at most once.
Result<Values, ApiError> read_strings(std::string_view body, std::span<const Member> known) {
  const auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  Values out;
  for (const auto& member : document->GetObject()) {
    const auto at = std::find_if(known.begin(), known.end(), [&](const Member& m) {
      return m.name == text_of(member.name);
    });
    if (at == known.end()) {
      return unknown_member(text_of(member.name));
    }
    auto& value = out.at(static_cast<std::size_t>(at - known.begin()));
    if (value) {
      return wrong_member(at->name, "may be given once only.");
    }
    if (!member.value.IsString()) {
      return wrong_member(at->name, "must be a string.");
    }
    if (member.value.GetStringLength() > at->bytes_max) {
      return wrong_member(at->name,
                          "must be at most " + std::to_string(at->bytes_max) + " bytes long.");
    }
    value = text_of(member.value);
  }
  return out;
}

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
  auto& [password, current, none] = *values;
  if (!password) {
    return wrong_member("password", "is required.");
  }
  return PasswordChange{.password = *std::move(password), .current = std::move(current)};
}

}  // namespace audiogen
