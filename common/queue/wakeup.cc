// An eventfd next to the connection's socket.
#include "common/queue/wakeup.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <poll.h>

namespace audiogen::queue {

void Wakeup::wait(int socket, bool until_writable, std::chrono::milliseconds limit) {
  const auto events = static_cast<std::int16_t>(until_writable ? POLLIN | POLLOUT : POLLIN);
  std::array<pollfd, 2> watched{{{.fd = event_.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = socket, .events = events, .revents = 0}}};
  const auto timeout = std::clamp<std::chrono::milliseconds::rep>(limit.count(), 0, 60'000);
  poll(watched.data(), watched.size(), static_cast<int>(timeout));
  event_.answer(watched[0].revents != 0);
}

}  // namespace audiogen::queue
