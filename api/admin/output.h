// What an admin command answers: a JSON object, and the same for people.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/base/json.h"
#include "common/domain/pricing.h"
#include "common/domain/provider_price.h"

namespace audiogen::api {

// Writes one object, member by member.
class Json {
 public:
  Json() { writer_.begin_object(); }
  Json(const Json&) = delete;
  Json& operator=(const Json&) = delete;

  template <class T>
  Json& member(const char* name, const T& value) {
    writer_.member(name, value);
    return *this;
  }
  // Exact: a number of at most three decimals.
  Json& member(const char* name, Units amount) {
    writer_.key(name).raw(format_credits(amount));
    return *this;
  }
  Json& member(const char* name, const std::optional<Units>& amount) {
    return amount ? member(name, *amount) : member(name, std::optional<bool>());
  }

  // Exact: a number of at most six decimals.
  Json& member(const char* name, Micros amount) {
    writer_.key(name).raw(format_micros(amount));
    return *this;
  }
  Json& member(const char* name, const std::optional<Micros>& amount) {
    return amount ? member(name, *amount) : member(name, std::optional<bool>());
  }

  // An array of objects; `write` writes the members of one.
  template <class Range, class Write>
  Json& objects(const char* name, const Range& items, const Write& write) {
    writer_.key(name).begin_array();
    for (const auto& item : items) {
      writer_.begin_object();
      write(item);
      writer_.end_object();
    }
    writer_.end_array();
    return *this;
  }

  std::string finish() {
    writer_.end_object();
    return std::move(out_);
  }

 private:
  std::string out_;
  JsonWriter writer_{out_};
};

// The object as text: its members, then a table for each array. Control characters of others'
// making become question marks. `json` must be what Json writes.
std::string for_people(const std::string& json);

}  // namespace audiogen::api
