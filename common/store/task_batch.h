// How TaskStore runs many commands in one transaction, and what it makes of failures.
#pragma once

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/store/meters.h"
#include "common/store/task_store.h"

namespace audiogen::store {

// The task a command is about, for logs.
inline TaskId task_of(const CreateCommand& command) {
  return command.id;
}
template <class Command>
TaskId task_of(const Command& command) {
  return command.task;
}

// Its trail, where the command brings it.
template <class Command>
Trail trail_of(const Command& command) {
  if constexpr (requires { command.trail; }) {
    return command.trail;
  } else {
    return {};
  }
}

inline StoreFault to_store_fault(const DbError& error) {
  switch (error.fault()) {
    case DbFault::kUnknownOutcome:
      return StoreFault::kUnknownOutcome;
    case DbFault::kBusy:
      return StoreFault::kLocked;
    default:
      return StoreFault::kUnavailable;
  }
}

// Whether the others of a batch may pass without the one that brought the fault about, if one did.
inline bool may_be_of_one(DbFault fault) {
  return is_row_fault(fault) || fault == DbFault::kBusy || fault == DbFault::kUnexpected;
}

// How long the commands of a batch may be run one by one: others wait, too.
inline constexpr std::chrono::seconds kEachWithin{2};

// A command while its transaction runs.
template <class Command, class Outcome>
struct BatchItem {
  const Command* command;
  // For the body to set. In a run `again`, what the run before, which may have been committed, made
  // of it; else what TaskStore::in_batch() was given as `failed`.
  Outcome outcome;
  // For the body to set: another transaction holds a row of it, so nothing was done.
  bool held = false;
};

// The commands of one call of in_batch(), until each has its result.
template <class Command, class Outcome>
class BatchRun {
 public:
  using Entries = std::vector<BatchItem<Command, Outcome>>;
  using Body = std::function<void(Entries&, bool again)>;
  using LogFault = std::function<void(const DbError&, std::size_t commands)>;

  BatchRun(Session& session,
           const char* what,
           std::span<const Command> commands,
           const Outcome& failed,
           const Body& body,
           const LogFault& log_fault)
      : session_(session),
        what_(what),
        commands_(commands),
        failed_(failed),
        body_(body),
        log_fault_(log_fault),
        results_(commands.size(), StoreFault::kUnavailable) {}

  // One transaction for all, or one each when a row of one of them is what failed it.
  Batch<Outcome> run() && {
    if (commands_.empty()) {
      return std::move(results_);
    }
    const auto fault = run_once(commands_);
    if (!fault) {
      return std::move(results_);
    }
    if (commands_.size() == 1) {
      fail_one(commands_, *fault);
    } else if (may_be_of_one(fault->fault())) {
      run_each();
    } else {
      fill(commands_, to_store_fault(*fault));
    }
    return std::move(results_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Nullopt: all of `some` have their results. What the server ended is run once more.
  std::optional<DbError> run_once(std::span<const Command> some) {
    Entries entries;
    const auto begin = [&] {
      entries.clear();
      for (const Command& command : some) {
        entries.push_back({&command, failed_});
      }
    };
    for (bool again = false;; again = true) {
      try {
        session_.transact(
            [&] {
              begin();
              body_(entries, false);
            },
            what_);
      } catch (const DbError& e) {
        log_fault_(e, some.size());
        if (e.fault() == DbFault::kUnknownOutcome) {
          resolve(std::move(entries));
          return std::nullopt;
        }
        // Whoever ended one statement, an operator or a limit, ended it for all of `some`, and what
        // the transaction had done is rolled back.
        if (e.fault() == DbFault::kTimeout && !again) {
          meters::retries(meters::Retry::kEnded).Increment();
          continue;
        }
        return e;
      }
      take(entries);
      return std::nullopt;
    }
  }

  // The reply to COMMIT was lost. The body finds out under its locks what was committed; locks that
  // the lost transaction may still hold are waited for, the server ends it soon.
  void resolve(Entries entries) {
    std::erase_if(entries, [this](const auto& entry) {
      if (entry.held) {  // Of these nothing was sent: that is decided.
        at(*entry.command) = StoreFault::kLocked;
      }
      return entry.held;
    });
    const Clock::time_point until = Clock::now() + kResolveWithin;
    while (!entries.empty()) {
      auto pause = kHeldPause;
      meters::retries(meters::Retry::kUndecided).Increment();
      try {
        session_.transact(
            [&] {
              for (auto& entry : entries) {
                entry.held = false;
              }
              body_(entries, true);
            },
            what_);
        take(entries);
        std::erase_if(entries, [](const auto& entry) { return !entry.held; });
      } catch (const DbError&) {
        pause = kConnectPause;
      }
      if (entries.empty()) {
        return;
      }
      if (Clock::now() >= until) {
        for (const auto& entry : entries) {
          at(*entry.command) = StoreFault::kUnknownOutcome;
        }
        return;
      }
      std::this_thread::sleep_for(pause);
    }
  }

  // Perhaps one command spoils the batch; which one, only running them alone tells. What is not
  // done in time is left for the next batch: others wait, too.
  void run_each() {
    const Clock::time_point until = Clock::now() + kEachWithin;
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (Clock::now() >= until) {
        fill(commands_.subspan(i), StoreFault::kLocked);
        return;
      }
      const auto one = commands_.subspan(i, 1);
      if (const auto fault = run_once(one)) {
        if (!may_be_of_one(fault->fault())) {
          fill(commands_.subspan(i), to_store_fault(*fault));  // It would be the same for the rest.
          return;
        }
        fail_one(one, *fault);
      }
    }
  }

  void fail_one(std::span<const Command> one, const DbError& fault) {
    if (!is_row_fault(fault.fault())) {
      fill(one, to_store_fault(fault));
      return;
    }
    log::error("command failed",
               about(task_of(one.front()), trail_of(one.front())),
               {{"what", what_}, {"code", fault.code()}, {"error", fault.what()}});
    at(one.front()) = failed_;
  }

  Result<Outcome, StoreFault>& at(const Command& command) {
    return results_[static_cast<std::size_t>(&command - commands_.data())];
  }
  void take(Entries& entries) {
    for (auto& entry : entries) {
      auto& result = at(*entry.command);
      if (entry.held) {
        result = StoreFault::kLocked;
      } else {
        result = std::move(entry.outcome);
      }
    }
  }
  void fill(std::span<const Command> some, StoreFault fault) {
    for (const Command& command : some) {
      at(command) = fault;
    }
  }

  static constexpr std::chrono::milliseconds kHeldPause{20};

  Session& session_;
  const char* what_;
  std::span<const Command> commands_;
  const Outcome& failed_;
  const Body& body_;
  const LogFault& log_fault_;
  Batch<Outcome> results_;
};

template <class Command, class Outcome>
Batch<Outcome> TaskStore::in_batch(
    const char* what,
    std::span<const Command> commands,
    const Outcome& failed,
    const std::function<void(std::vector<BatchItem<Command, Outcome>>&, bool again)>& body) {
  const auto log = [&](const DbError& e, std::size_t count) { log_fault(what, e, count); };
  return BatchRun<Command, Outcome>(session_, what, commands, failed, body, log).run();
}

template <class T>
Result<T, StoreFault> TaskStore::guarded(const char* what, const std::function<T()>& use) {
  try {
    return use();
  } catch (const DbError& e) {
    log_fault(what, e, 1);
    return to_store_fault(e);
  }
}

// The outcomes of a read for all commands at once.
template <class Outcome>
Batch<Outcome> all_or_fault(Result<std::vector<Outcome>, StoreFault> outcomes, std::size_t count) {
  if (!outcomes) {
    return Batch<Outcome>(count, outcomes.error());
  }
  Batch<Outcome> batch;
  batch.reserve(count);
  for (Outcome& outcome : *outcomes) {
    batch.push_back(std::move(outcome));
  }
  return batch;
}

}  // namespace audiogen::store
