#include "api/server/security_events.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::api {
namespace {

constexpr std::chrono::seconds kLogEvery{1};
constexpr std::array kEventNames = {
    "unauthorized", "forbidden", "too_many_requests", "range_refused", "operator_token"};

prometheus::Counter& counter(SecurityEvent event) {
  static const auto all = [] {
    std::array<prometheus::Counter*, kEventNames.size()> out{};
    for (std::size_t i = 0; i < kEventNames.size(); ++i) {
      out[i] = &metrics::counter(
          "api_security_events_total",
          "Refused: no valid key, no right, too many requests or connections, bad ranges, wrong "
          "tokens of operators",
          {{"kind", kEventNames[i]}});
    }
    return out;
  }();
  return *all[static_cast<std::size_t>(event)];
}

// In the order of Limit.
const std::array rate_limited = [] {
  std::array<prometheus::Counter*, 8> out{};
  const std::array classes = {
      "create", "read", "manage", "file", "sign_in", "unknown_key", "guess", "mail"};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out.at(i) = &metrics::counter("rate_limited_total",
                                  "Requests refused because so many came before them",
                                  {{"class", classes.at(i)}});
  }
  return out;
}();

}  // namespace

void count_limited(Limit limit) {
  rate_limited.at(static_cast<std::size_t>(limit))->Increment();
}

std::optional<SecurityEvent> security_event_of(int status) {
  switch (status) {
    case 401:
      return SecurityEvent::kUnauthorized;
    case 403:
      return SecurityEvent::kForbidden;
    case 416:
      return SecurityEvent::kRangeRefused;
    case 429:
      return SecurityEvent::kTooManyRequests;
    default:
      return std::nullopt;
  }
}

// The log is there before the process's instance, so it is still there when that one's thread ends.
SecurityEvents::SecurityEvents() {
  static_cast<void>(log::enabled(log::Level::kInfo));
}

SecurityEvents& SecurityEvents::instance() {
  static SecurityEvents events;
  return events;
}

SecurityEvents::~SecurityEvents() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SecurityEvents::note(SecurityEvent event, const IpAddress& client) {
  counter(event).Increment();
  bool first = false;
  {
    const MutexLock lock(mutex_);
    ++counts_[static_cast<std::size_t>(event)];
    first = !std::exchange(any_, true);
    if (first) {
      example_ = client.text();
    }
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { run(); });
      } catch (const std::system_error&) {
        // It is counted; the line waits for a thread.
      }
    }
  }
  if (first) {
    changed_.notify_all();
  }
}

void reply_refused(const http::Exchange& exchange, http::Response&& response) {
  if (const auto event = security_event_of(response.status)) {
    SecurityEvents::instance().note(*event, exchange.request().client);
  }
  exchange.reply(std::move(response));
}

void SecurityEvents::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&]() LOCKS_REQUIRED(mutex_) { return any_ || stopping_; });
    if (any_) {
      write_line();
    }
    if (stopping_) {
      return;
    }
    // What comes meanwhile is summed up in the next line.
    changed_.wait_for(lock, kLogEvery, [&]() LOCKS_REQUIRED(mutex_) { return stopping_; });
  }
}

void SecurityEvents::write_line() {
  static_assert(kEventNames.size() == kKinds && kKinds == 5);  // All are in the line.
  const auto counts = std::exchange(counts_, {});
  const std::string example = std::exchange(example_, {});
  any_ = false;
  const MutexUnlock unlocked(mutex_);
  log::warn("requests refused",
            {{kEventNames[0], counts[0]},
             {kEventNames[1], counts[1]},
             {kEventNames[2], counts[2]},
             {kEventNames[3], counts[3]},
             {kEventNames[4], counts[4]},
             {"example_address", example}});
}

}  // namespace audiogen::api
