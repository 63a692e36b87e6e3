// What waits in a worker for one of its places, and whose turn it is. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/ids.h"
#include "common/domain/lifecycle.h"
#include "common/domain/shares.h"

namespace audiogen {

// `Delivery` has a Hint, `hint`, and can be made of one alone: of what no message brought.
template <class Delivery>
class Waiting {
 public:
  // Of those that were tried; more than become due in a second where not all fails.
  static constexpr std::size_t kTriedMax = 1000;

  bool empty() const { return bulk_.empty() && express_.empty() && tried_.empty(); }
  // Whether any of that lane waits for its first turn.
  bool any(Lane lane) const { return !(lane == Lane::kExpress ? express_ : bulk_).empty(); }

  void add(Delivery delivery) { queue(delivery.hint.lane).push_back(std::move(delivery)); }

  // Where each has a `number`, and they stand in that order: one that has its place by it, as it
  // was taken and had no turn after all, or has waited elsewhere.
  void insert(Delivery delivery) {
    auto& to = queue(delivery.hint.lane);
    const auto later =
        std::upper_bound(to.begin(), to.end(), delivery, [](const Delivery& a, const Delivery& b) {
          return a.number < b.number;
        });
    to.insert(later, std::move(delivery));
  }

  // Of those, how many of its lane stand before the one of this number.
  std::size_t before(Lane lane, std::uint64_t number) const {
    const auto& from = lane == Lane::kExpress ? express_ : bulk_;
    const auto at = std::lower_bound(
        from.begin(), from.end(), number, [](const Delivery& one, std::uint64_t than) {
          return one.number < than;
        });
    return static_cast<std::size_t>(at - from.begin());
  }

  // A task that was tried before and is due again; it may be found a second time, because it has
  // waited here for long. False: as many wait as may.
  bool add_tried(const Hint& hint) {
    if (std::find(tried_.begin(), tried_.end(), hint) != tried_.end()) {
      return true;
    }
    if (tried_.size() >= kTriedMax) {
      return false;
    }
    tried_.push_back(hint);
    return true;
  }

  // One of those that was taken, and had no turn after all: it is the next.
  void put_back_tried(const Hint& hint) { tried_.push_front(hint); }

  // Of those, how many stand before this one; all of them where it is none.
  std::size_t tried_before(TaskId task) const {
    const auto at = std::find_if(
        tried_.begin(), tried_.end(), [task](const Hint& hint) { return hint.task == task; });
    return static_cast<std::size_t>(at - tried_.begin());
  }

  // Whoever is one of those waits no more.
  template <class Which>
  void erase_if(const Which& which) {
    const auto is = [&](const Delivery& one) { return which(one.hint); };
    std::erase_if(bulk_, is);
    std::erase_if(express_, is);
    std::erase_if(tried_, which);
  }

  // The same of those that a message brought.
  template <class Which>
  void erase_deliveries(const Which& which) {
    std::erase_if(bulk_, which);
    std::erase_if(express_, which);
  }

  // Takes the one whose turn it is, of those for whose lanes there is room, when `reserve(lane)`
  // has got it a place; else nobody has had a turn.
  template <class Reserve>
  std::optional<Delivery> next(const Room& room, const Reserve& reserve) {
    const bool express = !express_.empty() && room.express > 0;
    const bool bulk = !bulk_.empty() && room.bulk > 0;
    // One for whom there is no room keeps none of the other lane waiting.
    const auto tried = std::find_if(
        tried_.begin(), tried_.end(), [&](const Hint& hint) { return room.of(hint.lane) > 0; });
    if (!express && !bulk && tried == tried_.end()) {
      return std::nullopt;
    }
    TriedTurns tried_turns = tried_turns_;
    LaneTurns turns = turns_;
    const bool is_tried = tried_turns.next(tried != tried_.end(), express || bulk);
    const Lane lane = is_tried ? tried->lane : turns.next(express, bulk);
    if (!reserve(lane)) {
      return std::nullopt;
    }
    tried_turns_ = tried_turns;
    turns_ = turns;
    if (is_tried) {
      Delivery out{*tried};
      tried_.erase(tried);
      return out;
    }
    auto& from = queue(lane);
    Delivery out = std::move(from.front());
    from.pop_front();
    return out;
  }

  // Nobody was called for one of this lane: it has another turn, after one of the other.
  void give_back(Lane lane) { turns_.give_back(lane); }

  // How much of `room` is for what waits here, and so for nobody else. What was tried and goes by
  // the bulk lane takes of the express lane no more than it may have.
  Room spoken_for(const Room& room) const {
    const auto tried_express = static_cast<std::size_t>(std::count_if(
        tried_.begin(), tried_.end(), [](const Hint& h) { return h.lane == Lane::kExpress; }));
    const std::size_t tried_bulk = tried_.size() - tried_express;
    const std::size_t before = express_.size() + tried_express;
    return {.bulk = std::min(room.bulk, before + tried_bulk + bulk_.size()),
            .express = std::min(room.express, before + std::min(tried_bulk, room.bulk))};
  }

  // What is left of it for others.
  Room beside(const Room& room) const {
    const Room ours = spoken_for(room);
    return {.bulk = room.bulk - ours.bulk, .express = room.express - ours.express};
  }

  // How far the broker has come with its queues: what came last by it is at least as new as what
  // waits here in front.
  QueuesSeen queues_seen() const {
    // Hinted when it was made. Of one that was parked, or given back, nobody knows here when it was
    // hinted, and by its age alone all that was hinted since would seem to be behind it.
    const auto next = [](const std::deque<Delivery>& waiting) {
      const auto new_one = std::find_if(
          waiting.begin(), waiting.end(), [](const Delivery& one) { return one.hint.epoch == 0; });
      return new_one == waiting.end() ? std::nullopt
                                      : std::optional(made_at(new_one->hint.task.uuid));
    };
    return {.bulk = next(bulk_), .express = next(express_)};
  }

 private:
  std::deque<Delivery>& queue(Lane lane) { return lane == Lane::kExpress ? express_ : bulk_; }

  std::deque<Delivery> bulk_, express_;  // Their first turn.
  std::deque<Hint> tried_;
  LaneTurns turns_;
  TriedTurns tried_turns_;
};

}  // namespace audiogen
