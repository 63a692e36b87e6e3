// What a client asks for when it makes a key, changes one or gives it a new secret: reading it from
// JSON. Its expiry is judged by the database's clock, so not here. schema/openapi.json publishes
// the rules as NewApiKey, ApiKeyChange and ApiKeyRotation.
#pragma once

#include <chrono>
#include <string_view>

#include "common/base/result.h"
#include "common/domain/api_error.h"
#include "common/domain/api_key.h"

namespace audiogen {

// The error is 400 and names the member at fault: the first one in the order of the text, then
// those that are missing. Never quotes a value. Pure; no I/O.
Result<KeyTerms, ApiError> parse_new_key(std::string_view body);
Result<KeyChange, ApiError> parse_key_change(std::string_view body);
// For how long the secret that is replaced still works: 0 to kKeyOverlapMax. Never by default: it
// may have leaked.
Result<std::chrono::hours, ApiError> parse_key_rotation(std::string_view body);

}  // namespace audiogen
