// /ops/actions of the operations port: what operators do, for who has OPS_TOKEN.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "api/server/store_pool.h"
#include "common/base/config.h"
#include "common/base/crypto.h"
#include "common/base/ip_address.h"
#include "common/base/mutex.h"
#include "common/domain/rate_limit.h"
#include "common/http/server.h"
#include "common/store/session.h"

namespace audiogen::api {

// Who may try what token: a guess that is wrong counts, and an address with too many of them is
// refused by 429; the right one is heard always.
class TokenGuard {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kRight, kWrong, kTooMany };

  explicit TokenGuard(const std::string& token) : token_(sha256(token)) {}

  // `authorization`: the header as it came. Any thread, never blocks.
  Verdict judge(std::string_view authorization, const IpAddress& client, Clock::time_point now);

  // What tells the token from others, and not what it is: the first eight digits of its SHA-256.
  std::string fingerprint() const;

 private:
  const Sha256 token_;
  Mutex mutex_;
  std::unordered_map<IpAddress, RateState, HashOfIpAddress> guesses_ GUARDED_BY(mutex_);
};

class Actions {
 public:
  explicit Actions(const Config& config);

  // POST and GET. Any thread, never block: they are answered when the database has. 404 without
  // OPS_TOKEN, 401, 429; 400 names the member at fault; 409 where it is not possible; 503 where the
  // database, or its thread here, has no time.
  void handle_post(const http::Exchange& exchange);
  void handle_get(const http::Exchange& exchange);

  // Finishes what was accepted.
  void stop() { pool_.stop(); }

 private:
  struct Store {
    explicit Store(const DatabaseUrl& url);
    store::Session session;
  };

  // False: it is answered.
  bool may(const http::Exchange& exchange);

  const DatabaseUrl database_;
  const bool any_;
  TokenGuard guard_;
  StorePool<Store> pool_;
};

}  // namespace audiogen::api
