// What a service manager hears, over real sockets.
#include "common/base/process.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace audiogen {
namespace {

// The manager's end: a socket by a name as NOTIFY_SOCKET has it, with @ for an abstract one.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name.front() == '@') {
      address.sun_path[0] = '\0';
    }
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    bound_ = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() { ::unsetenv("NOTIFY_SOCKET"); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  bool bound() const { return bound_; }
  // What has come; empty when nothing has.
  std::string next() const {
    char buffer[64];
    const ssize_t size = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  UniqueFd socket_;
  bool bound_ = false;
};

std::string fresh_name() {
  static int number = 0;
  return "audiogen-manager-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

void expect_both_stages(const std::string& name) {
  const Manager manager(name);
  ASSERT_TRUE(manager.bound());
  tell_service_manager(Stage::kReady);
  tell_service_manager(Stage::kStopping);
  EXPECT_EQ(manager.next(), "READY=1");
  EXPECT_EQ(manager.next(), "STOPPING=1");
  EXPECT_EQ(manager.next(), "");
}

TEST(ServiceManager, HearsByPathAndByAbstractName) {
  const std::string path = std::filesystem::temp_directory_path() / fresh_name();
  expect_both_stages(path);
  std::filesystem::remove(path);
  expect_both_stages("@" + fresh_name());
}

TEST(ServiceManager, ThatIsNotThereStopsNobody) {
  ::unsetenv("NOTIFY_SOCKET");
  tell_service_manager(Stage::kReady);
  for (const std::string& name : {std::string(),
                                  "/nowhere/" + fresh_name(),
                                  "@" + fresh_name(),
                                  "/" + std::string(200, 'x')}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    testing::internal::CaptureStderr();
    tell_service_manager(Stage::kReady);
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("could not be told") != std::string::npos, !name.empty()) << log;
  }
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace audiogen
