#include "tests/support/process.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

extern char** environ;

namespace audiogen::test {
namespace {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      out.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

pid_t spawn(const std::vector<std::string>& argv,
            const std::map<std::string, std::string>& changes,
            int output) {
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = merged_environment(changes);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(126);
    }
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::execve(argument_pointers[0], argument_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
  return pid;
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Process::Process(const std::vector<std::string>& argv,
                 const std::map<std::string, std::string>& environment,
                 std::string log_file)
    : log_file_(std::move(log_file)) {
  const int output = ::open(log_file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (output < 0) {
    throw std::runtime_error("cannot write " + log_file_);
  }
  pid_ = spawn(argv, environment, output);
  ::close(output);
}

Process::~Process() {
  kill();
}

void Process::signal(int number) const {
  if (pid_ > 0 && status_ < 0) {
    ::kill(pid_, number);
  }
}

bool Process::running() {
  return wait(std::chrono::milliseconds(0)) < 0;
}

int Process::wait(std::chrono::milliseconds limit) {
  if (status_ < 0) {
    int status = 0;
    eventually(limit, [&] {
      if (::waitpid(pid_, &status, WNOHANG) != pid_) {
        return false;
      }
      status_ = exit_code(status);
      core_ = WIFSIGNALED(status) && WCOREDUMP(status);
      return true;
    });
  }
  return status_;
}

bool Process::left_core() const {
  return core_;
}

void Process::kill() {
  if (status_ < 0) {
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    status_ = exit_code(status);
  }
}

std::string Process::log() const {
  std::ifstream in(log_file_);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Output run(const std::vector<std::string>& argv,
           const std::map<std::string, std::string>& environment) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe");
  }
  const pid_t pid = spawn(argv, environment, ends[1]);
  ::close(ends[1]);
  Output out;
  char buffer[4096];
  for (ssize_t count = ::read(ends[0], buffer, sizeof buffer); count > 0;
       count = ::read(ends[0], buffer, sizeof buffer)) {
    out.out.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  out.code = exit_code(status);
  return out;
}

bool all_threads_stopped(pid_t process) {
  std::error_code gone;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    std::ifstream in(thread.path() / "stat");
    std::string stat;
    std::getline(in, stat);
    if (const auto name_end = stat.rfind(')');
        name_end == std::string::npos || stat.substr(name_end + 2, 1) != "T") {
      return false;
    }
  }
  return !gone;
}

int test_lane() {
  const char* const given = std::getenv("CTEST_RESOURCE_GROUP_0_BROKER");  // "id:1,slots:1"
  constexpr std::string_view kPrefix = "id:";
  return given != nullptr && std::string_view(given).starts_with(kPrefix)
             ? std::atoi(given + kPrefix.size())
             : 0;
}

std::uint16_t free_port() {
  constexpr int kFirst = 15'000, kLanes = 5, kOfLane = 1'250;
  const int first = kFirst + test_lane() % kLanes * kOfLane;
  static std::mt19937 random(std::random_device{}());
  // A port is given once, as it may be taken into use much later: to the process that has a socket
  // of its name, which is in no folder and goes with that process.
  static std::vector<UniqueFd> given;
  for (int tries = 0; tries < 200; ++tries) {
    const auto port = static_cast<std::uint16_t>(
        std::uniform_int_distribution<int>(first, first + kOfLane - 1)(random));
    UniqueFd mark(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string text = "audiogen-port-" + std::to_string(port);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    text.copy(name.sun_path + 1, sizeof name.sun_path - 1);
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(mark.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      given.push_back(std::move(mark));
      return port;
    }
  }
  throw std::runtime_error("no free port");
}

}  // namespace audiogen::test
