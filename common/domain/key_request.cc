#include "common/domain/key_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "common/base/utf8.h"
#include "common/domain/json_object.h"

namespace audiogen {
namespace {

using rapidjson::Value;

constexpr std::array<std::string_view, 4> kMembers = {
    "name", "scopes", "expires_at", "spend_limit"};

// A whole number from `low` to `high`, also one that is written 24.0 or 1e3: to JSON Schema that is
// an integer. What is asked for here is small enough that a double holds it exactly.
std::optional<std::int64_t> whole_number(const Value& value, std::int64_t low, std::int64_t high) {
  if (!value.IsNumber()) {
    return std::nullopt;
  }
  const double number = value.GetDouble();
  if (number < static_cast<double>(low) || number > static_cast<double>(high) ||
      number != std::trunc(number)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

Result<std::string, ApiError> read_name(const Value& value) {
  if (!value.IsString()) {
    return wrong_member("name", "must be a string.");
  }
  const std::string_view name = text_of(value);
  if (const auto length = utf8_length(name); length < 1 || length > kKeyNameMax) {
    return wrong_member("name",
                        "must be 1 to " + std::to_string(kKeyNameMax) + " characters long.");
  }
  if (!is_key_name(name)) {
    return wrong_member("name",
                        "must have no control characters, none that are invisible or change the "
                        "direction of text, and no white space at either end.");
  }
  return std::string(name);
}

Result<Scopes, ApiError> read_scopes(const Value& value) {
  const ApiError refused =
      wrong_member("scopes", "must be a list of generate and manage, each at most once.");
  if (!value.IsArray()) {
    return refused;
  }
  Scopes out;
  for (const Value& item : value.GetArray()) {
    const auto scope = item.IsString() ? parse_scope(text_of(item)) : std::nullopt;
    if (!scope || out.has(*scope)) {
      return refused;
    }
    out.add(*scope);
  }
  return out;
}

Result<Instant, ApiError> read_expiry(const Value& value) {
  const auto at = value.IsString() ? parse_iso(text_of(value)) : std::nullopt;
  if (!at) {
    return wrong_member("expires_at",
                        "must be a date and time (RFC 3339) like 2027-01-01T00:00:00Z.");
  }
  return *at;
}

Result<SpendLimit, ApiError> read_spend_limit(const Value& value) {
  const ApiError refused = wrong_member(
      "spend_limit",
      "must have the members credits, a whole number from " + std::to_string(kSpendLimitMin) +
          " to " + std::to_string(kSpendLimitMax) + ", and period, day or month, and no other.");
  if (!value.IsObject()) {
    return refused;
  }
  std::optional<Units> amount;
  std::optional<SpendPeriod> period;
  for (const auto& member : value.GetObject()) {
    const std::string_view name = text_of(member.name);
    const Value& given = member.value;
    const auto whole = whole_number(given, kSpendLimitMin, kSpendLimitMax);
    if (name == "credits" && !amount && whole) {
      amount = credits(*whole);
    } else if (name == "period" && !period && given.IsString() && parse_period(text_of(given))) {
      period = parse_period(text_of(given));
    } else {
      return refused;
    }
  }
  if (!amount || !period) {
    return refused;
  }
  return SpendLimit{*amount, *period};
}

// Null says something in a change only: a new key has no end and no limit unless it is given one.
Result<KeyChange, ApiError> read_members(std::string_view body, bool may_be_null) {
  const auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  KeyChange out;
  for (const auto& member : document->GetObject()) {
    const std::string_view given = text_of(member.name);
    const auto* const known = std::find(kMembers.begin(), kMembers.end(), given);
    if (known == kMembers.end()) {
      return unknown_member(given);
    }
    const auto index = known - kMembers.begin();
    if (index == 0   ? out.name.has_value()
        : index == 1 ? out.scopes.has_value()
        : index == 2 ? out.expires_at.has_value()
                     : out.spend_limit.has_value()) {
      return wrong_member(*known, "may be given once only.");
    }
    if (index == 0) {
      auto name = read_name(member.value);
      if (!name) {
        return name.error();
      }
      out.name = *std::move(name);
    } else if (index == 1) {
      const auto scopes = read_scopes(member.value);
      if (!scopes) {
        return scopes.error();
      }
      out.scopes = *scopes;
    } else if (may_be_null && member.value.IsNull()) {
      if (index == 2) {
        out.expires_at.emplace();
      } else {
        out.spend_limit.emplace();
      }
    } else if (index == 2) {
      const auto at = read_expiry(member.value);
      if (!at) {
        return at.error();
      }
      out.expires_at.emplace(*at);
    } else {
      const auto limit = read_spend_limit(member.value);
      if (!limit) {
        return limit.error();
      }
      out.spend_limit.emplace(*limit);
    }
  }
  return out;
}

}  // namespace

Result<KeyTerms, ApiError> parse_new_key(std::string_view body) {
  auto members = read_members(body, false);
  if (!members) {
    return members.error();
  }
  if (!members->name) {
    return wrong_member("name", "is required.");
  }
  return KeyTerms{.name = *std::move(members->name),
                  .scopes = members->scopes.value_or(kUsualScopes),
                  .expires_at = members->expires_at.value_or(std::nullopt),
                  .spend_limit = members->spend_limit.value_or(std::nullopt)};
}

Result<KeyChange, ApiError> parse_key_change(std::string_view body) {
  return read_members(body, true);
}

Result<std::chrono::hours, ApiError> parse_key_rotation(std::string_view body) {
  constexpr std::string_view kOverlap = "overlap_hours";
  const auto document = read_json_object(body);
  if (!document) {
    return document.error();
  }
  std::optional<std::chrono::hours> out;
  for (const auto& member : document->GetObject()) {
    if (text_of(member.name) != kOverlap) {
      return unknown_member(text_of(member.name));
    }
    if (out) {
      return wrong_member(kOverlap, "may be given once only.");
    }
    const auto hours = whole_number(member.value, 0, kKeyOverlapMax.count());
    if (!hours) {
      return wrong_member(
          kOverlap,
          "must be a whole number from 0 to " + std::to_string(kKeyOverlapMax.count()) + ".");
    }
    out = std::chrono::hours(*hours);
  }
  if (!out) {
    return wrong_member(kOverlap, "is required.");
  }
  return *out;
}

}  // namespace audiogen
