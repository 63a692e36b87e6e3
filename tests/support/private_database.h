// A MariaDB of the test's own, to kill, freeze and bring back. While it lives, TestDatabase makes
// its databases there.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace audiogen::test {

class PrivateDatabase {
 public:
  PrivateDatabase();
  ~PrivateDatabase();
  PrivateDatabase(const PrivateDatabase&) = delete;
  PrivateDatabase& operator=(const PrivateDatabase&) = delete;

  void kill();          // kill -9
  void start();         // Again, with the same data; returns when it answers.
  void freeze() const;  // SIGSTOP
  void thaw() const;    // SIGCONT

 private:
  pid_t pid() const;

  std::string folder_;
  std::uint16_t port_ = 0;
};

}  // namespace audiogen::test
