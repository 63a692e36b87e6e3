// The connections a server ends or refuses for its own sake: counted by kind, and told in the log
// once a second at most, so that a flood is seen and does not become one of lines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/ip_address.h"
#include "common/base/mutex.h"
#include "common/base/occasionally.h"

namespace prometheus {
class Counter;
}

namespace audiogen::http {

enum class Drop : std::uint8_t {
  kSilent,          // No byte in time.
  kEvictedIdle,     // Between requests, to make room.
  kEvictedHead,     // In the middle of a head, to make room.
  kEvictedStalled,  // In the middle of an answer that its client does not take, to make room.
  kRefusedAddress,  // Its address has all it may, and all of it is at work.
  kRefusedFull,     // So has the server.
  kNoDescriptor,    // The process has none left to accept with.
  kBodyBudget,      // The slowest body of whoever holds most, to make room.
  kAnswerBudget,    // The oldest answer not taken of whoever holds most, to make room.
  kSlowReader,      // It takes too little of an answer that comes in parts.
};

// Any thread, never blocks for long.
class Drops {
 public:
  // `server` names it in metrics and logs.
  explicit Drops(std::string server);

  void count(Drop kind, const IpAddress& address);
  // Writes the line that is due. Call now and then.
  void tell();

 private:
  static constexpr std::size_t kKinds = 10;

  const std::string server_;
  std::array<prometheus::Counter*, kKinds> counters_;
  Mutex mutex_;
  std::array<std::uint64_t, kKinds> untold_ GUARDED_BY(mutex_){};
  bool any_untold_ GUARDED_BY(mutex_) = false;
  IpAddress last_ GUARDED_BY(mutex_);
  Occasionally line_;
};

}  // namespace audiogen::http
