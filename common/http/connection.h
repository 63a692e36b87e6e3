// One client connection: its phases, its deadline, its one request at a time, and its writing.
//
// Every write happens on a descriptor that is known to be the connection's own: either Pistache's,
// under the lock, as Pistache closes it only after on_eof() returned, or a duplicate, which a
// file's bytes are sent by without the lock. So a response can never reach a client that got a
// recycled descriptor number.
#pragma once

#include <any>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/blocking_pool.h"
#include "common/base/mutex.h"
#include "common/http/connection_budget.h"
#include "common/http/drops.h"
#include "common/http/housekeeper.h"
#include "common/http/loop.h"
#include "common/http/request_meter.h"
#include "common/http/server.h"

namespace audiogen::http {

using Clock = std::chrono::steady_clock;

class Connection;

// What all connections of one server share. Lives until the last connection and Exchange are gone.
struct ServerCore {
  ServerCore(ServerOptions server_options, Handler request_handler, ErrorReply error_reply);

  // Never throws: without memory or with a failing renderer the response is bare.
  Response render_error(int status, std::string_view reason, const Request* partial) const noexcept;

  bool trusts(const IpAddress& peer) const;

  // Takes a new connection in. Where there is no room, ends some that rest. It waits, for a moment
  // at most, until they are gone only where there is none for anybody; where one address has too
  // many it does not, so that nobody else's connection waits for that. False: nothing could be
  // done, and it was counted. One thread only.
  bool add(const std::shared_ptr<Connection>& connection);
  // The process has no descriptors left: ends some connections that rest.
  void relieve();
  void remove(const std::shared_ptr<Connection>& connection);
  std::vector<std::shared_ptr<Connection>> all() const;
  std::size_t count() const;
  // Tells whoever wants to know of an answer. `bytes`: of its body, for a request that wants one.
  void tell(const Request& request,
            const std::any& note,
            const Response& response,
            std::uint64_t bytes,
            Clock::time_point received_at) const noexcept;
  // Acts on every connection whose deadline has passed.
  void sweep(Clock::time_point now);

  const ServerOptions options;
  const Handler handler;
  const ErrorReply on_error;
  std::atomic<bool> draining{false};  // Responses close their connection.
  std::atomic<bool> refusing{false};  // The handler is not called any more.
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> in_flight{0};
  Housekeeper housekeeper;
  BlockingPool files;  // Sends what is on a disk.
  Drops drops;
  // Of answers: those of whom we know, and the others, whom no key keeps from coming in numbers.
  ConnectionBudget bodies, answers, strangers;

 private:
  using Connections = std::unordered_set<std::shared_ptr<Connection>>;
  // Of one address.
  struct Group {
    Connections there{};
    Connections leaving{};  // Ended to make room, and not yet closed by their threads.
    bool empty() const { return there.empty() && leaving.empty(); }
  };
  enum class Room : std::uint8_t {
    kThere,
    kFull,     // Of all.
    kCrowded,  // Of its address.
    kClosing,  // Of its address, and as many again are leaving.
  };
  // The addresses of one customer (IpAddress::home()), or of one site, are so many that each alone
  // may stay below its own limit while together they take all there is.
  struct Wider {
    IpAddress (IpAddress::*of)() const;
    std::size_t part;  // One of so many parts of all connections is theirs at most.
    std::unordered_map<IpAddress, std::size_t, HashOfIpAddress> there{};  // Without those leaving.
  };

  Room room_for(const Connection& connection) const LOCKS_REQUIRED(mutex_);
  // Ends a few of those that rest, of `only` if not null, and says how many: finding them costs a
  // look at all.
  std::size_t evict_resting(const IpAddress* only);
  void note_leaving(const std::shared_ptr<Connection>& connection);
  // Counts it among those of its home and site, or no more.
  void come(const Connection& connection) LOCKS_REQUIRED(mutex_);
  void leave(const Connection& connection) LOCKS_REQUIRED(mutex_);
  // Those to end first, up to `most`.
  std::vector<std::shared_ptr<Connection>> longest_resting(const IpAddress* only,
                                                           std::size_t most) const
      LOCKS_REQUIRED(mutex_);
  template <class Use>
  void for_each(const Use& use) const LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  ConditionVariable left_;
  prometheus::Gauge& open_;
  // By IpAddress::limited().
  std::unordered_map<IpAddress, Group, HashOfIpAddress> connections_ GUARDED_BY(mutex_);
  std::array<Wider, 2> wider_ GUARDED_BY(mutex_){
      {{.of = &IpAddress::home, .part = 4}, {.of = &IpAddress::site, .part = 2}}};
  std::size_t count_ GUARDED_BY(mutex_) = 0;  // Those that are leaving, too.
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // What it does between requests. A request of which only a part of the head is here is none yet,
  // and an answer of which the client takes nothing (ServerOptions::stall_grace) is one no more.
  enum class Rest : std::uint8_t { kNo, kIdle, kHead, kStalled };

  Connection(std::shared_ptr<ServerCore> core,
             std::shared_ptr<Loop> loop,
             int fd,
             const IpAddress& peer);

  // Called by the reactor thread of this connection.
  void on_bytes(std::string_view bytes);
  void on_eof();  // The descriptor given to the constructor is not used once this has returned.

  // Sends some of its file, on a thread that may wait for a disk: one that answers with a file, or
  // one of ServerCore::files. Whoever calls it has set sending_.
  void send_file(std::size_t budget);

  // Called by the housekeeper's thread.
  void resume();
  void on_writable();
  void expire(Clock::time_point now);

  // Called by any thread.
  // Whom an answer counts for, as long as its client does not take it: a hash; `known`: of a user.
  struct Payer {
    std::uint64_t holder = 0;
    bool known = false;
  };
  // The request being handled; once per Call.
  void answer(Response&& response, Payer payer) noexcept;
  void take_back(std::unique_ptr<Framer> framer) noexcept;
  // See Exchange. Only the call whose begin_stream() was true, parts are awaited, calls the others;
  // `whole`: all was sent.
  bool begin_stream(Response&& head) noexcept;
  bool send_part(std::string_view part) noexcept;
  void end_stream(bool whole) noexcept;
  // See Exchange. Nothing happens if it handles another call by now.
  void allow(const Call& call, std::chrono::milliseconds longer);
  bool client_ended() const;
  // The body of the request whose head is being handled may come; then `next` runs.
  void receive_body(std::uint64_t holder, std::function<void()> next);
  // The body it is receiving takes memory that others need more. `body` is its number in
  // ServerCore::bodies: nothing happens if that one has left meanwhile. Takes no lock.
  void give_up_body(std::uint64_t body);
  // The same of the answer that its client does not take, and of its number in ServerCore::answers
  // or strangers.
  void give_up_answer(std::uint64_t answer);
  // Ends it now, whatever was left to send.
  void abort();
  // Ends it if it still rests, to make room for another. False if it does not.
  bool evict();
  Rest rest() const;
  const IpAddress& peer() const { return peer_; }
  bool peer_trusted() const { return peer_trusted_; }
  // True while a request is being received, handled or answered.
  bool active() const;
  Clock::time_point deadline() const {
    return Clock::time_point(Clock::duration(deadline_.load(std::memory_order_relaxed)));
  }
  const std::shared_ptr<ServerCore>& core() const { return core_; }
  Loop& loop() const { return *loop_; }
  bool closed() const;

 private:
  enum class Phase {
    kReading,    // Between requests, or receiving one.
    kJudging,    // The head of a request is being handled, its body is to come.
    kBusy,       // A request is being handled.
    kStreaming,  // Its response comes in parts; what is left of them waits for the client to read.
    kWriting,    // Its response waits for the client to read.
    kLingering,  // The last response is sent; input is read and dropped until the client closes.
    kClosed,
  };
  // What is left of a response.
  struct Remainder {
    std::string bytes;
    std::size_t sent = 0;
    std::optional<FileBody> file;
  };
  // The request whose body is being received, and what is to be done then. They refer to each
  // other, so they are let go of by the housekeeper, without the lock, if the body does not come.
  struct Awaited {
    std::shared_ptr<Call> call;
    std::function<void()> next;
  };

  int fd() const LOCKS_REQUIRED(mutex_) { return own_fd_ ? own_fd_.get() : reactor_fd_; }
  // What of the next request has arrived.
  enum class Received { kNothing, kHead, kBody };
  enum class Sent { kAll, kPart, kFailed };

  void set_deadline(std::chrono::milliseconds after);
  void no_deadline() {
    deadline_.store(Clock::time_point::max().time_since_epoch().count(), std::memory_order_relaxed);
  }
  void set_rest(Rest rest) { rest_.store(rest, std::memory_order_relaxed); }
  // `lag`: how long the bytes had waited for this thread.
  void pump(std::chrono::milliseconds lag, std::size_t& requests) LOCKS_REQUIRED(mutex_);
  void dispatch(std::chrono::milliseconds lag) LOCKS_REQUIRED(mutex_);
  void dispatch_head(std::chrono::milliseconds lag) LOCKS_REQUIRED(mutex_);
  void dispatch_body(std::chrono::milliseconds lag) LOCKS_REQUIRED(mutex_);
  void handle(const std::shared_ptr<Call>& call) const;
  void hold(std::uint64_t holder, std::size_t bytes) LOCKS_REQUIRED(mutex_);
  void let_go() LOCKS_REQUIRED(mutex_);
  bool given_up() const LOCKS_REQUIRED(mutex_) { return holding_ && given_up_ == body_; }
  bool awaiting_body() const LOCKS_REQUIRED(mutex_) {
    return phase_ == Phase::kReading && awaited_.call;
  }
  void refuse_body() LOCKS_REQUIRED(mutex_);
  int unread() const LOCKS_REQUIRED(mutex_);
  int unsent() const LOCKS_REQUIRED(mutex_);
  void drop_awaited() LOCKS_REQUIRED(mutex_);
  Awaited take_dropped();
  void await_body() LOCKS_REQUIRED(mutex_);
  void refuse(int status, const std::string& reason) LOCKS_REQUIRED(mutex_);
  void begin_busy(const Request& request, Phase phase = Phase::kBusy) LOCKS_REQUIRED(mutex_);
  void end_busy() LOCKS_REQUIRED(mutex_);
  void end_head(std::string& head) const LOCKS_REQUIRED(mutex_);
  void write_response(Response& response, Payer payer) LOCKS_REQUIRED(mutex_);
  void hold_answer(Payer payer) LOCKS_REQUIRED(mutex_);
  void let_answer_go() LOCKS_REQUIRED(mutex_);
  void note_given_up(std::atomic<std::uint64_t>& noted, std::uint64_t number);
  bool push(std::string_view bytes) LOCKS_REQUIRED(mutex_);
  void begin_waiting() LOCKS_REQUIRED(mutex_);
  void await_reader() LOCKS_REQUIRED(mutex_);
  void let_socket_go() LOCKS_REQUIRED(mutex_);
  void finish_stream() LOCKS_REQUIRED(mutex_);
  void rest_stream() LOCKS_REQUIRED(mutex_);
  // Part of a response waits for its client to read.
  bool has_remainder() const LOCKS_REQUIRED(mutex_) {
    return phase_ == Phase::kWriting ||
           (phase_ == Phase::kStreaming && remainder_.sent < remainder_.bytes.size());
  }
  Sent write_remainder(std::size_t budget) LOCKS_REQUIRED(mutex_);
  void note_progress(std::size_t bytes) LOCKS_REQUIRED(mutex_);
  void drop_remainder() LOCKS_REQUIRED(mutex_);
  void finish_response() LOCKS_REQUIRED(mutex_);
  void close_now() LOCKS_REQUIRED(mutex_);
  void reset_now() LOCKS_REQUIRED(mutex_);
  bool own_the_socket() LOCKS_REQUIRED(mutex_);
  std::unique_ptr<Framer> new_framer() LOCKS_REQUIRED(mutex_);
  IpAddress client_of(const Request& request) const;

  const std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<Loop> loop_;  // Of the thread that reads it.
  const IpAddress peer_;
  const bool peer_trusted_;  // Others come through it: X-Forwarded-For says who.
  std::atomic<Clock::rep> deadline_;
  // Written under mutex_; read by whoever looks for room, who then asks evict().
  std::atomic<Rest> rest_{Rest::kIdle};
  // Set by another connection, see give_up_body() and give_up_answer().
  std::atomic<std::uint64_t> given_up_{0}, answer_given_up_{0};
  // When its client last took a part of its answer.
  std::atomic<Clock::rep> progress_{Clock::now().time_since_epoch().count()};

  mutable Mutex mutex_;  // Taken before ServerCore's and Housekeeper's.
  Phase phase_ GUARDED_BY(mutex_) = Phase::kReading;
  bool silent_ GUARDED_BY(mutex_) = true;  // Not one byte has come.
  int reactor_fd_ GUARDED_BY(mutex_);
  // A duplicate: while the housekeeper writes, and after the client's end.
  UniqueFd own_fd_ GUARDED_BY(mutex_);
  bool watched_ GUARDED_BY(mutex_) = false;    // own_fd_ is registered with the housekeeper.
  bool eof_ GUARDED_BY(mutex_) = false;        // The client sends no more and Pistache has let go.
  bool pumping_ GUARDED_BY(mutex_) = false;    // Some thread is inside pump().
  bool resuming_ GUARDED_BY(mutex_) = false;   // The housekeeper is going to call resume() …
  bool yielded_ GUARDED_BY(mutex_) = false;    // … and until then none of its requests is begun.
  std::uint64_t turn_ GUARDED_BY(mutex_) = 0;  // Of its loop, in which so many …
  std::size_t turn_requests_ GUARDED_BY(mutex_) = 0;  // … of its requests were begun.
  bool sending_ GUARDED_BY(mutex_) = false;  // A thread is in send_file(), or soon: own_fd_ stays.
  // Input is dropped; the connection closes with the next response.
  bool discarding_ GUARDED_BY(mutex_) = false;
  bool close_after_ GUARDED_BY(mutex_) = false;
  std::size_t discarded_ GUARDED_BY(mutex_) = 0;
  std::size_t sent_since_deadline_ GUARDED_BY(mutex_) = 0;
  Received received_ GUARDED_BY(mutex_) = Received::kNothing;
  // The request being received, or the bytes of the next ones.
  std::unique_ptr<Framer> inbox_ GUARDED_BY(mutex_);
  std::unique_ptr<Framer> spare_ GUARDED_BY(mutex_);
  Awaited awaited_ GUARDED_BY(mutex_);
  Awaited dropped_ GUARDED_BY(mutex_);
  std::uint64_t holder_ GUARDED_BY(mutex_) = 0;
  bool counted_ GUARDED_BY(mutex_) = false;    // In ServerCore::in_flight.
  bool holding_ GUARDED_BY(mutex_) = false;    // Its bytes count in ServerCore::bodies …
  std::uint64_t body_ GUARDED_BY(mutex_) = 1;  // … under this number.
  // Where its answer counts, under the number after it; null: nowhere.
  ConnectionBudget* holding_answer_ GUARDED_BY(mutex_) = nullptr;
  std::uint64_t answer_ GUARDED_BY(mutex_) = 1;
  // The request being handled has missed its deadline once.
  bool overdue_ GUARDED_BY(mutex_) = false;
  // How long what its thread has not read keeps it.
  std::optional<Clock::time_point> grace_until_ GUARDED_BY(mutex_);
  bool head_only_ GUARDED_BY(mutex_) = false;   // The request being handled is HEAD …
  bool http10_ GUARDED_BY(mutex_) = false;      // … is of version 1.0 …
  bool keep_alive_ GUARDED_BY(mutex_) = false;  // … and leaves the connection open.
  std::weak_ptr<Call> call_ GUARDED_BY(mutex_);
  Remainder remainder_ GUARDED_BY(mutex_);
};

// A request on its way through the application. Owns the request's bytes, so that they live as long
// as anybody looks at them, whatever becomes of the connection.
class Call {
 public:
  Call(std::shared_ptr<Connection> connection,
       std::unique_ptr<Framer> framer,
       Clock::time_point received_at,
       bool body_to_come);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Request& request() const { return (whole_ ? whole_ : framer_)->request(); }
  Clock::time_point received_at() const { return received_at_; }
  void reply(Response&& response) noexcept;
  void read_body(std::uint64_t holder, std::function<void()> next);
  void begin_stream(Response&& head) noexcept;
  bool send(std::string_view part) noexcept;
  void end_stream(bool whole) noexcept;
  void allow(std::chrono::milliseconds longer) { connection_->allow(*this, longer); }
  bool client_ended() const { return connection_->client_ended(); }
  Loop& loop() const { return connection_->loop(); }
  void charge(std::uint64_t holder) {
    holder_.store(holder, std::memory_order_relaxed);
    known_.store(true, std::memory_order_release);
  }
  void meter(RequestMeter& meter) { meter_.store(&meter, std::memory_order_relaxed); }
  // Its answer, which has this status, is about to be sent.
  void count(int status, Clock::time_point now) const noexcept;
  // Called by the connection while nobody else looks: read_body() was called and `next` is still
  // to be.
  void body_arrived(std::unique_ptr<Framer> whole, Clock::time_point at);
  // No reply is wanted any more.
  void disregard() { answered_ = true; }
  bool is_told() const;
  void note(std::any what);
  std::any noted() const;

 private:
  void tell(const Response& response, std::uint64_t bytes) const noexcept;

  const std::shared_ptr<Connection> connection_;
  std::unique_ptr<Framer> framer_;  // The head alone, if the body was to come …
  std::unique_ptr<Framer> whole_;   // … and this, when it has.
  Clock::time_point received_at_ = Clock::now();
  const bool body_to_come_;
  std::atomic<std::uint64_t> holder_{0};  // The user, …
  std::atomic<bool> known_{false};        // … where there is one.
  std::atomic<RequestMeter*> meter_;      // Null: none.
  std::atomic<bool> answered_{false};     // The connection stays busy with this call until then …
  std::atomic<bool> streaming_{false};    // … and longer, when the answer comes in parts.
  mutable Mutex note_mutex_;
  std::any note_ GUARDED_BY(note_mutex_);
  // Of a stream, where somebody is told of answers.
  Response stream_head_{};
  std::atomic<std::uint64_t> stream_bytes_{0};
};

}  // namespace audiogen::http
