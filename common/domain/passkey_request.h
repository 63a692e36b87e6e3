// Reading what the console sends about passkeys. Bytes are written in base64url without padding
// (RFC 4648 section 5), as in WebAuthn's own JSON.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen {

// Bytes, all of them, but for the name.
struct PasskeyRegistration {
  std::string name;  // As a key's (is_key_name()).
  std::string client_data;
  std::string authenticator_data;
  std::string public_key;  // SubjectPublicKeyInfo; not judged here.
};

struct PasskeySignIn {
  std::string credential_id;
  std::string client_data;
  std::string authenticator_data;
  std::string signature;
  std::string user_handle;
};

// Closed objects of strings, every member required. An error never repeats a value.
Result<PasskeyRegistration, ApiError> parse_passkey_registration(std::string_view body);
Result<PasskeySignIn, ApiError> parse_passkey_sign_in(std::string_view body);
// {"name"}
Result<std::string, ApiError> parse_passkey_name(std::string_view body);

}  // namespace audiogen
