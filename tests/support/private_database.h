// A MariaDB of the test's own, to kill, freeze and bring back. While it lives, TestDatabase makes
// its databases there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

namespace audiogen::test {

class PrivateDatabase {
 public:
  // `prepare` may put things into its folder first, as Certificates::give_to_server does.
  explicit PrivateDatabase(const std::function<void(const std::string& folder)>& prepare = {});
  ~PrivateDatabase();
  PrivateDatabase(const PrivateDatabase&) = delete;
  PrivateDatabase& operator=(const PrivateDatabase&) = delete;

  void kill();          // kill -9
  void start();         // Again, with the same data; returns when it answers.
  void freeze() const;  // SIGSTOP
  void thaw() const;    // SIGCONT

  const std::string& folder() const { return folder_; }

 private:
  pid_t pid() const;

  std::optional<std::string> before_;  // TEST_DATABASE_URL
  std::string folder_;
  std::uint16_t port_ = 0;
};

}  // namespace audiogen::test
