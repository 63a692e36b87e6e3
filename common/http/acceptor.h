// The listening socket of a server and the thread that accepts from it.
//
// Our own rather than Pistache's, whose accept loop asks for a queue of 128, cannot be stopped
// alone, hands over connections nobody has room for, and spins at 100 % when descriptors run out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <sys/socket.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace audiogen::http {

class Acceptor {
 public:
  // Takes a connected, non-blocking socket. May block: the next ones wait in the kernel's queue.
  using Take = std::function<void(UniqueFd, const sockaddr_storage&)>;

  // `the_rest_within`: see stop().
  explicit Acceptor(std::chrono::milliseconds the_rest_within = std::chrono::seconds(1))
      : the_rest_within_(the_rest_within) {}
  ~Acceptor() { stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Listens on a numeric address (IPv4, IPv6, with or without brackets) or a name: on
  // the first of its addresses where that can be, IPv4 first. The error says why it cannot.
  // Connections queue from now on.
  Result<Done> listen(const std::string& host, std::uint16_t port);
  std::uint16_t port() const { return port_; }

  // Accepts on a thread of its own. When there is no descriptor (or memory) for a connection,
  // `exhausted` runs there and accepting pauses for a moment; so it does on unknown errors.
  void start(Take take, std::function<void()> exhausted);

  // Takes what is queued or about to be, and frees the port: nobody is reset who has connected over
  // a local network. Whose packets are under way for longer than 20 ms may be, although he believes
  // to be connected. A client that keeps connecting, or a server without room, does not keep the
  // process from ending: it takes no longer than the constructor was told. After it neither
  // function runs.
  void stop();

 private:
  void run(const Take& take, const std::function<void()>& exhausted);
  // Takes one. 0, or why there is none: an errno.
  int accept_one(const Take& take) const;
  void take_the_rest(const Take& take) const;
  // False when told to stop.
  bool wait(bool for_connections, int timeout_ms);

  const std::chrono::milliseconds the_rest_within_;
  UniqueFd listener_, stopping_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace audiogen::http
