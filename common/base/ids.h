// Identifiers: UUIDv7 (RFC 9562 section 5.7) in memory and in BINARY(16) columns, written for
// people as a prefix and 26 lower-case Crockford base32 characters. They sort by creation time.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time.h"

namespace audiogen {

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
  // As two words: the default compares byte by byte, and every map of tasks and users compares.
  friend constexpr bool operator==(const Uuid& a, const Uuid& b) {
    return std::bit_cast<Words>(a.bytes) == std::bit_cast<Words>(b.bytes);
  }

 private:
  using Words = std::array<std::uint64_t, 2>;
};

// What an id that is made at `now` begins with: the milliseconds, and 12 bits of the fraction of
// one (RFC 9562, section 6.2, method 3), after `last`, which its thread made before. A clock that
// is set back by more than two seconds was wrong before: what it stamped is not gone on with.
std::uint64_t next_stamp(std::uint64_t last, std::chrono::microseconds now);
// A new UUIDv7 of the present wall clock. Thread-safe; ids of one thread grow strictly, as long as
// the clock is not set back (next_stamp()).
Uuid new_uuid();

// What no UUIDv7 made at `at` or later sorts below.
Uuid first_uuid_at(Instant at);

// When a UUIDv7 was made, by its maker's wall clock, in whole milliseconds.
Instant made_at(const Uuid& id);

// 26 lower-case base32 characters of 128 bits; the first carries only three bits.
std::string encode_base32(const Uuid& id);

// The reverse. Nothing but exactly what encode_base32 writes is accepted.
std::optional<Uuid> decode_base32(std::string_view text);

// Lower-case Crockford base32 of `count` random 5-bit groups, for names nobody can guess.
std::string random_base32(std::size_t count);

// An id of one kind of thing: TaskId cannot be passed for KeyId.
template <class Tag>
struct Id {
  Uuid uuid;
  friend auto operator<=>(const Id&, const Id&) = default;
  friend bool operator==(const Id&, const Id&) = default;

  static Id make() { return Id{new_uuid()}; }
  // "aud_01j…": prefix, underscore, base32.
  std::string text() const { return std::string(Tag::kPrefix) + encode_base32(uuid); }
  static std::optional<Id> parse(std::string_view text) {
    if (!text.starts_with(Tag::kPrefix)) {
      return std::nullopt;
    }
    const auto uuid = decode_base32(text.substr(std::string_view(Tag::kPrefix).size()));
    return uuid ? std::optional<Id>(Id{*uuid}) : std::nullopt;
  }
};

struct TaskTag {
  static constexpr const char* kPrefix = "aud_";
};
struct UserTag {
  static constexpr const char* kPrefix = "usr_";
};
struct KeyTag {
  static constexpr const char* kPrefix = "key_";
};
struct WorkerTag {
  static constexpr const char* kPrefix = "wrk_";
};
struct ApiTag {
  static constexpr const char* kPrefix = "api_";
};
struct SessionTag {
  static constexpr const char* kPrefix = "ses_";
};
using TaskId = Id<TaskTag>;
using UserId = Id<UserTag>;
using KeyId = Id<KeyTag>;
using WorkerId = Id<WorkerTag>;  // One per process start, never the host's name.
using ApiId = Id<ApiTag>;        // Likewise.
using SessionId = Id<SessionTag>;

}  // namespace audiogen

template <>
struct std::hash<audiogen::Uuid> {
  std::size_t operator()(const audiogen::Uuid& id) const noexcept {
    // The last eight bytes of a UUIDv7 are random.
    std::size_t out = 0;
    for (std::size_t i = 8; i < 16; ++i) {
      out = out << 8U | id.bytes[i];
    }
    return out;
  }
};
template <class Tag>
struct std::hash<audiogen::Id<Tag>> {
  std::size_t operator()(const audiogen::Id<Tag>& id) const noexcept {
    return std::hash<audiogen::Uuid>()(id.uuid);
  }
};
