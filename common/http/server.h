// The HTTP/1.1 server of both programs. Pistache supplies the sockets and the reactor threads; all
// bytes are framed, answered and timed here (DESIGN 3, Server): the packaged version's own parser,
// router and writer must never see the wire.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "common/base/result.h"
#include "common/http/framer.h"
#include "common/http/unique_fd.h"

namespace audiogen::http {

// A part of an open file as a response body. The descriptor is closed once sent or dropped.
struct FileBody {
  UniqueFd fd;
  off_t offset = 0;
  off_t length = 0;
};

struct Response {
  int status = 200;
  // Complete "Name: value\r\n" lines other than Content-Length, Connection and Date. They are sent
  // as they are: values that come from a client must have been checked before.
  std::string headers;
  std::string body;
  std::optional<FileBody> file;  // Instead of `body`.
  bool close = false;            // Close the connection after this response.
};

class Call;

// One request waiting for its one response. Cheap to copy and to move; may outlive the connection
// and the server. When the last copy goes without a reply, the client gets on_error(500).
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  // Valid as long as any copy of this Exchange.
  const Request& request() const;
  // Answers. Any thread, never blocks; only the first reply of a request counts, and one that comes
  // after the client or the deadline is dropped.
  void reply(Response&& response) const noexcept;
  // When the last byte of the request was there.
  std::chrono::steady_clock::time_point received_at() const;

 private:
  std::shared_ptr<Call> call_;
};

// Runs on a thread of the server and must not block: every other connection of that thread waits.
using Handler = std::function<void(Exchange)>;

// Renders what the server has to say by itself: a malformed request (400), one that did not arrive
// in time (408), a handler that threw or forgot it (500), one unanswered in time or a stop (503).
// `partial` is what is known of the request, or null. May run on any thread of the server.
using ErrorReply =
    std::function<Response(int status, std::string_view reason, const Request* partial)>;

struct ServerOptions {
  std::string host = "127.0.0.1";  // A numeric address (IPv4 or IPv6) or a name that resolves.
  std::uint16_t port = 0;          // 0: any free one, see Server::port().
  int threads = 2;
  FramerLimits limits = {};
  // Open connections; further ones are closed at once. Keep RLIMIT_NOFILE well above it: without
  // free descriptors Pistache's accept loop spins.
  std::size_t connections_max = 16384;
  std::chrono::milliseconds head_timeout{
      10'000};  // From a request's first byte to its last header.
  std::chrono::milliseconds body_timeout{30'000};        // From there to the last byte of the body.
  std::chrono::milliseconds keep_alive_timeout{75'000};  // Between requests; longer than a proxy's.
  std::chrono::milliseconds reply_timeout{12'000};       // For the handler's reply.
  std::chrono::milliseconds write_stall_timeout{30'000};  // For each 64 KiB the client must read.
  std::chrono::milliseconds linger_timeout{2'000};        // For reading on after the last response.
};

struct ServerStats {
  std::uint64_t connections = 0;  // Open now.
  std::uint64_t requests = 0;     // Received so far, refused ones included.
  std::uint64_t in_flight = 0;    // Received and not yet sent an answer.
};

// Several servers may live in one process. start() and stop() are for one thread at a time.
class Server {
 public:
  Server(ServerOptions options, Handler handler, ErrorReply on_error);
  ~Server();  // Stops.
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and serves on threads of its own; also ignores SIGPIPE for the process. An error says
  // which address cannot be had and why. At most once per Server.
  Result<Done> start();

  // The port listened on, once started.
  std::uint16_t port() const;

  // Stops accepting (the port is free at once) and blocks until every request already received is
  // answered, or `limit` has passed. Responses carry "Connection: close" meanwhile; later requests
  // get on_error(503).
  void drain(std::chrono::milliseconds limit);

  // Closes everything and joins the threads. Replies that come later are dropped.
  void stop();

  ServerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace audiogen::http
