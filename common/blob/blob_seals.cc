#include "common/blob/blob_seals.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/ids.h"

namespace audiogen {
namespace {

Sha256 seal_of(const std::string& key, const BlobPlace& place) {
  // No part of it can hold a line feed, so no two places have one text.
  std::string text = "blob\n";
  text += place.segment;
  text += '\n';
  text += std::to_string(place.offset);
  text += '\n';
  text += std::to_string(place.length);
  text += '\n';
  text += place.name;
  return hmac_sha256(key, text);
}

std::string_view bytes_of(const Sha256& seal) {
  return {reinterpret_cast<const char*>(seal.data()), seal.size()};
}

}  // namespace

BlobSeals::BlobSeals(std::vector<std::string> keys) : keys_(std::move(keys)) {
  AG_CHECK(!keys_.empty());
}

Sha256 BlobSeals::make(const BlobPlace& place) const {
  return seal_of(keys_.front(), place);
}

std::optional<Sha256> BlobSeals::whole(const BlobPlace& place) const {
  std::optional<Sha256> out;
  for (const std::string& key : keys_) {
    const Sha256 seal = seal_of(key, place);
    if (constant_time_equal(text(seal), place.seal)) {
      out = seal;
    }
  }
  return out;
}

bool BlobSeals::fits(const BlobPlace& place, const Sha256& seal) const {
  return std::any_of(keys_.begin(), keys_.end(), [&](const std::string& key) {
    return constant_time_equal(bytes_of(seal_of(key, place)), bytes_of(seal));
  });
}

std::string BlobSeals::text(const Sha256& seal) {
  Uuid part;
  std::copy_n(seal.begin(), part.bytes.size(), part.bytes.begin());
  return encode_base32(part).substr(0, kSealText + 1).substr(1);  // The first holds three bits.
}

}  // namespace audiogen
