#include "worker/usage_roller.h"

#include <chrono>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/occasionally.h"

namespace audiogen::worker {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kEvery{5};
// Nothing here waits for a lock, and nobody waits for it: a step over rows that are not in memory
// may take its time, and one that was given up would only be begun again.
constexpr store::SessionOptions kNeverWaits{.read_timeout = std::chrono::seconds(25),
                                            .statement_max = std::chrono::seconds(20),
                                            .lock_wait = std::chrono::seconds(0)};

}  // namespace

UsageRoller::UsageRoller(const Config& config)
    : thread_([this, url = config.database] { run(url); }) {}

void UsageRoller::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool UsageRoller::pass(store::Usage& usage, std::unique_lock<std::mutex>& lock) {
  static auto& taken =
      metrics::counter("usage_entries_total", "Ledger entries that were added to usage");
  bool more = false;
  std::optional<UserId> after;
  do {
    lock.unlock();
    const auto began = steady_clock::now();
    const auto rolled = usage.roll_up(after);
    const auto took = steady_clock::now() - began;
    lock.lock();
    if (!rolled) {
      static Occasionally line;
      if (line.due()) {
        log::warn("usage cannot be rolled up", {{"reason", rolled.error().detail}});
      }
      return false;
    }
    taken.Increment(static_cast<double>(rolled->entries));
    more = more || rolled->more;
    after = rolled->next;
    // It has the database for half of the time at most, whether there is much to take in or only
    // very many users to look at.
    changed_.wait_for(lock, took, [this] { return stopping_; });
  } while (after && !stopping_);
  return more;
}

void UsageRoller::run(const DatabaseUrl& url) {
  store::Session session(url, kNeverWaits);
  store::Usage usage(session);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!pass(usage, lock)) {
      changed_.wait_for(lock, kEvery, [this] { return stopping_; });
    }
  }
}

}  // namespace audiogen::worker
