#include "tests/support/wrong_clock.h"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace audiogen::test {
namespace {

std::string text_of(std::chrono::seconds ahead) {
  return (ahead.count() < 0 ? "" : "+") + std::to_string(ahead.count());
}

std::map<std::string, std::string> library() {
  for (const char* const folder :
       {"/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime"}) {
    const std::string file = std::string(folder) + "/libfaketime.so.1";
    if (std::filesystem::exists(file)) {
      // The sanitizer wants to be the first library and would refuse to run behind this one.
      return {{"LD_PRELOAD", file},
              {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
              // Or it hands waits by the monotonic clock, which is not faked, to the C library as
              // if they were over: MySQL 9 then spins with every thread that waits.
              {"FAKETIME_FORCE_MONOTONIC_FIX", "0"},
              {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
    }
  }
  throw std::runtime_error("there is no libfaketime");
}

}  // namespace

std::map<std::string, std::string> wrong_clock(std::chrono::seconds ahead) {
  auto out = library();
  out["FAKETIME"] = text_of(ahead);
  return out;
}

std::map<std::string, std::string> movable_clock(const std::string& file) {
  auto out = library();
  out["FAKETIME_TIMESTAMP_FILE"] = file;
  out["FAKETIME_CACHE_DURATION"] = "1";
  return out;
}

void set_clock(const std::string& file, std::chrono::seconds ahead) {
  // In one step: whoever reads it sees one or the other.
  std::ofstream(file + ".new") << text_of(ahead) << '\n';
  std::filesystem::rename(file + ".new", file);
}

}  // namespace audiogen::test
