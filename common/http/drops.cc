#include "common/http/drops.h"

#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::http {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"silent",
                                                     "evicted_idle",
                                                     "evicted_head",
                                                     "evicted_stalled",
                                                     "refused_address",
                                                     "refused_full",
                                                     "no_descriptor",
                                                     "body_budget",
                                                     "answer_budget",
                                                     "slow_reader"};

}  // namespace

Drops::Drops(std::string server) : server_(std::move(server)) {
  static_assert(kNames.size() == kKinds);
  for (std::size_t i = 0; i < kKinds; ++i) {
    counters_[i] = &metrics::counter("http_connections_dropped_total",
                                     "Connections ended or refused for want of room or of bytes",
                                     {{"server", server_}, {"kind", std::string(kNames[i])}});
  }
}

void Drops::count(Drop kind, const IpAddress& address) {
  const auto index = static_cast<std::size_t>(kind);
  counters_[index]->Increment();
  {
    const MutexLock lock(mutex_);
    ++untold_[index];
    any_untold_ = true;
    last_ = address;
  }
  tell();
}

void Drops::tell() {
  std::string kinds;
  std::string address;
  {
    const MutexLock lock(mutex_);
    if (!any_untold_ || !line_.due()) {
      return;
    }
    for (std::size_t i = 0; i < kKinds; ++i) {
      if (const std::uint64_t count = std::exchange(untold_[i], 0); count > 0) {
        kinds += (kinds.empty() ? "" : ", ") + std::string(kNames[i]) + " " + std::to_string(count);
      }
    }
    any_untold_ = false;
    address = last_.text();
  }
  log::warn("connections dropped",
            {{"server", server_}, {"kinds", kinds}, {"last_address", address}});
}

}  // namespace audiogen::http
