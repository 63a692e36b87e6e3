#include "tests/support/openapi.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

// The patterns of the description are ECMAScript; RapidJSON's own engine knows less.
#define RAPIDJSON_SCHEMA_USE_INTERNALREGEX 0
#define RAPIDJSON_SCHEMA_USE_STDREGEX 1
#include <rapidjson/pointer.h>
#include <rapidjson/schema.h>
#include <rapidjson/stringbuffer.h>

#include "common/base/ascii.h"

namespace audiogen::test {
namespace {

using rapidjson::Document;
using rapidjson::Value;

// RapidJSON knows JSON Schema draft 4. Its one gap that matters here is `const` (2020-12): the same
// as an enum of one.
void const_to_enum(Value& value, Document::AllocatorType& allocator) {
  if (value.IsArray()) {
    for (Value& item : value.GetArray()) {
      const_to_enum(item, allocator);
    }
  } else if (value.IsObject()) {
    if (value.HasMember("const")) {
      Value only(rapidjson::kArrayType);
      only.PushBack(Value(value["const"], allocator), allocator);
      value.RemoveMember("const");
      value.AddMember("enum", only, allocator);
    }
    for (auto& member : value.GetObject()) {
      const_to_enum(member.value, allocator);
    }
  }
}

// Follows a local {"$ref": "#/…"} of anything but schemas (responses, headers, parameters).
const Value& resolved(const Document& document, const Value& value) {
  if (value.IsObject() && value.HasMember("$ref")) {
    const Value* const target = rapidjson::Pointer(value["$ref"].GetString()).Get(document);
    if (target == nullptr) {
      throw std::runtime_error(std::string("dangling $ref ") + value["$ref"].GetString());
    }
    return *target;
  }
  return value;
}

}  // namespace

OpenApi OpenApi::from_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return from_text(text.str());
}

OpenApi OpenApi::from_text(const std::string& text) {
  OpenApi out;
  out.document_.Parse(text.c_str());
  if (out.document_.HasParseError() || !out.document_.IsObject()) {
    throw std::runtime_error("the OpenAPI document is not JSON");
  }
  const_to_enum(out.document_, out.document_.GetAllocator());
  return out;
}

const Value* OpenApi::operation(const std::string& method, const std::string& path) const {
  const auto paths = document_.FindMember("paths");
  const auto item = paths->value.FindMember(path.c_str());
  if (item == paths->value.MemberEnd()) {
    return nullptr;
  }
  const auto found = item->value.FindMember(ascii::lower(method).c_str());
  return found == item->value.MemberEnd() ? nullptr : &found->value;
}

std::string OpenApi::validate(const Value& schema, const Value& instance) const {
  // The whole document rides along, so that "#/components/…" references resolve.
  Document wrapped;
  wrapped.CopyFrom(document_, wrapped.GetAllocator());
  Value properties(rapidjson::kObjectType);
  properties.AddMember("checked", Value(schema, wrapped.GetAllocator()), wrapped.GetAllocator());
  wrapped.AddMember("type", "object", wrapped.GetAllocator());
  wrapped.AddMember("properties", properties, wrapped.GetAllocator());
  Document body;
  body.SetObject();
  body.AddMember("checked", Value(instance, body.GetAllocator()), body.GetAllocator());
  const rapidjson::SchemaDocument compiled(wrapped);
  rapidjson::SchemaValidator validator(compiled);
  if (body.Accept(validator)) {
    return "";
  }
  rapidjson::StringBuffer where;
  validator.GetInvalidDocumentPointer().StringifyUriFragment(where);
  return std::string("breaks ") + validator.GetInvalidSchemaKeyword() + " at " + where.GetString();
}

std::string OpenApi::check(const std::string& method,
                           const std::string& path,
                           const Reply& reply) const {
  const Value* const described = operation(method, path);
  if (described == nullptr) {
    return method + " " + path + " is not described";
  }
  const std::string status = std::to_string(reply.status);
  const Value& responses = (*described)["responses"];
  if (!responses.HasMember(status.c_str())) {
    return method + " " + path + " may not answer " + status;
  }
  const Value& response = resolved(document_, responses[status.c_str()]);
  if (response.HasMember("headers")) {
    for (const auto& header : response["headers"].GetObject()) {
      const Value& rule = resolved(document_, header.value);
      const bool required = rule.HasMember("required") && rule["required"].GetBool();
      if (required && reply.header(ascii::lower(header.name.GetString())).empty()) {
        return status + " lacks the header " + header.name.GetString();
      }
    }
  }
  if (!response.HasMember("content")) {
    return reply.body.empty() ? "" : status + " should have no body";
  }
  const Value& content = response["content"];
  const std::string type = reply.header("content-type");
  if (!content.HasMember(type.c_str())) {
    return status + " has the undescribed Content-Type '" + type + "'";
  }
  Document body;
  if (type == "application/json") {
    body = reply.json();
  } else {
    body.SetString(reply.body.c_str(), body.GetAllocator());
  }
  const std::string wrong = validate(content[type.c_str()]["schema"], body);
  return wrong.empty() ? "" : status + " " + wrong + ": " + reply.body;
}

std::string OpenApi::check_request(const std::string& method,
                                   const std::string& path,
                                   const std::string& body) const {
  const Value* const described = operation(method, path);
  if (described == nullptr || !described->HasMember("requestBody")) {
    return "no request body is described";
  }
  Document instance;
  instance.Parse(body.c_str());
  return validate(
      resolved(document_, (*described)["requestBody"])["content"]["application/json"]["schema"],
      instance);
}

std::set<std::string> OpenApi::operations() const {
  std::set<std::string> out;
  for (const auto& path : document_["paths"].GetObject()) {
    for (const auto& item : path.value.GetObject()) {
      const std::string name = item.name.GetString();
      if (name == "get" || name == "post" || name == "put" || name == "delete" || name == "patch" ||
          name == "head") {
        std::string upper = name;
        for (char& c : upper) {
          c = static_cast<char>(c - 'a' + 'A');
        }
        out.insert(upper + " " + path.name.GetString());
      }
    }
  }
  return out;
}

}  // namespace audiogen::test
