// The terminal as a program has it that fills it: another screen, keys one by one, signals as
// events. However that ends, the terminal is as it was.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <termios.h>

#include "api/admin/queue_screen.h"
#include "common/base/unique_fd.h"

namespace audiogen::api {

class Terminal {
 public:
  // Whether both standard input and output are one.
  static bool there();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  ScreenSize size() const;
  // Writes lines from the first row on; what was there before is gone.
  void show(const std::vector<std::string>& lines);

  struct Resized {};
  struct Ended {  // By a signal; no more events come.
    int signal = 0;
  };
  using Event = std::variant<Key, Resized, Ended>;
  // Blocks for `limit` at most. Nullopt: nothing happened.
  std::optional<Event> wait(std::chrono::milliseconds limit);

 private:
  std::optional<Key> next_key();
  static void write_all(const std::string& text);

  UniqueFd signals_;
  termios before_{};
  sigset_t blocked_before_{};
  std::string typed_;  // Bytes that are no whole key yet.
};

}  // namespace audiogen::api
