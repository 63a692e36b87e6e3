// Group commit in the application: whatever arrived while the last transaction ran is the next one.
// Each thread owns a TaskStore, so `threads` transactions run at once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/batch_queue.h"
#include "common/base/overload_gate.h"
#include "common/store/task_store.h"

namespace audiogen::store {

struct GroupOptions {
  std::size_t threads = 2;
  std::size_t batch_max = 64;
  std::size_t capacity = 10'000;  // Commands waiting; more are refused.
  // A command that has waited this long is answered kUnavailable without being tried: nobody waits
  // for it any more, and done later it would surprise (a hold for a request that was told 503).
  std::chrono::milliseconds wait_max{4'000};
  // How long they may wait before new ones are refused, as a burst and under lasting overload.
  std::chrono::milliseconds refuse_above{4'000}, hold_at{4'000};
};

template <class Command, class Outcome>
class GroupCommit {
 public:
  using Reply = std::function<void(Result<Outcome, StoreFault>)>;
  using Clock = OverloadGate::Clock;
  using Run = std::function<Batch<Outcome>(TaskStore&, std::span<const Command>)>;

  GroupCommit(const DatabaseUrl& url, GroupOptions options, Run run)
      : options_(options),
        run_(std::move(run)),
        gate_({options.refuse_above, options.hold_at, options.threads * options.batch_max}),
        queue_(options.capacity) {
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, url] { work(url); });
    }
  }
  ~GroupCommit() { stop(); }
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // False, without calling `reply`, when the command, which arrived then, comes too late, or others
  // wait too long already, or the group is stopped. Otherwise `reply` runs exactly once, on one of
  // the group's threads; it must not block.
  bool submit(Command command, Reply reply, Clock::time_point arrived = Clock::now()) {
    return !late(arrived) && queue_.push(Item{std::move(command), std::move(reply), arrived});
  }

  // True when submit() would refuse: ask before preparing a command.
  bool late(Clock::time_point arrived) {
    return gate_.refuses(Clock::now(), arrived, [this] { return queue_.size(); });
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
  struct Item {
    Command command;
    Reply reply;
    Clock::time_point arrived;
  };

  void answer_stale(std::vector<Item>& items) {
    const auto oldest = Clock::now() - options_.wait_max;
    std::erase_if(items, [&](Item& item) {
      const bool stale = item.arrived < oldest;
      if (stale) {
        item.reply(StoreFault::kUnavailable);
      }
      return stale;
    });
  }

  void work(const DatabaseUrl& url) {
    TaskStore store(url);
    for (;;) {
      std::vector<Item> items = queue_.pop_batch(options_.batch_max);
      if (items.empty()) {
        return;
      }
      gate_.begun(Clock::now(), items.front().arrived);
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
  OverloadGate gate_;
  BatchQueue<Item> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace audiogen::store
