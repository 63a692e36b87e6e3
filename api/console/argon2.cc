#include "api/console/argon2.h"

#include <array>
#include <cstdint>
#include <cstring>

#include <argon2.h>

#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/base/metrics.h"

namespace audiogen::api {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& checked = metrics::counter("api_password_checks_total", "Passwords compared");

constexpr std::uint32_t kPasses = 2, kMemoryKib = 19 * 1024, kLanes = 1;
constexpr std::size_t kSaltBytes = 16, kHashBytes = 32;

}  // namespace

std::optional<std::string> argon2_encode(std::string_view password) {
  std::array<std::uint8_t, kSaltBytes> salt;
  random_bytes(salt);
  std::string out(argon2_encodedlen(kPasses, kMemoryKib, kLanes, kSaltBytes, kHashBytes, Argon2_id),
                  '\0');
  const int failed = argon2id_hash_encoded(kPasses,
                                           kMemoryKib,
                                           kLanes,
                                           password.data(),
                                           password.size(),
                                           salt.data(),
                                           salt.size(),
                                           kHashBytes,
                                           out.data(),
                                           out.size());
  if (failed == ARGON2_MEMORY_ALLOCATION_ERROR) {
    return std::nullopt;
  }
  AG_CHECK(failed == ARGON2_OK);  // The parameters are constants.
  out.resize(std::strlen(out.c_str()));
  return out;
}

std::optional<bool> argon2_matches(const std::string& encoded, std::string_view password) {
  const int verdict = argon2id_verify(encoded.c_str(), password.data(), password.size());
  if (verdict == ARGON2_OK || verdict == ARGON2_VERIFY_MISMATCH) {  // Else no work was done.
    checked.Increment();
  }
  return verdict == ARGON2_MEMORY_ALLOCATION_ERROR ? std::nullopt
                                                   : std::optional(verdict == ARGON2_OK);
}

}  // namespace audiogen::api
