// What the store's tests share: a database, a store, and short ways to move tasks. Every test ends
// with the invariants.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/store/group_commit.h"
#include "common/store/task_store.h"
#include "tests/support/test_database.h"

namespace audiogen::store {

inline std::string no_provider(const Claim&) {
  return "";
}
inline std::string some_provider(const Claim&) {
  return "primary";
}

// The value, or a failed test.
template <class T>
T must(Result<T, StoreFault> result) {
  if (!result) {
    ADD_FAILURE() << "store fault " << static_cast<int>(result.error());
    return T{};
  }
  return std::move(*result);
}

template <class T>
std::vector<T> must(Batch<T> batch) {
  std::vector<T> all;
  for (auto& result : batch) {
    all.push_back(must(std::move(result)));
  }
  return all;
}

template <class T>
T only(Batch<T> batch) {
  std::vector<T> all = must(std::move(batch));
  if (all.size() != 1) {
    ADD_FAILURE() << all.size() << " outcomes";
    return T{};
  }
  return T(all[0]);
}

// The outcomes of `commands`, tried again where others hold their rows, as rivals do in passing.
template <class Command, class Use>
auto until_free(std::span<const Command> commands, const Use& use) {
  auto results = use(commands);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    while (!results[i] && results[i].error() == StoreFault::kLocked) {
      std::this_thread::yield();
      results[i] = use(commands.subspan(i, 1)).front();
    }
  }
  return must(std::move(results));
}

inline CreateCommand create_command(UserId user, std::optional<std::string> key = std::nullopt) {
  CreateCommand command;
  command.id = TaskId::make();
  command.user = user;
  command.idempotency_key = std::move(key);
  command.fingerprint = sha256("a request");
  command.request = R"({"prompt":"a quiet sea"})";
  return command;
}

inline SettleCommand settle_command(SettleCommand::Kind kind, const Claim& claim) {
  SettleCommand command;
  command.kind = kind;
  command.task = claim.task;
  command.user = claim.user;
  command.epoch = claim.epoch;
  command.held = claim.held;
  if (kind == SettleCommand::Kind::kSucceed) {
    if (!claim.provider.empty()) {
      command.call = claim.calls + 1;
      command.call_state = kCallSucceeded;
    }
    command.output_key = claim.task.text() + "/" + std::to_string(claim.epoch);
    command.output_bytes = 1234;
    command.output_checksum = checksum("audio");
    command.duration_ms = 60'000;  // 75 credits
  }
  if (kind == SettleCommand::Kind::kRetry) {
    command.failure = FailureCode::kProviderUnavailable;
  }
  return command;
}

// For sessions that hold locks while a test looks at what others do meanwhile.
inline constexpr SessionOptions kHolds{.idle_in_transaction_max = std::chrono::seconds(600)};

// A group that gives up on nothing, however slow the machine is.
inline GroupOptions patient_group(std::size_t threads,
                                  std::size_t batch_max = GroupOptions{}.batch_max) {
  return {.threads = threads,
          .batch_max = batch_max,
          .wait_max = std::chrono::hours(1),
          .wait_held_max = std::chrono::hours(1),
          .refuse_above = std::chrono::hours(1)};
}

// Another session that holds the rows which `query` selects, until release() or its end.
class RowHolder {
 public:
  RowHolder(const DatabaseUrl& url, Sql query) : session_(url, kHolds) {
    session_.execute(Sql("BEGIN"));
    EXPECT_TRUE(session_.query(query << " FOR UPDATE").next());
  }
  void release() { session_.execute(Sql("ROLLBACK")); }

 private:
  Session session_;
};

inline Sql balance_of(UserId user) {
  return Sql("SELECT seq FROM balances WHERE user_id=") << user;
}
inline Sql row_of_task(TaskId task) {
  return Sql("SELECT epoch FROM tasks WHERE id=") << task;
}

// Runs `work` on `count` threads at once.
inline void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&work, i] { work(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

class TaskStoreTest : public ::testing::Test {
 protected:
  using Settle = SettleCommand::Kind;

  void TearDown() override { db_.expect_invariants(); }

  TaskId create(UserId user) {
    const CreateCommand command = create_command(user);
    EXPECT_EQ(only(store_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
    return command.id;
  }
  CreateOutcome create(const CreateCommand& command) { return only(store_.create({&command, 1})); }

  ClaimOutcome claim(TaskId task, std::uint32_t epoch = 0) {
    const Hint hint{task, epoch};
    return only(store_.claim({&hint, 1}, worker_, some_provider));
  }
  // `count` claimed tasks of `user`.
  std::vector<Claim> claim_many(UserId user, std::size_t count) {
    std::vector<CreateCommand> commands;
    std::vector<Hint> hints;
    for (std::size_t i = 0; i < count; ++i) {
      commands.push_back(create_command(user));
      hints.push_back({commands.back().id, 0});
    }
    must(store_.create(commands));
    std::vector<Claim> claims;
    for (ClaimOutcome& claim : must(store_.claim(hints, worker_, some_provider))) {
      claims.push_back(std::move(claim.value()));
    }
    return claims;
  }
  SettleOutcome settle(const SettleCommand& command) { return only(store_.settle({&command, 1})); }

  std::optional<TaskView> find(TaskId task, UserId user) {
    const FindCommand command{task, user};
    return only(store_.find({&command, 1}));
  }

  // One column of a task's row.
  template <std::size_t N>
  std::int64_t column(TaskId task, const char (&name)[N]) {
    return db_.number(Sql("SELECT ") << name << " FROM tasks WHERE id=" << task);
  }

  // Moves what the clock would have to reach. What is judged lies so far back that the length of a
  // look does not keep it from being so.
  void expire_lease(TaskId task) {
    db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                    "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
                << task);
  }
  void make_due(TaskId task) {
    db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                    "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
                << task);
  }
  // All tasks, as if so much time had passed since.
  void grow_old(int seconds) {
    Sql sql("UPDATE tasks SET created_at=created_at - INTERVAL ");
    sql << seconds << " SECOND, next_run_at=next_run_at - INTERVAL " << seconds
        << " SECOND, wake_at=wake_at - INTERVAL " << seconds << " SECOND";
    db_.execute(sql);
  }
  void pass_deadline(TaskId task) {
    db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                    "wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id=")
                << task);
  }

  test::TestDatabase db_;
  TaskStore store_{db_.url()};
  WorkerId worker_ = WorkerId::make();
};

}  // namespace audiogen::store
