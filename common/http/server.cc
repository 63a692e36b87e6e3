#include "common/http/server.h"

#include <algorithm>
#include <csignal>
#include <future>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pistache/net.h>
#include <pistache/peer.h>
#include <pistache/reactor.h>
#include <pistache/tcp.h>
#include <pistache/transport.h>
#include <sys/socket.h>

#include "common/base/mutex.h"
#include "common/http/acceptor.h"
#include "common/http/connection.h"
#include "common/http/loop.h"

namespace audiogen::http {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 10ms;
constexpr auto kStopLimit = 2s;
// drain() believes that no more requests are coming after this long without one, as long as no
// trusted proxy has a connection (ServerOptions::proxy_idle).
constexpr auto kQuiet = 100ms;

// Connections on their way from the acceptor's thread to the one that will serve them.
class Handover {
 public:
  void put(int fd, std::shared_ptr<Connection> connection) {
    const MutexLock lock(mutex_);
    waiting_.insert_or_assign(fd, std::move(connection));
  }
  // Null when there is none.
  std::shared_ptr<Connection> take(int fd) {
    const MutexLock lock(mutex_);
    const auto found = waiting_.extract(fd);
    return found.empty() ? nullptr : std::move(found.mapped());
  }

 private:
  Mutex mutex_;
  std::unordered_map<int, std::shared_ptr<Connection>> waiting_ GUARDED_BY(mutex_);
};

// The reactor's side. Pistache clones it for each of its threads; a clone and all its connections
// belong to one thread.
class ReactorHandler : public Pistache::Tcp::Handler {
  PROTOTYPE_OF(Pistache::Tcp::Handler, ReactorHandler)

 public:
  using Peer = std::shared_ptr<Pistache::Tcp::Peer>;

  explicit ReactorHandler(std::shared_ptr<Handover> arriving) : arriving_(std::move(arriving)) {}

  void onConnection(const Peer& peer) override {
    const auto fd = static_cast<std::size_t>(peer->fd());
    if (fd >= connections_.size()) {
      connections_.resize(fd + 64);
    }
    connections_[fd] = arriving_->take(peer->fd());
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

 private:
  std::shared_ptr<Handover> arriving_;
  std::vector<std::shared_ptr<Connection>> connections_;  // By descriptor.
};

// Pistache's transport with a loop beside the connections. One for each thread.
class LoopTransport : public Pistache::Tcp::Transport {
 public:
  explicit LoopTransport(const std::shared_ptr<Pistache::Tcp::Handler>& handler)
      : Pistache::Tcp::Transport(handler), handler_(handler) {}

  const std::shared_ptr<Loop>& loop() const { return loop_; }

  std::shared_ptr<Pistache::Aio::Handler> clone() const override {
    return std::make_shared<LoopTransport>(
        std::static_pointer_cast<Pistache::Tcp::Handler>(handler_->clone()));
  }

  void registerPoller(Pistache::Polling::Epoll& poller) override {
    Pistache::Tcp::Transport::registerPoller(poller);
    poller.addFd(loop_->fd(),
                 Pistache::Flags<Pistache::Polling::NotifyOn>(Pistache::Polling::NotifyOn::Read),
                 tag());
  }

  void onReady(const Pistache::Aio::FdSet& ready) override {
    // Of many requests that came together each is read before the next look: answers to others do
    // not wait for two such rounds.
    loop_->run_posted();
    loop_->begin_turn();
    Pistache::Tcp::Transport::onReady(ready);  // Which leaves out what it does not know.
    loop_->run_posted();
  }

 private:
  Pistache::Polling::Tag tag() const {
    return Pistache::Polling::Tag(static_cast<std::uint64_t>(loop_->fd()));
  }

  const std::shared_ptr<Pistache::Tcp::Handler> handler_;
  const std::shared_ptr<Loop> loop_ = std::make_shared<Loop>();
};

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Handler handler, ErrorReply on_error)
      : core_(std::make_shared<ServerCore>(
            std::move(options), std::move(handler), std::move(on_error))) {}
  ~Impl() { stop(); }

  Result<Done> start();
  std::uint16_t port() const { return acceptor_.port(); }
  void drain(std::chrono::milliseconds limit);
  void finish_posted();
  void stop();

  const std::shared_ptr<ServerCore> core_;

 private:
  void take(UniqueFd fd, const sockaddr_storage& address);
  // Whether any connection is in use, and how long nobody has to have asked anything before nobody
  // will.
  struct Look {
    bool active = false;
    std::chrono::milliseconds quiet = kQuiet;
  };
  Look look() const;

  const std::shared_ptr<Handover> arriving_ = std::make_shared<Handover>();
  std::shared_ptr<Pistache::Aio::Reactor> reactor_;
  std::vector<std::shared_ptr<LoopTransport>> transports_;  // One for each thread.
  Acceptor acceptor_;
};

Result<Done> Server::Impl::start() {
  const ServerOptions& options = core_->options;
  // A client that goes while a file is being sent must not take the process with it.
  std::signal(SIGPIPE, SIG_IGN);
  if (auto listening = acceptor_.listen(options.host, options.port); !listening) {
    return listening;
  }
  reactor_ = Pistache::Aio::Reactor::create();
  reactor_->init(Pistache::Aio::AsyncContext(static_cast<std::size_t>(options.threads), "http"));
  const auto key = reactor_->addHandler(
      std::make_shared<LoopTransport>(std::make_shared<ReactorHandler>(arriving_)));
  reactor_->run();
  for (const auto& handler : reactor_->handlers(key)) {
    transports_.push_back(std::static_pointer_cast<LoopTransport>(handler));
  }
  const auto shortest = std::min({options.head_timeout,
                                  options.body_timeout,
                                  options.first_byte_timeout,
                                  options.keep_alive_timeout,
                                  options.write_stall_timeout,
                                  options.reply_timeout,
                                  options.linger_timeout});
  core_->housekeeper.start(std::clamp<std::chrono::milliseconds>(shortest / 4, 10ms, 250ms),
                           [core = core_.get()](Clock::time_point now) { core->sweep(now); });
  acceptor_.start(
      [this](UniqueFd fd, const sockaddr_storage& address) { take(std::move(fd), address); },
      [core = core_.get()] { core->relieve(); });
  return Done{};
}

// On the acceptor's thread.
void Server::Impl::take(UniqueFd fd, const sockaddr_storage& address) {
  LoopTransport& transport = *transports_[static_cast<std::size_t>(fd.get()) % transports_.size()];
  const auto connection =
      std::make_shared<Connection>(core_, transport.loop(), fd.get(), IpAddress::of(address));
  if (!core_->add(connection)) {
    // A reset, so that a refused connection costs the kernel nothing either.
    const linger hard{1, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    return;
  }
  try {
    const auto peer = Pistache::Tcp::Peer::Create(fd.get(), Pistache::Address());
    arriving_->put(fd.get(), connection);
    transport.handleNewPeer(peer);
    static_cast<void>(fd.release());  // Pistache's now.
  } catch (...) {
    arriving_->take(fd.get());
    core_->remove(connection);  // Out of memory: that connection's loss.
  }
}

Server::Impl::Look Server::Impl::look() const {
  Look out;
  for (const auto& connection : core_->all()) {
    out.active = out.active || connection->active();
    if (connection->peer_trusted()) {
      out.quiet = std::max(out.quiet, core_->options.proxy_idle);
    }
  }
  return out;
}

void Server::Impl::drain(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  // First, so that a client that is told to go finds the next process and not this one. Those who
  // have come before get their answers.
  acceptor_.stop();
  core_->draining = true;
  // Connections between requests stay: their next request gets its answer, and with it the news
  // that it was the last. A proxy does not send a creation again that it has sent, so it is the one
  // that closes those it has no use for.
  auto quiet_since = Clock::now();
  std::uint64_t seen = core_->requests;
  Look now = look();
  while (Clock::now() < end && Clock::now() - quiet_since < now.quiet && core_->count() > 0) {
    std::this_thread::sleep_for(kPoll);
    now = look();
    if (const std::uint64_t requests = core_->requests; requests != seen || now.active) {
      seen = requests;
      quiet_since = Clock::now();
    }
  }
  core_->refusing = true;
}

void Server::Impl::finish_posted() {
  for (const auto& transport : transports_) {
    std::promise<void> done;
    transport->loop()->post([](void* it) { static_cast<std::promise<void>*>(it)->set_value(); },
                            &done);
    done.get_future().wait();
  }
}

void Server::Impl::stop() {
  if (!reactor_) {
    return;
  }
  core_->draining = true;
  core_->refusing = true;
  acceptor_.stop();
  // The reactor closes the descriptors, so it has to see every connection end before it goes.
  for (const auto end = Clock::now() + kStopLimit; core_->count() > 0;) {
    for (const auto& connection : core_->all()) {
      connection->abort();
    }
    if (Clock::now() >= end) {
      break;
    }
    std::this_thread::sleep_for(1ms);
  }
  reactor_->shutdown();
  reactor_.reset();  // Joins its threads.
  for (const auto& transport : transports_) {
    transport->loop()->end();
  }
  transports_.clear();
  core_->files.stop(kStopLimit);
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
void Server::finish_posted() {
  impl_->finish_posted();
}
void Server::stop() {
  impl_->stop();
}

std::size_t connections_for(std::size_t descriptors) {
  // The database's, the broker's, the operations port's, logs, and some to spare.
  constexpr std::size_t kOthers = 160;
  constexpr std::size_t kEach = 3;
  return descriptors > kOthers + kEach ? (descriptors - kOthers) / kEach : 1;
}

std::size_t connections_of_one_address(std::size_t configured, std::size_t connections) {
  constexpr std::size_t kPart = 4;
  return std::min(configured, std::max<std::size_t>(1, connections / kPart));
}

ServerStats Server::stats() const {
  const ServerCore& core = *impl_->core_;
  return {core.count(), core.requests, core.in_flight};
}

}  // namespace audiogen::http
