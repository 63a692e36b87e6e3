#include "worker/job/provider_queues.h"

#include <algorithm>

namespace audiogen::worker {
namespace {

// Taken at a time beyond the openings, at the most.
constexpr std::size_t kInVainMax = 256;

}  // namespace

bool ProviderQueues::has(const Hint& hint) const {
  const auto found = known_.find(hint.task);
  return found != known_.end() && found->second.hint == hint;
}

std::vector<TaskId> ProviderQueues::tasks() const {
  std::vector<TaskId> out;
  out.reserve(known_.size());
  for (const auto& [task, known] : known_) {
    out.push_back(task);
  }
  return out;
}

void ProviderQueues::add(Position provider, const Hint& hint, bool tried, const Seen& seen) {
  const auto found = known_.find(hint.task);
  if (found != known_.end() && found->second.hint == hint && found->second.provider == provider) {
    see(found->second, seen);
    return;
  }
  Known& known = enter(provider, hint, seen);
  Queue& queue = queues_[provider];
  known.tried = tried && queue.waiting.add_tried(hint);
  if (!known.tried) {
    queue.waiting.insert({hint, known.arrival.number});
  }
  count(queue, known);
}

void ProviderQueues::put_back(Position provider, const Hint& hint, bool tried, const Seen& seen) {
  Known& known = enter(provider, hint, seen);
  known.tried = tried;
  Queue& queue = queues_[provider];
  if (tried) {
    queue.waiting.put_back_tried(hint);
  } else {
    queue.waiting.insert({hint, known.arrival.number});
  }
  count(queue, known);
  // Another entry of its account may have had the opening: that one had its turn.
  next_ = provider;
}

bool ProviderQueues::look_later(const Hint& hint, Time now) {
  if (!has(hint)) {
    return false;
  }
  look_at(known_.at(hint.task), now + std::chrono::seconds(1));
  return true;
}

void ProviderQueues::drop(const Hint& hint) {
  if (!has(hint)) {
    return;
  }
  const auto found = known_.find(hint.task);
  Queue& queue = queues_[found->second.provider];
  queue.waiting.erase_if([&](const Hint& one) { return one.task == hint.task; });
  forget(found, queue);
}

void ProviderQueues::look_at_all(Positions providers, Time now) {
  for (auto& [task, known] : known_) {
    if ((providers & bit_of(known.provider)) != 0) {
      look_sooner(known, now);
    }
  }
}

void ProviderQueues::invite(std::vector<std::size_t>& wanted, Positions any, Time now) {
  std::vector<Known*> invited;
  for (auto& [task, known] : known_) {
    if ((known.sooner & any) != 0 && known.again != again_.end() && now >= known.seen_at + kRest) {
      invited.push_back(&known);
    }
  }
  std::sort(invited.begin(), invited.end(), [](const Known* a, const Known* b) {
    return a->arrival.number < b->arrival.number;
  });
  for (Known* const known : invited) {
    for (Position i = 0; i < std::min(wanted.size(), known->provider); ++i) {
      if (wanted[i] > 0 && (known->sooner & bit_of(i)) != 0) {
        --wanted[i];
        look_sooner(*known, now);
        break;
      }
    }
  }
}

void ProviderQueues::judged(Position provider, TaskId task, bool in_vain) {
  Queue& queue = queues_[provider];
  const auto found = queue.tasks.find(task);
  if (found == queue.tasks.end()) {
    return;
  }
  if (--found->second == 0) {
    queue.tasks.erase(found);
  }
  --queue.unjudged;
  queue.in_vain = in_vain ? std::min((2 * queue.in_vain) + 1, kInVainMax) : 0;
}

bool ProviderQueues::knows(TaskId task) const {
  return known_.contains(task) || std::any_of(queues_.begin(), queues_.end(), [&](const auto& one) {
           return one.second.tasks.contains(task);
         });
}

std::size_t ProviderQueues::before(TaskId task, Lane lane, Position provider) const {
  const auto found = queues_.find(provider);
  if (found == queues_.end() || found->second.tasks.contains(task)) {
    return 0;
  }
  const Queue& queue = found->second;
  return queue.unjudged +
         turns_before(queue.all, lane, lane == Lane::kExpress ? queue.all.express : queue.all.bulk);
}

std::size_t ProviderQueues::turns_before(const Counts& counts, Lane lane, std::size_t of_lane) {
  if (lane == Lane::kBulk) {
    return counts.tried + counts.express + of_lane;
  }
  const std::size_t untried = of_lane + std::min(counts.bulk, of_lane / (kBulkEvery - 1));
  return std::min(counts.tried, (kUntriedEvery - 1) * (untried + 1)) + untried;
}

std::size_t ProviderQueues::line(
    TaskId task, Lane lane, Position provider, std::uint64_t workers, bool tried) const {
  const auto at = queues_.find(provider);
  if (at == queues_.end() || at->second.tasks.contains(task)) {
    return 0;
  }
  const Queue& queue = at->second;
  const auto found = known_.find(task);
  const bool waits = found != known_.end();
  // Each class by itself: a crowd's tasks all workers have after a while, the few of others not.
  const auto ours = [&](std::size_t some, std::size_t Counts::*of) {
    const std::size_t all = queue.all.*of;
    return all == 0 ? 0 : some * std::max(queue.first.*of, (all + workers - 1) / workers) / all;
  };
  // What is taken beyond the openings, as it was in vain before, is likely to be so again.
  const std::size_t unjudged = queue.unjudged - std::min(queue.unjudged, queue.in_vain);
  if (waits ? found->second.tried : tried) {
    const std::size_t of_tried = ours(queue.waiting.tried_before(task), &Counts::tried);
    const std::size_t others =
        ours(queue.all.bulk, &Counts::bulk) + ours(queue.all.express, &Counts::express);
    return unjudged + of_tried + std::min(others, of_tried / (kUntriedEvery - 1));
  }
  const Lane its = waits ? found->second.hint.lane : lane;
  const auto of = its == Lane::kExpress ? &Counts::express : &Counts::bulk;
  const std::size_t of_lane =
      waits ? queue.waiting.before(its, found->second.arrival.number) : queue.all.*of;
  const Counts counts{.tried = ours(queue.all.tried, &Counts::tried),
                      .bulk = ours(queue.all.bulk, &Counts::bulk),
                      .express = ours(queue.all.express, &Counts::express)};
  return unjudged + turns_before(counts, its, ours(of_lane, of));
}

std::optional<Position> ProviderQueues::waits_at(TaskId task) const {
  const auto found = known_.find(task);
  return found == known_.end() ? std::nullopt : std::optional(found->second.provider);
}

std::map<Position, ProviderQueues::Line> ProviderQueues::lines(Time now) const {
  std::map<Position, Line> out;
  for (const auto& [task, known] : known_) {
    const auto left = std::chrono::floor<std::chrono::seconds>(known.ends_at - now);
    const QueueSeen::Waiting one{.left = std::max(left, std::chrono::seconds(0)), .count = 1};
    const bool express = known.hint.lane == Lane::kExpress;
    Line& line = out[known.provider];
    (express ? line.here.express : line.here.bulk).push_back(one);
    if (known.arrival.first) {
      (express ? line.first.express : line.first.bulk).push_back(one);
    }
  }
  for (auto& [provider, line] : out) {
    for (auto* const lane :
         {&line.here.express, &line.here.bulk, &line.first.express, &line.first.bulk}) {
      std::sort(
          lane->begin(), lane->end(), [](const auto& a, const auto& b) { return a.left < b.left; });
    }
  }
  return out;
}

void ProviderQueues::begin_anew(Time now) {
  for (auto& [provider, queue] : queues_) {
    queue.unjudged = queue.in_vain = 0;
    queue.tasks.clear();
  }
  for (auto& [task, known] : known_) {
    known.sooner = 0;
    if (known.again != again_.end()) {
      look_at(known, now);
    }
  }
}

void ProviderQueues::see(Known& known, const Seen& seen) {
  known.seen_at = seen.now;
  known.ends_at = seen.now + seen.left;
  known.sooner = seen.sooner;
  // Soon enough for what little time is left, and some hundred looks a second at all of them.
  look_at(known,
          seen.now + std::max<std::chrono::milliseconds>(seen.left / 8, std::chrono::seconds(1)));
}

void ProviderQueues::look_at(Known& known, Time at) {
  if (known.again != again_.end()) {
    again_.erase(known.again);
  }
  known.again = again_.emplace(std::pair(at, known.arrival.number), known.hint.task).first;
}

void ProviderQueues::look_sooner(Known& known, Time now) {
  const Time at = std::max(now, known.seen_at + kRest);
  if (known.again != again_.end() && known.again->first.first > at) {
    look_at(known, at);
  }
}

ProviderQueues::Known& ProviderQueues::enter(Position provider,
                                             const Hint& hint,
                                             const Seen& seen) {
  Arrival arrival = seen.arrival;
  if (const auto found = known_.find(hint.task); found != known_.end()) {
    const Arrival before = found->second.arrival;
    arrival.first = arrival.first || before.first;
    arrival.number = arrival.number == 0 ? before.number : std::min(arrival.number, before.number);
    drop(Hint(found->second.hint));
  }
  arrival.number = arrival.number == 0 ? ++arrivals_ : arrival.number;
  Known& known = known_[hint.task];
  known.arrival = arrival;
  known.hint = hint;
  known.provider = provider;
  known.again = again_.end();
  see(known, seen);
  return known;
}

void ProviderQueues::forget(KnownAt known, Queue& queue) {
  if (known->second.again != again_.end()) {
    again_.erase(known->second.again);
  }
  --count_of(queue.all, known->second);
  count_of(queue.first, known->second) -= known->second.arrival.first ? 1U : 0U;
  known_.erase(known);
}

}  // namespace audiogen::worker
