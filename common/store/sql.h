// SQL text built from literals and typed values. Text from outside can only enter as a hexadecimal
// literal, so there is nothing to escape and nothing to inject.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/base/ascii.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/base/utf8.h"
#include "common/domain/api_key.h"
#include "common/domain/pricing.h"

namespace audiogen::store {

class Sql {
 public:
  Sql() { text_.reserve(512); }
  template <std::size_t N>
  explicit Sql(const char (&literal)[N]) : Sql() {
    text_.append(literal, N - 1);
  }

  // Statements of our own that are no literal of the program: migrations, names of databases.
  static Sql trusted(std::string text) {
    Sql sql;
    sql.text_ = std::move(text);
    return sql;
  }

  // A piece of SQL written in our own source.
  template <std::size_t N>
  Sql& operator<<(const char (&literal)[N]) {
    text_.append(literal, N - 1);
    return *this;
  }
  Sql& operator<<(std::int64_t value) { return number(value); }
  Sql& operator<<(std::uint64_t value) { return number(value); }
  Sql& operator<<(std::int32_t value) { return number(value); }
  Sql& operator<<(std::uint32_t value) { return number(value); }
  Sql& operator<<(Units amount) { return number(amount.value); }
  Sql& operator<<(Scopes scopes) { return number(std::uint32_t{scopes.bits}); }
  Sql& operator<<(const Uuid& id) { return bytes({id.bytes.data(), id.bytes.size()}); }
  template <class Tag>
  Sql& operator<<(const Id<Tag>& id) {
    return *this << id.uuid;
  }
  Sql& operator<<(Instant at) {
    text_ += '\'';
    text_ += format_db_time(at);
    text_ += '\'';
    return *this;
  }

  // The number an enumeration is stored as.
  template <class E>
  requires std::is_enum_v<E> Sql& operator<<(E value) {
    return number(static_cast<std::uint32_t>(value));
  }
  template <class T>
  Sql& operator<<(const std::optional<T>& value) {
    return value ? *this << *value : *this << "NULL";
  }

  // A binary string.
  Sql& bytes(std::span<const std::uint8_t> value) {
    std::size_t at = text_.size() + 2;
    text_ += "x'";
    text_.resize(at + value.size() * 2 + 1);
    for (const std::uint8_t byte : value) {
      text_[at++] = ascii::kHexDigits[byte >> 4U];
      text_[at++] = ascii::kHexDigits[byte & 0xFU];
    }
    text_[at] = '\'';
    return *this;
  }
  Sql& bytes(std::string_view value) {
    return bytes({reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
  }
  // Text for a column of `max` characters: what is too long is cut, bytes that are no UTF-8 become
  // "?". A text of others' making must never keep a row from being written.
  Sql& utf8(std::string_view value, std::size_t max) {
    text_ += "_utf8mb4 ";
    return bytes(clip_utf8(value, max));
  }

  // A part of a statement.
  Sql& append(const Sql& part) {
    text_ += part.text_;
    return *this;
  }

  const std::string& text() const { return text_; }

 private:
  template <class N>
  Sql& number(N value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, static_cast<std::size_t>(end - digits));
    return *this;
  }

  std::string text_;
};

// The name of a lock of the server's (GET_LOCK) that this database has for itself. Up to 64
// characters; MD5, the shorter way, has left MySQL's core with 9.6.
inline Sql lock_name(const std::string& kind) {
  return Sql::trusted("CONCAT('audiogen." + kind + ".', LEFT(SHA2(DATABASE(),256),32))");
}

// Writes `items` separated by commas; `write` appends one.
template <class Range, class Write>
Sql& list(Sql& sql, const Range& items, const Write& write) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) {
      sql << ",";
    }
    first = false;
    write(item);
  }
  return sql;
}

}  // namespace audiogen::store
