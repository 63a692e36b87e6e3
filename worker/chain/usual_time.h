// How long the calls of one provider usually take, learned from those it has answered, and whether
// one more fits into what is left of a task's time. Pure: no clock; not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace audiogen {

// Of a task's time, from its creation to its deadline.
struct TaskTime {
  std::chrono::milliseconds left{0};
  std::chrono::milliseconds whole{0};
};

class UsualTime {
 public:
  // How long a call took that brought audio; or that brought nothing before we cut it off: so
  // long at least, and what needed() says is more. Without those a provider that has become slower
  // would be cut off for ever, and be paid for each time.
  void add(std::chrono::milliseconds time);

  // What 19 of 20 recent calls took at most; of fewer than that, all. Nullopt: none is known.
  std::optional<std::chrono::milliseconds> usual() const;
  // What they took on the average. Nullopt: none is known.
  std::optional<std::chrono::milliseconds> mean() const;
  // What is needed from a call's start to the end of its task: that, a quarter more, and a second
  // for shaping, storing and settling.
  std::optional<std::chrono::milliseconds> needed() const;

  // May a call begin now? What we believe of a provider keeps no task from it that has half of its
  // time left: so a wrong belief is found out.
  bool fits(TaskTime time) const;

 private:
  static constexpr std::size_t kRecent = 64;
  std::array<std::chrono::milliseconds, kRecent> recent_{};
  std::size_t seen_ = 0;  // Ever; the newest are kept.
};

}  // namespace audiogen
