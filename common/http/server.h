// The HTTP/1.1 server of both programs. Pistache supplies the reactor threads and transport; all
// bytes are framed, answered and timed here: the packaged version's own parser, router and writer
// must never see the wire (README.md, "Pistache").
#pragma once

#include <any>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/http/framer.h"

namespace audiogen::http {

// A part of an open file as a response body. The descriptor is closed once sent or dropped.
struct FileBody {
  // Neither is negative nor do they together pass the largest offset: checked here, so that no sum
  // gone wrong can become a Content-Length. `length` 0 is an empty body.
  FileBody(UniqueFd file, off_t from, off_t size);

  UniqueFd fd;
  off_t offset;
  off_t length;
};

struct Response {
  int status = 200;
  // Complete "Name: value\r\n" lines other than Content-Length, Connection and Date. They are sent
  // as they are: values that come from a client must have been checked before.
  std::string headers;
  std::string body;
  std::optional<FileBody> file;  // Instead of `body`. Whoever replies with one waits for its disk.
  bool close = false;            // Close the connection after this response.
};

// A request that has its answer.
struct Answered {
  const Request& request;
  const std::any* note;  // As Exchange::note() left it; empty: nothing was noted.
  int status;
  std::string_view headers;  // Of the answer, as in Response.
  std::uint64_t bytes;       // Of its body; of a stream those that were taken.
  // From the last byte of the request (of a head that is answered without its body: of that) to the
  // answer's way to the socket; of a stream to its end.
  std::chrono::steady_clock::duration took;
};

class Call;
class Loop;
class RequestMeter;

// One request waiting for its one response. Cheap to copy and to move; may outlive the connection
// and the server. When the last copy goes without a reply, the client gets on_error(500).
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Call> call) : call_(std::move(call)) {}

  // Valid as long as any copy of this Exchange.
  const Request& request() const;
  // With ServerOptions::heads_first: has the body taken, and then runs `next`, once: at once on
  // this thread if the body is here already, else on a thread of the server (it must not block
  // either), and never if the body does not come whole. `holder`, a hash, is who the memory for it
  // counts for. To be called once, by the handler or later; a reply instead of it, or before
  // `next` runs, ends the connection, whose client may still be sending. What request() refers to
  // from then on is the whole request.
  void read_body(std::uint64_t holder, std::function<void()> next) const;
  // Answers. Any thread, never blocks; only the first reply of a request counts, and one that comes
  // after the client or the deadline is dropped.
  void reply(Response&& response) const noexcept;
  // Answers with the status and the headers of `head` and a body that comes in parts, of a length
  // that nobody knows yet: chunked, or, for a client of HTTP/1.0, up to the end of the connection.
  // No deadline is on it but write_stall_timeout: whoever begins it ends it. Any thread, never
  // blocks; it is the one answer, as reply() is. To HEAD it is the whole answer.
  void begin_stream(Response&& head) const noexcept;
  // The next part of that body, as it is. False when it has no taker: the client has gone, is
  // ended because it took too little (kStreamUnsentMax), or asked for no body. By one thread at a
  // time.
  bool send(std::string_view part) const noexcept;
  // That was all of it. When the last copy goes without this, the connection is cut, so that the
  // client knows that something is missing.
  void end_stream() const noexcept;
  // The reply may come later, by so much from now on, than ServerOptions::reply_timeout allows. For
  // a handler that waits for something else than its own work. Any thread, never blocks.
  void allow(std::chrono::milliseconds longer) const;
  // What its client does not take of the answer at once counts for `holder`, a hash of a user, from
  // now on (ServerOptions::answer_budget), and not for its address. Before the reply.
  void charge(std::uint64_t holder) const noexcept;
  // Its answer counts there from now on, instead of ServerOptions::meter, whose lifetime it must
  // have. For the handler, before anybody else has a copy.
  void meter(RequestMeter& meter) const noexcept;
  // True when the client sends no more. Nearly always it is gone; but it may still read, which
  // cannot be told until something is written to it: so it gets its answer, now rather than later.
  bool client_ended() const;
  // Whether somebody is told of answers (ServerOptions::answered).
  bool is_told() const;
  // What is to be said there of this request, in place of what was noted before. Any thread, never
  // blocks; without effect once it has its answer.
  void note(std::any what) const;
  // Of the thread that reads its connection. Valid as long as any copy of this Exchange.
  Loop& loop() const;
  // When the last byte of the request was there.
  std::chrono::steady_clock::time_point received_at() const;

 private:
  std::shared_ptr<Call> call_;
};

// What a client may leave untaken of a body that comes in parts; then its connection is reset, so
// that slow readers cost no more than this each, here and in the kernel.
inline constexpr std::size_t kStreamUnsentMax = std::size_t{64} * 1024;

// Runs on a thread of the server and must not block: every other connection of that thread waits.
using Handler = std::function<void(Exchange)>;

// Renders what the server has to say by itself: a malformed request (400), one that did not arrive
// in time (408), a handler that threw or forgot it (500), one unanswered in time or a stop (503).
// `partial` is what is known of the request, or null. May run on any thread of the server.
using ErrorReply =
    std::function<Response(int status, std::string_view reason, const Request* partial)>;

// Told once of each request that gets an answer, also of those that the server refuses itself. Runs
// on any thread; must not block, and not answer anything.
using AnsweredHook = std::function<void(const Answered&)>;

struct ServerOptions {
  std::string host = "127.0.0.1";  // A numeric address (IPv4 or IPv6) or a name that resolves.
  std::uint16_t port = 0;          // 0: any free one, see Server::port().
  int threads = 2;
  FramerLimits limits = {};
  // The handler gets a request as soon as its head is complete, and its body only by read_body():
  // so nobody has to take a body from a client it does not know.
  bool heads_first = false;
  // With heads_first: bytes of all bodies that are still arriving. Above it, whoever holds most
  // loses the one that has been arriving longest (503).
  std::size_t body_budget = std::size_t{64} * 1024 * 1024;
  // Bytes of all answers that their clients have not taken, but for files and for what comes in
  // parts; those whom nobody is charged for have a quarter of it, beside it. Above it, whoever
  // holds most loses the oldest: its connection is reset.
  std::size_t answer_budget = std::size_t{64} * 1024 * 1024;
  // Whose X-Forwarded-For says who the client is.
  std::vector<IpNetwork> trusted_proxies = {};
  // Of metrics and log lines.
  std::string name = "http";
  AnsweredHook answered = {};
  // Counts requests that no handler has counted elsewhere (Exchange::meter()); null: they are not
  // counted. As long as the process.
  RequestMeter* meter = nullptr;
  // Open connections. When there are so many, a new one takes the place of one that rests (between
  // requests, in the middle of a head, or of an answer of which its client takes nothing): the
  // longest resting one of the address with most connections. If none rests, the new one is closed
  // at once. See connections_for().
  std::size_t connections_max = 16384;
  // The same of one address (IpAddress::limited()). 0: as many as there may be, and otherwise a
  // quarter of all at most of one home() and half of one site(). Trusted proxies, through which
  // others come, are exempt, and the last to lose a connection.
  std::size_t connections_per_address = 0;
  // How long a client may take nothing of its answer and still not count as resting.
  std::chrono::milliseconds stall_grace{5'000};
  // How long a new connection may wait until one that makes room for it is gone.
  std::chrono::milliseconds make_room_timeout{1'000};
  std::chrono::milliseconds first_byte_timeout{5'000};  // Of a new connection.
  std::chrono::milliseconds head_timeout{
      10'000};  // From a request's first byte to its last header.
  std::chrono::milliseconds body_timeout{30'000};        // From there to the last byte of the body.
  std::chrono::milliseconds keep_alive_timeout{75'000};  // Between requests; longer than a proxy's.
  // After this long trusted proxies have closed what they did not use, as drain() expects of them:
  // longer than keepalive_timeout of .deploy/nginx/nginx.conf.
  std::chrono::milliseconds proxy_idle{3'000};
  std::chrono::milliseconds reply_timeout{12'000};        // For the handler's reply.
  std::chrono::milliseconds write_stall_timeout{30'000};  // For each 64 KiB the client must read.
  std::chrono::milliseconds linger_timeout{2'000};        // For reading on after the last response.
};

// How many connections a process may have that can open so many descriptors: each may need three (a
// duplicate for a slow reader, a file it reads), and the rest of the process some, too.
std::size_t connections_for(std::size_t descriptors);

// How many of `connections` one address may have of the `configured` ones, at least one: never more
// than a quarter, so that nobody is alone with all of them, however few there are.
std::size_t connections_of_one_address(std::size_t configured, std::size_t connections);

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
  // answered, and trusted proxies have closed their connections or asked nothing for proxy_idle, or
  // `limit` has passed. Responses carry "Connection: close" meanwhile; later requests get
  // on_error(503).
  void drain(std::chrono::milliseconds limit);

  // Blocks until everything that was posted to the loops of its threads has run. Not on one of
  // them.
  void finish_posted();

  // Closes everything and joins the threads. Replies that come later are dropped.
  void stop();

  ServerStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace audiogen::http
