#include "api/generations/publishing.h"

#include <array>

#include "common/base/log.h"

namespace audiogen::api {
namespace {

// Well before the sweeper's first look at a task (kFirstLook).
constexpr auto kReportEvery = std::chrono::seconds(2);
// By then the sweeper has looked at a task whose hint was not confirmed.
constexpr auto kWaitMax = std::chrono::seconds(60);

}  // namespace

prometheus::Counter& paused_creations() {
  static prometheus::Counter& out =
      metrics::counter("creations_paused_total", "Creations refused while an operator paused them");
  return out;
}

TaskPublisher::TaskPublisher(const Config& config,
                             ApiId id,
                             std::vector<const http::RequestMeter*> creations)
    : id_(id),
      creations_(std::move(creations)),
      store_(config.database),
      publisher_(config.amqp, {}, [this](std::span<const Hint> hints) {
        const MutexLock lock(mutex_);
        for (const Hint& hint : hints) {
          unsent_.settled(hint.task);
        }
      }) {
  // Before the first task, so that the sweeper never takes another process's word for it.
  report();
  reporter_ = std::thread([this] { keep_reporting(); });
}

TaskPublisher::~TaskPublisher() {
  stop(std::chrono::milliseconds(0));
}

void TaskPublisher::expect(TaskId task) {
  const MutexLock lock(mutex_);
  unsent_.expect(task);
}

void TaskPublisher::publish(TaskId task, Lane lane, const Trail& trail) {
  const bool parked = lane == Lane::kParked;
  if (log::enabled(log::Level::kDebug)) {
    // Before it is: by then a worker may have written more.
    log::debug(parked ? "task parked" : "task hinted", about(task, trail));
  }
  if (parked) {
    forget(task);
    return;
  }
  const std::array<Hint, 1> hint = {Hint{.task = task, .epoch = 0, .lane = lane}};
  if (publisher_.submit(hint) == 0) {
    log::debug("hint not queued", about(task, trail));
  }
}

void TaskPublisher::forget(TaskId task) {
  const MutexLock lock(mutex_);
  unsent_.settled(task);
}

bool TaskPublisher::report() {
  TaskId from;
  bool all_sent = false;
  {
    const MutexLock lock(mutex_);
    const Instant now = local_now();  // By the clock that makes ids.
    unsent_.forget(now - kWaitMax);
    from = unsent_.from(now);
    all_sent = unsent_.empty();
  }
  // In this order: each counts all of the one before, whatever comes meanwhile.
  std::uint64_t refused = 0, answered = 0;
  for (const http::RequestMeter* const route : creations_) {
    refused += route->answered("POST", 503);
  }
  for (const http::RequestMeter* const route : creations_) {
    answered += route->answered("POST");
  }
  const std::uint64_t paused =
      std::min(static_cast<std::uint64_t>(paused_creations().Value()), refused);
  const CreationCount last_minute = refusals_.look(
      Refusals::Clock::now(), {.answered = answered - paused, .refused = refused - paused});
  // Without a report more tasks than necessary are looked at.
  static_cast<void>(store_.report_api(id_, from, last_minute));
  return all_sent;
}

void TaskPublisher::keep_reporting() {
  for (bool last = false; !last;) {
    {
      MutexLock lock(mutex_);
      last =
          changed_.wait_for(lock, kReportEvery, [&]() LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
    if (report() && last) {
      static_cast<void>(store_.report_api_ended(id_));
    }
  }
}

void TaskPublisher::stop(std::chrono::milliseconds limit) {
  publisher_.stop(limit);
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (reporter_.joinable()) {
    reporter_.join();
  }
}

}  // namespace audiogen::api
