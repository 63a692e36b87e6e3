// A real program started by a test: its environment, its log file, its end.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/wait.h"

namespace audiogen::test {

class Process {
 public:
  // Starts `argv` with this process's environment changed by `environment`; output goes to
  // `log_file`, appended. The child dies with this process.
  Process(const std::vector<std::string>& argv,
          const std::map<std::string, std::string>& environment,
          std::string log_file);
  ~Process();  // Kills.
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  bool running();
  // Waits for the end; the exit code, 128 + signal, or -1 when it still runs at the deadline.
  int wait(std::chrono::milliseconds limit);
  // Whether the kernel wrote a core when it ended; after wait().
  bool left_core() const;
  // SIGKILL and wait.
  void kill();
  std::string log() const;

 private:
  pid_t pid_ = -1;
  int status_ = -1;
  bool core_ = false;
  std::string log_file_;
};

// Runs a program to its end; its exit code and standard output.
struct Output {
  int code = -1;
  std::string out;
};
Output run(const std::vector<std::string>& argv,
           const std::map<std::string, std::string>& environment);

// Whether SIGSTOP has stopped all of a process: it stops one thread after the other.
bool all_threads_stopped(pid_t process);

// Which of the tests that run side by side this one is: the number that ctest's resource groups
// have given to it alone, else 0.
int test_lane();

// A loopback port nobody listens on now, below the ephemeral range, of this lane's own and given to
// no other process that runs.
std::uint16_t free_port();

}  // namespace audiogen::test
