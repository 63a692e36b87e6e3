// Creating tasks: holds, idempotency keys, batches, and what concurrency may not do to them.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <semaphore>
#include <set>

#include "common/store/accounts.h"
#include "common/store/group_commit.h"
#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using Kind = CreateOutcome::Kind;
using CreateGroup = GroupCommit<CreateCommand, CreateOutcome>;

CreateGroup::RunInTurn run_create() {
  return [](TaskStore& store, std::span<const CreateCommand> commands, const Turn& turn) {
    return store.create(commands, turn);
  };
}

// Submits `commands` from `threads` threads and collects the outcomes, in the order of commands.
std::vector<Result<CreateOutcome, StoreFault>> through_group(
    CreateGroup& group, const std::vector<CreateCommand>& commands, std::size_t threads) {
  std::vector<Result<CreateOutcome, StoreFault>> outcomes(commands.size(), CreateOutcome{});
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t answered = 0;
  in_parallel(threads, [&](std::size_t t) {
    for (std::size_t i = t; i < commands.size(); i += threads) {
      EXPECT_TRUE(group.submit(commands[i], [&, i](Result<CreateOutcome, StoreFault> outcome) {
        const std::scoped_lock lock(mutex);
        outcomes[i] = std::move(outcome);
        ++answered;
        changed.notify_one();
      }));
    }
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, 90s, [&] { return answered == commands.size(); }));
  return outcomes;
}

std::map<Kind, int> count(const std::vector<Result<CreateOutcome, StoreFault>>& outcomes) {
  std::map<Kind, int> out;
  for (const auto& outcome : outcomes) {
    if (outcome) {
      ++out[outcome->kind];
    } else {
      ADD_FAILURE() << "store fault";
    }
  }
  return out;
}

class CreateTest : public TaskStoreTest {
 protected:
  std::int64_t tasks() { return db_.number(Sql("SELECT COUNT(*) FROM tasks")); }
  std::int64_t keys() { return db_.number(Sql("SELECT COUNT(*) FROM idempotency")); }
};

TEST_F(CreateTest, HoldsAndAnswersWithTheTask) {
  const UserId user = db_.add_user(credits(200));
  CreateCommand command = create_command(user, "key-1");
  command.output_format = OutputFormat::kOggOpus;
  command.deadline = 60s;
  const Instant before = db_.session().now();
  const CreateOutcome outcome = create(command);
  ASSERT_EQ(outcome.kind, Kind::kCreated);
  EXPECT_EQ(outcome.task.id, command.id);
  EXPECT_EQ(outcome.task.state, TaskState::kQueued);
  EXPECT_EQ(outcome.task.claims, 0U);
  EXPECT_EQ(outcome.task.held, kHoldAmount);
  EXPECT_EQ(outcome.task.output_format, OutputFormat::kOggOpus);
  EXPECT_FALSE(outcome.task.charged);
  EXPECT_EQ(db_.balance(user), (Balance{credits(50), credits(150), 2}));

  const auto found = find(command.id, user);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->created_at, outcome.task.created_at);
  EXPECT_EQ(found->updated_at, outcome.task.created_at);
  EXPECT_EQ(found->output_format, OutputFormat::kOggOpus);
  EXPECT_GE(outcome.task.created_at, before);
  EXPECT_LE(outcome.task.created_at, db_.session().now());
  EXPECT_EQ(column(command.id, "TIMESTAMPDIFF(SECOND, created_at, deadline_at)"), 60);
  EXPECT_EQ(column(command.id, "TIMESTAMPDIFF(SECOND, created_at, wake_at)"), 15);
  EXPECT_EQ(db_.text(Sql("SELECT request FROM tasks")), command.request);
}

TEST_F(CreateTest, ADeadlineSoonerThanTheFirstLookBringsItForward) {
  CreateCommand command = create_command(db_.add_user());
  command.deadline = 2s;
  create(command);
  EXPECT_EQ(column(command.id, "TIMESTAMPDIFF(SECOND, created_at, wake_at)"), 2);
}

TEST_F(CreateTest, InsufficientWritesNothing) {
  const UserId user = db_.add_user(kHoldAmount - Units{1});
  EXPECT_EQ(create(create_command(user, "k")).kind, Kind::kInsufficient);
  EXPECT_EQ(tasks(), 0);
  EXPECT_EQ(keys(), 0);
  EXPECT_EQ(db_.balance(user).seq, 1U);
}

TEST_F(CreateTest, AnEmptyBatchAndAnUnknownUser) {
  EXPECT_TRUE(must(store_.create({})).empty());
  EXPECT_EQ(create(create_command(UserId::make())).kind, Kind::kFailed);
  EXPECT_EQ(tasks(), 0);
}

TEST_F(CreateTest, RequestsAndKeysKeepEveryByte) {
  CreateCommand command = create_command(db_.add_user(), R"(a'b"c\d%_;--\')");
  command.request = std::string("quote ' \" \\ nul ") + '\0' + " utf8 \xF0\x9F\x8E\xB5 end";
  EXPECT_EQ(create(command).kind, Kind::kCreated);
  EXPECT_EQ(db_.text(Sql("SELECT request FROM tasks")), command.request);
  EXPECT_EQ(db_.text(Sql("SELECT idem_key FROM idempotency")), *command.idempotency_key);
  CreateCommand again = command;
  again.id = TaskId::make();
  EXPECT_EQ(create(again).kind, Kind::kReplayed);
}

TEST_F(CreateTest, ParallelStoresNeverOverspend) {
  const UserId user = db_.add_user(credits(150));
  std::atomic<int> created{0}, insufficient{0};
  in_parallel(32, [&](std::size_t) {
    TaskStore store(db_.url());
    const CreateCommand command = create_command(user);
    const CreateOutcome outcome =
        until_free(std::span(&command, 1), [&](auto some) { return store.create(some); }).front();
    created += outcome.kind == Kind::kCreated ? 1 : 0;
    insufficient += outcome.kind == Kind::kInsufficient ? 1 : 0;
  });
  EXPECT_EQ(created, 1);
  EXPECT_EQ(insufficient, 31);
  EXPECT_EQ(db_.balance(user), (Balance{credits(0), credits(150), 2}));
}

TEST_F(CreateTest, AGroupNeverOverspends) {
  const UserId user = db_.add_user(credits(150));
  CreateGroup group(db_.url(), patient_group(3, 5), run_create());
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 32; ++i) {
    commands.push_back(create_command(user));
  }
  auto kinds = count(through_group(group, commands, 8));
  EXPECT_EQ(kinds[Kind::kCreated], 1);
  EXPECT_EQ(kinds[Kind::kInsufficient], 31);
}

TEST_F(CreateTest, AHotUserThroughManyThreads) {
  const UserId hot = db_.add_user(credits(150 * 500));
  CreateGroup group(db_.url(), patient_group(4, 16), run_create());
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 600; ++i) {
    commands.push_back(create_command(hot));
  }
  auto kinds = count(through_group(group, commands, 8));
  EXPECT_EQ(kinds[Kind::kCreated], 500);
  EXPECT_EQ(kinds[Kind::kInsufficient], 100);
  EXPECT_EQ(db_.balance(hot).available, Units{});
}

TEST_F(CreateTest, EqualKeysAtOnceAreOneTask) {
  const UserId user = db_.add_user();
  std::mutex mutex;
  std::set<TaskId> ids;
  std::map<Kind, int> kinds;
  in_parallel(16, [&](std::size_t) {
    TaskStore store(db_.url());
    std::vector<CreateCommand> commands;
    for (int i = 0; i < 4; ++i) {
      commands.push_back(create_command(user, "the key"));
    }
    for (const CreateOutcome& outcome : until_free(std::span<const CreateCommand>(commands),
                                                   [&](auto some) { return store.create(some); })) {
      const std::scoped_lock lock(mutex);
      ids.insert(outcome.task.id);
      ++kinds[outcome.kind];
    }
  });
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(kinds[Kind::kCreated], 1);
  EXPECT_EQ(kinds[Kind::kReplayed], 63);
  EXPECT_EQ(tasks(), 1);
}

// Of many at once, of sessions that know nothing of each other.
TEST_F(CreateTest, OfTwoRequestsWithOneKeyOneWins) {
  constexpr std::size_t kStores = 16, kEach = 4, kRounds = 4;
  const UserId user = db_.add_user();
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::string key = "the key of round " + std::to_string(round);
    std::mutex mutex;
    std::map<std::size_t, std::map<Kind, std::size_t>> kinds;  // By which of the two.
    std::set<TaskId> ids;
    in_parallel(kStores, [&](std::size_t store_number) {
      TaskStore store(db_.url());
      std::vector<CreateCommand> commands;
      for (std::size_t i = 0; i < kEach; ++i) {
        commands.push_back(create_command(user, key));
        // Half of the stores begin with one, half with the other.
        const bool other = (i + store_number) % 2 == 1;
        commands.back().fingerprint = sha256(other ? "another request" : "a request");
      }
      const auto outcomes = until_free(std::span<const CreateCommand>(commands),
                                       [&](auto some) { return store.create(some); });
      const std::scoped_lock lock(mutex);
      for (std::size_t i = 0; i < kEach; ++i) {
        ++kinds[(i + store_number) % 2][outcomes[i].kind];
        if (outcomes[i].kind != Kind::kConflict) {
          ids.insert(outcomes[i].task.id);
        }
      }
    });
    EXPECT_EQ(ids.size(), 1U);
    constexpr std::size_t kHalf = kStores * kEach / 2;
    const std::size_t winner = kinds[0].contains(Kind::kCreated) ? 0 : 1;
    EXPECT_EQ(kinds[winner],
              (std::map<Kind, std::size_t>{{Kind::kCreated, 1}, {Kind::kReplayed, kHalf - 1}}));
    EXPECT_EQ(kinds[1 - winner], (std::map<Kind, std::size_t>{{Kind::kConflict, kHalf}}));
  }
  EXPECT_EQ(tasks(), static_cast<std::int64_t>(kRounds));
}

TEST_F(CreateTest, ABatchSeesItsOwnKeysAndHolds) {
  const UserId user = db_.add_user(credits(300)), other = db_.add_user();
  std::vector<CreateCommand> commands = {create_command(user, "a"),
                                         create_command(user, "a"),
                                         create_command(user, "a"),
                                         create_command(other, "a"),
                                         create_command(user),
                                         create_command(user, "b"),
                                         create_command(UserId::make(), "a"),
                                         create_command(other)};
  commands[2].fingerprint = sha256("another request");
  const auto outcomes = must(store_.create(commands));
  std::vector<Kind> kinds;
  std::transform(outcomes.begin(), outcomes.end(), std::back_inserter(kinds), [](const auto& o) {
    return o.kind;
  });
  EXPECT_EQ(kinds,
            (std::vector{Kind::kCreated,
                         Kind::kReplayed,
                         Kind::kConflict,
                         Kind::kCreated,
                         Kind::kCreated,
                         Kind::kInsufficient,
                         Kind::kFailed,
                         Kind::kCreated}));
  EXPECT_EQ(outcomes[1].task.id, commands[0].id);
  EXPECT_EQ(tasks(), 4);
  EXPECT_EQ(keys(), 2);
}

TEST_F(CreateTest, AKeyWithAnotherRequestConflicts) {
  const UserId user = db_.add_user();
  create(create_command(user, "k"));
  CreateCommand other = create_command(user, "k");
  other.fingerprint = sha256("another request");
  EXPECT_EQ(create(other).kind, Kind::kConflict);
  EXPECT_EQ(create(create_command(user, "K")).kind, Kind::kCreated) << "keys know upper case";
  EXPECT_EQ(tasks(), 2);
}

// More than the server takes in one packet.
// A transaction carries about a megabyte, whoever sends how much: what a user of large requests
// writes delays nobody's COMMIT for long, and fits into a packet.
TEST_F(CreateTest, TheLargestRequestsComeTogether) {
  const UserId user = db_.add_user(credits(150 * 128));
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 128; ++i) {
    commands.push_back(create_command(user));
    commands.back().request = std::string(std::size_t{90} * 1024, static_cast<char>('a' + i % 26));
  }
  const GroupOptions options{.threads = 2, .batch_max = 128, .wait_max = 1h};
  std::mutex mutex;
  std::size_t largest = 0;
  CreateGroup group(db_.url(),
                    options,
                    CreateGroup::RunInTurn([&](TaskStore& store, auto batch, const Turn& turn) {
                      std::size_t bytes = 0;
                      for (const CreateCommand& command : batch) {
                        bytes += command.request.size();
                      }
                      {
                        const std::scoped_lock lock(mutex);
                        largest = std::max(largest, bytes);
                      }
                      return store.create(batch, turn);
                    }));
  // A machine that does ten other things may be too slow for one of the transactions; then nothing
  // of it is there, or nobody knows before somebody looks, and its clients come again.
  for (std::vector<CreateCommand> left = commands; !left.empty();) {
    const auto outcomes = through_group(group, left, 8);
    std::vector<CreateCommand> again;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (!outcomes[i]) {
        const auto there = db_.number(Sql("SELECT COUNT(*) FROM tasks WHERE id=") << left[i].id);
        if (outcomes[i].error() != StoreFault::kUnknownOutcome) {
          ASSERT_EQ(there, 0);
        }
        if (there == 0) {
          again.push_back(left[i]);
        }
      } else {
        EXPECT_EQ(outcomes[i]->kind, Kind::kCreated);
      }
    }
    left = std::move(again);
  }
  EXPECT_LT(largest, options.batch_bytes + commands.front().request.size());
  EXPECT_EQ(tasks(), 128);
  for (const CreateCommand& command : commands) {
    EXPECT_EQ(db_.text(Sql("SELECT request FROM tasks WHERE id=") << command.id), command.request);
  }
}

TEST_F(CreateTest, KeysReplayTheTaskAsItStands) {
  const UserId user = db_.add_user();
  const auto end = [&](const char* key, const std::function<void(TaskId)>& ending) {
    const CreateCommand command = create_command(user, key);
    create(command);
    ending(command.id);
    CreateCommand again = create_command(user, key);
    const CreateOutcome outcome = create(again);
    EXPECT_EQ(outcome.kind, Kind::kReplayed);
    EXPECT_EQ(outcome.task.id, command.id);
    return outcome.task;
  };
  const TaskView done = end("done", [&](TaskId id) {
    EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(id))), SettleOutcome::kSettled);
  });
  EXPECT_EQ(done.state, TaskState::kSucceeded);
  EXPECT_EQ(done.charged, credits(75));
  EXPECT_EQ(done.duration_ms, 60'000);
  EXPECT_FALSE(done.output_key.empty());

  const TaskView failed = end("failed", [&](TaskId id) {
    SettleCommand command = settle_command(Settle::kFail, *claim(id));
    command.failure = FailureCode::kContentRejected;
    command.failure_message = "No.";
    EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  });
  EXPECT_EQ(failed.state, TaskState::kFailed);
  EXPECT_EQ(failed.failure, FailureCode::kContentRejected);
  EXPECT_EQ(failed.failure_message, "No.");
  EXPECT_EQ(failed.charged, Units{});

  const TaskView canceled = end(
      "canceled", [&](TaskId id) { EXPECT_EQ(must(store_.cancel(id)), CancelOutcome::kCanceled); });
  EXPECT_EQ(canceled.state, TaskState::kCanceled);

  const TaskView retried = end("retried", [&](TaskId id) {
    EXPECT_EQ(settle(settle_command(Settle::kRetry, *claim(id))), SettleOutcome::kRequeued);
  });
  EXPECT_EQ(public_status(retried.state, retried.claims), "queued");
  EXPECT_EQ(tasks(), 4);
}

TEST_F(CreateTest, ARefusedKeyMayBeUsedAgain) {
  const UserId user = db_.add_user(credits(1));
  EXPECT_EQ(create(create_command(user, "k")).kind, Kind::kInsufficient);
  ASSERT_TRUE(Accounts(db_.session()).grant(user, credits(1000), GrantKind::kBonus, "more"));
  EXPECT_EQ(create(create_command(user, "k")).kind, Kind::kCreated);
}

TEST_F(CreateTest, OneBadRowFailsOneCommand) {
  const UserId user = db_.add_user(), other = db_.add_user();
  const TaskId taken = create(user);
  std::vector<CreateCommand> commands = {create_command(user, "a"),
                                         create_command(other, "b"),
                                         create_command(user),
                                         create_command(other)};
  commands[2].id = taken;  // The primary key refuses it.
  const auto outcomes = must(store_.create(commands));
  EXPECT_EQ(outcomes[0].kind, Kind::kCreated);
  EXPECT_EQ(outcomes[1].kind, Kind::kCreated);
  EXPECT_EQ(outcomes[2].kind, Kind::kFailed);
  EXPECT_EQ(outcomes[3].kind, Kind::kCreated);
  EXPECT_EQ(tasks(), 4);
}

// A lost update would give a sequence number twice: the ledger's key must refuse it.
TEST_F(CreateTest, ABalanceThatLostAnUpdateIsRefused) {
  const UserId user = db_.add_user();
  create(user);
  db_.execute(Sql("UPDATE balances SET seq=1 WHERE user_id=") << user);
  EXPECT_EQ(create(create_command(user)).kind, Kind::kFailed);
  EXPECT_EQ(tasks(), 1);
  db_.execute(Sql("UPDATE balances SET seq=2 WHERE user_id=") << user);
}

TEST_F(CreateTest, AHeldBalanceDelaysItsOwnerAlone) {
  const UserId stuck = db_.add_user(), free = db_.add_user();
  RowHolder holder(db_.url(), balance_of(stuck));
  const std::vector<CreateCommand> both = {create_command(stuck), create_command(free)};
  for (int i = 0; i < 2; ++i) {
    const auto outcomes = store_.create(both);
    ASSERT_FALSE(outcomes[0]);
    EXPECT_EQ(outcomes[0].error(), StoreFault::kLocked);
    if (i == 0) {
      ASSERT_TRUE(outcomes[1]);
      EXPECT_EQ(outcomes[1]->kind, Kind::kCreated);
    }
  }
  EXPECT_EQ(tasks(), 1);
  holder.release();
  EXPECT_EQ(create(both[0]).kind, Kind::kCreated);
}

// A row that was handed over is waited for, but not for ever: then it is like any held row, and
// whoever shares the batch goes on.
TEST_F(CreateTest, WhoFollowsWaitsForHisRowAndNotForEver) {
  const UserId next = db_.add_user(), free = db_.add_user();
  const std::vector<CreateCommand> both = {create_command(next), create_command(free)};
  RowHolder holder(db_.url(), balance_of(next));
  const Turn turn{.follows = {next.uuid}};
  const auto in_vain = store_.create(both, turn);
  ASSERT_FALSE(in_vain[0]);
  EXPECT_EQ(in_vain[0].error(), StoreFault::kLocked);
  ASSERT_TRUE(in_vain[1]);
  EXPECT_EQ(in_vain[1]->kind, Kind::kCreated);
  EXPECT_EQ(tasks(), 1);
  holder.release();
  // The row comes while it waits: taken in this very transaction. Now and then a slow machine is
  // later than the wait; then nothing was done, and it may be asked again.
  bool created = false;
  for (int i = 0; i < 50 && !created; ++i) {
    RowHolder before(db_.url(), balance_of(next));
    std::atomic<bool> done{false};
    std::thread freeing([&] {
      EXPECT_TRUE(test::eventually(60s, [&] {
        return done || db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                      "db=DATABASE() AND info LIKE '%FROM balances%FOR UPDATE' AND "
                                      "id<>CONNECTION_ID()")) > 0;
      }));
      before.release();
    });
    const auto outcome = store_.create({both.data(), 1}, turn);
    done = true;
    freeing.join();
    created = outcome[0] && outcome[0]->kind == Kind::kCreated;
  }
  EXPECT_TRUE(created);
}

// Rows are handed over before COMMIT, when nobody else can have them, and only those that the
// transaction has; when it is run once more, none.
TEST_F(CreateTest, RowsAreHandedOverBeforeCommit) {
  const UserId user = db_.add_user(), stuck = db_.add_user();
  const std::vector<CreateCommand> both = {create_command(user), create_command(stuck)};
  RowHolder holder(db_.url(), balance_of(stuck));
  int calls = 0;
  const auto outcomes = store_.create(
      both, {.ends = [&](std::span<const Uuid> rows) {
        ++calls;
        EXPECT_EQ(std::vector<Uuid>(rows.begin(), rows.end()), std::vector<Uuid>{user.uuid});
        EXPECT_EQ(tasks(), 0);
        EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM (SELECT 1 FROM balances WHERE "
                                 "user_id=")
                             << user << " FOR UPDATE SKIP LOCKED) free"),
                  0);
      }});
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->kind, Kind::kCreated);
}

// What no lock of ours tells of beforehand: here an idempotency key that somebody else is writing.
TEST_F(CreateTest, ARowThatCanOnlyBeWaitedForDelaysItsOwnerAlone) {
  const UserId stuck = db_.add_user(), free = db_.add_user();
  Session holder(db_.url(), kHolds);
  holder.execute(Sql("BEGIN"));
  const std::vector<CreateCommand> commands = {
      create_command(free, "a"), create_command(stuck, "k"), create_command(free, "b")};
  holder.execute(Sql("INSERT INTO idempotency (user_id, idem_key, fingerprint, task_id, "
                     "created_at) VALUES (")
                 << stuck << ",'k',REPEAT('x',32)," << commands[1].id << ",UTC_TIMESTAMP(6))");
  const auto outcomes = store_.create(commands);
  ASSERT_TRUE(outcomes[0] && outcomes[2]);
  EXPECT_EQ(outcomes[0]->kind, Kind::kCreated);
  EXPECT_EQ(outcomes[2]->kind, Kind::kCreated);
  ASSERT_FALSE(outcomes[1]);
  EXPECT_EQ(outcomes[1].error(), StoreFault::kLocked);
  holder.execute(Sql("ROLLBACK"));
  EXPECT_EQ(create(commands[1]).kind, Kind::kCreated);
}

// One command after another of a user whose balance is held waits for itself; those of others are
// answered meanwhile, on a single thread.
TEST_F(CreateTest, AGroupSetsHeldUsersAside) {
  const UserId stuck = db_.add_user(credits(150 * 20)), free = db_.add_user(credits(150 * 50));
  for (const std::size_t threads : {1U, 3U}) {
    RowHolder holder(db_.url(), balance_of(stuck));
    CreateGroup group(db_.url(), patient_group(threads), run_create());
    std::atomic<int> stuck_done{0};
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(group.submit(create_command(stuck), [&](const auto& outcome) {
        EXPECT_TRUE(outcome && outcome->kind == Kind::kCreated);
        ++stuck_done;
      }));
    }
    std::vector<CreateCommand> commands;
    for (int i = 0; i < 25; ++i) {
      commands.push_back(create_command(free));
    }
    for (const auto& outcome : through_group(group, commands, 5)) {
      EXPECT_TRUE(outcome && outcome->kind == Kind::kCreated);
    }
    EXPECT_EQ(stuck_done, 0);
    holder.release();
    EXPECT_TRUE(test::eventually(60s, [&] { return stuck_done == 10; }));
  }
}

TEST_F(CreateTest, AGroupGivesUpOnAHeldUserInTime) {
  const UserId stuck = db_.add_user();
  RowHolder holder(db_.url(), balance_of(stuck));
  CreateGroup group(
      db_.url(), {.threads = 2, .wait_max = 1h, .wait_held_max = 200ms}, run_create());
  const auto outcomes = through_group(group, {create_command(stuck), create_command(stuck)}, 1);
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error(), StoreFault::kLocked);
  }
  // And when it stops, without waiting.
  CreateGroup stopping(db_.url(), {.threads = 2, .wait_max = 1h}, run_create());
  std::atomic<bool> answered{false};
  ASSERT_TRUE(stopping.submit(create_command(stuck), [&](const auto& outcome) {
    EXPECT_FALSE(outcome);
    answered = true;
  }));
  stopping.stop();
  EXPECT_TRUE(answered);
}

TEST_F(CreateTest, PurgeForgetsOldKeysOfFinalTasksOnly) {
  const UserId user = db_.add_user();
  std::vector<CreateCommand> commands;
  for (const char* key : {"old open", "old done", "young done"}) {
    commands.push_back(create_command(user, key));
  }
  must(store_.create(commands));
  for (const std::size_t i : {1U, 2U}) {
    settle(settle_command(Settle::kFail, *claim(commands[i].id)));
  }
  db_.execute(
      Sql("UPDATE idempotency SET created_at=created_at - INTERVAL 8 DAY "
          "WHERE idem_key<>'young done'"));
  const auto oldest = must(store_.oldest_idempotency());
  ASSERT_TRUE(oldest);
  const auto purge = [&] {
    return must(store_.forget_idempotency(
        must(store_.old_idempotency(100, *oldest, *oldest + std::chrono::days(30)))));
  };
  EXPECT_EQ(purge(), 1U);
  EXPECT_EQ(purge(), 0U);
  EXPECT_EQ(keys(), 2);
  EXPECT_EQ(create(create_command(user, "old done")).kind, Kind::kCreated);
  EXPECT_EQ(create(create_command(user, "old open")).kind, Kind::kReplayed);
}

// Two purge, and between the look of one and its deletion the user uses the key again.
TEST_F(CreateTest, AKeyThatIsUsedAgainIsNotForgottenWithItsOldTask) {
  const UserId user = db_.add_user();
  const CreateCommand first = create_command(user, "again"), second = create_command(user, "again");
  EXPECT_EQ(create(first).kind, Kind::kCreated);
  settle(settle_command(Settle::kFail, *claim(first.id)));
  db_.execute(Sql("UPDATE idempotency SET created_at=created_at - INTERVAL 8 DAY"));
  const auto oldest = must(store_.oldest_idempotency());
  const auto seen = must(store_.old_idempotency(100, *oldest, *oldest + std::chrono::days(1)));
  ASSERT_EQ(seen.size(), 1U);
  TaskStore rival(db_.url());
  EXPECT_EQ(must(rival.forget_idempotency(seen)), 1U);
  EXPECT_EQ(create(second).kind, Kind::kCreated);
  EXPECT_EQ(must(store_.forget_idempotency(seen)), 0U);
  EXPECT_EQ(create(create_command(user, "again")).kind, Kind::kReplayed);
  EXPECT_EQ(db_.balance(user).held, kHoldAmount) << "one hold for one key";
}

TEST_F(CreateTest, FindHidesForeignTasks) {
  const UserId user = db_.add_user(), other = db_.add_user();
  const TaskId task = create(user);
  const std::vector<FindCommand> commands = {
      {task, user}, {task, other}, {TaskId::make(), user}, {task, user}};
  const auto found = must(store_.find(commands));
  EXPECT_TRUE(found[0] && found[3]);
  EXPECT_FALSE(found[1] || found[2]);
  EXPECT_TRUE(must(store_.find({})).empty());
}

TEST_F(CreateTest, FindsKeysThatStillOpenDoors) {
  const UserId paid = db_.add_user(), free = db_.add_user();
  db_.execute(Sql("UPDATE users SET plan=0 WHERE id=") << free);
  const auto add_key = [&](UserId user, const char* secret) {
    const KeyId id = KeyId::make();
    Sql sql("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (");
    sql << id << "," << user << ",";
    sql.bytes(sha256(secret)) << ",'p','n',UTC_TIMESTAMP(6))";
    db_.execute(sql);
    return id;
  };
  const KeyId first = add_key(paid, "one"), gone = add_key(paid, "two");
  const KeyId third = add_key(free, "three");
  db_.execute(Sql("UPDATE api_keys SET deleted_at=created_at WHERE id=") << gone);
  const std::vector<Sha256> hashes = {
      sha256("one"), sha256("two"), sha256("three"), sha256("four"), sha256("one")};
  const auto keys = must(store_.find_keys(hashes));
  ASSERT_TRUE(keys[0] && keys[2] && keys[4]);
  EXPECT_FALSE(keys[1] || keys[3]);
  EXPECT_EQ(keys[0]->id, first);
  EXPECT_EQ(keys[0]->user, paid);
  EXPECT_TRUE(keys[0]->api_access);
  EXPECT_FALSE(keys[2]->api_access);
  EXPECT_EQ(keys[0]->scopes, kUsualScopes) << "of a key from before there were any";
  db_.execute(Sql("UPDATE users SET purchased=1 WHERE id=") << free);
  EXPECT_TRUE(must(store_.find_keys(hashes))[2]->api_access);

  EXPECT_TRUE(store_.touch_keys({}).empty());
  must(store_.touch_keys(std::vector{*keys[2]}));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM api_keys WHERE last_used_at IS NOT NULL")), 1);

  RowHolder holder(db_.url(), Sql("SELECT 1 FROM api_keys WHERE id=") << third);
  const auto noted = store_.touch_keys(std::vector{*keys[2], *keys[0], *keys[0]});
  EXPECT_EQ(noted[0].error(), StoreFault::kLocked);
  EXPECT_TRUE(noted[1] && noted[2]) << "the same one, twice";
  EXPECT_EQ(db_.number(Sql("SELECT last_used_at IS NOT NULL FROM api_keys WHERE id=") << first), 1)
      << "one that is held keeps no other";
  holder.release();
}

TEST_F(CreateTest, AGroupRefusesWhatItCannotHold) {
  CreateGroup group(db_.url(), {.threads = 1, .batch_max = 1, .capacity = 1}, run_create());
  group.stop();
  EXPECT_FALSE(group.submit(create_command(UserId::make()),
                            [](const auto&) { ADD_FAILURE() << "answered"; }));
}

// The gate is asked, and told: `arrived` is what it goes by.
TEST_F(CreateTest, AGroupRefusesWhileCommandsWaitTooLong) {
  std::counting_semaphore<> begun(0), go_on(0);
  std::atomic<int> answered{0};
  CreateGroup group(db_.url(),
                    {.threads = 1, .batch_max = 1, .wait_max = 1h, .refuse_above = 1min},
                    [&](TaskStore&, std::span<const CreateCommand>) {
                      begun.release();
                      go_on.acquire();
                      return Batch<CreateOutcome>(1, CreateOutcome{});
                    });
  const auto submit = [&](std::chrono::minutes ago) {
    return group.submit(
        create_command(UserId::make()),
        [&](const auto&) { ++answered; },
        std::chrono::steady_clock::now() - ago);
  };
  ASSERT_TRUE(submit(0min));
  begun.acquire();
  ASSERT_TRUE(submit(2min));
  ASSERT_TRUE(submit(0min));
  ASSERT_TRUE(submit(0min));
  go_on.release();
  begun.acquire();  // The second has begun: it waited too long, and two still wait.
  EXPECT_TRUE(group.late(std::chrono::steady_clock::now()));
  EXPECT_FALSE(submit(0min));
  go_on.release();
  begun.acquire();  // One waits.
  EXPECT_FALSE(group.late(std::chrono::steady_clock::now()));
  EXPECT_TRUE(submit(0min));
  go_on.release(3);
  ASSERT_TRUE(test::eventually(60s, [&] { return answered == 5; }));
}

}  // namespace
}  // namespace audiogen::store
