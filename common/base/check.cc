#include "common/base/check.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace audiogen {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr,
               "{\"level\":\"critical\",\"event\":\"check failed: %s at %s:%d\"}\n",
               condition,
               file,
               line);
  std::abort();
}

void crash_point(const char* name) {
  struct Chosen {
    std::string name;
    long pass = 0;
    bool pause = false, stop = false;
  };
  static const Chosen chosen = [] {
    Chosen c;
    const char* text = std::getenv("CRASH_POINT");
    if (text == nullptr) {
      return c;
    }
    const std::string_view all = text;
    const auto first = all.find(':');
    c.name = all.substr(0, first);
    c.pass = first == std::string_view::npos ? 1 : std::strtol(text + first + 1, nullptr, 10);
    c.pause = all.ends_with(":pause");
    c.stop = all.ends_with(":stop");
    return c;
  }();
  static std::atomic<long> passes{0};
  if (chosen.name.empty() || chosen.name != name || ++passes != chosen.pass) {
    return;
  }
  std::fprintf(
      stderr, "{\"level\":\"critical\",\"event\":\"crash point\",\"name\":\"%s\"}\n", name);
  if (chosen.pause) {
    // Long enough for a test to stop this process here; it then goes on as if nothing had happened.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return;
  }
  if (chosen.stop) {
    std::raise(SIGSTOP);  // The whole process, as whatever freezes one does.
    return;
  }
  std::_Exit(137);  // As a kill -9 would: no destructors, no flush.
}

std::chrono::milliseconds test_limit(const char* name, std::chrono::milliseconds usual) {
  const char* const text = std::getenv(name);
  return text == nullptr ? usual : std::chrono::milliseconds(std::strtol(text, nullptr, 10));
}

}  // namespace audiogen
