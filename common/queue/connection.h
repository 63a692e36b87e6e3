// One connection to the broker with one channel on it, owned by one thread: the only code that
// touches rabbitmq-c.
//
// Nothing here blocks without a limit. Opening has a deadline for all its steps together. After
// that nothing waits for a reply except redeclare() and message_count(), which have that deadline
// too: replies come as events from read(), and sending is preceded by can_send().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/queue/amqp.h"

struct amqp_connection_state_t_;

namespace audiogen::queue {

// Between the last acks and the close. A channel of RabbitMQ holds acks to a quorum queue back
// while some dozens are under way, and drops them when it ends; what is dropped all the same is
// delivered again and does no harm.
inline constexpr std::chrono::milliseconds kAcksSettle{300};

enum class Event {
  kNone,      // Nothing more to read now.
  kAck,       // The broker confirms `tag`, or with `multiple` all up to it.
  kNack,      // The broker refuses `tag`, likewise. Another connection may succeed later.
  kReturn,    // `body` could not be routed. Its ack still follows.
  kDeliver,   // A message: `tag`, `redelivered`, `body`.
  kCanceled,  // The broker ended our consumption: the queue is gone.
  kQueue,     // A reply to check_queues(): `consumers`. One for each work queue.
  kBlocked,   // The broker is out of memory or disk: publish nothing.
  kUnblocked,
  kGot,      // The answer to get(): `tag`, `body`, `bytes`, `headers`.
  kNothing,  // The answer to get(): nothing waits there.
  kClosed,   // The reply to send_close(): the broker has handled everything sent before.
  kLost,     // The connection is of no use any more; lost_because() tells why.
};

struct Incoming {
  Event event = Event::kNone;
  std::uint64_t tag = 0;
  bool multiple = false;
  bool redelivered = false;
  Lane lane = Lane::kBulk;  // Whose work queue it came from.
  std::uint32_t consumers = 0;
  std::string
      body{};  // Of a longer one kMessageBytesMax + 1 bytes are kept, by get() kShownBytesMax.
  std::uint64_t bytes = 0;  // Of the whole body.
  Headers headers{};
};

struct OpenError {
  bool configuration = false;  // Waiting will not help: somebody must change something.
  std::string reason{};        // Without credentials.
};

class Connection {
 public:
  struct Options {
    std::chrono::seconds heartbeat{10};
    bool declare = true;                      // The topology, with everything in it.
    bool confirm = false;                     // The broker confirms what is published.
    std::chrono::milliseconds limit{10'000};  // For all steps of opening; the name lookup is extra.
  };

  // Connects, logs in, and prepares the channel.
  static Result<std::unique_ptr<Connection>, OpenError> open(const AmqpUrl& url,
                                                             const Topology& topology,
                                                             const Options& options);
  ~Connection();  // Closes the socket; waits for nothing.
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // For poll(). Sleep on it only after read() has said kNone: the library buffers.
  int fd() const;
  // How long a sleep may last for heartbeats to go out in time.
  std::chrono::milliseconds sleep_max() const { return heartbeat_ / 4; }

  // The next event, without waiting. Call at least every sleep_max(): heartbeats are sent and
  // watched here.
  Incoming read();
  const std::string& lost_because() const { return lost_; }

  // Whether one more frame fits the socket's buffer, so that sending it cannot block. Publish only
  // directly after read() has said kNone (README.md, "Read before publishing").
  bool can_send() const;

  // These send and do not wait. False: the connection is lost.
  bool publish(std::span<const Hint> hints, Lane lane);  // One message.
  bool consume(std::uint16_t prefetch);                  // From each work queue so much.
  bool check_queues();  // Answered by kWorkQueues times kQueue, or by kLost when one is gone.
  bool ack(std::uint64_t tag, bool multiple);
  bool reject(std::uint64_t tag);      // To the dead-letter queue.
  bool get(const std::string& queue);  // Takes its first message; answered by kGot or kNothing.
  bool put_back_all();                 // What was got and not acknowledged, to where it was.
  bool send_close();

  // Declares the topology once more; waits for the broker. False: the connection is lost.
  bool redeclare();
  // Messages ready in `queue`; waits for the broker. Nothing when there is no such queue.
  std::optional<std::uint64_t> message_count(const std::string& queue);

 private:
  using Clock = std::chrono::steady_clock;

  Connection(const Topology& topology, const Options& options);
  std::optional<OpenError> connect(const AmqpUrl& url);
  std::optional<OpenError> login(const AmqpUrl& url);
  std::optional<OpenError> declare_topology();
  std::optional<OpenError> last_reply(const char* step);
  bool set_reply_limit();
  bool silent() const;
  Incoming lose(std::string reason);
  bool sent(int status);
  // Reads one method frame; nothing when more frames belong to the event.
  std::optional<Incoming> take_method(std::uint32_t id, void* decoded);

  const Topology topology_;
  const Options options_;
  const std::chrono::milliseconds heartbeat_;
  // Of opening, redeclare() and message_count().
  Clock::time_point deadline_ = Clock::now() + options_.limit;
  amqp_connection_state_t_* state_;
  std::string lost_;

  // A message that is still arriving: method, then header, then body frames.
  std::optional<Incoming> partial_;
  bool header_seen_ = false;
  std::uint64_t body_left_ = 0;
};

}  // namespace audiogen::queue
