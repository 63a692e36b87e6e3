// Receives hints from the broker, acknowledged late, on a thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/queue/amqp.h"

namespace audiogen::queue {

// One hint taken from the queue and not yet acknowledged. Its message is when all of its hints are.
struct Delivery {
  Hint hint;
  // Which connection it came by: an ack after a reconnect is dropped.
  std::uint64_t connection = 0;
  std::uint64_t tag = 0;
  bool redelivered = false;
};

struct ConsumerOptions {
  std::uint16_t prefetch = 200;  // Unacknowledged messages at once, of each work queue.
  std::chrono::seconds heartbeat{10};
  std::size_t batch_max = 128;  // Hints handed over at once, at least kHintsMax.
  std::chrono::milliseconds check_interval{30'000};  // Between two looks whether the queues exist.
  Topology topology{};
};

class Consumer {
 public:
  // Nothing happens before start(). `deliver` gets what has arrived, in batches, on the consumer's
  // thread; it must not block for long. Messages that are no hints go to the dead-letter queue.
  // Connects, declares the topology, notices a deleted queue, and reconnects by itself, with
  // back-off, for ever.
  Consumer(const AmqpUrl& url,
           ConsumerOptions options,
           std::function<void(std::vector<Delivery>)> deliver);
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Starts the thread. Call once.
  void start();

  // Once per delivery. Thread-safe, never blocks.
  void ack(const Delivery& delivery);

  bool connected() const;

  // Sends the acks that wait, then closes, all up to `limit`. Unacknowledged messages go back to
  // the queue. May take up to 10 s more (plus name lookup) while a connection is being opened.
  void stop(std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace audiogen::queue
