#include "common/blob/link_signer.h"

#include <charconv>
#include <cstdint>
#include <utility>

#include "common/base/base64.h"
#include "common/base/check.h"
#include "common/base/crypto.h"

namespace audiogen {
namespace {

constexpr std::string_view kExpires = "expires=";
constexpr std::string_view kSignature = "&signature=";

std::string signature(const std::string& key, std::string_view blob_key, std::string_view expires) {
  std::string text(blob_key);
  text += '\n';
  text += expires;
  return encode_base64url(hmac_sha256(key, text));
}

}  // namespace

LinkSigner::LinkSigner(std::vector<std::string> keys, std::chrono::seconds ttl)
    : keys_(std::move(keys)), ttl_(ttl) {
  AG_CHECK(!keys_.empty());
}

std::optional<LinkSigner> LinkSigner::from(const Config& config) {
  return config.cdn_signing_keys.empty()
             ? std::nullopt
             : std::optional<LinkSigner>(std::in_place,
                                         config.cdn_signing_keys,
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
  out += signature(keys_.front(), blob_key, text);
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
  bool ours = false;
  for (const std::string& key : keys_) {
    ours = constant_time_equal(given, signature(key, blob_key, text)) || ours;
  }
  if (!ours) {
    return Verdict::kWrong;
  }
  std::int64_t expires = 0;  // Signed by us, so it is a number.
  std::from_chars(text.data(), text.data() + text.size(), expires);
  return now.time_since_epoch().count() < expires ? Verdict::kValid : Verdict::kExpired;
}

}  // namespace audiogen
