// What looks like an attempt: counted by kind in /metrics (api_security_events_total), and at most
// one log line a second that sums them up.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/ip_address.h"
#include "common/base/mutex.h"
#include "common/http/server.h"

namespace audiogen::api {

enum class SecurityEvent : std::uint8_t {
  kUnauthorized,     // 401
  kForbidden,        // 403
  kTooManyRequests,  // 429
  kRangeRefused,     // 416
  kOperatorToken,    // No OPS_TOKEN, or a wrong one, where operators act.
};

// The event of a reply with this status, if it is one.
std::optional<SecurityEvent> security_event_of(int status);

class SecurityEvents {
 public:
  // The process's. Its thread starts with the first event.
  static SecurityEvents& instance();

  SecurityEvents();
  ~SecurityEvents();
  SecurityEvents(const SecurityEvents&) = delete;
  SecurityEvents& operator=(const SecurityEvents&) = delete;

  // `client` is all that is told of whoever did it; nothing of a key. Any thread; does
  // not block, but for the start of a thread.
  void note(SecurityEvent event, const IpAddress& client);

 private:
  static constexpr std::size_t kKinds = 5;

  void run();
  void write_line() LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  ConditionVariable changed_;
  // Since the last line.
  std::array<std::uint64_t, kKinds> counts_ GUARDED_BY(mutex_){};
  std::string example_ GUARDED_BY(mutex_);  // The address of the first one.
  bool any_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

// Counts one that came too often: `limit` is what it was counted as.
enum class Limit : std::uint8_t {
  kCreate,
  kRead,
  kManage,
  kFile,
  kSignIn,
  kUnknownKey,
  kGuess,
  kMail
};
void count_limited(Limit limit);

// Answers with an error, and counts it where it is such an event.
void reply_refused(const http::Exchange& exchange, http::Response&& response);

}  // namespace audiogen::api
