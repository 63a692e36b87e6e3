// Commands that wait for a transaction, and what becomes of each: the client's side of the store
// (common/store/group_commit.h, common/store/task_batch.h).
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/store/commands.h"
#include "tests/simulation/database.h"

namespace audiogen::simulation {

// A command while its transaction runs. `outcome` and `held` are for the transaction to set.
template <class Command, class Outcome>
struct Item {
  Command command;
  Outcome outcome;
  bool held = false;
};

// What a transaction has to know of its earlier runs.
struct Runs {
  bool again = false;                      // One of them may have been committed.
  std::optional<Instant> written_lease{};  // By the last one.
};

template <class Command, class Outcome>
class Group {
 public:
  using Items = std::vector<Item<Command, Outcome>>;
  using Body = std::function<void(Transaction&, Items&, Runs&)>;
  using Answer = Result<Outcome, store::StoreFault>;
  using Done = std::function<void(Answer)>;

  // A command that the transaction does nothing about has the outcome `failed`. One whose row is
  // held for longer than `patience` is answered kLocked. `over` is done once all of a batch have
  // been answered.
  Group(Shared& shared,
        Database& database,
        Process& client,
        Outcome failed,
        Duration patience,
        Body body,
        Action over = {})
      : shared_(shared),
        database_(database),
        client_(client),
        failed_(std::move(failed)),
        patience_(patience),
        body_(std::move(body)),
        over_(std::move(over)) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void submit(Command command, Done done) {
    waiting_.push_back({std::move(command), std::move(done), client_.steady()});
    start();
  }

 private:
  using Steady = ClockLook::Steady;
  struct Waiting {
    Command command;
    Done done;
    Steady since;
  };

  void start() {
    if (busy_ || waiting_.empty()) {
      return;
    }
    busy_ = true;
    resolve_until_.reset();
    runs_ = {};
    const auto count = std::min<std::size_t>(waiting_.size(), kBatch);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    batch_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    run();
  }

  void run() {
    database_.transact(
        client_,
        [this](Transaction& tx) {
          if (!runs_.again) {
            items_.clear();
            for (const Waiting& waiting : batch_) {
              items_.push_back({waiting.command, failed_});
            }
          }
          for (auto& item : items_) {
            item.held = false;
          }
          body_(tx, items_, runs_);
        },
        [this](TxEnd how) { ended(how); });
  }

  void ended(TxEnd how) {
    if (how == TxEnd::kUnknown && shared_.is(Mutant::kLostIsNothing)) {
      how = TxEnd::kNothing;
    }
    std::vector<std::pair<Waiting, Answer>> answers;
    if (how == TxEnd::kCommitted) {
      take(answers);
    } else if (!resolve_until_ && how == TxEnd::kNothing) {
      for (Waiting& waiting : batch_) {
        answers.emplace_back(std::move(waiting), store::StoreFault::kUnavailable);
      }
      batch_.clear();
    } else if (!resolve_until_) {
      // Of those whose rows were held nothing was sent: that is decided.
      resolve_until_ = client_.steady() + std::chrono::seconds(2);
      runs_.again = !shared_.is(Mutant::kBlindRepeat);
      set_held_aside(answers);
    }
    if (!batch_.empty() && client_.steady() >= *resolve_until_) {
      for (Waiting& waiting : batch_) {
        answers.emplace_back(std::move(waiting), store::StoreFault::kUnknownOutcome);
      }
      batch_.clear();
    }
    const bool over = batch_.empty();
    if (!over) {
      client_.after(how == TxEnd::kCommitted ? kHeldPause : kConnectPause, [this] { run(); });
    }
    for (auto& [waiting, answer] : answers) {
      answered(std::move(waiting), std::move(answer));
    }
    if (over) {
      busy_ = false;
      if (over_) {
        over_();
      }
      start();
    }
  }

  // What has an outcome leaves the batch; what is held too, unless its fate has to be found out.
  void take(std::vector<std::pair<Waiting, Answer>>& answers) {
    if (!resolve_until_) {
      set_held_aside(answers);
    }
    std::vector<Waiting> left;
    Items left_items;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (items_[i].held) {
        left.push_back(std::move(batch_[i]));
        left_items.push_back(std::move(items_[i]));
      } else {
        answers.emplace_back(std::move(batch_[i]), std::move(items_[i].outcome));
      }
    }
    batch_ = std::move(left);
    items_ = std::move(left_items);
  }

  void set_held_aside(std::vector<std::pair<Waiting, Answer>>& answers) {
    std::vector<Waiting> left;
    Items left_items;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (items_[i].held) {
        answers.emplace_back(std::move(batch_[i]), store::StoreFault::kLocked);
      } else {
        left.push_back(std::move(batch_[i]));
        left_items.push_back(std::move(items_[i]));
      }
    }
    batch_ = std::move(left);
    items_ = std::move(left_items);
  }

  void answered(Waiting waiting, Answer answer) {
    const bool held = !answer && answer.error() == store::StoreFault::kLocked;
    if (held && client_.steady() - waiting.since < patience_) {
      client_.after(shared_.random.between(std::chrono::milliseconds(1), kHeldRetry),
                    [this, waiting = std::move(waiting)] {
                      waiting_.push_back(waiting);
                      start();
                    });
      return;
    }
    waiting.done(std::move(answer));
  }

  static constexpr std::size_t kBatch = 4;  // Small, so that there is something to wait for.
  static constexpr std::chrono::milliseconds kHeldPause{20}, kHeldRetry{50}, kConnectPause{100};

  Shared& shared_;
  Database& database_;
  Process& client_;
  const Outcome failed_;
  const Duration patience_;
  const Body body_;
  const Action over_;
  std::vector<Waiting> waiting_, batch_;
  Items items_;  // Of batch_, one by one.
  Runs runs_;
  bool busy_ = false;
  std::optional<Steady> resolve_until_;
};

}  // namespace audiogen::simulation
