// Sends hints to the broker with confirms, from memory, on a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "common/queue/amqp.h"

namespace audiogen::queue {

struct PublisherOptions {
  // Hints waiting in memory; more are dropped (the sweeper finds their tasks).
  std::size_t capacity = 200'000;
  // Unconfirmed messages at once, at most 4: under 16 KiB of bodies, which a broker that takes
  // nothing leaves in the socket's buffers (README.md, "A small window").
  std::size_t window = 4;
  // In one message, at most kHintsMax. Hints only wait for company while an earlier message is
  // unconfirmed (as Nagle's algorithm has it) or was sent less than `gather` ago, so messages grow
  // with load and nobody waits when idle. A message costs the broker a third of a millisecond and a
  // flush, whatever is in it.
  std::size_t hints_per_message = kHintsMax;
  std::chrono::milliseconds gather{5};
  std::chrono::seconds confirm_timeout{5};  // Then the connection is given up.
  std::chrono::seconds heartbeat{10};
  std::chrono::milliseconds redeclare_interval{30'000};  // At most, after a returned message.
  Topology topology{};
};

class Publisher {
 public:
  // `confirmed` gets hints the broker has taken over (a quorum holds them), in batches, on the
  // publisher's thread; it must not block. Connects, declares the topology and reconnects by
  // itself, with back-off, for ever. Hints whose fate is unknown when a connection breaks are sent
  // once more on the next one; refused and unroutable ones are left to the sweeper.
  Publisher(const AmqpUrl& url,
            PublisherOptions options,
            std::function<void(std::span<const Hint>)> confirmed);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // Thread-safe, never blocks. Returns how many were taken (less than given: memory is full).
  std::size_t submit(std::span<const Hint> hints);

  bool connected() const;
  // The broker takes nothing from anybody (no memory, no disk), as far as it has told this one,
  // which it does when something is sent.
  bool blocked() const;
  // Does the broker take hints over? Not while it is away, out of memory or disk, slower than 2 s,
  // or, for 5 s, after it refused one because the queue is full. Thread-safe, never blocks.
  bool flows() const;
  std::size_t waiting() const;  // In memory, sent or not, not yet confirmed.

  // Sends what waits, up to `limit`, then closes. What is left is found by the sweeper. May take
  // up to 10 s more (plus name lookup) while a connection is being opened. Call once.
  void stop(std::chrono::milliseconds limit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace audiogen::queue
