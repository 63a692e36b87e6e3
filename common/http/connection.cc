#include "common/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace audiogen::http {
namespace {

// A connection between requests keeps at most this much buffer.
constexpr std::size_t kIdleBufferMax = 8 * 1024;
// A file no longer than this may be sent by the thread that replies; longer ones only begin there.
constexpr std::size_t kDirectBytes = 64 * 1024;
// One connection's turn on the housekeeper's thread.
constexpr std::size_t kTurnBytes = 512 * 1024;
// A client must read this much per write_stall_timeout.
constexpr std::size_t kProgressBytes = 64 * 1024;
// What is read and dropped of a client that talks on after a refusal, before it is cut off.
constexpr std::size_t kDiscardMax = 16 * 1024 * 1024;

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 416:
      return "Range Not Satisfiable";
    case 429:
      return "Too Many Requests";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "";  // RFC 9112 4: the phrase may be empty.
  }
}

// "Date: …\r\n", made once a second per thread.
std::string_view date_line() {
  thread_local std::time_t second = 0;
  thread_local std::array<char, 48> line{};
  thread_local std::size_t size = 0;
  if (const std::time_t now = std::time(nullptr); now != second) {
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    size = std::strftime(line.data(), line.size(), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
    second = now;
  }
  return {line.data(), size};
}

std::string peer_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    } else {
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
  }
  return text.data();
}

// How long what has arrived waits for this thread, by the kernel's word on this connection's last
// bytes (in its own ticks: 4 ms where CONFIG_HZ is 250). Asked once a millisecond: a thread serves
// its connections in the order in which they became readable, so neighbours have waited alike.
std::chrono::milliseconds reactor_lag(int fd) {
  thread_local Clock::time_point asked{};
  thread_local std::chrono::milliseconds lag{};
  if (const auto now = Clock::now(); now - asked >= std::chrono::milliseconds(1)) {
    asked = now;
    tcp_info info{};
    socklen_t size = sizeof info;
    const bool known = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    lag = std::chrono::milliseconds(known ? info.tcpi_last_data_recv : 0);
  }
  return lag;
}

bool would_block(int error) {
  return error == EAGAIN || error == EINTR;
}

}  // namespace

ServerCore::ServerCore(ServerOptions server_options,
                       Handler request_handler,
                       ErrorReply error_reply)
    : options(std::move(server_options)),
      handler(std::move(request_handler)),
      on_error(std::move(error_reply)) {}

Response ServerCore::render_error(int status,
                                  std::string_view reason,
                                  const Request* partial) const noexcept {
  try {
    return on_error(status, reason, partial);
  } catch (...) {
    Response bare;
    bare.status = status;
    bare.close = true;
    return bare;
  }
}

bool ServerCore::add(std::shared_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  connections_.insert(std::move(connection));
  return connections_.size() <= options.connections_max;
}

void ServerCore::remove(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
}

std::vector<std::shared_ptr<Connection>> ServerCore::all() const {
  const std::lock_guard lock(mutex_);
  return {connections_.begin(), connections_.end()};
}

std::size_t ServerCore::count() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void ServerCore::sweep(Clock::time_point now) {
  std::vector<std::shared_ptr<Connection>> late;
  {
    const std::lock_guard lock(mutex_);
    std::copy_if(
        connections_.begin(), connections_.end(), std::back_inserter(late), [&](const auto& c) {
          return c->deadline() <= now;
        });
  }
  for (const std::shared_ptr<Connection>& connection : late) {
    connection->expire(now);
  }
}

Connection::Connection(std::shared_ptr<ServerCore> core, int fd)
    : core_(std::move(core)), peer_address_(peer_address_of(fd)), reactor_fd_(fd) {
  set_deadline(core_->options.keep_alive_timeout);
}

void Connection::set_deadline(std::chrono::milliseconds after) {
  deadline_.store((Clock::now() + after).time_since_epoch().count(), std::memory_order_relaxed);
}

std::unique_ptr<Framer> Connection::new_framer() {
  return spare_ ? std::move(spare_) : std::make_unique<Framer>();
}

void Connection::on_bytes(std::string_view bytes) {
  Lock lock(mutex_);
  if (phase_ == Phase::kClosed) {
    return;
  }
  if (phase_ != Phase::kReading && phase_ != Phase::kLingering && !discarding_ && inbox_ &&
      inbox_->size() + bytes.size() > core_->options.limits.head + core_->options.limits.body) {
    discarding_ = true;
    inbox_.reset();
  }
  if (phase_ == Phase::kLingering || discarding_) {
    discarded_ += bytes.size();
    if (discarded_ > kDiscardMax) {
      reset_now();
    }
    return;
  }
  if (!inbox_) {
    inbox_ = new_framer();
  }
  inbox_->append(bytes);
  pump(lock, reactor_lag(reactor_fd_));
}

void Connection::on_eof() {
  const Lock lock(mutex_);
  eof_ = true;
  // A client may say that it sends no more and still wait for its answers (RFC 9293 3.6).
  const bool unfinished = phase_ == Phase::kBusy || phase_ == Phase::kWriting ||
                          (phase_ == Phase::kReading && (pumping_ || resuming_));
  if (!unfinished || !own_the_socket()) {
    close_now();
  }
  reactor_fd_ = -1;
}

bool Connection::own_the_socket() {
  if (!own_fd_) {
    own_fd_ = ::fcntl(reactor_fd_, F_DUPFD_CLOEXEC, 3);
  }
  return static_cast<bool>(own_fd_);
}

// Turns input into requests, one after the other, until a request waits for its reply. Calls the
// handler with the lock released; only one thread at a time gets past the first line.
void Connection::pump(Lock& lock, std::chrono::milliseconds lag) {
  if (pumping_) {
    return;
  }
  pumping_ = true;
  while (phase_ == Phase::kReading && inbox_ && inbox_->begun()) {
    const Framer::Status status = inbox_->advance(core_->options.limits);
    if (status == Framer::Status::kComplete) {
      dispatch(lock, lag);
      continue;
    }
    if (status == Framer::Status::kRefused) {
      refuse(lock, 400, std::string(inbox_->reason()));
      continue;
    }
    if (status == Framer::Status::kHead && received_ == Received::kNothing && inbox_->begun()) {
      received_ = Received::kHead;
      set_deadline(core_->options.head_timeout);
    } else if (status == Framer::Status::kBody && received_ != Received::kBody) {
      received_ = Received::kBody;
      set_deadline(core_->options.body_timeout);
      if (inbox_->expects_continue()) {
        constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        // Nothing else is being sent, so it fits; if the client is gone, reading will tell.
        ::send(fd(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
    }
    break;
  }
  pumping_ = false;
  if (eof_ && phase_ == Phase::kReading) {
    close_now();
  }
}

void Connection::begin_busy(const Request& request) {
  phase_ = Phase::kBusy;
  received_ = Received::kNothing;
  head_only_ = request.method == "HEAD";
  http10_ = request.http10;
  keep_alive_ = request.keep_alive;
  set_deadline(core_->options.reply_timeout);
  core_->requests.fetch_add(1, std::memory_order_relaxed);
  core_->in_flight.fetch_add(1, std::memory_order_relaxed);
}

void Connection::dispatch(Lock& lock, std::chrono::milliseconds lag) {
  std::unique_ptr<Framer> framer = std::move(inbox_);
  framer->request().peer_address = peer_address_;
  begin_busy(framer->request());
  if (!framer->surplus().empty()) {
    inbox_ = new_framer();
    inbox_->append(framer->surplus());
  }
  auto call = std::make_shared<Call>(shared_from_this(), std::move(framer), Clock::now() - lag);
  call_ = call;
  lock.unlock();
  if (core_->refusing) {
    call->reply(core_->render_error(503, "the server is stopping", &call->request()));
  } else {
    try {
      core_->handler(Exchange(call));
    } catch (...) {
      call->reply(core_->render_error(500, "the handler threw", &call->request()));
    }
  }
  call.reset();  // May lock.
  lock.lock();
}

void Connection::refuse(Lock& lock, int status, const std::string& reason) {
  const std::unique_ptr<Framer> framer = std::move(inbox_);
  framer->request().peer_address = peer_address_;
  begin_busy(framer->request());
  // What follows a malformed request cannot be told apart from it.
  discarding_ = true;
  lock.unlock();
  Response response = core_->render_error(status, reason, &framer->request());
  lock.lock();
  if (phase_ == Phase::kBusy) {
    write_response(response);
  }
}

void Connection::answer(Response&& response) noexcept {
  try {
    const Lock lock(mutex_);
    if (phase_ == Phase::kBusy) {
      write_response(response);
    }
  } catch (...) {
    abort();
  }
}

void Connection::write_response(Response& response) {
  close_after_ = response.close || !keep_alive_ || discarding_ || core_->draining;
  const bool bodyless = response.status == 204 || response.status == 304;
  const std::uint64_t length =
      response.file ? static_cast<std::uint64_t>(response.file->length) : response.body.size();
  thread_local std::string head;
  head = "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += reason_phrase(response.status);
  head += "\r\n";
  head += date_line();
  head += response.headers;
  if (!bodyless) {
    head += "Content-Length: ";
    head += std::to_string(length);
    head += "\r\n";
  }
  head += close_after_ ? "Connection: close\r\n\r\n"
          : http10_    ? "Connection: keep-alive\r\n\r\n"
                       : "\r\n";
  const bool send_body = !bodyless && !head_only_ && length > 0;
  const bool send_file = send_body && response.file;
  if (!send_body || response.file) {
    response.body.clear();
  }
  std::array<iovec, 2> parts{iovec{head.data(), head.size()},
                             iovec{response.body.data(), response.body.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t count =
      ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | (send_file ? MSG_MORE : 0));
  if (count < 0 && !would_block(errno)) {
    return close_now();
  }
  const std::size_t sent = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (sent == head.size() + response.body.size() && !send_file) {
    return finish_response();
  }
  if (sent < head.size()) {
    remainder_.bytes = head.substr(sent) + response.body;
  } else {
    remainder_.bytes = std::move(response.body);
    remainder_.sent = sent - head.size();
  }
  if (send_file) {
    remainder_.file = std::move(response.file);
    switch (write_remainder(kDirectBytes)) {
      case Sent::kAll:
        return finish_response();
      case Sent::kFailed:
        return close_now();
      case Sent::kPart:
        break;
    }
  }
  if (!own_the_socket()) {
    return close_now();
  }
  phase_ = Phase::kWriting;
  sent_since_deadline_ = 0;
  set_deadline(core_->options.write_stall_timeout);
  core_->housekeeper.post(shared_from_this());
}

// Sends about `budget` bytes of what is left, as far as the socket takes them.
Connection::Sent Connection::write_remainder(std::size_t budget) {
  std::size_t total = 0;
  while (remainder_.sent < remainder_.bytes.size() ||
         (remainder_.file && remainder_.file->length > 0)) {
    if (total >= budget) {
      return Sent::kPart;
    }
    ssize_t count = 0;
    if (remainder_.sent < remainder_.bytes.size()) {
      count = ::send(fd(),
                     remainder_.bytes.data() + remainder_.sent,
                     remainder_.bytes.size() - remainder_.sent,
                     MSG_NOSIGNAL | MSG_DONTWAIT | (remainder_.file ? MSG_MORE : 0));
      remainder_.sent += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
    } else {
      FileBody& file = *remainder_.file;
      count = ::sendfile(fd(),
                         file.fd.get(),
                         &file.offset,
                         std::min(static_cast<std::size_t>(file.length), budget - total));
      if (count == 0) {
        return Sent::kFailed;  // The file is shorter than promised.
      }
      file.length -= std::max<ssize_t>(count, 0);
    }
    if (count < 0) {
      return would_block(errno) ? Sent::kPart : Sent::kFailed;
    }
    total += static_cast<std::size_t>(count);
    sent_since_deadline_ += static_cast<std::size_t>(count);
    if (sent_since_deadline_ >= kProgressBytes) {
      sent_since_deadline_ = 0;
      set_deadline(core_->options.write_stall_timeout);
    }
  }
  return Sent::kAll;
}

void Connection::finish_response() {
  core_->in_flight.fetch_sub(1, std::memory_order_relaxed);
  call_.reset();
  remainder_ = Remainder();
  phase_ = Phase::kReading;
  if (close_after_) {
    if (eof_) {
      return close_now();
    }
    // Closing with unread input would reset the connection and take the response with it
    // (RFC 9112 9.6), so the client is told first and closes.
    ::shutdown(fd(), SHUT_WR);
    phase_ = Phase::kLingering;
    inbox_.reset();
    set_deadline(core_->options.linger_timeout);
    return;
  }
  set_deadline(core_->options.keep_alive_timeout);
  if (!pumping_ && (eof_ || (inbox_ && inbox_->begun()))) {
    resuming_ = true;
    core_->housekeeper.post(shared_from_this());
  }
}

void Connection::resume() {
  Lock lock(mutex_);
  resuming_ = false;
  if (phase_ == Phase::kWriting && !watched_) {
    watched_ = core_->housekeeper.watch(own_fd_.get(), shared_from_this());
    if (!watched_) {
      close_now();
    }
  } else {
    pump(lock, std::chrono::milliseconds(0));
  }
}

void Connection::on_writable() {
  const Lock lock(mutex_);
  if (phase_ == Phase::kWriting) {
    switch (write_remainder(kTurnBytes)) {
      case Sent::kAll:
        finish_response();
        break;
      case Sent::kFailed:
        close_now();
        break;
      case Sent::kPart:
        if (core_->housekeeper.watch(own_fd_.get(), shared_from_this())) {
          return;
        }
        close_now();
        break;
    }
  }
  core_->housekeeper.unwatch(own_fd_.get());
  watched_ = false;
  if (!eof_ || phase_ == Phase::kClosed) {
    own_fd_.reset();
  }
}

void Connection::expire(Clock::time_point now) {
  Lock lock(mutex_);
  if (deadline() > now) {
    return;
  }
  if (phase_ == Phase::kReading && received_ != Received::kNothing) {
    return refuse(lock,
                  408,
                  received_ == Received::kHead ? "the request head did not arrive in time"
                                               : "the request body did not arrive in time");
  }
  if (phase_ == Phase::kBusy) {
    const std::shared_ptr<Call> call = call_.lock();
    set_deadline(core_->options.reply_timeout);
    lock.unlock();
    if (call) {
      call->reply(core_->render_error(503, "there was no reply in time", &call->request()));
    }
    return;
  }
  if (phase_ == Phase::kWriting) {
    return reset_now();
  }
  close_now();
}

// For a client that does not follow the protocol: the kernel is not to keep its bytes either.
void Connection::reset_now() {
  const linger hard{1, 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close_now();
}

void Connection::abort() {
  const Lock lock(mutex_);
  close_now();
}

// Pistache notices the shutdown as the client's end and calls on_eof().
void Connection::close_now() {
  if (phase_ != Phase::kClosed) {
    if (phase_ == Phase::kBusy || phase_ == Phase::kWriting) {
      core_->in_flight.fetch_sub(1, std::memory_order_relaxed);
    }
    phase_ = Phase::kClosed;
    deadline_.store(Clock::time_point::max().time_since_epoch().count(), std::memory_order_relaxed);
    remainder_ = Remainder();
    inbox_.reset();
    spare_.reset();
    if (fd() >= 0) {
      ::shutdown(fd(), SHUT_RDWR);
    }
    if (!watched_) {
      own_fd_.reset();
    }
  }
  if (eof_) {
    core_->remove(shared_from_this());
  }
}

bool Connection::closed() const {
  const Lock lock(mutex_);
  return phase_ == Phase::kClosed;
}

bool Connection::active() const {
  const Lock lock(mutex_);
  return phase_ == Phase::kBusy || phase_ == Phase::kWriting ||
         (phase_ == Phase::kReading && inbox_ && inbox_->begun());
}

void Connection::take_back(std::unique_ptr<Framer> framer) noexcept {
  if (framer->capacity() > kIdleBufferMax) {
    return;
  }
  framer->reset();
  const Lock lock(mutex_);
  if (!spare_ && phase_ != Phase::kClosed) {
    spare_ = std::move(framer);
  }
}

Call::Call(std::shared_ptr<Connection> connection,
           std::unique_ptr<Framer> framer,
           Clock::time_point received_at)
    : connection_(std::move(connection)), framer_(std::move(framer)), received_at_(received_at) {}

Call::~Call() {
  if (!answered_ && !connection_->closed()) {
    reply(connection_->core()->render_error(500, "the handler gave no reply", &request()));
  }
  connection_->take_back(std::move(framer_));
}

void Call::reply(Response&& response) noexcept {
  if (!answered_.exchange(true)) {
    connection_->answer(std::move(response));
  }
}

const Request& Exchange::request() const {
  return call_->request();
}
void Exchange::reply(Response&& response) const noexcept {
  call_->reply(std::move(response));
}
std::chrono::steady_clock::time_point Exchange::received_at() const {
  return call_->received_at();
}

}  // namespace audiogen::http
