#include "common/base/checksum.h"

#include <algorithm>
#include <iterator>

#include <xxhash.h>

namespace audiogen {

Checksum checksum(std::string_view data) {
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, XXH3_128bits(data.data(), data.size()));
  Checksum out{};
  static_assert(sizeof(text.digest) == out.size());
  std::copy(std::begin(text.digest), std::end(text.digest), out.begin());
  return out;
}

}  // namespace audiogen
