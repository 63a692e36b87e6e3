// What an admin command answers: a JSON object, and the same for people.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/pricing.h"

namespace audiogen::api {

// Writes one object, member by member.
class Json {
 public:
  Json() : writer_(buffer_) { writer_.StartObject(); }

  Json& member(const char* name, std::string_view value) {
    writer_.Key(name);
    return text(value);
  }
  Json& member(const char* name, const char* value) {
    return member(name, std::string_view(value));
  }
  Json& member(const char* name, bool value) {
    writer_.Key(name);
    writer_.Bool(value);
    return *this;
  }
  template <std::integral N>
  requires(!std::same_as<N, bool>) Json& member(const char* name, N value) {
    writer_.Key(name);
    writer_.Uint64(static_cast<std::uint64_t>(value));
    return *this;
  }
  // Exact: a number of at most three decimals.
  Json& member(const char* name, Units amount) {
    const std::string number = format_credits(amount);
    writer_.Key(name);
    writer_.RawValue(number.data(), number.size(), rapidjson::kNumberType);
    return *this;
  }
  Json& member(const char* name, Instant at) { return member(name, format_iso(at)); }
  template <class Tag>
  Json& member(const char* name, const Id<Tag>& id) {
    return member(name, id.text());
  }
  template <class T>
  Json& member(const char* name, const std::optional<T>& value) {
    return value ? member(name, *value) : null(name);
  }
  Json& null(const char* name) {
    writer_.Key(name);
    writer_.Null();
    return *this;
  }

  // An array of objects; `write` writes the members of one.
  template <class Range, class Write>
  Json& objects(const char* name, const Range& items, const Write& write) {
    writer_.Key(name);
    writer_.StartArray();
    for (const auto& item : items) {
      writer_.StartObject();
      write(item);
      writer_.EndObject();
    }
    writer_.EndArray();
    return *this;
  }

  std::string finish() {
    writer_.EndObject();
    return {buffer_.GetString(), buffer_.GetSize()};
  }

 private:
  Json& text(std::string_view value) {
    writer_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
    return *this;
  }

  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_;
};

// The object as text: its members, then a table for each array. Control characters of others'
// making become question marks. `json` must be what Json writes.
std::string for_people(const std::string& json);

}  // namespace audiogen::api
