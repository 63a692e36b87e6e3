// What one route of a server was asked and how it was answered, for /metrics.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/metrics.h"

namespace audiogen::http {

// Of requests that lead to no route.
inline constexpr const char* kNoRoute = "none";

// Counts are one atomic addition each, but for the first one of a method and a status.
class RequestMeter {
 public:
  // The one of this route, which is a pattern: no more of them than a program has. Lives as long as
  // the process. Thread-safe, takes a lock: for the start of the program.
  static RequestMeter& of(const std::string& route);

  explicit RequestMeter(std::string route);
  RequestMeter(const RequestMeter&) = delete;
  RequestMeter& operator=(const RequestMeter&) = delete;

  // So that its first 503 is seen as a change.
  void expect(std::string_view method) { of(method, 503); }
  // Any thread, never throws.
  void count(std::string_view method, int status) noexcept;
  // How many requests of `method`, one of HTTP's own, were answered so far; with `status`, with it.
  // Counts that others are adding to may be missing. Never blocks.
  std::uint64_t answered(std::string_view method) const;
  std::uint64_t answered(std::string_view method, int status) const;
  void took(std::chrono::duration<double> time) noexcept { times_.observe(time.count()); }

 private:
  static constexpr std::size_t kMethods = 8, kStatuses = 18;

  prometheus::Counter& of(std::string_view method, int status);

  const std::string route_;
  metrics::Histogram& times_;
  std::array<std::array<std::atomic<prometheus::Counter*>, kStatuses>, kMethods> counters_{};
};

}  // namespace audiogen::http
