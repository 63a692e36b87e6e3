// One client connection: its phases, its deadline, its one request at a time, and its writing.
//
// Every write happens under the connection's lock on a descriptor that is known to be its own:
// either Pistache's, which Pistache closes only after on_eof() returned, or a duplicate. So a
// response can never reach a client that got a recycled descriptor number.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/http/housekeeper.h"
#include "common/http/server.h"

namespace audiogen::http {

using Clock = std::chrono::steady_clock;

class Connection;

// What all connections of one server share. Lives until the last connection and Exchange are gone.
struct ServerCore {
  ServerCore(ServerOptions server_options, Handler request_handler, ErrorReply error_reply);

  // Never throws: without memory or with a failing renderer the response is bare.
  Response render_error(int status, std::string_view reason, const Request* partial) const noexcept;

  bool add(std::shared_ptr<Connection> connection);  // False: there are too many.
  void remove(const std::shared_ptr<Connection>& connection);
  std::vector<std::shared_ptr<Connection>> all() const;
  std::size_t count() const;
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

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, int fd);

  // Called by the reactor thread of this connection.
  void on_bytes(std::string_view bytes);
  void on_eof();  // The descriptor given to the constructor is not used once this has returned.

  // Called by the housekeeper's thread.
  void resume();
  void on_writable();
  void expire(Clock::time_point now);

  // Called by any thread.
  void answer(Response&& response) noexcept;  // The request being handled; once per Call.
  void take_back(std::unique_ptr<Framer> framer) noexcept;
  // Ends it now, whatever was left to send.
  void abort();
  // True while a request is being received, handled or answered.
  bool active() const;
  Clock::time_point deadline() const {
    return Clock::time_point(Clock::duration(deadline_.load(std::memory_order_relaxed)));
  }
  const std::shared_ptr<ServerCore>& core() const { return core_; }
  bool closed() const;

 private:
  enum class Phase {
    kReading,    // Between requests, or receiving one.
    kBusy,       // A request is being handled.
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
  using Lock = std::unique_lock<std::mutex>;

  int fd() const { return own_fd_ ? own_fd_.get() : reactor_fd_; }
  // What of the next request has arrived.
  enum class Received { kNothing, kHead, kBody };
  enum class Sent { kAll, kPart, kFailed };

  void set_deadline(std::chrono::milliseconds after);
  // `lag`: how long the bytes had waited for this thread.
  void pump(Lock& lock, std::chrono::milliseconds lag);
  void dispatch(Lock& lock, std::chrono::milliseconds lag);
  void refuse(Lock& lock, int status, const std::string& reason);
  void begin_busy(const Request& request);
  void write_response(Response& response);
  Sent write_remainder(std::size_t budget);
  void finish_response();
  void close_now();
  void reset_now();
  bool own_the_socket();
  std::unique_ptr<Framer> new_framer();

  const std::shared_ptr<ServerCore> core_;
  const std::string peer_address_;
  std::atomic<Clock::rep> deadline_;

  mutable std::mutex
      mutex_;  // Guards everything below. Taken before ServerCore's and Housekeeper's.
  Phase phase_ = Phase::kReading;
  int reactor_fd_;
  UniqueFd own_fd_;        // A duplicate: while the housekeeper writes, and after the client's end.
  bool watched_ = false;   // own_fd_ is registered with the housekeeper.
  bool eof_ = false;       // The client sends no more and Pistache has let go.
  bool pumping_ = false;   // Some thread is inside pump().
  bool resuming_ = false;  // The housekeeper is going to call resume().
  bool discarding_ = false;  // Input is dropped; the connection closes with the next response.
  bool close_after_ = false;
  std::size_t discarded_ = 0;
  std::size_t sent_since_deadline_ = 0;
  Received received_ = Received::kNothing;
  std::unique_ptr<Framer> inbox_;  // The request being received, or the bytes of the next ones.
  std::unique_ptr<Framer> spare_;
  bool head_only_ = false;   // The request being handled is HEAD …
  bool http10_ = false;      // … is of version 1.0 …
  bool keep_alive_ = false;  // … and leaves the connection open.
  std::weak_ptr<Call> call_;
  Remainder remainder_;
};

// A request on its way through the application. Owns the request's bytes, so that they live as long
// as anybody looks at them, whatever becomes of the connection.
class Call {
 public:
  Call(std::shared_ptr<Connection> connection,
       std::unique_ptr<Framer> framer,
       Clock::time_point received_at);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Request& request() const { return framer_->request(); }
  Clock::time_point received_at() const { return received_at_; }
  void reply(Response&& response) noexcept;

 private:
  const std::shared_ptr<Connection> connection_;
  std::unique_ptr<Framer> framer_;
  const Clock::time_point received_at_;
  std::atomic<bool> answered_{false};  // The connection stays busy with this call until then.
};

}  // namespace audiogen::http
