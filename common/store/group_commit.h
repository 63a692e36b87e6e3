// Group commit in the application: whatever arrived while the last transaction ran is the next one.
// Each thread owns a TaskStore, so `threads` transactions run at once. A command whose row another
// session holds waits for it by itself (RowQueue): the others never notice.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/overload_gate.h"
#include "common/store/meters.h"
#include "common/store/row_queue.h"
#include "common/store/task_store.h"

namespace audiogen::store {

// The row that a command has to lock and others may hold. For settlements the task's, though they
// need the user's balance as well: one held task keeps none of the user's others waiting.
inline std::optional<Uuid> row_of(const CreateCommand& command) {
  return command.user.uuid;
}
template <class Command>
requires requires(const Command& command) {
  command.task.uuid;
}
std::optional<Uuid> row_of(const Command& command) {
  return command.task.uuid;
}
inline std::optional<Uuid> row_of(const FindCommand&) {
  return std::nullopt;
}
inline std::optional<Uuid> row_of(const Sha256&) {
  return std::nullopt;
}

// What a command adds to its transaction beyond the usual few hundred bytes.
inline std::size_t bytes_of(const CreateCommand& command) {
  return command.request.size();
}
template <class Command>
std::size_t bytes_of(const Command&) {
  return 0;
}

// So much later than others may a thread know of a change of the release window.
inline constexpr std::chrono::milliseconds kWindowAge{20};

struct GroupOptions {
  const char* use = "other";  // One of few words, in metrics.
  std::size_t threads = 2;
  std::size_t batch_max = 64;
  // A batch ends with the command that fills it to this: what the others of a transaction wait for,
  // and the pause before its next packet, stay short however large the commands that came together.
  std::size_t batch_bytes = std::size_t{1024} * 1024;
  std::size_t capacity = 10'000;  // Commands waiting; more are refused.
  // How long a batch beside a sibling's waits for as many commands as the one before (RowQueue).
  std::chrono::microseconds company{0};
  // A row that has been held for less than this is tried with each batch that goes, and not only at
  // a random moment of its own, in a transaction for it alone. Only where one more row that is held
  // costs the others of a batch no more than a statement.
  std::chrono::milliseconds briefly_held{0};
  // A thread's batch begins so long after its last one began at the earliest. For commands that
  // nobody waits for: a few more share a transaction, and so its fsync, where they come faster than
  // this but slower than they would queue. Sooner when a held row is to be tried again, or when
  // half of what a batch takes at most is there: more of them gain next to nothing by more company.
  std::chrono::microseconds spacing{0};
  // A command that has waited this long is answered kUnavailable (kLocked if its row was held)
  // without being tried: nobody waits for it any more, and done later it would surprise (a hold for
  // a request that was told 503).
  std::chrono::milliseconds wait_max{4'000};
  // The same for one that waits for a held row, if that is to be sooner.
  std::chrono::milliseconds wait_held_max{4'000};
  // How long they may wait before new ones are refused, as a burst and under lasting overload.
  std::chrono::milliseconds refuse_above{4'000}, hold_at{4'000};
};

template <class Command, class Outcome>
class GroupCommit {
 public:
  using Reply = std::function<void(Result<Outcome, StoreFault>)>;
  using Clock = OverloadGate::Clock;
  // One transaction.
  using Run = std::function<Batch<Outcome>(TaskStore&, std::span<const Command>)>;
  // The same for commands that know how to follow each other on a row.
  using RunInTurn =
      std::function<Batch<Outcome>(TaskStore&, std::span<const Command>, const Turn& turn)>;

  GroupCommit(const DatabaseUrl& url, GroupOptions options, Run run)
      : GroupCommit(
            url,
            options,
            RunInTurn([run = std::move(run)](TaskStore& store,
                                             std::span<const Command> commands,
                                             const Turn&) { return run(store, commands); })) {}
  GroupCommit(const DatabaseUrl& url, GroupOptions options, RunInTurn run)
      : options_(options),
        run_(std::move(run)),
        sizes_(meters::commit_sizes(options.use)),
        waits_(meters::commit_waits(options.use)),
        gate_({options.refuse_above, options.hold_at, options.threads * options.batch_max}),
        queue_(options.capacity, options.threads > 1, options.company, options.briefly_held) {
    // See RowQueue.
    AG_CHECK(options_.company.count() == 0 || options_.threads == 2);
    AG_CHECK(options_.spacing.count() == 0 || (options_.threads == 1 && options_.batch_max >= 4));
    for (std::size_t i = 0; i < options_.threads; ++i) {
      threads_.emplace_back([this, url] { work(url); });
    }
  }
  ~GroupCommit() { stop(); }
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // False, without calling `reply`, when the command, which arrived then, comes too late, or others
  // wait too long already, or the group is stopped. Otherwise `reply` runs exactly once, on one of
  // the group's threads, whose next batch waits for it.
  bool submit(Command command, Reply reply, Clock::time_point arrived = Clock::now()) {
    const auto row = row_of(command);
    const std::size_t bytes = bytes_of(command);
    return !late(arrived) && queue_.push(Item{.command = std::move(command),
                                              .reply = std::move(reply),
                                              .arrived = arrived,
                                              .row = row,
                                              .bytes = bytes});
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
    std::optional<Uuid> row;
    std::size_t bytes = 0;
    std::uint64_t number = 0, batch = 0;
    bool follows = false, was_held = false;
  };
  using Queue = RowQueue<Item>;

  void work(const DatabaseUrl& url) {
    TaskStore store(url);
    store.keep_window(kWindowAge);
    Clock::time_point next_at = Clock::now();
    for (;;) {
      queue_.rest(next_at, options_.batch_max / 2);
      std::vector<Item> items = queue_.take(options_.batch_max, options_.batch_bytes);
      if (items.empty()) {
        return;
      }
      next_at = Clock::now() + options_.spacing;
      // What has waited for a held row says nothing about overload.
      const auto fresh =
          std::find_if(items.begin(), items.end(), [](const Item& item) { return !item.was_held; });
      if (fresh != items.end()) {
        const auto now = Clock::now();
        gate_.begun(now, fresh->arrived);
        waits_.observe(std::chrono::duration<double>(now - fresh->arrived).count());
      }
      sizes_.observe(static_cast<double>(items.size()));
      std::vector<std::optional<Uuid>> rows;
      rows.reserve(items.size());
      for (const Item& item : items) {
        rows.push_back(item.row);
      }
      const std::uint64_t batch = items.front().batch;
      const auto untried = answer_stale(items);
      std::vector<Command> commands;
      commands.reserve(items.size());
      Turn turn{.follows = {}, .ends = [this, batch](std::span<const Uuid> done) {
                  queue_.hand_over(batch, done);
                }};
      for (Item& item : items) {
        commands.push_back(std::move(item.command));
        if (item.follows) {
          turn.follows.push_back(*item.row);
        }
      }
      Batch<Outcome> outcomes = commands.empty() ? Batch<Outcome>() : run_(store, commands, turn);
      // Rows before replies: a sibling may go on with them at once.
      queue_.finish(batch, rows, take_locked(items, commands, outcomes), untried);
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].reply) {
          items[i].reply(std::move(outcomes[i]));
        }
      }
    }
  }

  // Answers those that have waited for too long, before the others' transaction, which may take its
  // time, and takes them out. The rows of which none is left.
  std::vector<std::optional<Uuid>> answer_stale(std::vector<Item>& items) {
    const auto now = Clock::now();
    std::vector<std::optional<Uuid>> untried;
    std::erase_if(items, [&](Item& item) {
      const auto waited = now - item.arrived;
      const bool stale =
          waited > options_.wait_max || (item.was_held && waited > options_.wait_held_max);
      if (stale) {
        untried.push_back(item.row);
        item.reply(item.was_held ? StoreFault::kLocked : StoreFault::kUnavailable);
      }
      return stale;
    });
    std::erase_if(untried, [&](const auto& row) {
      return std::any_of(
          items.begin(), items.end(), [&](const Item& item) { return item.row == row; });
    });
    return untried;
  }

  // The items whose rows another session holds, unless this group is stopping; those left behind
  // have no reply.
  std::vector<Item> take_locked(std::vector<Item>& items,
                                std::vector<Command>& commands,
                                const Batch<Outcome>& outcomes) {
    std::vector<Item> locked;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!outcomes[i] && outcomes[i].error() == StoreFault::kLocked && items[i].row &&
          !queue_.closed()) {
        items[i].command = std::move(commands[i]);
        locked.push_back(std::move(items[i]));
        items[i].reply = nullptr;
      }
    }
    return locked;
  }

  const GroupOptions options_;
  const RunInTurn run_;
  metrics::Histogram& sizes_;
  metrics::Histogram& waits_;
  OverloadGate gate_;
  Queue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace audiogen::store
