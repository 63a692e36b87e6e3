// Writing JSON (RFC 8259) into a string, in one pass and without a document in between. Reading it
// is RapidJSON's.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace audiogen {

// Appends `text` as the inside of a JSON string: quotation marks, backslashes and control
// characters escaped, all else as it is. The result is JSON only if `text` is valid UTF-8.
void append_json_escaped(std::string& out, std::string_view text);

// The same with the quotation marks around it.
void append_json_string(std::string& out, std::string_view text);

// Appends "name":"text". `name` is a word of our own, with nothing to escape.
void append_json_member(std::string& out, std::string_view name, std::string_view text);

// Writes values one after the other and sets the commas. What is opened must be closed, and every
// value in an object needs its key: nothing checks it. `out` must live as long as the writer.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  // `name` is a word of our own, with nothing to escape.
  JsonWriter& key(std::string_view name) {
    next();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    comma_ = false;
    return *this;
  }

  // A name that is not ours, valid UTF-8.
  JsonWriter& foreign_key(std::string_view name) {
    value(name);
    out_ += ':';
    comma_ = false;
    return *this;
  }

  // Valid UTF-8.
  JsonWriter& value(std::string_view text) {
    next();
    append_json_string(out_, text);
    return *this;
  }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  template <std::same_as<bool> B>
  JsonWriter& value(B yes) {
    return raw(yes ? "true" : "false");
  }
  template <std::integral N>
  requires(!std::same_as<N, bool>) JsonWriter& value(N number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return raw({digits, static_cast<std::size_t>(end - digits)});
  }
  JsonWriter& value(Instant at) { return value(std::string_view(format_iso(at))); }
  template <class Tag>
  JsonWriter& value(const Id<Tag>& id) {
    return value(std::string_view(id.text()));
  }
  // Null when there is none.
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  JsonWriter& null() { return raw("null"); }
  // A value that is JSON already, like a number with decimals.
  JsonWriter& raw(std::string_view json) {
    next();
    out_ += json;
    return *this;
  }

  template <class T>
  JsonWriter& member(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  void next() {
    if (comma_) {
      out_ += ',';
    }
    comma_ = true;
  }
  JsonWriter& open(char bracket) {
    next();
    out_ += bracket;
    comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    comma_ = true;
    return *this;
  }

  std::string& out_;
  bool comma_ = false;  // The next key or value has one before it.
};

}  // namespace audiogen
