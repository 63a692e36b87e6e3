// Hints of tasks whose provider has no opening just now, each in the queue of its provider: so they
// keep nobody waiting whose provider has one. Whose turn it is within a queue is as everywhere
// (Waiting). Nothing is written of them: their rows are as they were, for any worker to take. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/domain/shares.h"
#include "common/domain/task.h"
#include "common/domain/waiting.h"

namespace audiogen::worker {

// A provider's position in the chain.
using Position = std::size_t;

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
  // somebody was called for it before.
  struct Seen {
    Time now;
    std::chrono::milliseconds left;
  };
  void add(Position provider, const Hint& hint, bool tried, const Seen& seen);
  // What was taken from this provider's queue has no turn after all, but the next.
  void put_back(Position provider, const Hint& hint, const Seen& seen);
  // It waits no more.
  void drop(const Hint& hint);
  // Another may have those whose provider is one of these: they are to be looked at anew, soon.
  template <class Which>
  void look_at_all(const Which& which, Time now) {
    for (auto& [task, known] : known_) {
      const Time at = std::max(now, known.seen_at + kRest);
      if (which(known.provider) && known.again_at > at) {
        look_at(known, at);
      }
    }
  }

  struct Taken {
    Hint hint;
    Position provider;
  };
  // Takes the one whose turn it is, of those whose provider has an opening, when `reserve(lane)`
  // has got it a place; providers take turns. `openings(provider)`: how many it has, what was taken
  // from here and is not judged yet not counted.
  template <class Openings, class Reserve>
  std::optional<Taken> next(const Room& room, const Openings& openings, const Reserve& reserve) {
    auto at = queues_.upper_bound(last_);
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
        last_ = provider;
        --queue.size;
        known_.erase(entry->hint.task);
        return Taken{entry->hint, provider};
      }
    }
    return std::nullopt;
  }
  // What was taken from this provider's queue was claimed, or left; or there was nothing to do, as
  // others had it, or it was over: then more are taken at a time, so that no opening waits for the
  // next one that is wanted.
  void judged(Position provider, TaskId task, bool in_vain);
  // How many openings of this provider are for those that were here before `task`: who is here, or
  // was taken and is not judged yet. 0: it is one of those itself.
  std::size_t before(TaskId task, Position provider) const;

  // How many wait for this provider before `task`. 0: it waits there itself, and is as far as it
  // is.
  std::size_t line(TaskId task, Position provider) const;

  // One that is to be looked at anew by now, when `reserve(lane)` has got it a place. It stays
  // here, and is not asked for again until it was added again.
  template <class Reserve>
  std::optional<Hint> due(Time now, const Reserve& reserve) {
    constexpr std::size_t kPassedMax = 256;  // Of a lane without a place.
    std::optional<Lane> full;
    std::size_t passed = 0;
    for (auto at = again_.begin(); at != again_.end() && at->first <= now && passed < kPassedMax;) {
      const auto found = known_.find(at->second);
      if (found == known_.end() || found->second.again_at != at->first || found->second.asked) {
        at = again_.erase(at);  // It was told another time since, or its answer is awaited.
        continue;
      }
      const Lane lane = found->second.hint.lane;
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
      found->second.asked = true;
      return found->second.hint;
    }
    return std::nullopt;
  }

  // Takes all of them; positions mean other providers from now on.
  std::vector<Hint> take_all();

 private:
  struct Entry {
    Hint hint;
  };
  struct Queue {
    Waiting<Entry> waiting;
    std::size_t size = 0;
    std::size_t unjudged = 0, in_vain = 0;
    std::unordered_map<TaskId, std::size_t> tasks;  // Of those that are not judged, how often.
  };
  struct Known {
    Hint hint;
    Position provider = 0;
    Time seen_at, again_at;
    bool asked = false;  // By due().
  };
  void look_at(Known& known, Time at);
  void see(Known& known, const Seen& seen);
  // Its queue, where it is known from now on.
  Queue& enter(Position provider, const Hint& hint, const Seen& seen);

  std::map<Position, Queue> queues_;
  Position last_ = 0;
  std::unordered_map<TaskId, Known> known_;  // All that wait.
  std::multimap<Time, TaskId> again_;  // When they are to be looked at, and when they were to be.
};

}  // namespace audiogen::worker
