#include "common/blob/link_signer.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/base/crypto.h"

namespace audiogen {
namespace {

constexpr std::string_view kExpires = "expires=";
constexpr std::string_view kSignature = "&signature=";

// RFC 4648 section 5, without padding.
std::string base64url(const Sha256& bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const std::uint8_t byte : bytes) {
    bits = bits << 8U | byte;
    held += 8;
    while (held >= 6) {
      held -= 6;
      out += kDigits[bits >> held & 63U];
    }
  }
  if (held > 0) {
    out += kDigits[bits << (6 - held) & 63U];
  }
  return out;
}

}  // namespace

LinkSigner::LinkSigner(std::string key, std::chrono::seconds ttl)
    : key_(std::move(key)), ttl_(ttl) {
  AG_CHECK(!key_.empty());
}

std::optional<LinkSigner> LinkSigner::from(const Config& config) {
  return config.cdn_signing_key.empty()
             ? std::nullopt
             : std::optional<LinkSigner>(std::in_place,
                                         config.cdn_signing_key,
                                         std::chrono::seconds(config.output_ttl_seconds));
}

std::string LinkSigner::query(std::string_view blob_key, Time now) const {
  const Time expires =
      std::chrono::floor<std::chrono::minutes>(now) + std::chrono::minutes(1) + ttl_;
  const std::string text = std::to_string(expires.time_since_epoch().count());
  std::string out = "?";
  out += kExpires;
  out += text;
  out += kSignature;
  out += signature(blob_key, text);
  return out;
}

LinkSigner::Verdict LinkSigner::check(std::string_view blob_key,
                                      std::string_view query,
                                      Time now) const {
  const auto split = query.find(kSignature);
  if (!query.starts_with(kExpires) || split == std::string_view::npos) {
    return Verdict::kWrong;
  }
  const auto text = query.substr(kExpires.size(), split - kExpires.size());
  const auto given = query.substr(split + kSignature.size());
  if (!constant_time_equal(given, signature(blob_key, text))) {
    return Verdict::kWrong;
  }
  std::int64_t expires = 0;  // Signed by us, so it is a number.
  std::from_chars(text.data(), text.data() + text.size(), expires);
  return now.time_since_epoch().count() < expires ? Verdict::kValid : Verdict::kExpired;
}

std::string LinkSigner::signature(std::string_view blob_key, std::string_view expires) const {
  std::string text(blob_key);
  text += '\n';
  text += expires;
  return base64url(hmac_sha256(key_, text));
}

}  // namespace audiogen
