// How many workers share what waits for providers, as this one is told with its reports. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/store/commands.h"

namespace audiogen::worker {

// Fewer are believed only once they were told for as long as one may be silent: after an outage of
// the database each worker is the first to tell. Not thread-safe.
class WorkersTold {
 public:
  using Time = std::chrono::steady_clock::time_point;

  std::uint64_t count() const { return count_; }

  void tell(std::uint64_t count, Time now) {
    constexpr auto kTold = 5 * store::kWorkersReport;
    if (!told_at_ || now - *told_at_ > kTold) {
      fewer_since_.reset();  // Who was silent meanwhile was so for that outage, too.
    }
    told_at_ = now;
    if (count < count_) {
      fewer_since_ = fewer_since_.value_or(now);
      if (now - *fewer_since_ < store::kWorkerSeenWithin) {
        return;
      }
    }
    count_ = count;
    fewer_since_.reset();
  }

 private:
  std::uint64_t count_ = 1;
  std::optional<Time> told_at_, fewer_since_;
};

}  // namespace audiogen::worker
