// How TaskStore runs many commands in one transaction, and what it makes of failures.
#pragma once

#include <utility>
#include <vector>

#include "common/base/log.h"
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

inline StoreFault to_store_fault(const DbError& error) {
  return error.fault() == DbFault::kUnknownOutcome ? StoreFault::kUnknownOutcome
                                                   : StoreFault::kUnavailable;
}

template <class Command, class Outcome>
Batch<Outcome> TaskStore::in_batch(
    const char* what,
    std::span<const Command> commands,
    const Outcome& failed,
    const std::function<void(std::span<const Command>, Round, std::vector<Outcome>&)>& body) {
  std::vector<Outcome> outcomes;
  const auto run = [&](std::span<const Command> some, Locking balances) {
    session_.transact_surely([&](bool again) {
      if (!again) {
        outcomes.assign(some.size(), failed);
      }
      body(some, {.again = again, .balances = balances}, outcomes);
    });
  };
  const auto is_row_fault = [](const DbError& e) {
    return e.fault() == DbFault::kDuplicate || e.fault() == DbFault::kConstraint ||
           e.fault() == DbFault::kBug;
  };
  if (commands.empty()) {
    return outcomes;
  }
  try {
    run(commands, Locking::kWait);
    return outcomes;
  } catch (const DbError& e) {
    log_fault(what, e, commands.size());
    if (e.fault() == DbFault::kBusy && commands.size() > 1) {
      try {
        run(commands, Locking::kSkipLocked);
        return outcomes;
      } catch (const DbError& second) {
        log_fault(what, second, commands.size());
        return to_store_fault(second);
      }
    }
    if (!is_row_fault(e)) {
      return to_store_fault(e);
    }
  }
  std::vector<Outcome> all;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    try {
      run(commands.subspan(i, 1), Locking::kWait);
      all.push_back(std::move(outcomes.front()));
    } catch (const DbError& e) {
      if (e.fault() == DbFault::kUnknownOutcome) {
        return StoreFault::kUnknownOutcome;
      }
      log::error("command failed",
                 {{"what", what},
                  {"task", task_of(commands[i])},
                  {"code", e.code()},
                  {"error", e.what()}});
      all.push_back(failed);
    }
  }
  return all;
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

}  // namespace audiogen::store
