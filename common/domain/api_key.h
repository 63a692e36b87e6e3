// API keys: "<brand>_live_<43 random characters><6 checksum characters>", base62. Only the SHA-256
// is stored; 256 random bits need no slow hash. The checksum spares a look-up for what was mistyped
// or cut off, and lets scanners for leaked secrets tell a key from other text.
//
// What a key may do beside reading are its scopes, and it may have an end and a limit of what it
// spends.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"
#include "common/base/time.h"
#include "common/domain/spend_limit.h"

namespace audiogen {

struct NewApiKey {
  std::string text;    // Shown once.
  std::string prefix;  // "svc_live_Ab3d": safe to show, helps to tell keys apart.
  Sha256 hash;
};

NewApiKey make_api_key(std::string_view brand);

// The hash to look a presented key up by. Nullopt when its form or checksum is wrong: no lookup
// needed.
std::optional<Sha256> api_key_hash(std::string_view presented, std::string_view brand);

enum class Scope : std::uint8_t {
  kGenerate = 1,  // To change what is under /audio.
  kManage = 2,    // To change what is under /account.
};
inline constexpr std::array<Scope, 2> kScopes = {Scope::kGenerate, Scope::kManage};

// The name in the interface: generate, manage.
std::string_view scope_name(Scope scope);
std::optional<Scope> parse_scope(std::string_view name);

// A set of scopes; none is a key that only reads.
struct Scopes {
  std::uint8_t bits = 0;  // As the database has them; those of no scope are ignored.

  constexpr bool has(Scope scope) const { return (bits & static_cast<unsigned>(scope)) != 0; }
  constexpr void add(Scope scope) {
    bits = static_cast<std::uint8_t>(bits | static_cast<unsigned>(scope));
  }
  friend bool operator==(const Scopes&, const Scopes&) = default;
};
inline constexpr Scopes kUsualScopes{static_cast<std::uint8_t>(Scope::kGenerate)};
inline constexpr Scopes kAllScopes{static_cast<std::uint8_t>(Scope::kGenerate) |
                                   static_cast<std::uint8_t>(Scope::kManage)};

inline constexpr std::size_t kKeysMax = 50;      // Of a user, the expired ones too.
inline constexpr std::size_t kKeyNameMax = 100;  // Characters.
// The longest that the secret before a rotation still works.
inline constexpr std::chrono::hours kKeyOverlapMax{168};
inline constexpr std::chrono::days kKeyLifeMax{3653};  // Ten years, however many are leap years.

// What a key is made with.
struct KeyTerms {
  std::string name;
  Scopes scopes = kUsualScopes;
  std::optional<Instant> expires_at{};  // Nullopt: never.
  std::optional<SpendLimit> spend_limit{};
};

// What is to be changed of a key; what is not there stays.
struct KeyChange {
  std::optional<std::string> name{};
  std::optional<Scopes> scopes{};
  std::optional<std::optional<Instant>> expires_at{};      // Nullopt inside: never.
  std::optional<std::optional<SpendLimit>> spend_limit{};  // Nullopt inside: none any more.
};

// Whether `text`, UTF-8, has a control character (Unicode: Cc), one that separates lines, or one
// that is not seen or turns the direction of what is (Default_Ignorable_Code_Point). Variation
// selectors may be there: they say which picture of a character is meant. So may a joiner or
// non-joiner (U+200D, U+200C): pictures are made of several by it, and Persian is written with it.
// Not alone, at either end, beside another or a space, or between two characters before U+0300,
// basic Latin ones among them; between others it may be there though it changes nothing that is
// seen.
bool has_unseen_character(std::string_view text);

// 1 to kKeyNameMax characters of UTF-8, none of has_unseen_character() among them, no white space
// at either end: none can turn round the text beside it, and few that differ look alike.
bool is_key_name(std::string_view name);

// In the future, and not further ahead than kKeyLifeMax.
bool is_key_expiry(Instant expires_at, Instant now);

// Nobody gives a key what he lacks himself: the first scope of `given` that is not in `own`, and
// whether a key that ends at `given` outlives one that ends at `own`.
std::optional<Scope> scope_beyond(Scopes given, Scopes own);
bool outlives(std::optional<Instant> given, std::optional<Instant> own);

// What a key may do, until when, and for how much.
struct KeyReach {
  Scopes scopes;
  std::optional<Instant> expires_at{};  // Nullopt: never.
  std::optional<SpendLimit> spend_limit{};
  friend bool operator==(const KeyReach&, const KeyReach&) = default;
};

// Whether `after` may do anything, or may do it later, or for more, that `before` may not.
bool reaches_beyond(const KeyReach& after, const KeyReach& before);

}  // namespace audiogen
