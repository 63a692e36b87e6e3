#include "api/generations/lookout.h"

#include <algorithm>
#include <utility>

#include "common/base/rest.h"
#include "common/store/queue_figures.h"
#include "common/store/session.h"

namespace audiogen::api {
namespace {

constexpr store::SessionOptions kPatience{.read_timeout = std::chrono::seconds(4),
                                          .statement_max = std::chrono::seconds(3),
                                          .lock_wait = std::chrono::seconds(0)};

Lookout::Look look_by(const DatabaseUrl& url) {
  struct Eyes {
    explicit Eyes(const DatabaseUrl& database) : session(database, kPatience) {}
    store::Session session;
    store::QueueFigures figures{session};
  };
  return [eyes = std::make_shared<Eyes>(url)]() -> std::optional<QueueSample> {
    auto sample = eyes->figures.sample();
    return sample ? std::optional(*std::move(sample)) : std::nullopt;
  };
}

}  // namespace

Lookout::Lookout(const Config& config)
    : Lookout([url = config.database] { return look_by(url); }) {}

Lookout::Lookout(std::function<Look()> make, Options options)
    : options_(options),
      thread_([this, make = std::move(make)](const std::stop_token& stop) { work(stop, make); }) {}

std::shared_ptr<const Lookout::Seen> Lookout::seen() const {
  asked_.store(true, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  return seen_ && Clock::now() - seen_->taken <= options_.kept ? seen_ : nullptr;
}

Prospect Lookout::of(const TaskView& task) const {
  if (const auto seen = this->seen()) {
    // What was put back is due by the clock that said when.
    const auto passed =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - seen->taken);
    return seen->outlook.of(task, seen->at + passed);
  }
  return Outlook().of(task, local_now());
}

std::optional<Spread> Lookout::start_in(Lane lane) const {
  const auto seen = this->seen();
  return seen ? seen->outlook.start_in(lane) : std::nullopt;
}

std::chrono::milliseconds Lookout::rest_after(Clock::duration took, const Options& options) {
  constexpr int kRests = 100;
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(took * kRests);
  return std::clamp(rest, options.asked, std::max(options.asked, options.kept / 3));
}

void Lookout::work(const std::stop_token& stop, const std::function<Look()>& make) {
  const Look look = make();
  auto asked_at = Clock::now(), looked_at = asked_at - options_.unasked;
  auto rest = options_.asked;
  do {
    rest = options_.asked;
    const auto now = Clock::now();
    if (asked_.exchange(false, std::memory_order_relaxed)) {
      asked_at = now;
    }
    if (now - asked_at > options_.unasked && now - looked_at < options_.unasked) {
      continue;
    }
    auto sample = look();
    looked_at = Clock::now();
    rest = rest_after(looked_at - now, options_);
    if (sample) {
      const Instant at = sample->at;
      auto next = std::make_shared<const Seen>(Seen{Outlook(*std::move(sample)), at, looked_at});
      const MutexLock lock(mutex_);
      seen_.swap(next);
    }
  } while (!stopped_within(stop, rest));
}

}  // namespace audiogen::api
