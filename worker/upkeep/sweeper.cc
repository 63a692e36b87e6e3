#include "worker/upkeep/sweeper.h"

#include <chrono>

#include <unistd.h>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::worker {
namespace {

using std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr auto kReportEvery = std::chrono::seconds(5);
constexpr std::size_t kLookBatch = 200;  // Keeps each transaction short.

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace

Sweeper::Sweeper(const Config& config,
                 WorkerId worker,
                 queue::Publisher& publisher,
                 std::function<std::size_t(std::span<const Hint>)> take,
                 std::function<WorkerReport()> report)
    : worker_(worker),
      publisher_(publisher),
      take_(std::move(take)),
      report_(std::move(report)),
      thread_([this, url = config.database] { run(url); }) {}

void Sweeper::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool Sweeper::sweep_once(store::TaskStore& store) {
  static auto& found = metrics::counter("sweeper_found_total", "Ready tasks the sweeper found");
  static auto& reaped =
      metrics::counter("sweeper_reaped_total", "Tasks put back after a lost lease");
  static auto& expired =
      metrics::counter("sweeper_expired_total", "Tasks failed at their deadline");
  const auto swept = store.sweep(kLookBatch);
  if (!swept) {
    return false;
  }
  const std::span<const Hint> ready = swept->publish;
  const std::size_t taken = take_(ready);
  publisher_.submit(ready.subspan(taken));
  found.Increment(static_cast<double>(ready.size()));
  reaped.Increment(static_cast<double>(swept->reaped));
  expired.Increment(static_cast<double>(swept->expired));
  if (swept->reaped + swept->expired + swept->exhausted > 0) {
    log::warn(
        "sweeper ended or put back tasks",
        {{"reaped", swept->reaped}, {"expired", swept->expired}, {"exhausted", swept->exhausted}});
  }
  return swept->more;
}

void Sweeper::run(const DatabaseUrl& url) {
  store::TaskStore store(url);
  const std::string host = host_name();
  auto next_report = steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const auto now = steady_clock::now();
    if (now >= next_report) {
      const WorkerReport report = report_();
      static_cast<void>(
          store.report_worker(worker_, host, ::getpid(), report.in_flight, report.status_json));
      next_report = now + kReportEvery;
    }
    const bool more = sweep_once(store);
    lock.lock();
    if (!more) {
      changed_.wait_for(lock, kLookEvery, [&] { return stopping_; });
    }
  }
  lock.unlock();
  static_cast<void>(store.report_worker_ended(worker_));  // Only for people.
}

}  // namespace audiogen::worker
