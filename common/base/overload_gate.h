// Which work is turned away when more comes than can be done. Waiting longer helps nobody then: a
// refusal now is worth more than a late answer. By time and not by number, so that it is right on
// any machine.
//
// Work waits in two places: in the queue, and before it in the socket, for a thread that reads it.
// The second is where an overload of the processor itself shows, and no queue of ours would tell.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace audiogen {

// All methods: any thread, never block.
class OverloadGate {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    // How long work may wait as a burst that passes …
    std::chrono::milliseconds burst;
    // … and under overload, until a second has gone with hardly a refusal: a burst may fill the
    // queue, an overload must not keep it full (RFC 8289: a standing queue is delay and nothing
    // else). Not above `burst`.
    std::chrono::milliseconds standing;
    // What the next transactions take is no backlog: a pause of the database, or of this process,
    // refuses nobody as long as no more than this wait.
    std::size_t slack;
  };

  explicit OverloadGate(Limits limits)
      : limits_{limits.burst, std::min(limits.standing, limits.burst), limits.slack} {}

  // True when work that arrived then is to be refused. `waiting()`, how many are queued before it,
  // is asked only if that matters.
  template <class Waiting>
  bool refuses(Clock::time_point now, Clock::time_point arrived, const Waiting& waiting) {
    const bool overloaded = this->overloaded(now);
    const bool late = now - arrived > limit(overloaded);
    if (!late && !queue_late_.load(std::memory_order_relaxed)) {
      return false;
    }
    if (!(late && overloaded) && waiting() <= limits_.slack) {
      return false;
    }
    if (!overloaded || refusals_.fetch_add(1) >= limits_.slack) {
      refusals_.store(0);
      overloaded_until_.store((now + kPeriod).time_since_epoch().count());
    }
    return true;
  }

  // Work leaves the queue; the oldest of it arrived then.
  void begun(Clock::time_point now, Clock::time_point arrived) {
    queue_late_.store(now - arrived > limit(overloaded(now)), std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::seconds kPeriod{1};

  bool overloaded(Clock::time_point now) const {
    return now.time_since_epoch().count() < overloaded_until_.load(std::memory_order_relaxed);
  }
  std::chrono::milliseconds limit(bool overloaded) const {
    return overloaded ? limits_.standing : limits_.burst;
  }

  const Limits limits_;
  std::atomic<bool> queue_late_{false};  // The oldest of the last batch had waited too long.
  std::atomic<Clock::rep> overloaded_until_{Clock::time_point::min().time_since_epoch().count()};
  std::atomic<std::size_t> refusals_{0};  // Since then was set.
};

}  // namespace audiogen
