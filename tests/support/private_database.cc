#include "tests/support/private_database.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/process.h"

namespace audiogen::test {
namespace {

Output dev(const char* action, const std::string& folder, std::uint16_t port) {
  return run(
      {std::string(AUDIOGEN_SOURCE_DIR) + "/dev", "_mariadb", action, folder, std::to_string(port)},
      {});
}

bool all_threads_stopped(pid_t process) {
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream in(thread.path() / "stat");
    std::string stat;
    std::getline(in, stat);
    if (const auto name_end = stat.rfind(')');
        name_end == std::string::npos || stat.substr(name_end + 2, 1) != "T") {
      return false;
    }
  }
  return true;
}

}  // namespace

PrivateDatabase::PrivateDatabase(const std::function<void(const std::string& folder)>& prepare)
    : port_(free_port()) {
  const char* const url = std::getenv("TEST_DATABASE_URL");  // NOLINT(concurrency-mt-unsafe)
  before_ = url != nullptr ? std::optional<std::string>(url) : std::nullopt;
  const char* const parent = std::getenv("TEST_STACK_DIR");  // NOLINT(concurrency-mt-unsafe)
  std::filesystem::path under = parent != nullptr ? parent : std::filesystem::temp_directory_path();
  folder_ = (under / "db-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder under " + under.string());
  }
  if (prepare) {
    prepare(folder_);
  }
  start();
}

PrivateDatabase::~PrivateDatabase() {
  thaw();
  kill();
  if (before_) {
    ::setenv("TEST_DATABASE_URL", before_->c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void PrivateDatabase::start() {
  const Output output = dev("start", folder_, port_);
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("mysql://owner:")) {
      ::setenv("TEST_DATABASE_URL", line.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
      return;
    }
  }
  throw std::runtime_error("no private database: " + output.out);
}

void PrivateDatabase::kill() {
  dev("kill", folder_, port_);
}

pid_t PrivateDatabase::pid() const {
  pid_t pid = -1;
  std::ifstream(folder_ + "/mariadbd.pid") >> pid;
  return pid;
}

void PrivateDatabase::freeze() const {
  const pid_t process = pid();
  if (process <= 1) {
    return;
  }
  ::kill(process, SIGSTOP);
  // The signal stops one thread after the other.
  eventually(std::chrono::seconds(5), [&] { return all_threads_stopped(process); });
}

void PrivateDatabase::thaw() const {
  if (const pid_t process = pid(); process > 1) {
    ::kill(process, SIGCONT);
  }
}

}  // namespace audiogen::test
