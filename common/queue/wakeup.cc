// An eventfd next to the connection's socket.
#include "common/queue/wakeup.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/check.h"

namespace audiogen::queue {

Wakeup::Wakeup() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  AG_CHECK(event_ >= 0);
}

Wakeup::~Wakeup() {
  close(event_);
}

void Wakeup::signal() {
  // Fails only when the counter is at its limit, and then the other side wakes anyway.
  static_cast<void>(eventfd_write(event_, 1));
}

void Wakeup::wait(int socket, bool until_writable, std::chrono::milliseconds limit) {
  const auto events = static_cast<std::int16_t>(until_writable ? POLLIN | POLLOUT : POLLIN);
  std::array<pollfd, 2> watched{{{.fd = event_, .events = POLLIN, .revents = 0},
                                 {.fd = socket, .events = events, .revents = 0}}};
  const auto timeout = std::clamp<std::chrono::milliseconds::rep>(limit.count(), 0, 60'000);
  poll(watched.data(), watched.size(), static_cast<int>(timeout));
  eventfd_t ignored = 0;
  static_cast<void>(eventfd_read(event_, &ignored));
}

}  // namespace audiogen::queue
