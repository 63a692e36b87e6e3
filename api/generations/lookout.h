// What this process believes of the queue: a thread looks at it every two seconds while anybody
// asks, else every 15 s, whatever the number of those who ask. So an answer costs no more than a
// look into memory. A look reads up to 20,000 rows: it takes a hundredth of the time at most, and
// with so many waiting is some seconds old.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/outlook.h"

namespace audiogen::api {

class Lookout {
 public:
  using Clock = std::chrono::steady_clock;
  // Blocks. Nullopt: the database does not tell.
  using Look = std::function<std::optional<QueueSample>()>;
  struct Options {
    std::chrono::milliseconds asked{2'000}, unasked{15'000};
    // What was seen longer ago is not told any more.
    std::chrono::milliseconds kept{30'000};
  };

  // `make` makes what looks, on the thread that will.
  explicit Lookout(std::function<Look()> make, Options options);
  explicit Lookout(std::function<Look()> make) : Lookout(std::move(make), Options()) {}
  explicit Lookout(const Config& config);
  ~Lookout() = default;
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // Both: any thread, at once. Without figures what does not need them is told all the same.
  Prospect of(const TaskView& task) const;
  std::optional<Spread> start_in(Lane lane) const;

  // How long to look away after a look that took so long, while somebody asks: a hundred times as
  // long, but what was seen is not to go out of date meanwhile. Pure.
  static std::chrono::milliseconds rest_after(Clock::duration took, const Options& options);

 private:
  struct Seen {
    Outlook outlook;
    Instant at;  // By the database's clock …
    Clock::time_point taken;
  };

  std::shared_ptr<const Seen> seen() const;
  void work(const std::stop_token& stop, const std::function<Look()>& make);

  const Options options_;
  mutable std::atomic<bool> asked_{false};
  mutable Mutex mutex_;
  std::shared_ptr<const Seen> seen_ GUARDED_BY(mutex_);
  std::jthread thread_;  // Last: everything else exists before it runs.
};

}  // namespace audiogen::api
