// Who is asking: the bearer key of a request (interface 5), looked up in the database and
// remembered for less than a second, so that a deleted key stops working everywhere within one.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/config.h"
#include "common/http/server.h"
#include "common/store/group_commit.h"

namespace audiogen::api {

class Authenticator {
 public:
  Authenticator(const Config& config, std::size_t lookup_threads);

  enum class Verdict { kValid, kInvalid, kUnavailable };
  using Answer = std::function<void(Verdict, const store::KeyRecord&)>;

  // Calls `answer` once: at once from the cache or for a malformed key, else on a lookup thread.
  // With `need_access` a remembered key without API access is looked up again, so that a purchase
  // opens the door at once. Never blocks.
  void authenticate(const http::Request& request, bool need_access, Answer answer);

  void stop();

 private:
  struct Remembered {
    store::KeyRecord record;
    std::chrono::steady_clock::time_point asked_at;  // Before the lookup was sent.
  };
  struct HashOfHash {
    std::size_t operator()(const Sha256& hash) const;
  };

  std::optional<store::KeyRecord> recall(const Sha256& hash);
  void remember(const Sha256& hash,
                const store::KeyRecord& record,
                std::chrono::steady_clock::time_point asked_at);

  const std::string brand_;
  std::mutex mutex_;
  std::unordered_map<Sha256, Remembered, HashOfHash> cache_;  // Guarded by mutex_.
  std::mutex used_mutex_;
  std::unordered_map<KeyId, std::chrono::steady_clock::time_point>
      noted_;  // Guarded by used_mutex_.
  store::GroupCommit<Sha256, store::KeyOutcome> lookups_;
};

// The token of an Authorization: Bearer header (RFC 6750 section 2.1), or nullopt.
std::optional<std::string_view> bearer_token(const http::Request& request);

}  // namespace audiogen::api
