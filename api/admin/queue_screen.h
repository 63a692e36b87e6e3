// What `audio-api admin queue --watch` shows: lines of text, made of what was seen and of what its
// user has asked for. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/domain/situation.h"
#include "common/store/operators.h"

namespace audiogen::api {

// What was seen last, and how long ago.
struct QueueSeen {
  Situation now{};
  std::optional<std::uint64_t> dead{};  // Messages; nullopt: the broker did not tell.
  store::OldestOpen oldest{};           // Open tasks.
  std::chrono::seconds age{0};
};

// What its user has asked for.
struct QueueView {
  enum class Sort : std::uint8_t { kAge, kCause, kUser };
  Sort sort = Sort::kAge;
  bool paused = false;
  bool finding = false;  // What is typed goes to `find`.
  std::string find{};
  std::size_t selected = 0;  // Of the tasks that are shown.
  // The text of the task that is open, and its first line that is shown.
  std::optional<std::string> task{};
  std::size_t task_line = 0;
  std::string trouble{};  // Why what is shown is old; empty: it is not.
};

// Those of the tasks that are to be found, in the order that was asked for.
std::vector<store::TaskRow> tasks_of(const QueueSeen& seen, const QueueView& view);

struct ScreenSize {
  std::size_t rows = 24, columns = 80;  // With fewer than 60 columns lines are cut off.
};
enum class Paint : std::uint8_t { kNone, kAttributes, kColours };

// As many lines as there are rows, none longer than there are columns. With Paint::kNone there is
// no control character in them.
std::vector<std::string> draw(const QueueSeen& seen,
                              const QueueView& view,
                              ScreenSize size,
                              Paint paint);

// What a key does: a printable character, or one of these.
enum class Key : std::uint32_t {
  kEnter = 0x110000,  // Above all of Unicode.
  kEscape,
  kBackspace,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
};
enum class Act : std::uint8_t { kNone, kQuit, kOpen };
Act press(QueueView& view, const QueueSeen& seen, Key key);

}  // namespace audiogen::api
