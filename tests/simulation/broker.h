// A broker that loses, doubles, delays and reorders hints, goes away and is wiped; and a process's
// side of it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "common/domain/task.h"
#include "tests/simulation/shared.h"

namespace audiogen::simulation {

struct Delivery {
  Hint hint;
  std::uint64_t message = 0;  // 0: it came from elsewhere.
};

class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual Process& process() = 0;
  virtual void deliver(const Delivery& delivery) = 0;
};

class Broker {
 public:
  explicit Broker(Shared& shared) : shared_(shared) {}
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // `prefetch`: unacknowledged messages at once, of each work queue.
  void consume(Consumer& consumer, std::size_t prefetch);
  // What it has not acknowledged goes to others.
  void leave(Consumer& consumer);
  void ack(Consumer& consumer, std::uint64_t message);
  bool connected() const { return !away_; }

  enum class Fate { kTaken, kRefused, kUnknown };
  // A message has arrived.
  Fate publish(const Hint& hint);

  void go_away(bool wiped);
  void come_back();
  void purge() { ready_ = {}; }

 private:
  struct Message {
    Hint hint;
    std::uint64_t number = 0;
    int deliveries = 0;
  };
  struct Link {
    Consumer* consumer;
    std::size_t prefetch;
    std::map<std::uint64_t, Message> unacked;
    std::array<std::size_t, 2> counts{};  // Of these, by queue.
  };
  using Queue = std::deque<Message>;

  // The work queues: bulk and express.
  static std::size_t queue_of(const Hint& hint) { return hint.lane == Lane::kExpress ? 1 : 0; }
  void enqueue(Message message);
  void put_back(Link& link);
  void hand_out();
  void hand_out(std::size_t queue);

  Shared& shared_;
  bool away_ = false;
  std::uint64_t numbers_ = 0;
  std::array<Queue, 2> ready_;
  std::vector<Link> links_;
};

// Sends hints from memory, with confirms (common/queue/publisher.h).
class Publisher {
 public:
  Publisher(Shared& shared,
            Broker& broker,
            Process& client,
            std::function<void(const Hint&)> confirmed)
      : shared_(shared), broker_(broker), client_(client), confirmed_(std::move(confirmed)) {}
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  void submit(std::span<const Hint> hints);
  bool flows() const { return broker_.connected(); }

 private:
  void send(const Hint& hint, bool repeated);

  Shared& shared_;
  Broker& broker_;
  Process& client_;
  const std::function<void(const Hint&)> confirmed_;
};

}  // namespace audiogen::simulation
