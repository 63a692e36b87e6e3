#include "worker/upkeep/share_out.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace audiogen::worker {

void share_out(std::size_t count,
               std::size_t threads,
               const std::stop_token& stop,
               const std::function<bool(std::size_t)>& one) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> ends{false};
  const auto work = [&] {
    for (std::size_t i = 0; !ends && !stop.stop_requested() && (i = next.fetch_add(1)) < count;) {
      if (!one(i)) {
        ends = true;
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min(threads, count); ++i) {
    helpers.emplace_back(work);
  }
  work();
}

}  // namespace audiogen::worker
