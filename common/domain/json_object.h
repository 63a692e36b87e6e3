// Reading a small JSON object that a client sends: the part that all bodies but a generation's
// request, which has a reader of its own, have in common. For the sources of this folder only:
// nobody else needs to know the parser.
#pragma once

#include <string_view>

#include <rapidjson/document.h>

#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen {

// The JSON object that `body` is; else 400 that says what it is not. Never quotes it. Pure.
Result<rapidjson::Document, ApiError> read_json_object(std::string_view body);

// Of a string; valid as long as the document.
std::string_view text_of(const rapidjson::Value& value);

// 400 naming `member`, in a sentence that begins with it: `rule` is "must be …".
ApiError wrong_member(std::string_view member, std::string_view rule);

}  // namespace audiogen
