// Group commit in the application: whatever arrived while the last transaction ran is the next one.
// Each thread owns a TaskStore, so `threads` transactions run at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/batch_queue.h"
#include "common/store/task_store.h"

namespace audiogen::store {

struct GroupOptions {
  std::size_t threads = 2;
  std::size_t batch_max = 64;
  std::size_t capacity = 10'000;  // Commands waiting; more are refused.
  // A command that has waited this long is answered kUnavailable without being tried: nobody waits
  // for it any more, and done later it would surprise (a hold for a request that was told 503).
  std::chrono::milliseconds wait_max{4'000};
  // New commands are refused once those that are taken have waited longer than this: with more
  // load than can be borne, waiting longer helps nobody, and a refusal now is worth more than a
  // late answer. By time and not by number, so that it is right on any machine.
  std::chrono::milliseconds refuse_above{4'000};
  // From then on, until a second has gone without refusals, they are refused above this already: a
  // burst may fill the queue, an overload must not keep it full (RFC 8289: a standing queue is
  // delay and nothing else). Not above refuse_above.
  std::chrono::milliseconds hold_at{4'000};
};

template <class Command, class Outcome>
class GroupCommit {
 public:
  using Reply = std::function<void(Result<Outcome, StoreFault>)>;
  using Run = std::function<Batch<Outcome>(TaskStore&, std::span<const Command>)>;

  GroupCommit(const DatabaseUrl& url, GroupOptions options, Run run)
      : options_(options), run_(std::move(run)), queue_(options.capacity) {
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, url] { work(url); });
    }
  }
  ~GroupCommit() { stop(); }
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // False, without calling `reply`, when commands wait too long already, or the group is stopped.
  // Otherwise `reply` runs exactly once, on one of the group's threads; it must not block.
  bool submit(Command command, Reply reply) {
    return !late() && queue_.push(Item{std::move(command), std::move(reply), Clock::now()});
  }

  // True while commands wait too long: ask before preparing one that would be refused.
  bool late() const {
    // What the next transactions take is no backlog: a pause of the database refuses nobody then.
    return late_.load(std::memory_order_relaxed) &&
           queue_.size() > options_.threads * options_.batch_max;
  }

  // Finishes what was accepted, then stops.
  void stop() {
    queue_.close();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }

  std::size_t waiting() const { return queue_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    Command command;
    Reply reply;
    Clock::time_point since;
  };

  void answer_stale(std::vector<Item>& items) {
    const auto oldest = Clock::now() - options_.wait_max;
    std::erase_if(items, [&](Item& item) {
      const bool stale = item.since < oldest;
      if (stale) {
        item.reply(StoreFault::kUnavailable);
      }
      return stale;
    });
  }

  void note_wait(Clock::time_point now, Clock::time_point since) {
    const bool overloaded = now.time_since_epoch().count() < overloaded_until_.load();
    const bool late = now - since > (overloaded ? std::min(options_.hold_at, options_.refuse_above)
                                                : options_.refuse_above);
    late_.store(late, std::memory_order_relaxed);
    if (late) {
      overloaded_until_.store((now + std::chrono::seconds(1)).time_since_epoch().count());
    }
  }

  void work(const DatabaseUrl& url) {
    TaskStore store(url);
    for (;;) {
      std::vector<Item> items = queue_.pop_batch(options_.batch_max);
      if (items.empty()) {
        return;
      }
      note_wait(Clock::now(), items.front().since);
      answer_stale(items);
      if (items.empty()) {
        continue;
      }
      std::vector<Command> commands;
      commands.reserve(items.size());
      for (Item& item : items) {
        commands.push_back(std::move(item.command));
      }
      Batch<Outcome> outcomes = run_(store, commands);
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (outcomes) {
          Outcome outcome = std::move((*outcomes)[i]);  // vector<bool> has no bool to pass on.
          items[i].reply(std::move(outcome));
        } else {
          items[i].reply(outcomes.error());
        }
      }
    }
  }

  const GroupOptions options_;
  const Run run_;
  std::atomic<bool> late_{false};  // The oldest of the last batch had waited above the limit.
  std::atomic<Clock::rep> overloaded_until_{0};
  BatchQueue<Item> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace audiogen::store
