#include "common/base/process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"

namespace audiogen {
namespace {

sigset_t waited_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

Signal meaning(int caught) {
  return caught == SIGHUP ? Signal::kReload : Signal::kStop;
}

// 0, or the error number.
int send_to_socket(std::string_view path, std::string_view message) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return ENAMETOOLONG;
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  if (path.front() == '@') {  // unix(7), "abstract"
    address.sun_path[0] = '\0';
  }
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Dropped at once it might be lost while many programs start, and the manager would wait for it.
  const timeval limit{5, 0};
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const bool sent =
      socket && ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
      ::sendto(socket.get(),
               message.data(),
               message.size(),
               MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address),
               length) == static_cast<ssize_t>(message.size());
  return sent ? 0 : errno;
}

}  // namespace

void block_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = waited_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void allow_signals() {
  const sigset_t set = waited_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void prefer_batches() {
  const sched_param none{};
  // Needs no privilege; where it is forbidden all the same, work is only slower.
  static_cast<void>(::sched_setscheduler(0, SCHED_BATCH, &none));
}

void leave_no_core() {
  const rlimit none{0, 0};
  AG_CHECK(::setrlimit(RLIMIT_CORE, &none) == 0);
  // The limit alone does not stop a core_pattern(5) that is a program.
  AG_CHECK(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    constexpr std::size_t kPosixLeast = 20;  // _POSIX_OPEN_MAX
    return kPosixLeast;
  }
  if (limit.rlim_cur < limit.rlim_max) {
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      limit.rlim_cur = before;
    }
  }
  return limit.rlim_cur;
}

Signal wait_for_signal() {
  const sigset_t set = waited_signals();
  int caught = 0;
  while (sigwait(&set, &caught) != 0) {
  }
  return meaning(caught);
}

std::optional<Signal> wait_for_signal(std::chrono::milliseconds limit) {
  const sigset_t set = waited_signals();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(limit);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = std::chrono::nanoseconds(limit - seconds).count();
  const int caught = ::sigtimedwait(&set, nullptr, &time);
  return caught > 0 ? std::optional(meaning(caught)) : std::nullopt;
}

void tell_service_manager(Stage stage) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') {
    return;
  }
  const std::string_view message = stage == Stage::kReady ? "READY=1" : "STOPPING=1";
  if (const int error = send_to_socket(path, message); error != 0) {
    log::warn("the service manager could not be told",
              {{"message", message}, {"why", std::strerror(error)}});
  }
}

}  // namespace audiogen
