// A broker that loses, doubles, delays and reorders hints, goes away and is wiped; and a process's
// side of it.
#pragma once

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

  // `prefetch`: unacknowledged messages at once.
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
  void purge() { ready_.clear(); }

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
  };

  void enqueue(Message message);
  void hand_out();

  Shared& shared_;
  bool away_ = false;
  std::uint64_t numbers_ = 0;
  std::deque<Message> ready_;
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
