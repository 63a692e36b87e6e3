// Virtual time: what happens when, in one thread, the same for the same seed everywhere.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/domain/clock_trust.h"

namespace audiogen::simulation {

using Duration = std::chrono::microseconds;
using Action = std::function<void()>;

// SplitMix64. Distributions of the standard library differ between its implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  // From 0 to `count` - 1; count > 0.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  // In [0, 1).
  double real() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  // In [-1, 1).
  double jitter() { return 2 * real() - 1; }
  bool chance(double probability) { return real() < probability; }
  Duration between(Duration least, Duration most) {
    const auto span = static_cast<double>((most - least).count());
    return least + Duration(static_cast<std::int64_t>(real() * span));
  }
  template <class T>
  const T& pick(const std::vector<T>& of) {
    return of[below(of.size())];
  }

 private:
  std::uint64_t state_;
};

// What is still to come. Time passes only from one event to the next.
class Timeline {
 public:
  Duration now() const { return now_; }
  std::uint64_t events() const { return events_; }

  void after(Duration delay, Action what) {
    heap_.push_back({now_ + std::max(delay, Duration(0)), ++numbers_, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  // Lets the next event happen. False: there is none.
  bool step() {
    if (heap_.empty()) {
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.at;
    ++events_;
    next.what();
    return true;
  }

 private:
  struct Event {
    Duration at;
    std::uint64_t number;  // Of two at the same time the one that was planned first comes first.
    Action what;
  };
  static bool later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  }

  Duration now_{0};
  std::uint64_t numbers_ = 0, events_ = 0;
  std::vector<Event> heap_;
};

// A program of the service on a machine of its own, which can freeze, go on, and die. Its clocks go
// a little wrong, as clocks do.
class Process {
 public:
  Process(Timeline& timeline, Random& random, std::string name)
      : timeline_(timeline),
        random_(random),
        name_(std::move(name)),
        rate_(1 + 0.005 * random.jitter()),
        skew_(random.between(std::chrono::seconds(-2), std::chrono::seconds(2))) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  bool alive() const { return alive_; }
  bool frozen() const { return frozen_; }
  bool runs() const { return alive_ && !frozen_; }

  // Nobody sets it.
  ClockLook::Steady steady() const {
    const auto passed = static_cast<double>(timeline_.now().count());
    return ClockLook::Steady(Duration(static_cast<std::int64_t>(passed * rate_)));
  }
  // What makes ids, as far from the true time as `skew_`.
  Duration wall() const { return timeline_.now() + skew_; }
  void set_wall(Duration by) { skew_ += by; }

  // Does `what` after `delay`: never once this process is dead, and not while it is frozen.
  void after(Duration delay, Action what) {
    timeline_.after(delay, [this, what = std::move(what)]() mutable {
      if (frozen_) {
        put_off_.push_back(std::move(what));
      } else if (alive_) {
        what();
      }
    });
  }

  // Does `what` in the middle of its next transaction.
  void when_it_sends(Action what) { when_it_sends_ = std::move(what); }
  void sends() {
    if (when_it_sends_) {
      timeline_.after(random_.between(Duration(0), std::chrono::milliseconds(12)),
                      std::exchange(when_it_sends_, nullptr));
    }
  }

  void freeze() { frozen_ = true; }
  // What was put off comes in any order: it is of many threads.
  void thaw() {
    frozen_ = false;
    for (Action& what : std::exchange(put_off_, {})) {
      after(random_.between(Duration(0), std::chrono::milliseconds(50)), std::move(what));
    }
  }
  void die() {
    alive_ = false;
    frozen_ = false;
    put_off_.clear();
  }

 private:
  Timeline& timeline_;
  Random& random_;
  const std::string name_;
  const double rate_;
  Duration skew_;
  bool alive_ = true, frozen_ = false;
  std::vector<Action> put_off_;
  Action when_it_sends_;
};

}  // namespace audiogen::simulation
