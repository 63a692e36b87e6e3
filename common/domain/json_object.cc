#include "common/domain/json_object.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/domain/json_body.h"

namespace audiogen {

Result<rapidjson::Document, ApiError> read_json_object(std::string_view body) {
  if (auto fault = json_body_fault(body)) {
    return invalid_request(*std::move(fault));
  }
  rapidjson::Document document;
  document.Parse(body.data(), body.size());
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

std::optional<ApiError> read_strings(std::string_view body,
                                     std::span<const Member> known,
                                     std::span<std::optional<std::string>> out) {
  const auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  for (const auto& member : document->GetObject()) {
    const auto at = std::find_if(known.begin(), known.end(), [&](const Member& m) {
      return m.name == text_of(member.name);
    });
    if (at == known.end()) {
      return unknown_member(text_of(member.name));
    }
    auto& value = out[static_cast<std::size_t>(at - known.begin())];
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
  return std::nullopt;
}

}  // namespace audiogen
