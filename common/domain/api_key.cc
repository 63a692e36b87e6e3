#include "common/domain/api_key.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/base/ascii.h"
#include "common/base/utf8.h"

namespace audiogen {
namespace {

constexpr std::string_view kBase62 =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kRandomLength = 43;   // 256 bits.
constexpr std::size_t kChecksumLength = 6;  // 62^6 > 2^32.
constexpr std::size_t kPrefixRandom = 4;    // Random characters that may be shown.

std::string key_start(std::string_view brand) {
  return std::string(brand) + "_live_";
}

std::string random_base62(std::size_t length) {
  // Bytes from here up would make the first characters of the alphabet likelier.
  constexpr std::uint8_t kFair = 256 / kBase62.size() * kBase62.size();
  std::string out;
  while (out.size() < length) {
    std::array<std::uint8_t, 64> raw;
    random_bytes(raw);
    for (const std::uint8_t byte : raw) {
      if (byte < kFair && out.size() < length) {
        out += kBase62[byte % kBase62.size()];
      }
    }
  }
  return out;
}

std::string checksum(std::string_view text) {
  std::string out(kChecksumLength, kBase62[0]);
  std::uint32_t rest = crc32(text);
  for (auto at = out.rbegin(); at != out.rend(); ++at) {
    *at = kBase62[rest % kBase62.size()];
    rest /= static_cast<std::uint32_t>(kBase62.size());
  }
  return out;
}

constexpr std::array<std::string_view, 2> kScopeNames = {"generate", "manage"};  // As kScopes.

// White space above ASCII (Unicode 15, White_Space) but for what is a control character.
constexpr std::array<std::string_view, 18> kWideSpaces = {"\u00A0",
                                                          "\u1680",
                                                          "\u2000",
                                                          "\u2001",
                                                          "\u2002",
                                                          "\u2003",
                                                          "\u2004",
                                                          "\u2005",
                                                          "\u2006",
                                                          "\u2007",
                                                          "\u2008",
                                                          "\u2009",
                                                          "\u200A",
                                                          "\u2028",
                                                          "\u2029",
                                                          "\u202F",
                                                          "\u205F",
                                                          "\u3000"};

// The controls of ASCII, and U+0080 to U+009F.
bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (ascii::is_control(text[i]) || (text[i] == '\xC2' && i + 1 < text.size() &&
                                       static_cast<unsigned char>(text[i + 1]) < 0xA0)) {
      return true;
    }
  }
  return false;
}

bool has_space_at_an_end(std::string_view text) {
  return text.starts_with(' ') || text.ends_with(' ') ||
         std::any_of(kWideSpaces.begin(), kWideSpaces.end(), [&](std::string_view space) {
           return text.starts_with(space) || text.ends_with(space);
         });
}

}  // namespace

NewApiKey make_api_key(std::string_view brand) {
  const std::string start = key_start(brand);
  NewApiKey key;
  key.text = start + random_base62(kRandomLength);
  key.text += checksum(key.text);
  key.prefix = key.text.substr(0, start.size() + kPrefixRandom);
  key.hash = sha256(key.text);
  return key;
}

std::optional<Sha256> api_key_hash(std::string_view presented, std::string_view brand) {
  const std::string start = key_start(brand);
  if (presented.size() != start.size() + kRandomLength + kChecksumLength ||
      !presented.starts_with(start)) {
    return std::nullopt;
  }
  const auto end = presented.size() - kChecksumLength;
  const std::string_view random = presented.substr(start.size());
  if (!std::all_of(random.begin(), random.end(), ascii::is_alnum) ||
      presented.substr(end) != checksum(presented.substr(0, end))) {
    return std::nullopt;
  }
  return sha256(presented);
}

std::string_view scope_name(Scope scope) {
  return kScopeNames[scope == Scope::kGenerate ? 0 : 1];
}

std::optional<Scope> parse_scope(std::string_view name) {
  for (const Scope scope : kScopes) {
    if (scope_name(scope) == name) {
      return scope;
    }
  }
  return std::nullopt;
}

bool is_key_name(std::string_view name) {
  return !name.empty() && name == clip_utf8(name, kKeyNameMax) && !has_control(name) &&
         !has_space_at_an_end(name);
}

bool is_key_expiry(Instant expires_at, Instant now) {
  return expires_at > now && expires_at <= now + kKeyLifeMax;
}

std::optional<Scope> scope_beyond(Scopes given, Scopes own) {
  for (const Scope scope : kScopes) {
    if (given.has(scope) && !own.has(scope)) {
      return scope;
    }
  }
  return std::nullopt;
}

bool outlives(std::optional<Instant> given, std::optional<Instant> own) {
  return own && (!given || *given > *own);
}

bool reaches_beyond(const KeyReach& after, const KeyReach& before) {
  return scope_beyond(after.scopes, before.scopes) || outlives(after.expires_at, before.expires_at);
}

}  // namespace audiogen
