// A MariaDB of the test's own, to kill, freeze and bring back. While it lives, TestDatabase makes
// its databases there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

namespace audiogen::test {

class PrivateDatabase {
 public:
  struct Options {
    // May put things into its folder first, as Certificates::give_to_server does.
    std::function<void(const std::string& folder)> prepare{};
    std::string under{};         // Where its folder is made; empty: where tests keep theirs.
    bool movable_clock = false;  // For set_clock().
  };
  PrivateDatabase() : PrivateDatabase(Options{}) {}
  explicit PrivateDatabase(const Options& options);
  ~PrivateDatabase();
  PrivateDatabase(const PrivateDatabase&) = delete;
  PrivateDatabase& operator=(const PrivateDatabase&) = delete;

  void kill();          // kill -9
  void start();         // Again, with the same data; returns when it answers.
  void freeze() const;  // SIGSTOP
  void thaw() const;    // SIGCONT
  // Its clock is `ahead` of this machine's from a moment on that is over when this returns.
  void set_clock(std::chrono::seconds ahead) const;

  const std::string& folder() const { return folder_; }

 private:
  pid_t pid() const;

  std::optional<std::string> before_;  // TEST_DATABASE_URL
  std::string folder_;
  std::uint16_t port_ = 0;
  std::map<std::string, std::string> environment_;
};

}  // namespace audiogen::test
