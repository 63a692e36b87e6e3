// How the service stands, for everybody who asks this process: one look at the database for all of
// them, at most about one a second, and none while nobody asks. So any number of viewers cost
// what one does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/situation.h"
#include "common/store/operators.h"
#include "common/store/service_minutes.h"

namespace audiogen::api {

// What only people look at, and what costs more than the rest of a look. Looked at as often, as
// long as it costs little; as of stuck.at.
struct Particulars {
  store::Stuck stuck{};
  std::vector<store::HeavyUser> users{};  // Heaviest first.
  store::MinutesFailed failed{};          // Of the last hour, as far as it is written.
};

class SituationWatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    Situation situation{};
    // It is this process that tells monitors, and no other.
    bool tells_monitors = false;
    // Of that one, and for pages: messages that nobody could read, as the broker had them half a
    // minute ago at most. Nullopt: it did not tell, or not yet.
    std::optional<std::uint64_t> dead{};
    // For pages. Null: nobody asked for it lately, or the database did not tell.
    std::shared_ptr<const Particulars> particulars{};
  };
  // Who has asked this process lately.
  struct Wanted {
    bool monitors = false, pages = false;
  };
  // Both block. Nullopt: the database does not tell.
  using Look = std::function<std::optional<Seen>(const Wanted&)>;
  // Null: it does not tell.
  using Answer = std::function<void(std::shared_ptr<const Seen>)>;
  enum class Asks { kPeople, kMonitor, kPage };
  struct Options {
    // What was seen so long ago, or was not told then, is good enough: `least`, so that a page,
    // which asks once a second, shows nothing that is older than two; longer where a look costs
    // much, but what is told is never older than `kept`.
    std::chrono::milliseconds least{900}, kept{2'000};
    // A monitor that has not asked for so long asks no more.
    std::chrono::milliseconds monitored{120'000};
    // The same of a page.
    std::chrono::milliseconds shown{15'000};
  };

  // `make` makes what looks, on the thread that will.
  explicit SituationWatch(std::function<Look()> make, Options options);
  explicit SituationWatch(std::function<Look()> make)
      : SituationWatch(std::move(make), Options()) {}
  explicit SituationWatch(const Config& config);
  ~SituationWatch() { stop(); }
  SituationWatch(const SituationWatch&) = delete;
  SituationWatch& operator=(const SituationWatch&) = delete;

  // `answer` is called once, here or on the thread that looks; it must not block. Any thread, never
  // blocks.
  void ask(Asks who, Answer answer);

  // For how long what a look brought is good enough that took so long: looks take a two-hundredth
  // of the time, as far as that can be. Pure.
  static std::chrono::milliseconds kept_for(Clock::duration took, const Options& options);

  // Waits for a look under way. Whoever waits, and asks from now on, is told nothing.
  void stop();

 private:
  struct Looked {
    std::shared_ptr<const Seen> seen;  // Null: the database did not tell.
    Clock::time_point until;           // It is good enough.
    bool for_pages = false;
  };

  void work(const std::function<Look()>& make);

  const Options options_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Answer> waiting_ GUARDED_BY(mutex_);
  std::optional<Looked> looked_ GUARDED_BY(mutex_);
  std::optional<Clock::time_point> monitor_asked_ GUARDED_BY(mutex_), page_asked_
      GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace audiogen::api
