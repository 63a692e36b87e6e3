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
  Queue& queue = enter(provider, hint, seen);
  if (!tried || !queue.waiting.add_tried(hint)) {
    queue.waiting.add({hint});
  }
}

void ProviderQueues::put_back(Position provider, const Hint& hint, const Seen& seen) {
  enter(provider, hint, seen).waiting.put_back({hint});
}

void ProviderQueues::drop(const Hint& hint) {
  if (!has(hint)) {
    return;
  }
  const auto found = known_.find(hint.task);
  Queue& queue = queues_[found->second.provider];
  queue.waiting.erase_if([&](const Hint& one) { return one.task == hint.task; });
  --queue.size;
  known_.erase(found);
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

std::size_t ProviderQueues::before(TaskId task, Position provider) const {
  const auto found = queues_.find(provider);
  return found == queues_.end() || found->second.tasks.contains(task)
             ? 0
             : found->second.size + found->second.unjudged;
}

std::size_t ProviderQueues::line(TaskId task, Position provider) const {
  const auto found = known_.find(task);
  const bool there = found != known_.end() && found->second.provider == provider;
  return there ? 0 : before(task, provider);
}

std::vector<Hint> ProviderQueues::take_all() {
  std::vector<Hint> out;
  out.reserve(size());
  for (auto& [provider, queue] : queues_) {
    constexpr Room kAny{.bulk = 1, .express = 1};
    while (const auto entry = queue.waiting.next(kAny, [](Lane) { return true; })) {
      out.push_back(entry->hint);
    }
  }
  queues_.clear();
  known_.clear();
  again_.clear();
  return out;
}

void ProviderQueues::see(Known& known, const Seen& seen) {
  known.seen_at = seen.now;
  known.asked = false;
  // Soon enough for what little time is left, and some hundred looks a second at all of them.
  look_at(known,
          seen.now + std::max<std::chrono::milliseconds>(seen.left / 8, std::chrono::seconds(1)));
}

void ProviderQueues::look_at(Known& known, Time at) {
  known.again_at = at;
  again_.emplace(at, known.hint.task);
}

ProviderQueues::Queue& ProviderQueues::enter(Position provider,
                                             const Hint& hint,
                                             const Seen& seen) {
  const auto found = known_.find(hint.task);
  if (found != known_.end()) {
    drop(Hint(found->second.hint));
  }
  Known& known = known_[hint.task];
  known.hint = hint;
  known.provider = provider;
  see(known, seen);
  Queue& queue = queues_[provider];
  ++queue.size;
  return queue;
}

}  // namespace audiogen::worker
