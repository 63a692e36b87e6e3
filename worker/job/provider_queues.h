// Hints of tasks whose provider has no opening just now, each in the queue of its provider: so they
// keep nobody waiting whose provider has one. Whose turn it is within a queue is as everywhere
// (Waiting). Nothing is written of them: their rows are as they were, for any worker to take. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/domain/shares.h"
#include "common/domain/task.h"
#include "common/domain/waiting.h"
#include "worker/chain/chain.h"

namespace audiogen::worker {

class ProviderQueues {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Of all together. With as many nothing else is looked at, as it may be for the same provider.
  static constexpr std::size_t kMost = 20'000;
  // What has just been looked at is not looked at anew within this time, however often a breaker
  // opens and closes.
  static constexpr std::chrono::seconds kRest{5};

  bool empty() const { return known_.empty(); }
  bool full() const { return known_.size() >= kMost; }
  std::size_t size() const { return known_.size(); }
  bool has(const Hint& hint) const;
  std::vector<TaskId> tasks() const;

  // A task with so much time left waits for this provider, as seen `now`; after an eighth of that
  // it is to be looked at anew: another may have it then, and what is over must not stay. One that
  // is there already keeps its turn; a newer hint of a task takes the place of the older. `tried`:
  // somebody was called for it before. `sooner`: those before this provider that could have it, if
  // they had openings, as bits.
  struct Arrival {
    std::uint64_t number = 0;  // By which it has its turn, wherever it waits; 0: it has just come.
    bool first = false;        // It was heard of here first.
  };
  struct Seen {
    Time now;
    std::chrono::milliseconds left;
    Positions sooner = 0;
    Arrival arrival{};
  };
  void add(Position provider, const Hint& hint, bool tried, const Seen& seen);
  // What was taken from this provider's queue has no turn after all, but the next; `tried` and
  // Seen::arrival as it was taken.
  void put_back(Position provider, const Hint& hint, bool tried, const Seen& seen);
  // Its row is somebody's for a moment: it stays where it is, and is looked at anew in a second.
  // False: it does not wait here.
  bool look_later(const Hint& hint, Time now);
  // It waits no more.
  void drop(const Hint& hint);
  // Another may have those that wait for one of these: they are to be looked at anew, soon.
  void look_at_all(Positions providers, Time now);
  // Where nobody waits for a provider that has openings, some of those that wait for later ones,
  // and that it could have, are to be looked at anew. A breaker is closed by a probe, which
  // somebody has to make; and who went on because a line was long is not left there once it is
  // gone.
  template <class Openings>
  void invite(std::size_t providers, const Openings& openings, Time now) {
    if (known_.empty() || now < invites_at_) {
      return;
    }
    invites_at_ = now + kInvitesEvery;
    std::vector<std::size_t> wanted(providers, 0);
    Positions any = 0;
    for (Position i = 0; i < providers; ++i) {
      const auto found = queues_.find(i);
      if (found == queues_.end() || found->second.waiting.empty()) {
        wanted[i] = kInvited * openings(i);
        any |= wanted[i] > 0 ? bit_of(i) : 0;
      }
    }
    if (any != 0) {
      invite(wanted, any, now);
    }
  }

  struct Taken {
    Hint hint;
    Position provider;
    Arrival arrival{};
    bool tried = false;
  };
  // Takes the one whose turn it is, of those whose provider has an opening, when `reserve(lane)`
  // has got it a place; providers take turns. `openings(provider)`: how many it has, what was taken
  // from here and is not judged yet not counted.
  template <class Openings, class Reserve>
  std::optional<Taken> next(const Room& room, const Openings& openings, const Reserve& reserve) {
    auto at = queues_.lower_bound(next_);
    for (std::size_t seen = 0; seen < queues_.size(); ++seen, ++at) {
      at = at == queues_.end() ? queues_.begin() : at;
      auto& [provider, queue] = *at;
      const std::size_t open = queue.waiting.empty() ? 0 : openings(provider);
      if (open == 0 || open + queue.in_vain <= queue.unjudged) {
        continue;
      }
      if (const auto entry = queue.waiting.next(room, reserve)) {
        ++queue.unjudged;
        ++queue.tasks[entry->hint.task];
        next_ = provider + 1;
        const auto known = known_.find(entry->hint.task);
        const Taken out{entry->hint, provider, known->second.arrival, known->second.tried};
        forget(known, queue);
        return out;
      }
    }
    return std::nullopt;
  }
  // What was taken from this provider's queue was claimed, or left; or there was nothing to do, as
  // others had it, or it was over: then more are taken at a time, so that no opening waits for the
  // next one that is wanted.
  void judged(Position provider, TaskId task, bool in_vain);
  // Does it wait here, or was it taken from here and is not judged yet?
  bool knows(TaskId task) const;
  // How many openings of this provider are for those that were here before `task`: who is here and
  // would have his turn before one of this lane, or was taken and is not judged yet. 0: it is one
  // of those itself.
  std::size_t before(TaskId task, Lane lane, Position provider) const;

  // The provider that it waits for.
  std::optional<Position> waits_at(TaskId task) const;
  // How many would have their turns at this provider before `task`, as far as this worker is to
  // serve them: what waits for long each of so many `workers` has, so of what waits here its part
  // is as large as was heard of here first, and one of so many at the least. One that waits,
  // wherever, has its turn by when it came; one that was `tried` has them among
  // those that were.
  std::size_t line(
      TaskId task, Lane lane, Position provider, std::uint64_t workers, bool tried) const;

  // What waits for each provider `now`; of it, what was heard of here first.
  struct Line {
    QueueSeen here, first;
  };
  std::map<Position, Line> lines(Time now) const;

  // One that is to be looked at anew by now, when `reserve(lane)` has got it a place. It stays
  // here, and is not asked for again until it was added again.
  template <class Reserve>
  std::optional<Hint> due(Time now, const Reserve& reserve) {
    constexpr std::size_t kPassedMax = 256;  // Of a lane without a place.
    std::optional<Lane> full;
    std::size_t passed = 0;
    for (auto at = again_.begin();
         at != again_.end() && at->first.first <= now && passed < kPassedMax;) {
      Known& known = known_.at(at->second);
      const Lane lane = known.hint.lane;
      if (full == lane || !reserve(lane)) {
        if (full && full != lane) {
          return std::nullopt;
        }
        full = lane;
        ++passed;
        ++at;
        continue;
      }
      again_.erase(at);
      known.again = again_.end();
      return known.hint;
    }
    return std::nullopt;
  }

  // Of a new chain: all keep their turns, and are looked at anew, as positions may mean others from
  // now on, or none. What was taken is none of this one's.
  void begin_anew(Time now);

 private:
  // Between two looks at whether anybody is to be invited.
  static constexpr std::chrono::milliseconds kInvitesEvery{250};
  static constexpr std::size_t kInvited = 4;  // For an opening: others may have had some of them.

  // Of those that are to be looked at at one time, who came first comes first.
  using Again = std::map<std::pair<Time, std::uint64_t>, TaskId>;
  struct Entry {
    Hint hint;
    std::uint64_t number = 0;
  };
  struct Counts {
    std::size_t tried = 0, bulk = 0, express = 0;
  };
  struct Queue {
    Waiting<Entry> waiting;
    Counts all, first;  // Of those that wait; of them, heard of here first.
    std::size_t unjudged = 0, in_vain = 0;
    std::unordered_map<TaskId, std::size_t> tasks;  // Of those that are not judged, how often.
  };
  struct Known {
    Hint hint;
    Position provider = 0;
    Positions sooner = 0;
    Arrival arrival{};
    bool tried = false;
    Time seen_at, ends_at;  // When it was looked at last; when its time is over.
    Again::iterator again;  // Its end: the answer to due() is awaited.
  };
  using KnownAt = std::unordered_map<TaskId, Known>::iterator;
  static std::size_t& count_of(Counts& counts, const Known& known) {
    return known.tried                         ? counts.tried
           : known.hint.lane == Lane::kExpress ? counts.express
                                               : counts.bulk;
  }
  static void count(Queue& queue, const Known& known) {
    ++count_of(queue.all, known);
    count_of(queue.first, known) += known.arrival.first ? 1U : 0U;
  }
  // How many of those that wait have their turns before one with so many of its lane before it.
  static std::size_t turns_before(const Counts& counts, Lane lane, std::size_t of_lane);
  void invite(std::vector<std::size_t>& wanted, Positions any, Time now);
  void look_at(Known& known, Time at);
  // Sooner than it would be, if at all, and not so soon after it was seen.
  void look_sooner(Known& known, Time now);
  void see(Known& known, const Seen& seen);
  // From now on it is known, and to be put into its queue.
  Known& enter(Position provider, const Hint& hint, const Seen& seen);
  void forget(KnownAt known, Queue& queue);

  std::map<Position, Queue> queues_;
  Position next_ = 0;                        // Whose turn it is.
  std::unordered_map<TaskId, Known> known_;  // All that wait.
  Again again_;                              // When they are to be looked at.
  Time invites_at_{Time::min()};
  std::uint64_t arrivals_ = 0;
};

}  // namespace audiogen::worker
