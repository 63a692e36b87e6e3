// An HTTP proxy that goes nowhere: it keeps the head of everything that it is asked, and answers as
// if it had been there, but for what it does not reach.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/http/egress.h"

namespace audiogen::test {

class ConnectProxy {
 public:
  // Refuses to connect to addresses that begin with one of `unreachable`.
  // One that is mute has no answer to what went through it.
  explicit ConnectProxy(std::vector<std::string> unreachable = {}, bool mute = false)
      : unreachable_(std::move(unreachable)),
        mute_(mute),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    AG_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    AG_CHECK(::listen(listener_, 16) == 0);
    AG_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~ConnectProxy() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  ConnectProxy(const ConnectProxy&) = delete;
  ConnectProxy& operator=(const ConnectProxy&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // In order; a CONNECT and what went through it are two.
  std::vector<std::string> heads() const {
    const std::scoped_lock lock(mutex_);
    return heads_;
  }

 private:
  void run() {
    for (int socket = ::accept(listener_, nullptr, nullptr); socket >= 0;
         socket = ::accept(listener_, nullptr, nullptr)) {
      const std::string head = read_head(socket);
      if (!is_reached(head)) {
        say(socket, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno");
        ::close(socket);
        continue;
      }
      if (head.starts_with("CONNECT ")) {
        say(socket, "HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n");
        if (is_tls(socket)) {
          ::close(socket);
          continue;
        }
        read_head(socket);
      }
      if (!mute_) {
        say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
      }
      ::close(socket);
    }
  }
  bool is_reached(std::string_view head) const {
    return std::none_of(unreachable_.begin(), unreachable_.end(), [&](const std::string& begin) {
      return head.starts_with("CONNECT " + begin);
    });
  }
  // Nobody here speaks it: who does is left at once. RFC 8446, 5.1: a handshake's first byte.
  static bool is_tls(int socket) {
    char first = 0;
    return ::recv(socket, &first, 1, MSG_PEEK) == 1 && first == 0x16;
  }
  std::string read_head(int socket) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && ::recv(socket, &byte, 1, 0) == 1) {
      head += byte;
    }
    read_body(socket, head);
    const std::scoped_lock lock(mutex_);
    heads_.push_back(head);
    return head;
  }
  // Closed with a part of it unread, a connection takes the answer along.
  static void read_body(int socket, std::string_view head) {
    constexpr std::string_view kLength = "Content-Length: ";
    const auto at = head.find(kLength);
    std::size_t left = 0;
    if (at != std::string_view::npos) {
      std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), left);
    }
    char byte = 0;
    while (left > 0 && ::recv(socket, &byte, 1, 0) == 1) {
      --left;
    }
  }
  static void say(int socket, std::string_view text) {
    (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  }

  const std::vector<std::string> unreachable_;
  const bool mute_;
  const int listener_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> heads_;
  std::thread thread_;
};

// How calls go out, to the end of a test.
class GoingOut {
 public:
  explicit GoingOut(http::Egress egress) { http::set_egress(std::move(egress)); }
  ~GoingOut() { http::set_egress({}); }
  GoingOut(const GoingOut&) = delete;
  GoingOut& operator=(const GoingOut&) = delete;
};

}  // namespace audiogen::test
