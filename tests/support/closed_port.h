// A port where nobody listens, and nobody else can: who asks there is refused.
#pragma once

#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace audiogen::test {

class ClosedPort {
 public:
  ClosedPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    AG_CHECK(::bind(socket_.get(), raw, size) == 0);
    AG_CHECK(::getsockname(socket_.get(), raw, &size) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  const std::string& url() const { return url_; }

 private:
  UniqueFd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string url_;
};

}  // namespace audiogen::test
