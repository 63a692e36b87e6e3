#include "api/operators/situation_watch.h"

#include <utility>

#include "common/queue/amqp.h"
#include "common/store/session.h"
#include "common/store/situations.h"

namespace audiogen::api {
namespace {

using Clock = SituationWatch::Clock;

class Eyes {
 public:
  Eyes(const DatabaseUrl& database, AmqpUrl broker)
      : session_(database, store::kLooksPatience), broker_(std::move(broker)) {}

  std::optional<SituationWatch::Seen> look(bool monitored) {
    const auto turn = monitored ? situations_.take_turn() : situations_.leave_turn();
    auto situation = situations_.look();
    if (!situation) {
      return std::nullopt;
    }
    SituationWatch::Seen out{.situation = *std::move(situation),
                             .tells_monitors = monitored && turn && *turn};
    if (out.tells_monitors) {
      out.dead = dead();
    }
    return out;
  }

 private:
  // Asks it seldom: each time that takes a connection, and some seconds when it is away.
  std::optional<std::uint64_t> dead() {
    constexpr std::chrono::seconds kEvery{30};
    if (!asked_at_ || Clock::now() - *asked_at_ >= kEvery) {
      asked_at_ = Clock::now();
      depth_ = queue::read_depth(broker_);
    }
    return depth_ ? std::optional(depth_->dead) : std::nullopt;
  }

  store::Session session_;
  store::Situations situations_{session_};
  const AmqpUrl broker_;
  std::optional<Clock::time_point> asked_at_;
  std::optional<queue::Depth> depth_;
};

}  // namespace

SituationWatch::SituationWatch(const Config& config)
    : SituationWatch([database = config.database, broker = config.amqp]() -> Look {
        return [eyes = std::make_shared<Eyes>(database, broker)](bool monitored) {
          return eyes->look(monitored);
        };
      }) {}

SituationWatch::SituationWatch(std::function<Look()> make, Options options)
    : options_(options), thread_([this, make = std::move(make)] { work(make); }) {}

void SituationWatch::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SituationWatch::ask(Asks who, Answer answer) {
  std::shared_ptr<const Seen> seen;
  {
    const MutexLock lock(mutex_);
    const auto now = Clock::now();
    if (who == Asks::kMonitor) {
      monitor_asked_ = now;
    }
    if (!stopping_ && (!looked_ || now - looked_->at > options_.kept)) {
      waiting_.push_back(std::move(answer));
      changed_.notify_all();
      return;
    }
    seen = stopping_ ? nullptr : looked_->seen;
  }
  answer(std::move(seen));
}

void SituationWatch::work(const std::function<Look()>& make) {
  const Look look = make();
  for (;;) {
    bool monitored = false;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock,
                    [this]() LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) {
        break;
      }
      monitored = monitor_asked_ && Clock::now() - *monitor_asked_ < options_.monitored;
    }
    const auto began = Clock::now();
    auto found = look(monitored);
    const auto seen = found ? std::make_shared<const Seen>(*std::move(found)) : nullptr;
    std::vector<Answer> waiting;
    {
      const MutexLock lock(mutex_);
      looked_ = Looked{.seen = seen, .at = began};
      waiting.swap(waiting_);
    }
    for (const Answer& answer : waiting) {
      answer(seen);
    }
  }
  std::vector<Answer> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const Answer& answer : waiting) {
    answer(nullptr);
  }
}

}  // namespace audiogen::api
