// What both programs tell the service manager that starts them (Type=notify of their units).
#include <chrono>
#include <csignal>
#include <cstddef>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

class Manager {
 public:
  Manager() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name_.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  }

  std::map<std::string, std::string> environment() const { return {{"NOTIFY_SOCKET", name_}}; }
  // What has come; empty when nothing has.
  std::string next() const {
    std::string out(64, '\0');
    const ssize_t size = ::recv(socket_.get(), out.data(), out.size(), MSG_DONTWAIT);
    out.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return out;
  }
  bool hears(const std::string& message) const {
    return eventually(std::chrono::seconds(60), [&] { return next() == message; });
  }

 private:
  const std::string name_ = "@audiogen-" + std::to_string(::getpid());
  UniqueFd socket_;
};

TEST(Manager, HearsWhenProgramsAreReadyAndWhenTheyStop) {
  const Manager manager;
  Stack::Options options;
  options.workers = 0;
  options.api = false;
  Stack stack(options);
  EXPECT_EQ(manager.next(), "");
  stack.start_api(manager.environment());
  EXPECT_TRUE(manager.hears("READY=1"));
  const std::size_t worker = stack.start_worker(manager.environment());
  EXPECT_TRUE(manager.hears("READY=1"));
  for (Process* const process : {&stack.worker(worker), &stack.api()}) {
    process->signal(SIGTERM);
    EXPECT_TRUE(manager.hears("STOPPING=1"));
    EXPECT_EQ(process->wait(std::chrono::seconds(40)), 0);
    EXPECT_EQ(manager.next(), "");
  }
}

}  // namespace
}  // namespace audiogen::test
