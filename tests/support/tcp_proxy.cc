#include "tests/support/tcp_proxy.h"

#include <algorithm>
#include <array>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 10ms;  // How soon a fault takes effect.
constexpr std::size_t kPiece = 64 * 1024;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

int connect_to(const std::string& host, std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  AG_CHECK(fd >= 0);
  sockaddr_in address = loopback(port);
  AG_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

void without_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval limit{.tv_sec = 5, .tv_usec = 0};  // A peer that never reads must not hang a test.
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

bool send_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    data.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool readable(int fd, std::chrono::milliseconds wait) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, static_cast<int>(wait.count())) > 0;
}

void close_socket(int& fd, bool reset) {
  if (fd < 0) {
    return;
  }
  if (reset) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  close(fd);
  fd = -1;
}

}  // namespace

TcpProxy::TcpProxy(std::uint16_t target) : target_(target) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  AG_CHECK(listener_ >= 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  AG_CHECK(bind(listener_, generic, size) == 0 && listen(listener_, SOMAXCONN) == 0);
  AG_CHECK(getsockname(listener_, generic, &size) == 0);
  port_ = ntohs(address.sin_port);
  accepter_ = std::thread([this] { accept_loop(); });
}

TcpProxy::~TcpProxy() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  accepter_.join();
  for (Link& link : links_) {
    link.thread.join();
  }
  close(listener_);
}

bool TcpProxy::stopping() const {
  const std::scoped_lock lock(mutex_);
  return stopping_;
}

void TcpProxy::set_target(std::uint16_t target, const std::string& host) {
  const std::scoped_lock lock(mutex_);
  target_ = target;
  target_host_ = host;
}

void TcpProxy::cut_all(Cut how) {
  const std::scoped_lock lock(mutex_);
  for (Link& link : links_) {
    link.cut = true;
    link.how = how;
  }
  changed_.notify_all();
}

void TcpProxy::blackhole() {
  const std::scoped_lock lock(mutex_);
  faults_.blackhole = true;
}

void TcpProxy::resume() {
  const std::scoped_lock lock(mutex_);
  faults_.blackhole = false;
}

void TcpProxy::refuse() {
  const std::scoped_lock lock(mutex_);
  faults_.refuse = true;
}

void TcpProxy::accept_again() {
  const std::scoped_lock lock(mutex_);
  faults_.refuse = false;
}

void TcpProxy::delay(std::chrono::milliseconds each_piece) {
  const std::scoped_lock lock(mutex_);
  faults_.delay = each_piece;
}

void TcpProxy::throttle(std::size_t bytes_per_second) {
  const std::scoped_lock lock(mutex_);
  faults_.bytes_per_second = bytes_per_second;
}

void TcpProxy::drop_reply_after(std::string pattern, Cut how, int times) {
  const std::scoped_lock lock(mutex_);
  trigger_ = {.pattern = std::move(pattern), .before = false, .how = how, .times = times};
}

void TcpProxy::cut_before(std::string pattern, Cut how, int times) {
  const std::scoped_lock lock(mutex_);
  trigger_ = {.pattern = std::move(pattern), .before = true, .how = how, .times = times};
}

void TcpProxy::truncate_reply(std::size_t bytes, Cut how) {
  const std::scoped_lock lock(mutex_);
  truncate_ = bytes == 0 ? std::nullopt : std::optional(std::pair(bytes, how));
  for (Link& link : links_) {
    if (bytes > 0) {
      link.reply_left = bytes;
      link.reply_cut = how;
    }
  }
}

void TcpProxy::accept_loop() {
  while (!stopping()) {
    if (!readable(listener_, kTick)) {
      continue;
    }
    int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      continue;
    }
    ++accepted_;
    const std::scoped_lock lock(mutex_);
    if (faults_.refuse) {
      close_socket(client, true);
      continue;
    }
    without_delay(client);
    Link& link = links_.emplace_back();
    link.client = client;
    if (truncate_) {
      link.reply_left = truncate_->first;
      link.reply_cut = truncate_->second;
      truncate_.reset();
    }
    link.thread = std::thread([this, &link] { pump(link); });
  }
}

void TcpProxy::pump(Link& link) {
  for (bool client_done = false, server_done = false; !client_done || !server_done;) {
    std::uint16_t target = 0;
    std::string host;
    {
      std::unique_lock lock(mutex_);
      if (link.cut || stopping_) {
        const Cut how = stopping_ ? Cut::kClose : link.how;
        lock.unlock();
        end(link, how);
        return;
      }
      if (faults_.blackhole) {
        changed_.wait_for(lock, kTick);
        continue;
      }
      target = target_;
      host = target_host_;
    }
    if (link.server < 0) {
      link.server = connect_to(host, target);
      if (link.server < 0) {
        end(link, Cut::kReset);
        return;
      }
      without_delay(link.server);
    }
    std::array<pollfd, 2> entries = {pollfd{client_done ? -1 : link.client, POLLIN, 0},
                                     pollfd{server_done ? -1 : link.server, POLLIN, 0}};
    if (poll(entries.data(), entries.size(), kTick.count()) <= 0) {
      continue;
    }
    if (entries[0].revents != 0 && !forward(link, true)) {
      client_done = true;
    }
    if (link.server >= 0 && entries[1].revents != 0 && !forward(link, false)) {
      server_done = true;
    }
    if (link.server < 0) {
      return;  // Ended by a trigger.
    }
  }
  end(link, Cut::kClose);
}

// Passes one piece on. False when that side has no more to say, or the link was ended.
bool TcpProxy::forward(Link& link, bool to_server) {
  Faults faults;
  {
    const std::scoped_lock lock(mutex_);
    if (link.cut || stopping_ || faults_.blackhole) {
      return true;  // Since pump() looked: nothing passes, and it sees to the rest.
    }
    faults = faults_;
  }
  const int from = to_server ? link.client : link.server;
  const int to = to_server ? link.server : link.client;
  std::size_t limit = kPiece;
  if (faults.bytes_per_second != 0) {
    limit = std::clamp<std::size_t>(faults.bytes_per_second / 100, 1, kPiece);
  }
  std::vector<char> buffer(limit);
  const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
  if (got <= 0) {
    shutdown(to, SHUT_WR);
    return false;
  }
  std::string_view data(buffer.data(), static_cast<std::size_t>(got));
  if (faults.delay > 0ms) {
    std::this_thread::sleep_for(faults.delay);
  }
  if (faults.bytes_per_second != 0) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(data.size() * 1'000'000 / faults.bytes_per_second));
  }
  if (to_server) {
    if (const auto trigger = match(link, data)) {
      if (!trigger->before) {
        send_all(to, data);
        if (readable(link.server, 1s)) {
          recv(link.server, buffer.data(), buffer.size(), 0);
        }
      }
      ++triggered_;
      end(link, trigger->how);
      return false;
    }
  } else if (const auto cut = count_reply(link, data)) {
    ++triggered_;
    send_all(to, data);
    end(link, *cut);
    return false;
  }
  return send_all(to, data);
}

std::optional<TcpProxy::Cut> TcpProxy::count_reply(Link& link, std::string_view& data) {
  const std::scoped_lock lock(mutex_);
  if (!link.reply_left) {
    return std::nullopt;
  }
  data = data.substr(0, *link.reply_left);
  *link.reply_left -= data.size();
  return *link.reply_left == 0 ? std::optional(link.reply_cut) : std::nullopt;
}

std::optional<TcpProxy::Trigger> TcpProxy::match(Link& link, std::string_view data) {
  const std::scoped_lock lock(mutex_);
  if (trigger_.times == 0) {
    link.tail.clear();
    return std::nullopt;
  }
  link.tail += data;
  if (link.tail.find(trigger_.pattern) != std::string::npos) {
    --trigger_.times;
    return trigger_;
  }
  const std::size_t keep = std::min(link.tail.size(), trigger_.pattern.size() - 1);
  link.tail.erase(0, link.tail.size() - keep);
  return std::nullopt;
}

void TcpProxy::end(Link& link, Cut how) {
  if (how == Cut::kSilence) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || (link.cut && link.how != Cut::kSilence); });
  }
  close_socket(link.client, how == Cut::kReset);
  close_socket(link.server, how == Cut::kReset);
}

}  // namespace audiogen::test
