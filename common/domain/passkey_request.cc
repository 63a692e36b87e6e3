#include "common/domain/passkey_request.h"

#include <array>
#include <optional>
#include <utility>

#include "common/base/base64.h"
#include "common/domain/api_key.h"
#include "common/domain/json_object.h"
#include "common/domain/webauthn.h"

namespace audiogen {
namespace {

// So long is base64url of so many bytes.
constexpr std::size_t in_base64url(std::size_t bytes) {
  return (bytes * 4 + 2) / 3;
}

// The largest are those of RSA with 4,096 bits; client data have the origin and the challenge in
// them.
constexpr std::size_t kNameBytesMax = std::size_t{4} * kKeyNameMax;
constexpr Member kName{"name", kNameBytesMax};
constexpr Member kClientData{"client_data", in_base64url(2048)};
constexpr Member kAuthenticatorData{"authenticator_data", in_base64url(4096)};

Result<std::string, ApiError> read_bytes(const Member& member,
                                         const std::optional<std::string>& value) {
  if (!value) {
    return wrong_member(member.name, "is required.");
  }
  const auto bytes = decode_base64url(*value);
  if (!bytes) {
    return wrong_member(member.name, "must be base64url without padding.");
  }
  return std::string(bytes->begin(), bytes->end());
}

Result<std::string, ApiError> read_name(std::optional<std::string> value) {
  if (!value) {
    return wrong_member("name", "is required.");
  }
  if (!is_key_name(*value)) {
    return wrong_member("name",
                        "must be 1 to " + std::to_string(kKeyNameMax) +
                            " characters without control characters, and no white space at either "
                            "end.");
  }
  return *std::move(value);
}

// The bytes of all members from `first` on, or what is wrong with one.
template <std::size_t N>
std::optional<ApiError> read_all(const std::array<Member, N>& members,
                                 const std::array<std::optional<std::string>, N>& values,
                                 std::size_t first,
                                 const std::array<std::string*, N>& out) {
  for (std::size_t i = first; i < N; ++i) {
    auto bytes = read_bytes(members.at(i), values.at(i));
    if (!bytes) {
      return bytes.error();
    }
    *out.at(i) = *std::move(bytes);
  }
  return std::nullopt;
}

}  // namespace

Result<PasskeyRegistration, ApiError> parse_passkey_registration(std::string_view body) {
  static constexpr std::array<Member, 4> kMembers = {
      kName, kClientData, kAuthenticatorData, Member{"public_key", in_base64url(1024)}};
  auto values = read_strings(body, kMembers);
  if (!values) {
    return values.error();
  }
  auto name = read_name(std::move(values->front()));
  if (!name) {
    return name.error();
  }
  PasskeyRegistration out;
  out.name = *std::move(name);
  if (auto wrong =
          read_all(kMembers,
                   *values,
                   1,
                   {&out.name, &out.client_data, &out.authenticator_data, &out.public_key})) {
    return *std::move(wrong);
  }
  return out;
}

Result<PasskeySignIn, ApiError> parse_passkey_sign_in(std::string_view body) {
  static constexpr std::array<Member, 5> kMembers = {
      Member{"credential_id", in_base64url(kCredentialIdMax)},
      kClientData,
      kAuthenticatorData,
      Member{"signature", in_base64url(1024)},
      Member{"user_handle", in_base64url(64)}};
  const auto values = read_strings(body, kMembers);
  if (!values) {
    return values.error();
  }
  PasskeySignIn out;
  if (auto wrong = read_all(kMembers,
                            *values,
                            0,
                            {&out.credential_id,
                             &out.client_data,
                             &out.authenticator_data,
                             &out.signature,
                             &out.user_handle})) {
    return *std::move(wrong);
  }
  return out;
}

Result<std::string, ApiError> parse_passkey_name(std::string_view body) {
  static constexpr std::array<Member, 1> kMembers = {kName};
  auto values = read_strings(body, kMembers);
  return values ? read_name(std::move(values->front()))
                : Result<std::string, ApiError>(values.error());
}

}  // namespace audiogen
