// What a client asks for when it makes a key, or changes one: reading it from JSON. Its expiry is
// judged by the database's clock, so not here. schema/openapi.json publishes the rules as NewApiKey
// and ApiKeyChange.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/domain/api_error.h"
#include "common/domain/api_key.h"

namespace audiogen {

// The error is 400 and names the member at fault: the first one in the order of the text, then
// those that are missing. Never quotes a value. Pure; no I/O.
Result<KeyTerms, ApiError> parse_new_key(std::string_view body);
Result<KeyChange, ApiError> parse_key_change(std::string_view body);

}  // namespace audiogen
