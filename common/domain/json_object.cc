#include "common/domain/json_object.h"

#include <string>
#include <utility>

#include "common/domain/json_body.h"

namespace audiogen {

Result<rapidjson::Document, ApiError> read_json_object(std::string_view body) {
  if (auto fault = json_body_fault(body)) {
    return invalid_request(*std::move(fault));
  }
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(body.data(), body.size());
  if (document.HasParseError()) {
    return invalid_request("The body is not valid JSON.");
  }
  if (!document.IsObject()) {
    return invalid_request("The body must be a JSON object.");
  }
  return document;
}

std::string_view text_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

ApiError wrong_member(std::string_view member, std::string_view rule) {
  return invalid_parameter(std::string(member), std::string(member) + " " + std::string(rule));
}

}  // namespace audiogen
