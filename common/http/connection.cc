#include "common/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/check.h"
#include "common/domain/client_address.h"

namespace audiogen::http {
namespace {

// A connection between requests keeps at most this much buffer.
constexpr std::size_t kIdleBufferMax = 8 * 1024;
// A file no longer than this may be sent by the thread that replies; longer ones only begin there.
constexpr std::size_t kDirectBytes = 64 * 1024;
// One connection's turn on the housekeeper's thread.
constexpr std::size_t kTurnBytes = 512 * 1024;
// Requests of one connection in a turn of a thread: whoever sends many ahead must not keep it from
// the others, and Pistache reads on as long as there is anything to read.
constexpr std::size_t kTurnRequests = 64;
// Of those who may stand still because of one disk.
constexpr std::size_t kFileThreads = 4;
// A client must read this much per write_stall_timeout.
constexpr std::size_t kProgressBytes = 64 * 1024;
// What is read and dropped of a client that talks on after a refusal, before it is cut off.
constexpr std::size_t kDiscardMax = 16 * 1024 * 1024;
// Of the connections there may be, this part is ended at once when there is no room.
constexpr std::size_t kEvictedPart = 128;
// When a connection is looked at again whose bytes wait for its thread.
constexpr auto kUnreadGrace = std::chrono::seconds(1);

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

// How long what has arrived waits for this thread, by the kernel's word on this connection's last
// bytes (in its own ticks: 4 ms where CONFIG_HZ is 250). Asked once a millisecond: a thread serves
// its connections in the order in which they became readable, so neighbours have waited alike.
std::chrono::milliseconds reactor_lag(int fd) {
  thread_local std::optional<Clock::time_point> asked;
  thread_local std::chrono::milliseconds lag{};
  if (const auto now = Clock::now(); !asked || now - *asked >= std::chrono::milliseconds(1)) {
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

// A head up to the lines that say where the body ends: this thread's, until it begins the next.
std::string& begin_head(const Response& response) {
  thread_local std::string head;
  head = "HTTP/1.1 ";
  head += std::to_string(response.status);
  head += ' ';
  head += reason_phrase(response.status);
  head += "\r\n";
  head += date_line();
  head += response.headers;
  return head;
}

}  // namespace

FileBody::FileBody(UniqueFd file, off_t from, off_t size)
    : fd(std::move(file)), offset(from), length(size) {
  AG_CHECK(offset >= 0);
  AG_CHECK(length >= 0);
  AG_CHECK(length <= std::numeric_limits<off_t>::max() - offset);
}

ServerCore::ServerCore(ServerOptions server_options,
                       Handler request_handler,
                       ErrorReply error_reply)
    : options(std::move(server_options)),
      handler(std::move(request_handler)),
      on_error(std::move(error_reply)),
      files(kFileThreads, options.connections_max),
      drops(options.name),
      bodies(options.body_budget),
      answers(options.answer_budget),
      strangers(options.answer_budget / 4),
      open_(metrics::gauge(
          "http_connections", "Open connections of clients", {{"server", options.name}})) {}

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

void ServerCore::tell(const Request& request,
                      const std::any& note,
                      const Response& response,
                      std::uint64_t bytes,
                      Clock::time_point received_at) const noexcept {
  if (!options.answered) {
    return;
  }
  try {
    const bool bodyless =
        request.method == "HEAD" || response.status == 204 || response.status == 304;
    options.answered({.request = request,
                      .note = &note,
                      .status = response.status,
                      .headers = response.headers,
                      .bytes = bodyless ? 0 : bytes,
                      .took = Clock::now() - received_at});
  } catch (...) {  // No memory: see Call::tell().
  }
}

bool ServerCore::trusts(const IpAddress& peer) const {
  return std::any_of(options.trusted_proxies.begin(),
                     options.trusted_proxies.end(),
                     [&](const IpNetwork& network) { return network.contains(peer); });
}

template <class Use>
void ServerCore::for_each(const Use& use) const {
  for (const auto& [address, group] : connections_) {
    std::for_each(group.there.begin(), group.there.end(), use);
    std::for_each(group.leaving.begin(), group.leaving.end(), use);
  }
}

ServerCore::Room ServerCore::room_for(const Connection& connection) const {
  if (options.connections_per_address > 0 && !connection.peer_trusted()) {
    const auto found = connections_.find(connection.peer().limited());
    const std::size_t leaving = found == connections_.end() ? 0 : found->second.leaving.size();
    bool crowded = found != connections_.end() &&
                   found->second.there.size() >= options.connections_per_address;
    for (const Wider& wider : wider_) {
      const auto there = wider.there.find((connection.peer().*wider.of)());
      crowded |= there != wider.there.end() &&
                 there->second >= std::max<std::size_t>(1, options.connections_max / wider.part);
    }
    if (crowded) {
      return leaving < options.connections_per_address ? Room::kCrowded : Room::kClosing;
    }
  }
  return count_ < options.connections_max ? Room::kThere : Room::kFull;
}

bool ServerCore::add(const std::shared_ptr<Connection>& connection) {
  const IpAddress address = connection->peer().limited();
  MutexLock lock(mutex_);
  const auto free = [&]() LOCKS_REQUIRED(mutex_) { return count_ < options.connections_max; };
  const auto give_up = Clock::now() + options.make_room_timeout;
  for (Room room = room_for(*connection); room != Room::kThere; room = room_for(*connection)) {
    std::size_t evicted = 0;
    if (room != Room::kClosing) {
      lock.unlock();
      evicted = evict_resting(room == Room::kCrowded ? &address : nullptr);
      lock.lock();
    }
    // Of a crowded address those count no more. All together have room once the reactor has closed
    // some.
    if (evicted == 0 || (room == Room::kFull && !left_.wait_until(lock, give_up, free))) {
      lock.unlock();
      drops.count(room == Room::kFull ? Drop::kRefusedFull : Drop::kRefusedAddress,
                  connection->peer());
      return false;
    }
  }
  connections_[address].there.insert(connection);
  come(*connection);
  ++count_;
  open_.Increment();
  return true;
}

void ServerCore::relieve() {
  evict_resting(nullptr);
  drops.count(Drop::kNoDescriptor, {});
}

std::size_t ServerCore::evict_resting(const IpAddress* only) {
  const std::size_t there_may_be = only != nullptr && options.connections_per_address > 0
                                       ? options.connections_per_address
                                       : options.connections_max;
  const std::size_t wanted = std::max<std::size_t>(1, there_may_be / kEvictedPart);
  // Those that are asked first may all have to stay, and nobody may be locked out by that.
  constexpr std::size_t kWiden = 8;
  std::size_t evicted = 0;
  for (std::size_t most = wanted;; most *= kWiden) {
    std::vector<std::shared_ptr<Connection>> resting;
    {
      const MutexLock lock(mutex_);
      resting = longest_resting(only, most);
    }
    for (const std::shared_ptr<Connection>& connection : resting) {
      if (evicted < wanted && connection->evict()) {
        ++evicted;
        note_leaving(connection);
      }
    }
    if (evicted > 0 || resting.size() < most) {
      return evicted;
    }
  }
}

std::vector<std::shared_ptr<Connection>> ServerCore::longest_resting(const IpAddress* only,
                                                                     std::size_t most) const {
  struct Candidate {
    bool trusted;
    std::size_t neighbours;
    Connection::Rest rest;
    Clock::time_point deadline;  // The longest resting one's comes first, a silent one's before it.
    const std::shared_ptr<Connection>* connection;
    bool operator<(const Candidate& other) const {
      return std::tie(trusted, other.neighbours, rest, deadline) <
             std::tie(other.trusted, neighbours, other.rest, other.deadline);
    }
  };
  std::vector<Candidate> found;
  const auto look_at = [&found](const Connections& connections) {
    for (const std::shared_ptr<Connection>& connection : connections) {
      if (const auto rest = connection->rest(); rest != Connection::Rest::kNo) {
        found.push_back({connection->peer_trusted(),
                         connections.size(),
                         rest,
                         connection->deadline(),
                         &connection});
      }
    }
  };
  if (only == nullptr) {
    for (const auto& [address, group] : connections_) {
      look_at(group.there);
    }
  } else if (const auto group = connections_.find(*only); group != connections_.end()) {
    look_at(group->second.there);
  }
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), most));
  std::partial_sort(found.begin(), middle, found.end());
  std::vector<std::shared_ptr<Connection>> out;
  out.reserve(std::min(found.size(), most));
  std::transform(found.begin(), middle, std::back_inserter(out), [](const Candidate& candidate) {
    return *candidate.connection;
  });
  return out;
}

void ServerCore::note_leaving(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(mutex_);
  const auto group = connections_.find(connection->peer().limited());
  // It may have gone already.
  if (group != connections_.end() && group->second.there.erase(connection) > 0) {
    group->second.leaving.insert(connection);
    leave(*connection);
  }
}

void ServerCore::come(const Connection& connection) {
  if (!connection.peer_trusted() && !connection.peer().is_v4()) {
    for (Wider& wider : wider_) {
      ++wider.there[(connection.peer().*wider.of)()];
    }
  }
}

void ServerCore::leave(const Connection& connection) {
  if (!connection.peer_trusted() && !connection.peer().is_v4()) {
    for (Wider& wider : wider_) {
      const auto found = wider.there.find((connection.peer().*wider.of)());
      AG_CHECK(found != wider.there.end());
      if (--found->second == 0) {
        wider.there.erase(found);
      }
    }
  }
}

void ServerCore::remove(const std::shared_ptr<Connection>& connection) {
  {
    const MutexLock lock(mutex_);
    const auto group = connections_.find(connection->peer().limited());
    if (group == connections_.end()) {
      return;
    }
    if (group->second.there.erase(connection) > 0) {
      leave(*connection);
    } else if (group->second.leaving.erase(connection) == 0) {
      return;
    }
    --count_;
    open_.Decrement();
    if (group->second.empty()) {
      connections_.erase(group);
    }
  }
  left_.notify_one();
}

std::vector<std::shared_ptr<Connection>> ServerCore::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Connection>> out;
  out.reserve(count_);
  for_each([&](const auto& connection) { out.push_back(connection); });
  return out;
}

std::size_t ServerCore::count() const {
  const MutexLock lock(mutex_);
  return count_;
}

void ServerCore::sweep(Clock::time_point now) {
  std::vector<std::shared_ptr<Connection>> late;
  {
    const MutexLock lock(mutex_);
    for_each([&](const auto& connection) {
      if (connection->deadline() <= now) {
        late.push_back(connection);
      }
    });
  }
  for (const std::shared_ptr<Connection>& connection : late) {
    connection->expire(now);
  }
  drops.tell();
}

Connection::Connection(std::shared_ptr<ServerCore> core,
                       std::shared_ptr<Loop> loop,
                       int fd,
                       const IpAddress& peer)
    : core_(std::move(core)),
      loop_(std::move(loop)),
      peer_(peer),
      peer_trusted_(core_->trusts(peer_)),
      reactor_fd_(fd) {
  set_deadline(core_->options.first_byte_timeout);
}

void Connection::set_deadline(std::chrono::milliseconds after) {
  deadline_.store((Clock::now() + after).time_since_epoch().count(), std::memory_order_relaxed);
}

IpAddress Connection::client_of(const Request& request) const {
  return peer_trusted_
             ? client_address(
                   peer_, request.joined_headers("x-forwarded-for"), core_->options.trusted_proxies)
             : peer_;
}

std::unique_ptr<Framer> Connection::new_framer() {
  return spare_ ? std::move(spare_) : std::make_unique<Framer>();
}

void Connection::on_bytes(std::string_view bytes) {
  MutexLock lock(mutex_);
  if (phase_ == Phase::kClosed) {
    return;
  }
  silent_ = false;
  grace_until_.reset();
  const FramerLimits& limits = core_->options.limits;
  const std::size_t most = limits.head + limits.body;
  // More than any request is taken with. What is here stays, for an answer that says so, or because
  // it is one request and the beginning of others: the verdict decides.
  if (phase_ == Phase::kJudging && !discarding_ && inbox_->size() + bytes.size() > most) {
    discarding_ = true;
    const std::size_t room = most - std::min(most, inbox_->size());
    inbox_->append(bytes.substr(0, room));
    hold(holder_, room);
    bytes.remove_prefix(room);
  }
  // Requests sent ahead: with heads_first their bodies are nobody's yet.
  if (phase_ != Phase::kReading && phase_ != Phase::kJudging && phase_ != Phase::kLingering &&
      !discarding_ && inbox_ &&
      inbox_->size() + bytes.size() >
          (pumping_ || !core_->options.heads_first ? most : limits.head)) {
    discarding_ = true;
    inbox_.reset();
  }
  // The same while another thread is at those before them, or is going to be: one of them may be
  // large.
  if (phase_ == Phase::kReading && (pumping_ || yielded_) && !awaited_.call && !discarding_ &&
      inbox_ && inbox_->size() + bytes.size() > most) {
    discarding_ = true;
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
  if (phase_ == Phase::kJudging || awaited_.call) {
    hold(holder_, bytes.size());
  }
  if (yielded_) {
    return;
  }
  if (const std::uint64_t turn = loop_->turn(); turn != turn_) {
    turn_ = turn;
    turn_requests_ = 0;
  }
  pump(reactor_lag(reactor_fd_), turn_requests_);
}

void Connection::on_eof() {
  const MutexLock lock(mutex_);
  eof_ = true;
  // A client may say that it sends no more and still wait for its answers (RFC 9293 3.6).
  const bool unfinished = phase_ == Phase::kBusy || phase_ == Phase::kJudging ||
                          phase_ == Phase::kWriting || phase_ == Phase::kStreaming ||
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

// Turns input into requests, one after the other, until a request waits for its reply or there were
// enough for a turn: `requests` counts them. Calls the handler with the lock released; only one
// thread at a time gets past the first line.
void Connection::pump(std::chrono::milliseconds lag, std::size_t& requests) {
  if (pumping_) {
    return;
  }
  pumping_ = true;
  while (phase_ == Phase::kReading && inbox_ && inbox_->begun()) {
    if (requests >= kTurnRequests) {
      yielded_ = resuming_ = true;
      core_->housekeeper.post(shared_from_this());
      break;
    }
    const Framer::Status status = inbox_->advance(core_->options.limits);
    if (status == Framer::Status::kComplete) {
      ++requests;
      if (awaited_.call) {
        dispatch_body(lag);
      } else {
        dispatch(lag);
      }
      continue;
    }
    if (core_->options.heads_first && received_ != Received::kBody &&
        (status == Framer::Status::kBody || inbox_->too_large())) {
      dispatch_head(lag);
      continue;
    }
    if (status == Framer::Status::kRefused) {
      refuse(400, std::string(inbox_->reason()));
      continue;
    }
    if (discarding_) {  // Its end was dropped with what came beyond.
      refuse(400, "the request is too long with the lines about its chunks, or others before it");
      continue;
    }
    if (status == Framer::Status::kHead && received_ == Received::kNothing && inbox_->begun()) {
      received_ = Received::kHead;
      set_rest(Rest::kHead);
      set_deadline(core_->options.head_timeout);
    } else if (status == Framer::Status::kBody && received_ != Received::kBody) {
      await_body();
    }
    break;
  }
  pumping_ = false;
  if (eof_ && phase_ == Phase::kReading && !yielded_) {
    close_now();
  } else if (given_up() && awaiting_body()) {
    core_->housekeeper.post(shared_from_this());  // It may have been here already, in vain.
  }
}

void Connection::await_body() {
  received_ = Received::kBody;
  set_rest(Rest::kNo);
  set_deadline(core_->options.body_timeout);
  if (inbox_->expects_continue()) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    // Nothing else is being sent, so it fits; if the client is gone, reading will tell.
    ::send(fd(), kContinue.data(), kContinue.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Connection::begin_busy(const Request& request, Phase phase) {
  phase_ = phase;
  received_ = phase == Phase::kJudging ? Received::kBody : Received::kNothing;
  set_rest(Rest::kNo);
  head_only_ = request.method == "HEAD";
  http10_ = request.http10;
  keep_alive_ = request.keep_alive;
  overdue_ = false;
  set_deadline(core_->options.reply_timeout);
  if (!counted_) {
    counted_ = true;
    core_->requests.fetch_add(1, std::memory_order_relaxed);
    core_->in_flight.fetch_add(1, std::memory_order_relaxed);
  }
}

void Connection::end_busy() {
  if (counted_) {
    counted_ = false;
    core_->in_flight.fetch_sub(1, std::memory_order_relaxed);
  }
}

void Connection::dispatch(std::chrono::milliseconds lag) {
  std::unique_ptr<Framer> framer = std::move(inbox_);
  framer->request().client = client_of(framer->request());
  begin_busy(framer->request());
  if (!framer->surplus().empty()) {
    inbox_ = new_framer();
    inbox_->append(framer->surplus());
  }
  auto call =
      std::make_shared<Call>(shared_from_this(), std::move(framer), Clock::now() - lag, false);
  call_ = call;
  const MutexUnlock unlocked(mutex_);
  handle(call);
  call.reset();  // May lock.
}

void Connection::handle(const std::shared_ptr<Call>& call) const {
  if (core_->refusing) {
    call->reply(core_->render_error(503, "the server is stopping", &call->request()));
    return;
  }
  try {
    core_->handler(Exchange(call));
  } catch (...) {
    call->reply(core_->render_error(500, "the handler threw", &call->request()));
  }
}

// The handler gets a copy of the head: what it may look at while more of the body comes.
void Connection::dispatch_head(std::chrono::milliseconds lag) {
  std::unique_ptr<Framer> head = inbox_->copy_head();
  head->request().client = client_of(head->request());
  begin_busy(head->request(), Phase::kJudging);
  // Until it is known who that is, its bytes are its address's.
  holder_ = HashOfIpAddress()(head->request().client.limited());
  auto call = std::make_shared<Call>(shared_from_this(), std::move(head), Clock::now() - lag, true);
  call_ = call;
  hold(holder_, inbox_->size());
  const MutexUnlock unlocked(mutex_);
  handle(call);
  call.reset();  // May lock.
}

void Connection::dispatch_body(std::chrono::milliseconds lag) {
  std::unique_ptr<Framer> framer = std::move(inbox_);
  let_go();
  framer->request().client = client_of(framer->request());
  begin_busy(framer->request());
  if (!framer->surplus().empty()) {
    inbox_ = new_framer();
    inbox_->append(framer->surplus());
  }
  Awaited arrived = std::exchange(awaited_, {});
  const MutexUnlock unlocked(mutex_);
  arrived.call->body_arrived(std::move(framer), Clock::now() - lag);
  try {
    arrived.next();
  } catch (...) {
    arrived.call->reply(core_->render_error(500, "the handler threw", &arrived.call->request()));
  }
  arrived = {};  // May lock.
}

void Connection::receive_body(std::uint64_t holder, std::function<void()> next) {
  MutexLock lock(mutex_);
  const std::shared_ptr<Call> call = call_.lock();
  if (phase_ != Phase::kJudging || !call) {
    lock.unlock();  // `next` may hold the last reference to the call.
    next = nullptr;
    return;
  }
  phase_ = Phase::kReading;
  awaited_ = {.call = call, .next = std::move(next)};
  let_go();
  holder_ = holder;
  await_body();
  hold(holder_, inbox_->size());
  if (!pumping_ && phase_ == Phase::kReading) {
    resuming_ = true;
    core_->housekeeper.post(shared_from_this());
  }
}

void Connection::allow(const Call& call, std::chrono::milliseconds longer) {
  std::shared_ptr<Call> current;  // Let go of without the lock: it may be the last one.
  const MutexLock lock(mutex_);
  current = call_.lock();
  if ((phase_ == Phase::kBusy || phase_ == Phase::kJudging) && current.get() == &call &&
      !overdue_) {
    set_deadline(core_->options.reply_timeout + longer);
  }
}

bool Connection::client_ended() const {
  const MutexLock lock(mutex_);
  return eof_ || phase_ == Phase::kClosed;
}

Connection::Awaited Connection::take_dropped() {
  const MutexLock lock(mutex_);
  return std::exchange(dropped_, {});
}

// Counts bytes of a body that is arriving. This one's or others' have to go if that is too much.
void Connection::hold(std::uint64_t holder, std::size_t bytes) {
  holding_ = true;
  for (const auto& [victim, number] : core_->bodies.add(shared_from_this(), body_, holder, bytes)) {
    core_->drops.count(Drop::kBodyBudget, victim->peer_);
    victim->give_up_body(number);
  }
}

// The lock of another connection is held: only a note is left, for the housekeeper. It may come
// late and find the next piece of this connection, which nobody has given up, and an older note may
// come after a newer one.
void Connection::give_up_body(std::uint64_t body) {
  note_given_up(given_up_, body);
}

void Connection::give_up_answer(std::uint64_t answer) {
  note_given_up(answer_given_up_, answer);
}

void Connection::note_given_up(std::atomic<std::uint64_t>& noted, std::uint64_t number) {
  std::uint64_t before = noted;
  while (before < number && !noted.compare_exchange_weak(before, number)) {
  }
  core_->housekeeper.post(shared_from_this());
}

// Counts an answer that its client has not taken at once, which is all here until he has.
void Connection::hold_answer(Payer payer) {
  holding_answer_ = payer.known ? &core_->answers : &core_->strangers;
  for (const auto& [victim, number] : holding_answer_->add(
           shared_from_this(), answer_, payer.holder, remainder_.bytes.capacity())) {
    victim->give_up_answer(number);
  }
}

void Connection::let_answer_go() {
  if (ConnectionBudget* const budget = std::exchange(holding_answer_, nullptr)) {
    ++answer_;
    budget->release(this);
  }
}

void Connection::let_go() {
  if (std::exchange(holding_, false)) {
    ++body_;
    core_->bodies.release(this);
  }
}

// There is an answer, and the body that was to come before it is not wanted. From now on
// receive_body() is without effect, so that no `next` runs whose reply would not be the first.
void Connection::refuse_body() {
  if (phase_ == Phase::kJudging || awaiting_body()) {
    phase_ = Phase::kBusy;
    discarding_ = true;
    inbox_.reset();
    drop_awaited();
  }
}

// The body will not come.
void Connection::drop_awaited() {
  let_go();
  if (awaited_.call) {
    awaited_.call->disregard();
    dropped_ = std::exchange(awaited_, {});
    core_->housekeeper.post(shared_from_this());
  }
}

void Connection::refuse(int status, const std::string& reason) {
  const std::unique_ptr<Framer> framer = std::move(inbox_);
  framer->request().client = client_of(framer->request());
  begin_busy(framer->request());
  std::shared_ptr<Call> judged = awaited_.call;  // Which route it was for, it knows.
  const std::any note = judged ? judged->noted() : std::any();
  drop_awaited();
  // What follows a malformed request cannot be told apart from it.
  discarding_ = true;
  Response response;
  {
    const MutexUnlock unlocked(mutex_);
    response = core_->render_error(status, reason, &framer->request());
    core_->tell(framer->request(), note, response, response.body.size(), Clock::now());
    if (judged) {
      judged->count(response.status, Clock::now());
      judged.reset();  // May lock.
    } else if (core_->options.meter != nullptr) {
      core_->options.meter->count(framer->request().method, response.status);
    }
  }
  if (phase_ == Phase::kBusy) {
    write_response(response, {.holder = HashOfIpAddress()(framer->request().client.limited())});
  }
}

void Connection::answer(Response&& response, Payer payer) noexcept {
  try {
    {
      const MutexLock lock(mutex_);
      refuse_body();
      if (phase_ != Phase::kBusy) {
        return;
      }
      write_response(response, payer);
      if (phase_ != Phase::kWriting || !remainder_.file) {
        return;
      }
      sending_ = true;
    }
    send_file(kDirectBytes);
  } catch (...) {
    abort();
  }
}

void Connection::end_head(std::string& head) const {
  head += close_after_ ? "Connection: close\r\n\r\n"
          : http10_    ? "Connection: keep-alive\r\n\r\n"
                       : "\r\n";
}

void Connection::write_response(Response& response, Payer payer) {
  close_after_ = response.close || !keep_alive_ || discarding_ || core_->draining;
  const bool bodyless = response.status == 204 || response.status == 304;
  const std::uint64_t length =
      response.file ? static_cast<std::uint64_t>(response.file->length) : response.body.size();
  std::string& head = begin_head(response);
  if (!bodyless) {
    head += "Content-Length: ";
    head += std::to_string(length);
    head += "\r\n";
  }
  end_head(head);
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
  if (!own_the_socket()) {
    return close_now();
  }
  phase_ = Phase::kWriting;
  if (send_file) {
    remainder_.file = std::move(response.file);  // Whoever answers sends it, without the lock.
    begin_waiting();
  } else {
    hold_answer(payer);
    await_reader();
  }
}

// Something is left to send.
void Connection::begin_waiting() {
  progress_ = Clock::now().time_since_epoch().count();
  set_rest(Rest::kStalled);
  sent_since_deadline_ = 0;
  set_deadline(core_->options.write_stall_timeout);
}

// The housekeeper sees to it.
void Connection::await_reader() {
  begin_waiting();
  core_->housekeeper.post(shared_from_this());
}

bool Connection::begin_stream(Response&& response) noexcept {
  try {
    const MutexLock lock(mutex_);
    refuse_body();
    if (phase_ != Phase::kBusy) {
      return false;
    }
    // HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
    close_after_ = response.close || !keep_alive_ || discarding_ || core_->draining || http10_;
    std::string& head = begin_head(response);
    if (!http10_) {
      head += "Transfer-Encoding: chunked\r\n";
    }
    end_head(head);
    phase_ = Phase::kStreaming;
    no_deadline();
    if (push(head) && head_only_) {
      finish_stream();
    }
    return phase_ == Phase::kStreaming;
  } catch (...) {
    abort();
    return false;
  }
}

bool Connection::send_part(std::string_view part) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (phase_ != Phase::kStreaming) {
      return false;
    }
    if (http10_ || part.empty()) {  // A chunk of no bytes would be the last one.
      return push(part);
    }
    std::array<char, 20> size{};
    const auto end = std::to_chars(size.data(), size.data() + size.size(), part.size(), 16).ptr;
    std::string chunk(size.data(), end);
    chunk += "\r\n";
    chunk += part;
    chunk += "\r\n";
    return push(chunk);
  } catch (...) {
    abort();
    return false;
  }
}

void Connection::end_stream(bool whole) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (phase_ != Phase::kStreaming) {
      return;
    }
    if (!whole) {
      return reset_now();
    }
    if (http10_ || push("0\r\n\r\n")) {
      finish_stream();
    }
  } catch (...) {
    abort();
  }
}

// Of a stream: sends `bytes` behind what is left. False: the connection is at its end.
bool Connection::push(std::string_view bytes) {
  const std::size_t left = remainder_.bytes.size() - remainder_.sent;
  if (left + static_cast<std::size_t>(unsent()) + bytes.size() > kStreamUnsentMax) {
    core_->drops.count(Drop::kSlowReader, peer_);
    reset_now();
    return false;
  }
  if (left > 0) {
    remainder_.bytes.erase(0, std::exchange(remainder_.sent, 0));
    remainder_.bytes += bytes;
    return true;
  }
  const ssize_t count = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && !would_block(errno)) {
    close_now();
    return false;
  }
  bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (bytes.empty()) {
    return true;
  }
  if (!own_the_socket()) {
    close_now();
    return false;
  }
  remainder_.bytes = bytes;
  remainder_.sent = 0;
  await_reader();
  return true;
}

// Nothing more comes; what is left goes the way of any response.
void Connection::finish_stream() {
  if (remainder_.sent < remainder_.bytes.size()) {
    phase_ = Phase::kWriting;
  } else {
    finish_response();
  }
}

// Nothing of a stream is left to send, and nobody knows when there is.
void Connection::rest_stream() {
  remainder_ = Remainder();
  set_rest(Rest::kNo);
  no_deadline();
}

// Sends about `budget` bytes of what is left, as far as the socket takes them; nothing of a file.
Connection::Sent Connection::write_remainder(std::size_t budget) {
  std::size_t total = 0;
  while (remainder_.sent < remainder_.bytes.size()) {
    if (total >= budget) {
      return Sent::kPart;
    }
    const ssize_t count = ::send(fd(),
                                 remainder_.bytes.data() + remainder_.sent,
                                 remainder_.bytes.size() - remainder_.sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT | (remainder_.file ? MSG_MORE : 0));
    if (count < 0) {
      return would_block(errno) ? Sent::kPart : Sent::kFailed;
    }
    remainder_.sent += static_cast<std::size_t>(count);
    total += static_cast<std::size_t>(count);
    note_progress(static_cast<std::size_t>(count));
  }
  return Sent::kAll;
}

void Connection::note_progress(std::size_t bytes) {
  progress_ = Clock::now().time_since_epoch().count();
  sent_since_deadline_ += bytes;
  if (sent_since_deadline_ >= kProgressBytes) {
    sent_since_deadline_ = 0;
    set_deadline(core_->options.write_stall_timeout);
  }
}

// The disk is waited for without the lock, so that nobody who looks at this connection waits as
// well: not its reactor, nor whoever keeps all times. Meanwhile the file is this call's, and
// own_fd_ stays open, whatever becomes of the connection.
void Connection::send_file(std::size_t budget) {
  std::optional<FileBody> done;  // Closed without the lock: that may take as long.
  MutexLock lock(mutex_);
  Sent sent = phase_ == Phase::kWriting ? write_remainder(budget) : Sent::kFailed;
  if (sent == Sent::kAll) {
    FileBody file = *std::exchange(remainder_.file, std::nullopt);
    const int socket = own_fd_.get();
    std::size_t total = 0;
    {
      const MutexUnlock unlocked(mutex_);
      while (file.length > 0 && total < budget) {
        const ssize_t count =
            ::sendfile(socket,
                       file.fd.get(),
                       &file.offset,
                       std::min(static_cast<std::size_t>(file.length), budget - total));
        if (count <= 0) {  // Nothing: the file is shorter than promised.
          sent = count < 0 && would_block(errno) ? Sent::kPart : Sent::kFailed;
          break;
        }
        file.length -= count;
        total += static_cast<std::size_t>(count);
      }
    }
    sent = sent == Sent::kAll && file.length > 0 ? Sent::kPart : sent;
    const bool goes_on = phase_ == Phase::kWriting && sent == Sent::kPart;
    (goes_on ? remainder_.file : done) = std::move(file);
    if (phase_ == Phase::kWriting) {
      note_progress(total);
    }
  }
  sending_ = false;
  if (phase_ == Phase::kWriting) {
    switch (sent) {
      case Sent::kAll:
        finish_response();
        break;
      case Sent::kFailed:
        close_now();
        break;
      case Sent::kPart:
        core_->housekeeper.post(shared_from_this());
        return;
    }
  }
  let_socket_go();
}

// Nothing is left to send. To close a file may take as long as its disk does, and whoever gives up
// on it may be the one who keeps all times.
void Connection::drop_remainder() {
  if (remainder_.file) {
    const auto file = std::make_shared<FileBody>(*std::exchange(remainder_.file, std::nullopt));
    static_cast<void>(core_->files.run([file] {}));
  }
  remainder_ = Remainder();
}

// Nobody needs the duplicate any more, unless the client has ended before its answers did.
void Connection::let_socket_go() {
  if (!watched_ && !sending_ && (!eof_ || phase_ == Phase::kClosed)) {
    own_fd_.reset();
  }
}

void Connection::finish_response() {
  end_busy();
  let_answer_go();
  call_.reset();
  drop_remainder();
  phase_ = Phase::kReading;
  if (close_after_ || discarding_) {
    if (eof_) {
      return close_now();
    }
    // Closing with unread input would reset the connection and take the response with it
    // (RFC 9112 9.6), so the client is told first and closes.
    ::shutdown(fd(), SHUT_WR);
    phase_ = Phase::kLingering;
    inbox_.reset();
    set_deadline(core_->options.linger_timeout);
    set_rest(Rest::kIdle);
    return;
  }
  set_deadline(core_->options.keep_alive_timeout);
  set_rest(Rest::kIdle);
  if (!pumping_ && (eof_ || (inbox_ && inbox_->begun()))) {
    resuming_ = true;
    core_->housekeeper.post(shared_from_this());
  }
}

void Connection::resume() {
  const Awaited dropped = take_dropped();
  MutexLock lock(mutex_);
  resuming_ = yielded_ = false;
  constexpr const char* kNoMemory = "there is no memory for the request body";
  if (given_up() && awaiting_body() && inbox_ && !pumping_) {
    refuse(503, kNoMemory);
  } else if (given_up() && phase_ == Phase::kJudging) {
    const std::shared_ptr<Call> call = call_.lock();
    refuse_body();
    lock.unlock();
    if (call) {
      call->reply(core_->render_error(503, kNoMemory, &call->request()));
    }
  } else if (holding_answer_ != nullptr && answer_given_up_ == answer_) {
    core_->drops.count(Drop::kAnswerBudget, peer_);
    reset_now();
  } else if (has_remainder() && !watched_ && !sending_) {
    watched_ = core_->housekeeper.watch(own_fd_.get(), shared_from_this());
    if (!watched_) {
      close_now();
    }
  } else {
    std::size_t requests = 0;
    pump(std::chrono::milliseconds(0), requests);
  }
}

void Connection::on_writable() {
  const MutexLock lock(mutex_);
  if (has_remainder() && remainder_.file) {
    sending_ = core_->files.run([self = shared_from_this()] { self->send_file(kTurnBytes); });
    if (!sending_) {
      close_now();
    }
  } else if (has_remainder()) {
    switch (write_remainder(kTurnBytes)) {
      case Sent::kAll:
        if (phase_ == Phase::kStreaming) {
          rest_stream();
        } else {
          finish_response();
        }
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
  let_socket_go();
}

void Connection::expire(Clock::time_point now) {
  MutexLock lock(mutex_);
  if (deadline() > now) {
    return;
  }
  // What has come in time and was not read in time is our delay, not the client's. But he is better
  // off elsewhere when it lasts.
  if (phase_ == Phase::kReading && unread() > 0) {
    grace_until_ = grace_until_.value_or(now + core_->options.reply_timeout);
    return now < *grace_until_ ? set_deadline(kUnreadGrace) : close_now();
  }
  if (phase_ == Phase::kReading && received_ != Received::kNothing) {
    return refuse(408,
                  received_ == Received::kHead ? "the request head did not arrive in time"
                                               : "the request body did not arrive in time");
  }
  if (phase_ == Phase::kBusy || phase_ == Phase::kJudging) {
    if (std::exchange(overdue_, true)) {
      return close_now();  // Nobody is left to answer, or whoever it is does not.
    }
    const std::shared_ptr<Call> call = call_.lock();
    set_deadline(core_->options.reply_timeout);
    refuse_body();
    lock.unlock();
    if (call) {
      call->reply(core_->render_error(503, "there was no reply in time", &call->request()));
    }
    return;
  }
  if (phase_ == Phase::kWriting || phase_ == Phase::kStreaming) {
    return reset_now();
  }
  if (silent_) {
    core_->drops.count(Drop::kSilent, peer_);
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
  const MutexLock lock(mutex_);
  close_now();
}

Connection::Rest Connection::rest() const {
  const Rest rest = rest_.load(std::memory_order_relaxed);
  const Clock::time_point progress{Clock::duration(progress_.load(std::memory_order_relaxed))};
  return rest == Rest::kStalled && Clock::now() - progress < core_->options.stall_grace ? Rest::kNo
                                                                                        : rest;
}

// The bytes that have come and that its thread has not taken yet.
int Connection::unread() const {
  int bytes = 0;
  return ::ioctl(fd(), FIONREAD, &bytes) == 0 ? bytes : 0;
}

// Of what was sent, the bytes that have not reached the client's machine.
int Connection::unsent() const {
  int bytes = 0;
  return ::ioctl(fd(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool Connection::evict() {
  const MutexLock lock(mutex_);
  const Rest rest = this->rest();
  if (rest == Rest::kNo || pumping_ || resuming_) {
    return false;
  }
  if (rest == Rest::kIdle && phase_ == Phase::kReading && unread() > 0) {
    return false;  // Its next request is here, only not read yet.
  }
  if (phase_ == Phase::kLingering && unsent() > 0) {
    return false;  // Its answer is on its way, and linger_timeout bounds that.
  }
  core_->drops.count(rest == Rest::kIdle   ? Drop::kEvictedIdle
                     : rest == Rest::kHead ? Drop::kEvictedHead
                                           : Drop::kEvictedStalled,
                     peer_);
  // Nothing is unread, so that closing does not take the last answer with it; a reset would.
  if (rest == Rest::kStalled || (rest == Rest::kHead && unsent() == 0)) {
    reset_now();
  } else {
    close_now();
  }
  return true;
}

// Pistache notices the shutdown as the client's end and calls on_eof().
void Connection::close_now() {
  if (phase_ != Phase::kClosed) {
    end_busy();
    phase_ = Phase::kClosed;
    drop_awaited();
    set_rest(Rest::kNo);
    no_deadline();
    let_answer_go();
    drop_remainder();
    inbox_.reset();
    spare_.reset();
    if (fd() >= 0) {
      ::shutdown(fd(), SHUT_RDWR);
    }
    if (!watched_ && !sending_) {
      own_fd_.reset();
    }
  }
  if (eof_) {
    core_->remove(shared_from_this());
  }
}

bool Connection::closed() const {
  const MutexLock lock(mutex_);
  return phase_ == Phase::kClosed;
}

bool Connection::active() const {
  const MutexLock lock(mutex_);
  return phase_ == Phase::kBusy || phase_ == Phase::kJudging || phase_ == Phase::kWriting ||
         phase_ == Phase::kStreaming || (phase_ == Phase::kReading && inbox_ && inbox_->begun());
}

void Connection::take_back(std::unique_ptr<Framer> framer) noexcept {
  if (framer->capacity() > kIdleBufferMax) {
    return;
  }
  framer->reset();
  const MutexLock lock(mutex_);
  if (!spare_ && phase_ != Phase::kClosed) {
    spare_ = std::move(framer);
  }
}

Call::Call(std::shared_ptr<Connection> connection,
           std::unique_ptr<Framer> framer,
           Clock::time_point received_at,
           bool body_to_come)
    : connection_(std::move(connection)),
      framer_(std::move(framer)),
      received_at_(received_at),
      body_to_come_(body_to_come),
      meter_(connection_->core()->options.meter) {}

Call::~Call() {
  if (!answered_ && !connection_->closed()) {
    reply(connection_->core()->render_error(500, "the handler gave no reply", &request()));
  }
  end_stream(false);
  connection_->take_back(std::move(framer_));
}

void Call::count(int status, Clock::time_point now) const noexcept {
  if (RequestMeter* const meter = meter_.load(std::memory_order_relaxed)) {
    meter->count(request().method, status);
    meter->took(now - received_at_);
  }
}

// What is said of an answer is worth less than the answer.
void Call::tell(const Response& response, std::uint64_t bytes) const noexcept {
  if (!is_told()) {
    return;
  }
  try {
    connection_->core()->tell(request(), noted(), response, bytes, received_at_);
  } catch (...) {  // No memory.
  }
}

bool Call::is_told() const {
  return static_cast<bool>(connection_->core()->options.answered);
}

void Call::note(std::any what) {
  const MutexLock lock(note_mutex_);
  note_ = std::move(what);
}

std::any Call::noted() const {
  const MutexLock lock(note_mutex_);
  return note_;
}

void Call::begin_stream(Response&& head) noexcept {
  if (answered_.exchange(true)) {
    return;
  }
  count(head.status, Clock::now());
  if (is_told()) {
    try {
      stream_head_.status = head.status;
      stream_head_.headers = head.headers;
    } catch (...) {  // No memory: see tell().
    }
  }
  streaming_ = connection_->begin_stream(std::move(head));
  if (!streaming_) {  // That was all: it has no taker, or asked for no body.
    tell(stream_head_, 0);
  }
}

bool Call::send(std::string_view part) noexcept {
  if (!streaming_ || !connection_->send_part(part)) {
    return false;
  }
  stream_bytes_ += part.size();
  return true;
}

void Call::end_stream(bool whole) noexcept {
  if (streaming_.exchange(false)) {
    connection_->end_stream(whole);
    tell(stream_head_, stream_bytes_);
  }
}

void Call::read_body(std::uint64_t holder, std::function<void()> next) {
  if (body_to_come_) {
    connection_->receive_body(holder, std::move(next));
  } else {
    next();
  }
}

void Call::body_arrived(std::unique_ptr<Framer> whole, Clock::time_point at) {
  whole_ = std::move(whole);
  received_at_ = at;
}

void Call::reply(Response&& response) noexcept {
  if (answered_.exchange(true)) {
    return;
  }
  count(response.status, Clock::now());
  tell(response,
       response.file ? static_cast<std::uint64_t>(response.file->length) : response.body.size());
  const bool known = known_.load(std::memory_order_acquire);
  connection_->answer(std::move(response),
                      {.holder = known ? holder_.load(std::memory_order_relaxed)
                                       : HashOfIpAddress()(request().client.limited()),
                       .known = known});
}

const Request& Exchange::request() const {
  return call_->request();
}
void Exchange::read_body(std::uint64_t holder, std::function<void()> next) const {
  call_->read_body(holder, std::move(next));
}
void Exchange::reply(Response&& response) const noexcept {
  call_->reply(std::move(response));
}
void Exchange::begin_stream(Response&& head) const noexcept {
  call_->begin_stream(std::move(head));
}
bool Exchange::send(std::string_view part) const noexcept {
  return call_->send(part);
}
void Exchange::end_stream() const noexcept {
  call_->end_stream(true);
}
void Exchange::charge(std::uint64_t holder) const noexcept {
  call_->charge(holder);
}
void Exchange::meter(RequestMeter& meter) const noexcept {
  call_->meter(meter);
}
void Exchange::allow(std::chrono::milliseconds longer) const {
  call_->allow(longer);
}
Loop& Exchange::loop() const {
  return call_->loop();
}
bool Exchange::client_ended() const {
  return call_->client_ended();
}
bool Exchange::is_told() const {
  return call_->is_told();
}
void Exchange::note(std::any what) const {
  call_->note(std::move(what));
}
std::chrono::steady_clock::time_point Exchange::received_at() const {
  return call_->received_at();
}

}  // namespace audiogen::http
