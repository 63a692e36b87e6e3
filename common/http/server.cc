#include "common/http/server.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <netinet/in.h>
#include <pistache/endpoint.h>
#include <pistache/http.h>
#include <pistache/net.h>
#include <pistache/peer.h>
#include <sys/socket.h>

#include "common/base/check.h"
#include "common/http/connection.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 4096;
// Pistache's own timers answer with a bare 408 outside our lock, so they must never fire.
constexpr auto kNever = std::chrono::hours(24 * 365 * 100);
constexpr auto kPoll = 10ms;
constexpr auto kStopLimit = 2s;
// drain() believes that no more requests are coming after this long without one.
constexpr auto kQuiet = 100ms;

// The reactor's side. Pistache clones it for each of its threads; a clone and all its connections
// belong to one thread. Overrides everything that would run Pistache's own HTTP code.
class ReactorHandler : public Pistache::Http::Handler {
 public:
  HTTP_PROTOTYPE(ReactorHandler)

  explicit ReactorHandler(std::shared_ptr<ServerCore> core)
      : core_(std::move(core)),
        idle_parser_(std::make_shared<Pistache::Http::RequestParser>(std::size_t{1})) {}

  void onRequest(const Pistache::Http::Request&, Pistache::Http::ResponseWriter) override {}

 private:
  using Peer = std::shared_ptr<Pistache::Tcp::Peer>;

  void onConnection(const Peer& peer) override {
    // Pistache's idle check reads a parser from every peer. One that never parses serves them all.
    peer->putData(ParserData, idle_parser_);
    peer->setIdle(true);
    const auto fd = static_cast<std::size_t>(peer->fd());
    if (fd >= connections_.size()) {
      connections_.resize(fd + 64);
    }
    connections_[fd] = std::make_shared<Connection>(core_, peer->fd());
    if (!core_->add(connections_[fd])) {
      connections_[fd]->abort();
    }
  }

  void onInput(const char* buffer, std::size_t length, const Peer& peer) override {
    const std::shared_ptr<Connection>& connection =
        connections_[static_cast<std::size_t>(peer->fd())];
    try {
      connection->on_bytes({buffer, length});
    } catch (...) {
      connection->abort();  // Out of memory: that connection's loss.
    }
  }

  // Pistache closes the descriptor after this returns.
  void onDisconnection(const Peer& peer) override {
    const std::shared_ptr<Connection> connection =
        std::move(connections_[static_cast<std::size_t>(peer->fd())]);
    connection->on_eof();
  }

  std::shared_ptr<ServerCore> core_;
  std::shared_ptr<Pistache::Http::RequestParser> idle_parser_;
  std::vector<std::shared_ptr<Connection>> connections_;  // By descriptor.
};

// This process's listening TCP sockets.
std::vector<int> listening_sockets() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0) {
      found.push_back(fd);
    }
  }
  return found;
}

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

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Handler handler, ErrorReply on_error)
      : core_(std::make_shared<ServerCore>(
            std::move(options), std::move(handler), std::move(on_error))) {}
  ~Impl() { stop(); }

  Result<Done> start();
  std::uint16_t port() const { return port_; }
  void drain(std::chrono::milliseconds limit);
  void stop();

  const std::shared_ptr<ServerCore> core_;

 private:
  void stop_accepting();
  bool any_active() const;

  std::unique_ptr<Pistache::Http::Endpoint> endpoint_;
  std::uint16_t port_ = 0;
  int listener_ = -1;  // Pistache's.
};

Result<Done> Server::Impl::start() {
  const ServerOptions& options = core_->options;
  // A client that goes while a file is being sent must not take the process with it.
  std::signal(SIGPIPE, SIG_IGN);
  const bool bare_v6 = options.host.find(':') != std::string::npos && options.host.front() != '[';
  const std::string host = bare_v6 ? "[" + options.host + "]" : options.host;
  // The listening socket is found by what is new, so servers start one at a time.
  static std::mutex starting;
  const std::lock_guard lock(starting);
  try {
    const std::vector<int> before = listening_sockets();
    endpoint_ = std::make_unique<Pistache::Http::Endpoint>(
        Pistache::Address(host, Pistache::Port(options.port)));
    using Pistache::Tcp::Options;
    endpoint_->init(Pistache::Http::Endpoint::options()
                        .threads(options.threads)
                        .threadsName("http")
                        .flags(Pistache::Flags<Options>(Options::ReuseAddr) | Options::NoDelay |
                               Options::CloseOnExec)
                        .headerTimeout(kNever)
                        .bodyTimeout(kNever)
                        .keepaliveTimeout(kNever));
    endpoint_->setHandler(std::make_shared<ReactorHandler>(core_));
    endpoint_->serveThreaded();
    port_ = endpoint_->getPort();
    for (const int fd : listening_sockets()) {
      if (std::find(before.begin(), before.end(), fd) == before.end() && local_port(fd) == port_) {
        listener_ = fd;
      }
    }
    AG_CHECK(listener_ >= 0);
    // Pistache ignores its own backlog option and asks for 128.
    ::listen(listener_, kBacklog);
  } catch (const std::exception& failure) {
    endpoint_.reset();
    return Error{"cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " +
                 failure.what()};
  }
  const auto shortest = std::min({options.head_timeout,
                                  options.body_timeout,
                                  options.keep_alive_timeout,
                                  options.write_stall_timeout,
                                  options.reply_timeout,
                                  options.linger_timeout});
  core_->housekeeper.start(std::clamp<std::chrono::milliseconds>(shortest / 4, 10ms, 250ms),
                           [core = core_.get()](Clock::time_point now) { core->sweep(now); });
  return Done{};
}

// Pistache cannot stop accepting, so its listening socket is replaced in place, which also frees
// the port. By a socket that never listens: accept() on it fails with EINVAL, which Pistache takes
// lightly; on anything that is not a socket its accept thread would end the process.
void Server::Impl::stop_accepting() {
  if (listener_ >= 0) {
    const UniqueFd deaf(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (deaf) {
      ::dup3(deaf.get(), listener_, O_CLOEXEC);
    }
    listener_ = -1;
  }
}

bool Server::Impl::any_active() const {
  const auto connections = core_->all();
  return std::any_of(
      connections.begin(), connections.end(), [](const auto& c) { return c->active(); });
}

void Server::Impl::drain(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  core_->draining = true;
  stop_accepting();
  // Connections between requests stay: their next request gets its answer, and with it the news
  // that it was the last.
  auto quiet_since = Clock::now();
  std::uint64_t seen = core_->requests;
  while (Clock::now() < end && Clock::now() - quiet_since < kQuiet && core_->count() > 0) {
    std::this_thread::sleep_for(kPoll);
    if (const std::uint64_t now = core_->requests; now != seen || any_active()) {
      seen = now;
      quiet_since = Clock::now();
    }
  }
  core_->refusing = true;
}

void Server::Impl::stop() {
  if (!endpoint_) {
    return;
  }
  core_->draining = true;
  core_->refusing = true;
  stop_accepting();
  // The reactor closes the descriptors, so it has to see every connection end before it goes.
  const auto end = Clock::now() + kStopLimit;
  while (core_->count() > 0 && Clock::now() < end) {
    for (const auto& connection : core_->all()) {
      connection->abort();
    }
    std::this_thread::sleep_for(1ms);
  }
  endpoint_->shutdown();
  endpoint_.reset();
  core_->housekeeper.stop();
}

Server::Server(ServerOptions options, Handler handler, ErrorReply on_error)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler), std::move(on_error))) {}
Server::~Server() = default;

Result<Done> Server::start() {
  return impl_->start();
}
std::uint16_t Server::port() const {
  return impl_->port();
}
void Server::drain(std::chrono::milliseconds limit) {
  impl_->drain(limit);
}
void Server::stop() {
  impl_->stop();
}

ServerStats Server::stats() const {
  const ServerCore& core = *impl_->core_;
  return {core.count(), core.requests, core.in_flight};
}

}  // namespace audiogen::http
