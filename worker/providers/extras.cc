#include "worker/providers/extras.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <rapidjson/pointer.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/ascii.h"
#include "common/base/environment.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::extras {
namespace {

constexpr std::size_t kNameMax = 64;
constexpr std::size_t kValueMax = 2048;
// What every request has, or what says where its body ends.
constexpr std::array<std::string_view, 9> kReserved = {"authorization",
                                                       "connection",
                                                       "content-length",
                                                       "content-type",
                                                       "expect",
                                                       "host",
                                                       "te",
                                                       "traceparent",
                                                       "transfer-encoding"};

bool has(const ProviderEntry& entry, const ProviderOption& option) {
  return entry.options.find(option.name) != entry.options.end();
}

// The object that an option holds; empty without one.
void read_object(rapidjson::Document& out,
                 const ProviderEntry& entry,
                 const ProviderOption& option) {
  if (has(entry, option) && !entry.option(option.name).empty()) {
    out.Parse<rapidjson::kParseIterativeFlag>(entry.option(option.name).c_str());
  } else {
    out.SetObject();
  }
}

rapidjson::Document object_of(const ProviderEntry& entry, const ProviderOption& option) {
  rapidjson::Document out;
  read_object(out, entry, option);
  return out;
}

std::string string_of(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

// RFC 9110 section 5.6.2.
bool is_token(std::string_view text) {
  return !text.empty() && text.size() <= kNameMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return ascii::is_alnum(c) ||
                  std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
         });
}

bool is_field_value(std::string_view text) {
  return !text.empty() && text.size() <= kValueMax && text.front() != ' ' && text.back() != ' ' &&
         std::all_of(
             text.begin(), text.end(), [](char c) { return c == ' ' || ascii::is_visible(c); });
}

// A name of the file, for an error: a secret may have been pasted into its place.
std::string shown(std::string_view name) {
  return is_token(name) ? "'" + std::string(name) + "'" : "(not plain text)";
}

// The value of one header line, or what is wrong with it.
Result<std::string> header_value(const rapidjson::Value& given) {
  std::string value;
  if (given.IsObject() && given.MemberCount() == 1 && given.HasMember("env") &&
      given["env"].IsString()) {
    const std::string variable = string_of(given["env"]);
    if (!is_token(variable)) {
      return Error{"env must be the name of an environment variable"};
    }
    auto read = read_variable(variable);
    if (!read) {
      return read.error();
    }
    value = read->value_or("");
    if (value.empty()) {
      return Error{"the environment variable " + variable + " is not set"};
    }
  } else if (given.IsString()) {
    value = string_of(given);
  } else {
    return Error{"must be a text or {\"env\": \"NAME\"}"};
  }
  if (!is_field_value(value)) {
    return Error{"must be 1 to 2048 visible ASCII characters, with spaces between them alone"};
  }
  return value;
}

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_headers(ProviderEntry& entry,
                   std::span<const std::string_view> ours,
                   const Complain& complain) {
  const rapidjson::Document given = object_of(entry, kHeaders);
  rapidjson::Document out(rapidjson::kObjectType);
  for (const auto& member : given.GetObject()) {
    const std::string name = string_of(member.name);
    const std::string lower = ascii::lower(name);
    if (!is_token(name)) {
      complain("options: headers has a name that no header can have");
      continue;
    }
    if (is_in(kReserved, lower) || is_in(ours, lower)) {
      complain("options: headers may not have '" + name + "', which we send ourselves");
      continue;
    }
    auto value = header_value(member.value);
    if (!value) {
      complain("options: headers: " + name + ": " + value.error().message);
      continue;
    }
    if (out.HasMember(lower.c_str())) {
      complain("options: headers has '" + name + "' twice");
      continue;
    }
    auto& memory = out.GetAllocator();
    out.AddMember(
        rapidjson::Value(lower.c_str(), memory), rapidjson::Value(value->c_str(), memory), memory);
  }
  if (out.MemberCount() > 0) {
    entry.options[std::string(kHeaders.name)] = text_of(out);
  }
}

void check_names(const rapidjson::Document& given,
                 const ProviderOption& option,
                 std::span<const std::string_view> ours,
                 const Complain& complain) {
  const std::string where = "options: " + std::string(option.name);
  for (auto it = given.MemberBegin(); it != given.MemberEnd(); ++it) {
    const std::string name = string_of(it->name);
    if (is_in(ours, name)) {
      complain(where + " may not have '" + name + "', which we send ourselves");
    } else if (name.empty() || given.FindMember(it->name) != it) {
      complain(where + " has " + (name.empty() ? "an empty name" : shown(name) + " twice"));
    }
  }
}

}  // namespace

void check(ProviderEntry& entry, const Ours& ours, const Complain& complain) {
  if (has(entry, kHeaders)) {
    check_headers(entry, ours.headers, complain);
  }
  if (has(entry, kMembers)) {
    check_names(object_of(entry, kMembers), kMembers, ours.members, complain);
  }
  if (has(entry, kQuery)) {
    const rapidjson::Document given = object_of(entry, kQuery);
    check_names(given, kQuery, ours.query, complain);
    for (const auto& member : given.GetObject()) {
      if (!member.value.IsString() || member.value.GetStringLength() > kValueMax) {
        complain("options: query: " + shown(string_of(member.name)) +
                 " must be a text of at most 2048 bytes");
      }
    }
  }
}

Body::Body(const ProviderEntry& entry) : rapidjson::Document(&pool) {
  read_object(*this, entry, kMembers);
}

void set(rapidjson::Document& body, const char* path, rapidjson::Value value) {
  // A member of the body itself, as nearly all are: a Pointer costs more than the rest of it.
  const char* const name = path + 1;
  if (std::string_view(name).find_first_of("/~") != std::string_view::npos) {
    rapidjson::Pointer(path).Set(body, value);
  } else if (const auto found = body.FindMember(name); found != body.MemberEnd()) {
    found->value = std::move(value);
  } else {
    body.AddMember(rapidjson::Value(name, body.GetAllocator()), value, body.GetAllocator());
  }
}

void set(rapidjson::Document& body, const char* path, std::string_view text) {
  set(body,
      path,
      rapidjson::Value(
          text.data(), static_cast<rapidjson::SizeType>(text.size()), body.GetAllocator()));
}

void set_json(rapidjson::Document& body, const char* path, const std::string& json) {
  rapidjson::Document value(&body.GetAllocator());
  value.Parse<rapidjson::kParseIterativeFlag>(json.c_str());
  set(body, path, rapidjson::Value(value, body.GetAllocator()));
}

void set_voice(rapidjson::Document& body,
               const char* path,
               const char* name_path,
               const std::string& voice) {
  if (voice.starts_with('{')) {
    set_json(body, path, voice);
  } else {
    set(body, name_path, voice);
  }
}

std::string text_of(const rapidjson::Document& body) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  body.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string query(const ProviderEntry& entry, char first) {
  std::string out;
  const rapidjson::Document given = object_of(entry, kQuery);
  for (const auto& member : given.GetObject()) {
    out += out.empty() ? first : '&';
    out += wire::percent_encode(string_of(member.name)) + "=" +
           wire::percent_encode(string_of(member.value));
  }
  return out;
}

void add_headers(const ProviderEntry& entry, http::ClientRequest& request) {
  const rapidjson::Document given = object_of(entry, kHeaders);
  for (const auto& member : given.GetObject()) {
    request.headers.push_back(string_of(member.name) + ": " + string_of(member.value));
  }
}

}  // namespace audiogen::extras
