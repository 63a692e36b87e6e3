#include "tests/support/provider_double.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <numeric>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "common/http/framer.h"

namespace audiogen::test {
namespace {

using Clock = std::chrono::steady_clock;
using Form = DoubleReply::Form;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kEndlessPiece = 64 * 1024;
constexpr int kEventsMax = 256;
constexpr int kBacklog = 4096;
const http::FramerLimits kLimits{.body = 64 * 1024 * 1024};

std::string chunk(std::string_view data) {
  std::array<char, 32> size{};
  const int length = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  std::string out(size.data(), static_cast<std::size_t>(length));
  out += data;
  out += "\r\n";
  return out;
}

std::string head_of(const DoubleReply& reply, const std::string& framing) {
  std::string out = "HTTP/1.1 " + std::to_string(reply.status) + " Scripted\r\n";
  for (const std::string& line : reply.headers) {
    out += line + "\r\n";
  }
  return out + framing + "\r\n";
}

std::string with_length(const DoubleReply& reply, std::size_t length, std::string_view body) {
  return head_of(reply, "Content-Length: " + std::to_string(length) + "\r\n") + std::string(body);
}

}  // namespace

std::string DoubleCall::header(std::string_view lower_case_name) const {
  const std::string start = std::string(lower_case_name) + ": ";
  const auto at = head.starts_with(start) ? 0 : head.find("\n" + start);
  if (at == std::string::npos) {
    return "";
  }
  const auto from = head.find(start, at) + start.size();
  return head.substr(from, head.find('\n', from) - from);
}

// One thread, one epoll; a connection has at most one request under way.
class ProviderDouble::Impl {
 public:
  Impl(Script script, std::uint16_t port) : script_(std::move(script)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    AG_CHECK(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0);
    AG_CHECK(::listen(listener_.get(), kBacklog) == 0);
    socklen_t size = sizeof address;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
    watch(wake_.get(), EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    stopping_.store(true);
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<DoubleCall> journal_;  // Guarded by mutex_.
  std::size_t accepted_ = 0;         // Guarded by mutex_.
  std::size_t open_ = 0;             // Guarded by mutex_.
  bool keep_bodies_ = true;          // Guarded by mutex_.

 private:
  struct Connection {
    UniqueFd fd;
    http::Framer framer;
    bool answering = false;
    DoubleReply reply;
    std::string out;
    std::size_t sent = 0;  // Of `out`.
    bool close_after = false, reset_after = false;
    bool endless = false;
    std::size_t pieces_left = 0;  // of an endless answer
    std::string endless_piece;
    std::string dripping;  // Not yet put into `out`.
    bool writable_watched = false;
    std::uint64_t generation = 0;
  };
  // A moment at which a connection goes on, unless it is gone by then.
  struct Alarm {
    int fd;
    std::uint64_t generation;
  };

  void watch(int fd, std::uint32_t events, int operation) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(epoll_.get(), operation, fd, &event);
  }

  void run() {
    std::array<epoll_event, kEventsMax> events{};
    while (!stopping_.load()) {
      int wait = -1;
      if (!alarms_.empty()) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(alarms_.begin()->first - Clock::now());
        wait = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
      }
      const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, wait);
      for (int i = 0; i < count; ++i) {
        handle(events[static_cast<std::size_t>(i)]);
      }
      while (!alarms_.empty() && alarms_.begin()->first <= Clock::now()) {
        const Alarm alarm = alarms_.begin()->second;
        alarms_.erase(alarms_.begin());
        const auto it = connections_.find(alarm.fd);
        if (it != connections_.end() && it->second->generation == alarm.generation) {
          go_on(*it->second);
        }
      }
      changed_.notify_all();
    }
  }

  void handle(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == listener_.get()) {
      accept_all();
      return;
    }
    const auto it = connections_.find(fd);
    if (it == connections_.end()) {
      return;
    }
    if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !receive(*it->second)) {
      return;
    }
    if ((event.events & EPOLLOUT) != 0) {
      send_more(*it->second);
    }
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        return;
      }
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      auto connection = std::make_unique<Connection>();
      connection->fd = UniqueFd(fd);
      connection->generation = ++generations_;
      connections_[fd] = std::move(connection);
      watch(fd, EPOLLIN, EPOLL_CTL_ADD);
      const std::scoped_lock lock(mutex_);
      ++accepted_;
      ++open_;
    }
  }

  void drop(Connection& connection, bool reset) {
    if (reset) {
      const linger now{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    connections_.erase(connection.fd.get());
    const std::scoped_lock lock(mutex_);
    --open_;
  }

  // False when the connection is gone.
  bool receive(Connection& connection) {
    std::array<char, kReadBytes> part;
    const ssize_t count = ::recv(connection.fd.get(), part.data(), part.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      drop(connection, false);
      return false;
    }
    if (count > 0) {
      connection.framer.append({part.data(), static_cast<std::size_t>(count)});
    }
    return connection.answering || take_request(connection);
  }

  bool take_request(Connection& connection) {
    using Status = http::Framer::Status;
    const Status status = connection.framer.advance(kLimits);
    if (status == Status::kRefused) {
      drop(connection, true);
      return false;
    }
    if (status != Status::kComplete) {
      return true;
    }
    DoubleCall call = record(connection.framer.request());
    connection.framer.reset();
    connection.answering = true;
    connection.reply = script_(call);
    if (connection.reply.delay.count() > 0) {
      alarms_.emplace(Clock::now() + connection.reply.delay, alarm_of(connection));
      return true;
    }
    return go_on(connection);
  }

  DoubleCall record(const http::Request& request) {
    DoubleCall call;
    call.method = request.method;
    call.target = request.target;
    call.body = request.body;
    for (const char* name : {"authorization",
                             "api-key",
                             "http-referer",
                             "x-pin",
                             "cartesia-version",
                             "ocp-apim-subscription-key",
                             "x-microsoft-outputformat",
                             "x-goog-api-key",
                             "user-agent",
                             "content-type",
                             "xi-api-key",
                             "x-api-key",
                             "x-api-request-id",
                             "x-client-request-id",
                             "x-fal-request-timeout",
                             "cancel-after",
                             "accept",
                             "host",
                             "traceparent",
                             "tracestate"}) {
      if (request.has_header(name)) {
        call.head += std::string(name) + ": " + std::string(request.header(name)) + "\n";
      }
    }
    const std::scoped_lock lock(mutex_);
    call.number = journal_.size();
    journal_.push_back(call);
    if (!keep_bodies_) {
      journal_.back().body.clear();
    }
    return call;
  }

  static Alarm alarm_of(const Connection& connection) {
    return Alarm{connection.fd.get(), connection.generation};
  }

  // Begins the answer, or gives the next drip of it. False when the connection is gone.
  bool go_on(Connection& connection) {
    const Form form = connection.reply.form;
    if (form == Form::kReset || form == Form::kClose) {
      drop(connection, form == Form::kReset);
      return false;
    }
    if (connection.dripping.empty()) {
      begin_answer(connection);
    } else {
      const std::size_t drip = std::max<std::size_t>(connection.reply.drip_bytes, 1);
      connection.out += connection.dripping.substr(0, drip);
      connection.dripping.erase(0, drip);
    }
    if (!connection.dripping.empty()) {
      alarms_.emplace(Clock::now() + connection.reply.drip_every, alarm_of(connection));
    }
    return send_more(connection);
  }

  static void begin_answer(Connection& connection) {
    const DoubleReply& reply = connection.reply;
    const std::string& body = reply.body;
    const std::string_view half = std::string_view(body).substr(0, body.size() / 2);
    const std::string chunked = "Transfer-Encoding: chunked\r\n";
    switch (reply.form) {
      case Form::kWhole:
        connection.out = with_length(reply, body.size(), body);
        break;
      case Form::kChunked:
        connection.out = head_of(reply, chunked) + chunk(half) +
                         chunk(std::string_view(body).substr(half.size())) + "0\r\n\r\n";
        break;
      case Form::kHang:
      case Form::kReset:
      case Form::kClose:
        break;
      case Form::kTruncated:
      case Form::kTruncatedReset:
        connection.out = with_length(reply, body.size(), half);
        connection.close_after = true;
        connection.reset_after = reply.form == Form::kTruncatedReset;
        break;
      case Form::kCutChunked:
        connection.out = head_of(reply, chunked) + chunk(half);
        connection.close_after = true;
        break;
      case Form::kLongLength:
        connection.out = with_length(reply, body.size() + reply.missing, body);
        break;
      case Form::kShortLength:
        connection.out = with_length(reply, half.size(), body);
        break;
      case Form::kEndless:
      case Form::kEndlessHead:
      case Form::kStalled:
        connection.endless = true;
        connection.pieces_left =
            reply.form == Form::kStalled ? reply.repeat : std::numeric_limits<std::size_t>::max();
        connection.out = reply.form != Form::kEndlessHead ? head_of(reply, chunked)
                                                          : "HTTP/1.1 200 Scripted\r\n";
        connection.endless_piece =
            reply.form != Form::kEndlessHead
                ? chunk(body.empty() ? std::string(kEndlessPiece, 'x') : body)
                : "X-Filler: " + std::string(1000, 'x') + "\r\n";
        break;
      case Form::kDrip:
        connection.dripping = with_length(reply, body.size(), body);
        break;
      case Form::kGarbage:
        connection.out = body;
        connection.close_after = true;
        break;
    }
  }

  // False when the connection is gone.
  bool send_more(Connection& connection) {
    for (;;) {
      if (connection.sent == connection.out.size()) {
        connection.sent = 0;
        connection.out =
            connection.endless && connection.pieces_left > 0 ? connection.endless_piece : "";
        connection.pieces_left -= connection.out.empty() ? 0U : 1U;
      }
      if (connection.out.empty()) {
        break;
      }
      const ssize_t count = ::send(connection.fd.get(),
                                   connection.out.data() + connection.sent,
                                   connection.out.size() - connection.sent,
                                   MSG_NOSIGNAL);
      if (count < 0 && errno == EAGAIN) {
        set_writable(connection, true);
        return true;
      }
      if (count < 0) {
        drop(connection, false);
        return false;
      }
      connection.sent += static_cast<std::size_t>(count);
    }
    set_writable(connection, false);
    if (!connection.answering || connection.reply.form == Form::kHang ||
        connection.reply.form == Form::kStalled || !connection.dripping.empty()) {
      return true;
    }
    if (connection.close_after) {
      drop(connection, connection.reset_after);
      return false;
    }
    connection.answering = false;
    return connection.framer.surplus().empty() || take_request(connection);
  }

  void set_writable(Connection& connection, bool wanted) const {
    if (connection.writable_watched != wanted) {
      connection.writable_watched = wanted;
      watch(connection.fd.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    }
  }

  const Script script_;
  UniqueFd listener_;
  const UniqueFd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  const UniqueFd wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::uint16_t port_ = 0;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  std::multimap<Clock::time_point, Alarm> alarms_;
  std::uint64_t generations_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

ProviderDouble::ProviderDouble(Script script, std::uint16_t port)
    : impl_(std::make_unique<Impl>(std::move(script), port)) {}
ProviderDouble::~ProviderDouble() = default;

std::uint16_t ProviderDouble::port() const {
  return impl_->port();
}

std::vector<DoubleCall> ProviderDouble::calls() const {
  const std::scoped_lock lock(impl_->mutex_);
  return impl_->journal_;
}

std::size_t ProviderDouble::call_count() const {
  const std::scoped_lock lock(impl_->mutex_);
  return impl_->journal_.size();
}

std::size_t ProviderDouble::connections() const {
  const std::scoped_lock lock(impl_->mutex_);
  return impl_->accepted_;
}

std::size_t ProviderDouble::open_connections() const {
  const std::scoped_lock lock(impl_->mutex_);
  return impl_->open_;
}

bool ProviderDouble::wait_until(const std::function<bool()>& condition,
                                std::chrono::milliseconds patience) const {
  constexpr auto kLookEvery = std::chrono::milliseconds(5);
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > deadline) {
      return false;
    }
    std::unique_lock lock(impl_->mutex_);
    impl_->changed_.wait_for(lock, kLookEvery);
  }
  return true;
}

void ProviderDouble::forget_bodies() {
  const std::scoped_lock lock(impl_->mutex_);
  impl_->keep_bodies_ = false;
}

std::string tone_wav(double seconds, int rate, bool streamed) {
  constexpr int kHertz = 440;
  constexpr double kAmplitude = 10'000.0;
  const auto samples = static_cast<std::size_t>(std::lround(seconds * rate));
  const auto little = [](std::uint32_t value, std::size_t bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes; ++i) {
      out += static_cast<char>(value >> (8 * i) & 0xFFU);
    }
    return out;
  };
  const auto data = static_cast<std::uint32_t>(samples * 2);
  std::string out = "RIFF" + little(streamed ? 0xFFFFFFFF : data + 36, 4) + "WAVEfmt " +
                    little(16, 4) + little(1, 2) + little(1, 2) +
                    little(static_cast<std::uint32_t>(rate), 4) +
                    little(static_cast<std::uint32_t>(rate) * 2, 4) + little(2, 2) + little(16, 2) +
                    "data" + little(streamed ? 0xFFFFFFFF : data, 4);
  // After so many samples it is where it was: of ten minutes only that much is worked out.
  std::string round;
  for (int i = 0; i < rate / std::gcd(rate, kHertz); ++i) {
    const double angle = 2.0 * std::numbers::pi * kHertz * i / rate;
    const auto sample = static_cast<std::int16_t>(std::lround(kAmplitude * std::sin(angle)));
    round += little(static_cast<std::uint16_t>(sample), 2);
  }
  const std::size_t whole = out.size() + samples * 2;
  out.reserve(whole + round.size());
  while (out.size() < whole) {
    out += round;
  }
  out.resize(whole);
  return out;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * j) & 0x3FU];
    }
  }
  return out;
}

}  // namespace audiogen::test
