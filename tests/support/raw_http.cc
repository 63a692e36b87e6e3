#include "tests/support/raw_http.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/base/ascii.h"

namespace audiogen::test {
namespace {

using Clock = std::chrono::steady_clock;

bool wait_for(int fd, short what, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poller{fd, what, 0};
    const int ready = ::poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0) {
      return true;
    }
    if (ready == 0 || errno != EINTR) {
      return false;
    }
  }
}

}  // namespace

std::string RawResponse::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? "" : found->second;
}

RawConnection::RawConnection(std::uint16_t port,
                             const std::string& host,
                             int receive_buffer,
                             const std::string& source) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return;
  }
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_buffer > 0) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!source.empty()) {
    addrinfo* from = nullptr;
    if (::getaddrinfo(source.c_str(), "0", &hints, &from) != 0) {
      ::freeaddrinfo(found);
      return;
    }
    const bool bound = ::bind(fd.get(), from->ai_addr, from->ai_addrlen) == 0;
    ::freeaddrinfo(from);
    if (!bound) {
      ::freeaddrinfo(found);
      return;
    }
  }
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) {
    fd_ = std::move(fd);
  }
  ::freeaddrinfo(found);
}

bool RawConnection::send(std::string_view bytes) {
  const auto deadline = Clock::now() + kPatience;
  while (!bytes.empty()) {
    const ssize_t count =
        ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EAGAIN || !wait_for(fd_.get(), POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool RawConnection::fill(Clock::time_point deadline) {
  if (ended_ || !fd_ || !wait_for(fd_.get(), POLLIN, deadline)) {
    return false;
  }
  std::array<char, 65536> part;
  const ssize_t count = ::recv(fd_.get(), part.data(), part.size(), 0);
  if (count <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(part.data(), static_cast<std::size_t>(count));
  return true;
}

std::optional<RawResponse> RawConnection::response(bool head_only,
                                                   std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::size_t head_end = std::string::npos;
  while ((head_end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill(deadline)) {
      return std::nullopt;
    }
  }
  RawResponse response;
  response.head = buffer_.substr(0, head_end + 2);
  buffer_.erase(0, head_end + 4);
  if (!response.head.starts_with("HTTP/1.1 ") || response.head.size() < 13) {
    return std::nullopt;
  }
  std::from_chars(response.head.data() + 9, response.head.data() + 12, response.status);
  std::size_t at = response.head.find("\r\n") + 2;
  while (at < response.head.size()) {
    const std::size_t end = response.head.find("\r\n", at);
    const std::size_t colon = response.head.find(": ", at);
    if (colon >= end) {
      return std::nullopt;
    }
    response.headers.emplace(ascii::lower(response.head.substr(at, colon - at)),
                             response.head.substr(colon + 2, end - colon - 2));
    at = end + 2;
  }
  if (head_only || response.status < 200 || response.status == 204 || response.status == 304) {
    return response;
  }
  if (response.headers.count("content-length") != 1) {
    return std::nullopt;
  }
  const std::size_t length = std::stoul(response.header("content-length"));
  while (buffer_.size() < length) {
    if (!fill(deadline)) {
      return std::nullopt;
    }
  }
  response.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return response;
}

std::optional<std::string> RawConnection::chunk(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::size_t line = std::string::npos;
  while ((line = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill(deadline)) {
      return std::nullopt;
    }
  }
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(buffer_.data(), buffer_.data() + line, size, 16);
  if (error != std::errc() || end != buffer_.data() + line) {
    return std::nullopt;
  }
  while (buffer_.size() < line + 2 + size + 2) {
    if (!fill(deadline)) {
      return std::nullopt;
    }
  }
  std::string out = buffer_.substr(line + 2, size);
  const bool closed = buffer_.compare(line + 2 + size, 2, "\r\n") == 0;
  buffer_.erase(0, line + 2 + size + 2);
  return closed ? std::optional(out) : std::nullopt;
}

std::optional<std::string> RawConnection::rest(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (fill(deadline)) {
  }
  return ended_ ? std::optional(std::exchange(buffer_, {})) : std::nullopt;
}

std::optional<RawResponse> RawConnection::exchange(std::string_view request) {
  return send(request) ? response() : std::nullopt;
}

bool RawConnection::closed(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  return buffer_.empty() && !fill(deadline) && ended_;
}

void RawConnection::finish_sending() {
  ::shutdown(fd_.get(), SHUT_WR);
}

void RawConnection::reset() {
  const linger hard{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  fd_.reset();
}

std::string get_request(std::string_view path, std::string_view header_lines) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
         std::string(header_lines) + "\r\n";
}

std::string post_request(std::string_view path,
                         std::string_view body,
                         std::string_view header_lines) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(header_lines) + "\r\n" + std::string(body);
}

}  // namespace audiogen::test
