#include "api/operators/situation_watch.h"

#include <algorithm>
#include <future>
#include <system_error>
#include <utility>

#include "common/queue/amqp.h"
#include "common/store/session.h"
#include "common/store/situations.h"

namespace audiogen::api {
namespace {

using Clock = SituationWatch::Clock;

// Of the time. More of it the database is not asked for what only people look at.
constexpr int kParticularsRest = 400;
constexpr std::chrono::seconds kParticularsKept{30};
constexpr std::chrono::minutes kFailuresOf{60};
constexpr std::size_t kStuckTold = 50, kUsersTold = 10;

class Eyes {
 public:
  Eyes(const DatabaseUrl& database, AmqpUrl broker)
      : session_(database, store::kLooksPatience), broker_(std::move(broker)) {}

  std::optional<SituationWatch::Seen> look(const SituationWatch::Wanted& wanted) {
    const auto turn = wanted.monitors ? situations_.take_turn() : situations_.leave_turn();
    auto situation = situations_.look();
    if (!situation) {
      return std::nullopt;
    }
    SituationWatch::Seen out{.situation = *std::move(situation),
                             .tells_monitors = wanted.monitors && turn && *turn};
    if (out.tells_monitors || wanted.pages) {
      out.dead = dead();
    }
    if (wanted.pages) {
      out.particulars = particulars();
    }
    return out;
  }

 private:
  // Asks it seldom, as each time takes a connection, and beside the look: when the broker is away,
  // that takes some seconds, and just then somebody wants to know.
  std::optional<std::uint64_t> dead() {
    constexpr std::chrono::seconds kEvery{30}, kAnswers{5};
    using namespace std::chrono_literals;
    // What nobody has asked for since is of then, not of now.
    if (asked_at_ && Clock::now() - *asked_at_ > kEvery + kAnswers) {
      depth_.reset();
    }
    if (asked_.valid() && asked_.wait_for(0s) == std::future_status::ready) {
      const auto depth = asked_.get();
      depth_ = Clock::now() - *asked_at_ <= kEvery + kAnswers ? depth : std::nullopt;
    }
    if (!asked_.valid() && (!asked_at_ || Clock::now() - *asked_at_ >= kEvery)) {
      try {
        asked_ = std::async(std::launch::async, [this] { return queue::read_depth(broker_); });
        asked_at_ = Clock::now();
      } catch (const std::system_error&) {
        // Where there is no thread to be had it is not known, and asked for the next time.
      }
    }
    return depth_ ? std::optional(depth_->dead) : std::nullopt;
  }

  // With very many open tasks it rests, until it takes a four-hundredth of the time, or for 30 s.
  std::shared_ptr<const Particulars> particulars() {
    const auto now = Clock::now();
    if (particulars_again_ && now < *particulars_again_) {
      return particulars_;
    }
    auto stuck = operators_.stuck(kStuckTold);
    auto users = operators_.heaviest_users(kUsersTold);
    auto failed = minutes_.failures(kFailuresOf);
    const auto ended = Clock::now();
    particulars_again_ =
        ended + std::min<Clock::duration>((ended - now) * kParticularsRest, kParticularsKept);
    particulars_ = stuck && users && failed
                       ? std::make_shared<const Particulars>(
                             Particulars{*std::move(stuck), *std::move(users), *std::move(failed)})
                       : nullptr;
    return particulars_;
  }

  store::Session session_;
  store::Situations situations_{session_};
  store::Operators operators_{session_};
  store::ServiceMinutes minutes_{session_};
  const AmqpUrl broker_;
  std::optional<Clock::time_point> asked_at_;
  std::optional<queue::Depth> depth_;
  std::shared_ptr<const Particulars> particulars_;
  std::optional<Clock::time_point> particulars_again_;
  std::future<std::optional<queue::Depth>> asked_;  // Last: it uses broker_.
};

}  // namespace

SituationWatch::SituationWatch(const Config& config)
    : SituationWatch([database = config.database, broker = config.amqp]() -> Look {
        return [eyes = std::make_shared<Eyes>(database, broker)](const Wanted& wanted) {
          return eyes->look(wanted);
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

std::chrono::milliseconds SituationWatch::kept_for(Clock::duration took, const Options& options) {
  constexpr int kRests = 200;
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(took * kRests);
  return std::clamp(rest, std::min(options.least, options.kept), options.kept);
}

void SituationWatch::ask(Asks who, Answer answer) {
  std::shared_ptr<const Seen> seen;
  {
    const MutexLock lock(mutex_);
    const auto now = Clock::now();
    if (who == Asks::kMonitor) {
      monitor_asked_ = now;
    }
    if (who == Asks::kPage) {
      page_asked_ = now;
    }
    const bool enough =
        looked_ && now <= looked_->until && (looked_->for_pages || who != Asks::kPage);
    if (!stopping_ && !enough) {
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
    Wanted wanted;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock,
                    [this]() LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) {
        break;
      }
      const auto now = Clock::now();
      wanted = {.monitors = monitor_asked_ && now - *monitor_asked_ < options_.monitored,
                .pages = page_asked_ && now - *page_asked_ < options_.shown};
    }
    const auto began = Clock::now();
    auto found = look(wanted);
    const auto until = began + kept_for(Clock::now() - began, options_);
    const auto seen = found ? std::make_shared<const Seen>(*std::move(found)) : nullptr;
    std::vector<Answer> waiting;
    {
      const MutexLock lock(mutex_);
      looked_ = Looked{.seen = seen, .until = until, .for_pages = wanted.pages};
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
