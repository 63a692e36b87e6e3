#include "tests/bench/load.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace audiogen::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLastAnswers = std::chrono::seconds(10);
constexpr auto kPatience = std::chrono::seconds(1);

struct Connection {
  int fd = -1;
  bool busy = false;
  std::size_t kind = 0;
  Clock::time_point due;  // When the request was to be sent.
  std::string in;
};

int dial(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::perror("bench: connect");
    std::exit(1);
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// The status and body of the one whole answer in `in`; status 0 when it is not whole yet. Our own
// server's form is all that is understood.
struct Answer {
  int status = 0;
  bool close = false;
  std::string_view body;
};
Answer parse(std::string_view in) {
  const auto end = in.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    return {};
  }
  Answer out;
  const std::string_view head = in.substr(0, end);
  std::size_t length = 0;
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  if (const auto at = head.find(kLength); at != std::string_view::npos) {
    std::from_chars(head.data() + at + kLength.size(), head.data() + head.size(), length);
  }
  if (in.size() < end + 4 + length) {
    return {};
  }
  std::from_chars(head.data() + 9, head.data() + head.size(), out.status);
  out.close = head.find("\r\nConnection: close") != std::string_view::npos;
  out.body = in.substr(end + 4, length);
  return out;
}

class Loop {
 public:
  Loop(const LoadOptions& options, Aim& aim)
      : options_(options),
        gap_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(options.rate > 0 ? 1 / options.rate : 0))),
        aim_(aim),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    connections_.resize(options.connections);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      idle_.push_back(i);
    }
  }
  ~Loop() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      close(i);
    }
    ::close(epoll_);
  }

  LoadResult run() {
    const auto span = [](double seconds) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    next_due_ = Clock::now();
    began_ = next_due_ + span(options_.warm_up);
    const auto end = began_ + span(options_.seconds);
    for (bool warm = false;;) {
      const auto now = Clock::now();
      if (now >= began_ && !std::exchange(warm, true) && options_.warm) {
        options_.warm();
      }
      const bool more = (options_.rate > 0 ? next_due_ : now) < end;
      if (more) {
        launch(now, end);
      } else if (busy_ == 0 || now > end + kLastAnswers) {
        break;
      }
      wait(now, more);
    }
    out_.broken += busy_;
    // Until the last answer: what was still waiting at the end has to be paid for, too.
    out_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    return std::move(out_);
  }

 private:
  // When it is first needed, as a client's pool does: a server waits for a first byte not for long.
  void open(std::size_t index) {
    connections_[index].fd = dial(options_.port);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = index}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_[index].fd, &event);
  }

  void close(std::size_t index) {
    if (const int fd = std::exchange(connections_[index].fd, -1); fd >= 0) {
      ::close(fd);
    }
  }

  void launch(Clock::time_point now, Clock::time_point end) {
    if (options_.rate <= 0) {
      for (; !idle_.empty(); idle_.pop_back()) {
        send(idle_.back(), now);
      }
      return;
    }
    // What became due while every connection was busy is late.
    const bool late = std::exchange(all_busy_, false);
    for (; next_due_ <= now && next_due_ < end; next_due_ += gap_) {
      const std::uint64_t counted = next_due_ >= began_ ? 1 : 0;
      if (now - next_due_ > kPatience) {
        out_.not_sent += counted;
        continue;
      }
      if (idle_.empty()) {
        break;
      }
      const std::size_t index = idle_.back();
      idle_.pop_back();
      send(index, next_due_);
      out_.late += late ? counted : 0;
    }
    all_busy_ = idle_.empty();
  }

  void send(std::size_t index, Clock::time_point due) {
    Connection& connection = connections_[index];
    const Shot shot = aim_.next(index);
    connection.busy = true;
    connection.kind = shot.kind;
    connection.due = due;
    ++busy_;
    if (connection.fd < 0) {
      open(index);
    }
    // Requests are far smaller than a socket's buffer: they go in one piece.
    if (::send(connection.fd, shot.bytes.data(), shot.bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(shot.bytes.size())) {
      lost(index);
    }
  }

  void wait(Clock::time_point now, bool more) {
    Clock::duration span = options_.spin ? Clock::duration::zero() : std::chrono::milliseconds(100);
    if (options_.rate > 0 && more && !idle_.empty()) {
      span = std::clamp<Clock::duration>(next_due_ - now, Clock::duration::zero(), span);
    }
    const timespec limit{.tv_sec = 0, .tv_nsec = static_cast<long>(span.count())};
    std::array<epoll_event, 256> events{};
    const int count =
        ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
    for (int i = 0; i < count; ++i) {
      receive(events[static_cast<std::size_t>(i)].data.u64);
    }
  }

  void receive(std::size_t index) {
    Connection& connection = connections_[index];
    std::array<char, 16384> buffer;
    const ssize_t size = ::recv(connection.fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      lost(index);
      return;
    }
    std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    if (!connection.in.empty()) {
      connection.in += bytes;
      bytes = connection.in;
    }
    const Answer answer = parse(bytes);
    if (answer.status == 0) {
      if (connection.in.empty()) {
        connection.in = bytes;
      }
      return;
    }
    note(connection, answer.status);
    aim_.answered(index, answer.status, answer.body);
    connection.in.clear();
    if (answer.close) {
      close(index);
    }
    connection.busy = false;
    --busy_;
    idle_.push_back(index);
  }

  void note(const Connection& connection, int status) {
    if (out_.kinds.size() <= connection.kind) {
      out_.kinds.resize(connection.kind + 1);
    }
    Tally& tally = out_.kinds[connection.kind];
    if (connection.due < began_) {
      tally.good_before += status < 400 ? 1 : 0;
      return;
    }
    ++tally.statuses[status];
    if (status < 400) {
      ++tally.good;
    }
    if (status < 500) {
      tally.latency.record(Clock::now() - connection.due);
    }
  }

  // The server closed it, perhaps under a request.
  void lost(std::size_t index) {
    Connection& connection = connections_[index];
    if (connection.busy) {
      ++out_.broken;
      --busy_;
      connection.busy = false;
      connection.in.clear();
      idle_.push_back(index);
    }
    close(index);
  }

  const LoadOptions options_;
  const Clock::duration gap_;  // Between two requests of an open loop.
  Aim& aim_;
  const int epoll_;
  std::vector<Connection> connections_;
  std::vector<std::size_t> idle_;  // The last one used is used next, as a client's pool does.
  bool all_busy_ = false;          // When the last launch ended.
  std::size_t busy_ = 0;
  Clock::time_point next_due_ = Clock::now();
  Clock::time_point began_ = next_due_;  // To count.
  LoadResult out_;
};

}  // namespace

void Histogram::record(std::chrono::nanoseconds latency) {
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count() / 1000, 1));
  // The leading bit chooses the power of two, the next ones the bucket in it.
  const int power = std::max(static_cast<int>(std::bit_width(us)) - 1 - kSubBits, 0);
  const std::size_t index = (static_cast<std::size_t>(power) << kSubBits) + (us >> power);
  ++buckets_[std::min(index, buckets_.size() - 1)];
  ++count_;
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
}

double Histogram::quantile(double q) const {
  const auto wanted = static_cast<std::uint64_t>(q * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size() && count_ > 0; ++i) {
    seen += buckets_[i];
    if (seen > wanted || seen == count_) {
      const std::size_t power = i < (2U << kSubBits) ? 0 : (i >> kSubBits) - 1;
      const std::size_t within = i - (power << kSubBits);
      return static_cast<double>((within + 1) << power) / 1000;
    }
  }
  return 0;
}

std::uint64_t Tally::refused() const {
  const auto at = statuses.find(503);
  return at == statuses.end() ? 0 : at->second;
}

double LoadResult::good_per_second() const {
  return static_cast<double>(all().good) / seconds;
}

Tally LoadResult::all() const {
  Tally out;
  for (const Tally& kind : kinds) {
    out.latency.add(kind.latency);
    out.good += kind.good;
    for (const auto& [status, count] : kind.statuses) {
      out.statuses[status] += count;
    }
  }
  return out;
}

LoadResult run_load(const LoadOptions& options, Aim& aim) {
  return Loop(options, aim).run();
}

}  // namespace audiogen::bench
