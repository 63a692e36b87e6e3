// Addresses of audio files that expire: "?expires=<unix seconds>&signature=<base64url>",
// HMAC-SHA-256 under CDN_SIGNING_KEY over the file's name and the time. While that is changed, the
// key before it is believed, too. Pure: the caller has the clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"

namespace audiogen {

class LinkSigner {
 public:
  using Time = std::chrono::sys_seconds;

  // The first key signs, every one is believed. Not empty.
  LinkSigner(std::vector<std::string> keys, std::chrono::seconds ttl);

  // Nullopt when CDN_SIGNING_KEY is not set.
  static std::optional<LinkSigner> from(const Config& config);

  // What follows a blob's address, from '?' on. Good for at least the ttl and at most a minute
  // longer; the same text for a whole minute, so that a polling client can cache by address.
  std::string query(std::string_view blob_key, Time now) const;

  enum class Verdict { kValid, kExpired, kWrong };

  // Judges the query (without '?') of a request for `blob_key`. kExpired only for what was once
  // valid. Takes the same time for every wrong signature of the right length.
  Verdict check(std::string_view blob_key, std::string_view query, Time now) const;

 private:
  std::vector<std::string> keys_;
  std::chrono::seconds ttl_;
};

}  // namespace audiogen
