// API keys: "<brand>_live_<43 random characters><6 checksum characters>", base62 (DESIGN 1). Only
// the SHA-256 is stored; 256 random bits need no slow hash.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/crypto.h"

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

}  // namespace audiogen
