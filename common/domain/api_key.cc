#include "common/domain/api_key.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

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

struct CodePoints {
  char32_t first, last;
};

// Cc, Zl, Zp, and Default_Ignorable_Code_Point without Variation_Selector (Unicode 15).
constexpr std::array<CodePoints, 19> kUnseen = {{{0x0000, 0x001F},
                                                 {0x007F, 0x009F},
                                                 {0x00AD, 0x00AD},
                                                 {0x034F, 0x034F},
                                                 {0x061C, 0x061C},
                                                 {0x115F, 0x1160},
                                                 {0x17B4, 0x17B5},
                                                 {0x180E, 0x180E},
                                                 {0x200B, 0x200F},
                                                 {0x2028, 0x202E},
                                                 {0x2060, 0x206F},
                                                 {0x3164, 0x3164},
                                                 {0xFEFF, 0xFEFF},
                                                 {0xFFA0, 0xFFA0},
                                                 {0xFFF0, 0xFFF8},
                                                 {0x1BCA0, 0x1BCA3},
                                                 {0x1D173, 0x1D17A},
                                                 {0xE0000, 0xE00FF},
                                                 {0xE01F0, 0xE0FFF}}};

bool is_unseen(char32_t c) {
  return std::any_of(kUnseen.begin(), kUnseen.end(), [&](const CodePoints& range) {
    return c >= range.first && c <= range.last;
  });
}

bool is_joiner(char32_t c) {
  return c == 0x200C || c == 0x200D;
}

bool is_space(std::string_view sequence) {
  return sequence == " " ||
         std::find(kWideSpaces.begin(), kWideSpaces.end(), sequence) != kWideSpaces.end();
}

// The characters of `text`; an empty one for each byte that is no part of any.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    out.push_back(text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

// Whether a joiner between these two may change what is seen; "": there is none, or no character.
bool may_join(std::string_view before, std::string_view after) {
  constexpr char32_t kLatinEnd = 0x300;
  const auto is_seen = [](std::string_view one) {
    return !one.empty() && !is_space(one) && !is_unseen(utf8_code_point(one));
  };
  return is_seen(before) && is_seen(after) &&
         (utf8_code_point(before) >= kLatinEnd || utf8_code_point(after) >= kLatinEnd);
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

bool has_unseen_character(std::string_view text) {
  const auto all = characters(text);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty() || !is_unseen(utf8_code_point(all[i]))) {
      continue;
    }
    const bool inside = i > 0 && i + 1 < all.size();
    if (!is_joiner(utf8_code_point(all[i])) || !inside || !may_join(all[i - 1], all[i + 1])) {
      return true;
    }
  }
  return false;
}

bool is_key_name(std::string_view name) {
  return !name.empty() && name == clip_utf8(name, kKeyNameMax) && !has_unseen_character(name) &&
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
  return scope_beyond(after.scopes, before.scopes) ||
         outlives(after.expires_at, before.expires_at) ||
         lifts(after.spend_limit, before.spend_limit);
}

}  // namespace audiogen
