// Opens connections again and again: back-off, log lines and metrics of being connected.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include "common/queue/connection.h"

namespace audiogen::queue {

class Dialer {
 public:
  // `role` names the user of the connections in logs and metrics.
  Dialer(const AmqpUrl& url,
         const Topology& topology,
         const Connection::Options& options,
         std::string role);

  // Tries once; blocks as Connection::open does. Null: try again after delay().
  std::unique_ptr<Connection> dial();

  // To be called when a connection from dial() is given up.
  void lost(std::string_view why);
  // The same after an end both sides agreed on.
  void closed();

  // How long to wait before the next dial(): 0.1 to 5 s, more with every failure in a row.
  std::chrono::milliseconds delay();

 private:
  using Clock = std::chrono::steady_clock;

  const AmqpUrl url_;
  const Topology topology_;
  const Connection::Options options_;
  const std::string role_;
  prometheus::Gauge& connected_;
  prometheus::Counter& reconnects_;
  std::mt19937 random_{std::random_device{}()};

  int failures_ = 0;  // In a row: failed dials and connections that did not last.
  bool ever_connected_ = false;
  struct Logged {
    std::string why;
    Clock::time_point at;
  };
  std::optional<Clock::time_point> since_;  // Of the present connection.
  std::optional<Logged> logged_;  // The failure that was logged last, since the last success.
};

}  // namespace audiogen::queue
