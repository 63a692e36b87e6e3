#include "common/http/acceptor.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <memory>
#include <system_error>

#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "common/base/check.h"

namespace audiogen::http {
namespace {

constexpr int kBacklog = 4096;
// Without a free descriptor the queue would wake us again at once, for nothing.
constexpr int kPauseMs = 100;
// For the last packet of those who have begun to connect.
constexpr int kOnTheirWayMs = 20;

std::uint16_t local_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// An error of that one connection, or nothing to accept: accept(2).
bool passes(int error) {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

// Other connections could make room for this one.
bool lacks_room(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Drops the first packet of whoever begins to connect. He sends it again a second later, and hears
// that nobody listens; a reset would come after a proxy has sent his request, which it must not
// send again. Where this cannot be had some are reset.
void let_nobody_begin(int listener) {
  constexpr std::uint32_t kFlags = 13, kSyn = 0x02, kAck = 0x10;  // RFC 9293 3.1
  std::array steps{sock_filter{BPF_LD | BPF_B | BPF_ABS, 0, 0, kFlags},
                   sock_filter{BPF_ALU | BPF_AND | BPF_K, 0, 0, kSyn | kAck},
                   sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, kSyn},
                   sock_filter{BPF_RET | BPF_K, 0, 0, 0},
                   sock_filter{BPF_RET | BPF_K, 0, 0, std::numeric_limits<std::uint32_t>::max()}};
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  ::setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace

Result<Done> Acceptor::listen(const std::string& host, std::uint16_t port) {
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = brackets ? host.substr(1, host.size() - 2) : host;
  const auto failed = [&](const std::string& why) {
    return Error{"cannot listen on " + host + ":" + std::to_string(port) + ": " + why};
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    return failed(::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  // A name that has both, as localhost has, is listened on where most clients look.
  for (const bool first_choice : {true, false}) {
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      if ((at->ai_family == AF_INET) != first_choice) {
        continue;
      }
      UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      // Accepted sockets inherit TCP_NODELAY.
      if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
          ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
          ::bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) {
        port_ = local_port(fd.get());
        listener_ = std::move(fd);
        return Done{};
      }
      error = errno;
    }
  }
  return failed(std::generic_category().message(error));
}

void Acceptor::start(Take take, std::function<void()> exhausted) {
  stopping_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  AG_CHECK(listener_ && stopping_);
  thread_ = std::thread(
      [this, take = std::move(take), exhausted = std::move(exhausted)] { run(take, exhausted); });
  ::pthread_setname_np(thread_.native_handle(), "accept");
}

void Acceptor::stop() {
  if (thread_.joinable()) {
    ::eventfd_write(stopping_.get(), 1);
    thread_.join();
  }
  listener_.reset();
}

bool Acceptor::wait(bool for_connections, int timeout_ms) {
  std::array<pollfd, 2> both{pollfd{stopping_.get(), POLLIN, 0},
                             pollfd{listener_.get(), POLLIN, 0}};
  ::poll(both.data(), for_connections ? 2 : 1, timeout_ms);
  return both[0].revents == 0;
}

int Acceptor::accept_one(const Take& take) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  UniqueFd fd(::accept4(
      listener_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    return errno;
  }
  take(std::move(fd), address);
  return 0;
}

// To their clients these connections are open already, and may have brought a request.
void Acceptor::take_the_rest(const Take& take) const {
  const auto end = std::chrono::steady_clock::now() + the_rest_within_;
  let_nobody_begin(listener_.get());
  while (std::chrono::steady_clock::now() < end) {
    const int error = accept_one(take);
    pollfd more{listener_.get(), POLLIN, 0};
    const int ready = error == EAGAIN ? ::poll(&more, 1, kOnTheirWayMs) : 1;
    const bool nobody_comes = ready == 0 || (ready < 0 && errno != EINTR);
    if (nobody_comes || (error != 0 && !passes(error))) {
      return;
    }
  }
}

void Acceptor::run(const Take& take, const std::function<void()>& exhausted) {
  while (wait(true, -1)) {
    const int error = accept_one(take);
    if (error == 0 || passes(error)) {
      continue;
    }
    if (lacks_room(error)) {
      exhausted();
    }
    if (!wait(false, kPauseMs)) {
      break;
    }
  }
  take_the_rest(take);
}

}  // namespace audiogen::http
