// Seals: proof that a blob lies where its key says, and that one of our stores put it there. An
// HMAC-SHA-256 under BLOB_SIGNING_KEY over segment, offset, length and name; whole in the blob's
// header, 90 bits of it in the key. So neither a name that was guessed nor a header among
// somebody's samples opens anything. Pure, thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/crypto.h"
#include "common/blob/blob_key.h"

namespace audiogen {

class BlobSeals {
 public:
  // The first key seals, every one is believed. Not empty.
  explicit BlobSeals(std::vector<std::string> keys);

  // The seal of `place`, whatever its own says.
  Sha256 make(const BlobPlace& place) const;

  // The whole seal of a place whose key has the right part of it. Nullopt: not one of ours. Takes
  // the same time for every wrong one.
  std::optional<Sha256> whole(const BlobPlace& place) const;

  // Is it the seal of this place?
  bool fits(const BlobPlace& place, const Sha256& seal) const;

  // The part of it that goes into a key.
  static std::string text(const Sha256& seal);

 private:
  std::vector<std::string> keys_;
};

}  // namespace audiogen
