#include "api/publishing.h"

#include <array>

#include "common/base/log.h"

namespace audiogen::api {
namespace {

// A task claimed within this time needs no mark at all: in the steady state nearly none does.
constexpr auto kMarkAfter = std::chrono::seconds(5);
// A confirmed hint that still waits after this long may have been lost by the broker.
constexpr auto kLookAgain = std::chrono::seconds(120);
constexpr std::size_t kMarkBatch = 500;

}  // namespace

TaskPublisher::TaskPublisher(const Config& config)
    : publisher_(config.amqp,
                 {},
                 [this](std::span<const Hint> hints) {
                   Confirmed confirmed{.at = std::chrono::steady_clock::now(), .tasks = {}};
                   confirmed.tasks.reserve(hints.size());
                   for (const Hint& hint : hints) {
                     confirmed.tasks.push_back(hint.task);
                   }
                   const std::scoped_lock lock(mutex_);
                   confirmed_.push_back(std::move(confirmed));
                 }),
      marker_([this, url = config.database] { mark(url); }) {}

TaskPublisher::~TaskPublisher() {
  stop(std::chrono::milliseconds(0));
}

void TaskPublisher::publish(TaskId task) {
  const std::array<Hint, 1> hint = {Hint{.task = task, .epoch = 0}};
  if (publisher_.submit(hint) == 0) {
    log::debug("hint not queued", {{"task_id", task}});
  }
}

void TaskPublisher::mark(const DatabaseUrl& url) {
  store::TaskStore store(url);
  std::vector<TaskId> due;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_; });
      if (stopping_) {
        return;
      }
      const auto now = std::chrono::steady_clock::now();
      while (!confirmed_.empty() && now - confirmed_.front().at > kMarkAfter) {
        due.insert(due.end(), confirmed_.front().tasks.begin(), confirmed_.front().tasks.end());
        confirmed_.pop_front();
      }
    }
    for (std::size_t from = 0; from < due.size(); from += kMarkBatch) {
      const std::span<const TaskId> batch =
          std::span(due).subspan(from, std::min(kMarkBatch, due.size() - from));
      if (!store.mark_published(batch, kLookAgain)) {
        break;  // The database is away. Unmarked tasks are sent once more: harmless.
      }
    }
    due.clear();
  }
}

void TaskPublisher::stop(std::chrono::milliseconds limit) {
  publisher_.stop(limit);
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (marker_.joinable()) {
    marker_.join();
  }
}

}  // namespace audiogen::api
