#include "tests/support/private_database.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/places.h"
#include "tests/support/process.h"
#include "tests/support/test_database.h"
#include "tests/support/wrong_clock.h"

namespace audiogen::test {
namespace {

Output dev(const char* action,
           const std::string& folder,
           std::uint16_t port,
           const std::map<std::string, std::string>& environment = {}) {
  return run({source_path("dev"), "_mariadb", action, folder, std::to_string(port)}, environment);
}

}  // namespace

PrivateDatabase::PrivateDatabase(const Options& options) : port_(free_port()) {
  const char* const url = std::getenv("TEST_DATABASE_URL");
  before_ = url != nullptr ? std::optional<std::string>(url) : std::nullopt;
  const char* const parent = std::getenv("TEST_STACK_DIR");
  std::filesystem::path under = parent != nullptr ? parent : std::filesystem::temp_directory_path();
  if (!options.under.empty()) {
    under = options.under;
  }
  folder_ = (under / "db-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder under " + under.string());
  }
  if (options.prepare) {
    options.prepare(folder_);
  }
  if (options.movable_clock) {
    environment_ = movable_clock(folder_ + "/clock");
    test::set_clock(folder_ + "/clock", std::chrono::seconds(0));
  }
  start();
}

PrivateDatabase::~PrivateDatabase() {
  thaw();
  kill();
  if (before_) {
    ::setenv("TEST_DATABASE_URL", before_->c_str(), 1);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void PrivateDatabase::start() {
  const Output output = dev("start", folder_, port_, environment_);
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("mysql://owner:")) {
      ::setenv("TEST_DATABASE_URL", line.c_str(), 1);
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

void PrivateDatabase::set_clock(std::chrono::seconds ahead) const {
  using std::chrono::system_clock;
  test::set_clock(folder_ + "/clock", ahead);
  store::Session session(test_server());
  const bool moved = eventually(std::chrono::seconds(60), [&] {
    store::Rows rows = session.query(store::Sql("SELECT UNIX_TIMESTAMP()"));
    rows.next();
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch());
    return std::abs(rows.i64(1) - (now + ahead).count()) <= 1;
  });
  if (!moved) {
    throw std::runtime_error("the database keeps to another clock");
  }
}

}  // namespace audiogen::test
