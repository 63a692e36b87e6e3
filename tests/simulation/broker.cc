#include "tests/simulation/broker.h"

#include <algorithm>
#include <utility>

namespace audiogen::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// As in common/queue/README.md, "Topology".
constexpr int kDeliveriesMax = 20;

}  // namespace

void Broker::consume(Consumer& consumer, std::size_t prefetch) {
  links_.push_back({&consumer, prefetch, {}, {}});
  hand_out();
}

void Broker::leave(Consumer& consumer) {
  const auto found = std::find_if(
      links_.begin(), links_.end(), [&](const Link& link) { return link.consumer == &consumer; });
  if (found == links_.end()) {
    return;
  }
  put_back(*found);
  links_.erase(found);
  hand_out();
}

void Broker::put_back(Link& link) {
  for (auto& [number, message] : std::exchange(link.unacked, {})) {
    ready_[queue_of(message.hint)].push_front(message);
  }
  link.counts = {};
}

void Broker::ack(Consumer& consumer, std::uint64_t message) {
  for (Link& link : links_) {
    if (link.consumer != &consumer) {
      continue;
    }
    if (const auto found = link.unacked.find(message); found != link.unacked.end()) {
      --link.counts[queue_of(found->second.hint)];
      link.unacked.erase(found);
    }
  }
  hand_out();
}

Broker::Fate Broker::publish(const Hint& hint) {
  if (away_) {
    return Fate::kUnknown;
  }
  if (shared_.strikes(shared_.plan.hint_refused)) {
    return Fate::kRefused;
  }
  if (shared_.strikes(shared_.plan.hint_lost)) {
    return Fate::kTaken;  // It said so.
  }
  const int copies = shared_.strikes(shared_.plan.hint_twice) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    const Duration late = shared_.strikes(shared_.plan.hint_late)
                              ? shared_.random.between(seconds(0), seconds(200))
                              : Duration(0);
    shared_.timeline.after(late, [this, hint] {
      if (!away_) {
        enqueue({hint, 0, 0});
      }
    });
  }
  return Fate::kTaken;
}

void Broker::enqueue(Message message) {
  const std::size_t queue = queue_of(message.hint);
  ready_[queue].push_back(std::move(message));
  hand_out(queue);
}

void Broker::hand_out() {
  for (std::size_t queue = 0; queue < ready_.size(); ++queue) {
    hand_out(queue);
  }
}

void Broker::hand_out(std::size_t queue) {
  Queue& ready = ready_[queue];
  while (!away_ && !ready.empty()) {
    std::vector<Link*> free;
    for (Link& link : links_) {
      if (link.counts[queue] < link.prefetch) {
        free.push_back(&link);
      }
    }
    if (free.empty()) {
      return;
    }
    Link& link = *shared_.random.pick(free);
    Message message = std::move(ready.front());
    ready.pop_front();
    if (++message.deliveries > kDeliveriesMax) {
      continue;
    }
    message.number = ++numbers_;
    const Delivery delivery{message.hint, message.number};
    link.unacked.emplace(message.number, std::move(message));
    ++link.counts[queue];
    Consumer* const consumer = link.consumer;
    consumer->process().after(shared_.way(), [consumer, delivery] { consumer->deliver(delivery); });
  }
}

void Broker::go_away(bool wiped) {
  away_ = true;
  for (Link& link : links_) {
    put_back(link);
  }
  if (wiped) {
    purge();
  }
}

void Broker::come_back() {
  away_ = false;
  hand_out();
}

void Publisher::submit(std::span<const Hint> hints) {
  for (const Hint& hint : hints) {
    send(hint, false);
  }
}

void Publisher::send(const Hint& hint, bool repeated) {
  client_.after(shared_.way() + milliseconds(5), [this, hint, repeated] {
    if (!broker_.connected()) {
      client_.after(milliseconds(500), [this, hint, repeated] { send(hint, repeated); });
      return;
    }
    shared_.timeline.after(shared_.way(), [this, hint, repeated] {
      const auto fate = broker_.publish(hint);
      client_.after(shared_.way(), [this, hint, repeated, fate] {
        if (fate == Broker::Fate::kTaken) {
          confirmed_(hint);
        } else if (fate == Broker::Fate::kUnknown && !repeated) {
          send(hint, true);
        }
      });
    });
  });
}

}  // namespace audiogen::simulation
