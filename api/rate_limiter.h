// Who may send how much (DESIGN 1): GCRA per key and route class, and per address for requests
// without a valid key. In memory, exact for one process: behind several, the proxy hashes on
// Authorization.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/domain/rate_limit.h"

namespace audiogen::api {

enum class RouteClass : std::uint8_t { kCreate = 0, kRead = 1 };

// Thread-safe; never blocks for longer than a map lookup.
class RateLimiter {
 public:
  explicit RateLimiter(const Config& config);

  // Counts one request of this key.
  RateDecision take(KeyId key, RouteClass route);
  // Counts one request without a valid key from `address`.
  RateDecision take_unauthenticated(std::string_view address);

  // RateLimit-Policy, RateLimit (IETF httpapi draft) and X-RateLimit-* lines for a decision.
  std::string headers(RouteClass route, const RateDecision& decision) const;

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<KeyId, std::array<RateState, 2>> keys;  // Guarded by mutex.
    std::unordered_map<std::string, RateState> addresses;      // Guarded by mutex.
    std::chrono::steady_clock::time_point swept{};             // Guarded by mutex.
  };
  static void forget_full(Shard& shard, std::chrono::steady_clock::time_point now);

  std::array<RatePolicy, 2> policies_;
  RatePolicy unauthenticated_;
  std::array<std::string, 2> policy_lines_;
  std::array<Shard, 16> shards_;
};

}  // namespace audiogen::api
