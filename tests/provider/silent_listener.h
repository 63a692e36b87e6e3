// An address that answers no attempt to connect, as one that has lost its machine.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace audiogen::test {

class SilentListener {
 public:
  // On an IPv4 address of this machine, at a port that is free.
  explicit SilentListener(const std::string& address) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    AG_CHECK(::inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1);
    auto* const raw = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof at;
    AG_CHECK(::bind(listener_.get(), raw, size) == 0 && ::listen(listener_.get(), 0) == 0);
    AG_CHECK(::getsockname(listener_.get(), raw, &size) == 0);
    port_ = ntohs(at.sin_port);
    // Nobody accepts: once its one place is taken, Linux drops who else asks.
    for (const UniqueFd& other : others_) {
      ::connect(other.get(), raw, size);
    }
  }
  std::uint16_t port() const { return port_; }

 private:
  static UniqueFd made() {
    UniqueFd out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    AG_CHECK(out);
    return out;
  }

  UniqueFd listener_ = made();
  std::array<UniqueFd, 3> others_{made(), made(), made()};
  std::uint16_t port_ = 0;
};

}  // namespace audiogen::test
