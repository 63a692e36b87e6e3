// HTTP load from one thread: closed loop (as fast as the answers come) or open loop (at a constant
// rate, whatever the server does; latency counts from the moment a request was due, so a stall is
// charged to everybody it would have kept waiting). Clients of an open loop give up: a request that
// could not be sent within a second, because all connections waited for answers, is never sent.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen::bench {

// Latencies in buckets 1.6 % wide, from 1 us to an hour.
class Histogram {
 public:
  void record(std::chrono::nanoseconds latency);
  void add(const Histogram& other);
  // In milliseconds, the upper end of the bucket; 0 when empty.
  double quantile(double q) const;
  std::uint64_t count() const { return count_; }

 private:
  static constexpr int kSubBits = 6;
  std::array<std::uint64_t, std::size_t{32} << kSubBits> buckets_{};
  std::uint64_t count_ = 0;
};

struct LoadOptions {
  std::uint16_t port = 0;  // On 127.0.0.1.
  std::size_t connections = 64;
  double rate = 0;  // Requests a second; 0: closed loop.
  double seconds = 1;
  // Seconds before that in which the load runs and nothing is counted, and what to call then.
  double warm_up = 0;
  std::function<void()> warm{};
  // Never sleeps: like one on another machine, the load costs the service no wake-ups.
  bool spin = false;
};

// What answers of one kind of request came to. Kinds are the caller's.
struct Tally {
  Histogram latency;              // Of answers below 500.
  std::uint64_t good = 0;         // Below 400.
  std::uint64_t good_before = 0;  // The same, due in the warm-up.
  std::map<int, std::uint64_t> statuses;
  std::uint64_t refused() const;  // For overload: 503.
};

struct LoadResult {
  std::vector<Tally> kinds;
  // Connections lost in the middle of a request (they are opened again), and requests without an
  // answer at the end.
  std::uint64_t broken = 0;
  // Open loop: sent after they were due, or never, because no connection was free.
  std::uint64_t late = 0, not_sent = 0;
  double seconds = 0;
  Tally all() const;
  double good_per_second() const;
};

// A whole request as it goes on the wire, kept alive by the caller until the next call for the same
// connection.
struct Shot {
  std::string_view bytes;
  std::size_t kind = 0;
};

class Aim {
 public:
  virtual ~Aim() = default;
  virtual Shot next(std::size_t connection) = 0;
  virtual void answered(std::size_t connection, int status, std::string_view body) = 0;
};

// Blocks for about `seconds`, and until the last answers are there (at most 10 s more).
LoadResult run_load(const LoadOptions& options, Aim& aim);

}  // namespace audiogen::bench
