// Working on tasks: claims, leases, calls, settlements and cancels, and the races between them.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include <gmock/gmock.h>

#include "common/store/group_commit.h"
#include "common/store/meters.h"
#include "common/store/task_rows.h"
#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

class WorkTest : public TaskStoreTest {
 protected:
  std::int64_t calls_in(TaskId task, std::uint32_t state) {
    return db_.number(Sql("SELECT COUNT(*) FROM attempts WHERE state=")
                      << state << " AND task_id=" << task);
  }
  // All calls of a task: number, epoch, provider, state, detail.
  std::string history(TaskId task) {
    return db_.text(
        Sql("SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ', n, epoch, provider, state, detail) "
            "ORDER BY n SEPARATOR ', '),'') FROM attempts WHERE task_id=")
        << task);
  }
  // All records of a task's calls: number, provider, outcome, quantity, cost, earned.
  std::string calls(TaskId task) {
    return db_.text(Sql("SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ', n, provider, outcome, "
                        "COALESCE(quantity,'-'), COALESCE(cost,'-'), COALESCE(earned,'-')) "
                        "ORDER BY n SEPARATOR ', '),'') FROM provider_calls WHERE task_id=")
                    << task);
  }
  // Of 26 characters, at 0.015 for a thousand.
  static CallRecord call_of(TaskId task, std::uint32_t n, CallOutcome outcome) {
    return {.task = task,
            .n = n,
            .provider = "primary",
            .outcome = outcome,
            .sent = std::chrono::steady_clock::now() - std::chrono::seconds(2),
            .took = std::chrono::milliseconds(1'500),
            .first_byte = std::chrono::milliseconds(250),
            .price = ProviderPrice{PriceUnit::kThousandCharacters, Micros{15'000}},
            .counted = {.characters = 26}};
  }
  std::int64_t past_calls() { return db_.number(Sql("SELECT COUNT(*) FROM past_attempts")); }
  bool start(TaskId task,
             std::uint32_t epoch,
             std::uint32_t n,
             std::string provider,
             std::uint32_t previous = 0) {
    const CallStart start{.task = task,
                          .epoch = epoch,
                          .n = n,
                          .provider = std::move(provider),
                          .previous = previous,
                          .previous_state = kCallFailed,
                          .previous_detail = previous == 0 ? "" : "503"};
    return only(store_.start_calls({&start, 1}));
  }
  bool renew(const Claim& claim, WorkerId worker) {
    const Lease lease{claim.task, claim.epoch};
    return only(store_.renew({&lease, 1}, worker)) == Renewal::kRenewed;
  }
  // What two rivals for the same task may leave behind.
  void expect_ended_once(TaskId task) {
    EXPECT_GE(column(task, "state"), 3);
    EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger WHERE kind=2 AND source_id=") << task),
              1);
  }
};

// Tickets outlive their workers: whoever claims the task next finds the newest call's.
TEST_F(WorkTest, TicketsAreOfTheNewestCall) {
  using Kind = TicketCommand::Kind;
  const TaskId task = create(db_.add_user()), other = create(db_.add_user());
  const auto run = [&](Kind kind, std::uint32_t n = 0, std::string ticket = "") {
    const std::vector<TicketCommand> commands = {
        {.kind = kind, .task = task, .n = n, .provider = "p" + std::to_string(n), .ticket = ticket},
        {.task = other}};
    const auto out = must(store_.tickets(commands));
    EXPECT_FALSE(out[1]);
    return out[0] ? std::to_string(out[0]->n) + " " + out[0]->provider + " " + out[0]->ticket : "";
  };
  EXPECT_EQ(run(Kind::kFind), "");
  run(Kind::kKeep, 2, "https://provider.example/2");
  EXPECT_EQ(run(Kind::kFind), "2 p2 https://provider.example/2");
  run(Kind::kKeep, 1, "of a worker that stood still");
  EXPECT_EQ(run(Kind::kFind), "2 p2 https://provider.example/2");
  run(Kind::kKeep, 3, "three");
  run(Kind::kForget, 2);
  EXPECT_EQ(run(Kind::kFind), "3 p3 three");
  run(Kind::kForget, 3);
  EXPECT_EQ(run(Kind::kFind), "");
}

// Whoever holds a task's row, or its user's balance, delays that task alone.
TEST_F(WorkTest, AHeldRowDelaysItsOwnTaskAlone) {
  const UserId stuck = db_.add_user(), free = db_.add_user();
  const std::vector<TaskId> tasks = {create(stuck), create(free)};
  const auto expect_first_locked = [&](const auto& results) {
    ASSERT_EQ(results.size(), 2U);
    ASSERT_FALSE(results[0]);
    EXPECT_EQ(results[0].error(), StoreFault::kLocked);
    EXPECT_TRUE(results[1]);
  };
  std::vector<Claim> claims;
  {
    RowHolder holder(db_.url(), row_of_task(tasks[0]));
    const std::vector<Hint> hints = {{tasks[0], 0}, {tasks[1], 0}};
    const auto some = store_.claim(hints, worker_, some_provider);
    expect_first_locked(some);
    ASSERT_TRUE(some[1] && *some[1]) << "the free one is claimed";
    holder.release();
    claims = {claim(tasks[0]).value(), some[1]->value()};
  }
  const std::vector<Lease> leases = {{tasks[0], claims[0].epoch}, {tasks[1], claims[1].epoch}};
  const std::vector<CallStart> starts = {
      {.task = tasks[0], .epoch = claims[0].epoch, .n = 2, .provider = "b"},
      {.task = tasks[1], .epoch = claims[1].epoch, .n = 2, .provider = "b"}};
  const std::vector<SettleCommand> ends = {settle_command(Settle::kSucceed, claims[0]),
                                           settle_command(Settle::kSucceed, claims[1])};
  RowHolder holder(db_.url(), row_of_task(tasks[0]));
  const auto renewed = store_.renew(leases, worker_);
  expect_first_locked(renewed);
  EXPECT_TRUE(renewed[1] && *renewed[1] == Renewal::kRenewed);
  const auto started = store_.start_calls(starts);
  expect_first_locked(started);
  EXPECT_TRUE(started[1] && *started[1]);
  const auto canceled = store_.cancel(tasks[0], {}, 0s);
  ASSERT_FALSE(canceled);
  EXPECT_EQ(canceled.error(), StoreFault::kLocked);
  holder.release();
  EXPECT_EQ(must(store_.renew(leases, worker_)), (std::vector(2, Renewal::kRenewed)))
      << "no lease is lost";

  RowHolder balance(db_.url(), balance_of(stuck));
  const auto settled = store_.settle(ends);
  expect_first_locked(settled);
  EXPECT_TRUE(settled[1] && *settled[1] == SettleOutcome::kSettled);
  EXPECT_FALSE(store_.cancel(tasks[0], {}, 0s));
  balance.release();
  EXPECT_EQ(settle(ends[0]), SettleOutcome::kSettled);
}

// … nor do the others pay for it with transactions of their own, each with an fsync.
TEST_F(WorkTest, TheOthersOfAHeldRowStayTogether) {
  const UserId user = db_.add_user();
  const std::vector<TaskId> tasks = {create(user), create(user), create(user)};
  std::vector<Lease> leases;
  for (const TaskId task : tasks) {
    leases.push_back({task, claim(task).value().epoch});
  }
  const RowHolder holder(db_.url(), row_of_task(tasks[0]));
  const auto renewals = [] {
    return meters::transactions("renew").collect().histogram.sample_count;
  };
  const auto before = renewals();
  const auto renewed = store_.renew(leases, worker_);
  EXPECT_FALSE(renewed[0]);
  EXPECT_TRUE(renewed[1] && *renewed[1] == Renewal::kRenewed);
  EXPECT_TRUE(renewed[2] && *renewed[2] == Renewal::kRenewed);
  EXPECT_EQ(renewals() - before, 1U);
}

// An operator who cancels waits for his own row only, and holds no other one meanwhile.
TEST_F(WorkTest, ACancelThatWaitsHoldsNothing) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  RowHolder holder(db_.url(), row_of_task(task));
  TaskStore operators(db_.url());
  std::atomic<bool> stop{false};
  std::jthread canceling([&] {
    const auto outcome = operators.cancel(task, {}, 30s);
    EXPECT_TRUE(outcome && *outcome == CancelOutcome::kCanceled);
    stop = true;
  });
  int created = 0;
  for (int i = 0; i < 20; ++i) {
    created += test::eventually(1s, [&] {
      const CreateCommand command = create_command(user);
      const auto outcome = store_.create({&command, 1}).front();
      return outcome && outcome->kind == CreateOutcome::Kind::kCreated;
    });
  }
  EXPECT_EQ(created, 20);
  EXPECT_FALSE(stop);
  holder.release();
  canceling.join();
}

TEST_F(WorkTest, AClaimTakesWhatIsReady) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  const ClaimOutcome claimed = claim(task);
  ASSERT_TRUE(claimed);
  EXPECT_EQ(claimed->task, task);
  EXPECT_EQ(claimed->user, user);
  EXPECT_EQ(claimed->epoch, 1U);
  EXPECT_EQ(claimed->claims, 1U);
  EXPECT_EQ(claimed->calls, 0U);
  EXPECT_EQ(claimed->request, create_command(user).request);
  EXPECT_GT(claimed->until_deadline, 890s);
  EXPECT_LE(claimed->until_deadline, 900s);
  EXPECT_EQ(claimed->created_at, find(task, user)->created_at);
  EXPECT_EQ(column(task, "TIMESTAMPDIFF(SECOND, updated_at, lease_until)"), 30);
  EXPECT_EQ(calls_in(task, kCallStarted), 1);
  EXPECT_EQ(find(task, user)->state, TaskState::kRunning);

  EXPECT_FALSE(claim(task)) << "running";
  EXPECT_FALSE(claim(task, 1)) << "running, at this epoch";
  EXPECT_FALSE(claim(TaskId::make())) << "unknown";
}

TEST_F(WorkTest, AClaimLeavesWhatIsNotReady) {
  const UserId user = db_.add_user();
  const TaskId early = create(user), late = create(user), other_epoch = create(user);
  db_.execute(
      Sql("UPDATE tasks SET epoch=2, next_run_at=next_run_at + INTERVAL 60 SECOND WHERE id=")
      << early);
  pass_deadline(late);
  EXPECT_FALSE(claim(early, 2));
  EXPECT_FALSE(claim(late));
  EXPECT_FALSE(claim(other_epoch, 1));
  const std::vector<Hint> twice = {{other_epoch, 0}, {other_epoch, 0}};
  const auto claims = must(store_.claim(twice, worker_, no_provider));
  EXPECT_TRUE(claims[0]);
  EXPECT_FALSE(claims[1]) << "the same hint twice in one batch";
  EXPECT_EQ(column(other_epoch, "attempts"), 0);
  EXPECT_TRUE(must(store_.claim({}, worker_, no_provider)).empty());
}

TEST_F(WorkTest, WhatAWorkerLeavesStaysAsItIs) {
  const UserId user = db_.add_user();
  const TaskId task = create(user), other = create(user);
  const std::vector<Hint> hints = {{task, 0}, {other, 0}, {task, 0}};
  const auto before = db_.text(Sql("SELECT CONCAT_WS(',',state,epoch,claims,attempts,next_run_at,"
                                   "wake_at,updated_at) FROM tasks WHERE id=")
                               << task);
  const auto claims = must(store_.claim(hints, worker_, [&](const Claim& claim) -> ClaimVerdict {
    if (claim.task == task) {
      return ClaimVerdict::Kind::kLeave;
    }
    return "primary";
  }));
  EXPECT_FALSE(claims[0]);
  EXPECT_TRUE(claims[1]);
  EXPECT_FALSE(claims[2]);
  EXPECT_EQ(before,
            db_.text(Sql("SELECT CONCAT_WS(',',state,epoch,claims,attempts,next_run_at,"
                         "wake_at,updated_at) FROM tasks WHERE id=")
                     << task));
  const Hint again{task, 0};
  EXPECT_TRUE(only(store_.claim({&again, 1}, WorkerId::make(), some_provider)))
      << "it is anybody's, at once";
}

TEST_F(WorkTest, WhatAWorkerDoesNotWantNowIsPutOff) {
  const UserId user = db_.add_user();
  const TaskId task = create(user), other = create(user);
  db_.execute(Sql("UPDATE tasks SET epoch=2, lost_leases=1 WHERE id=") << task);
  const std::vector<Hint> hints = {{task, 2}, {other, 0}, {task, 2}};
  int asked = 0;
  const auto claims = must(store_.claim(hints, worker_, [&](const Claim& claim) -> ClaimVerdict {
    if (claim.task != task) {
      return "primary";
    }
    ++asked;
    EXPECT_EQ(claim.lost_leases, 1U);
    return ClaimVerdict::Kind::kPutOff;
  }));
  EXPECT_FALSE(claims[0]);
  EXPECT_TRUE(claims[1]);
  EXPECT_FALSE(claims[2]);
  EXPECT_EQ(asked, 1) << "it is not due any more";
  EXPECT_EQ(column(task, "state=1 AND epoch=2 AND claims=0 AND attempts=0 AND lost_leases=1"), 1);
  EXPECT_EQ(column(task, "next_run_at=wake_at AND updated_at<next_run_at"), 1);
  EXPECT_EQ(column(task,
                   "next_run_at BETWEEN updated_at + INTERVAL 2500000 MICROSECOND AND updated_at + "
                   "INTERVAL 7500000 MICROSECOND"),
            1);
  // Longer than this test may take.
  db_.execute(Sql("UPDATE tasks SET next_run_at=next_run_at + INTERVAL 1 HOUR WHERE id=") << task);
  EXPECT_FALSE(claim(task, 2));
  make_due(task);
  EXPECT_TRUE(claim(task, 2)) << "the same hint is good again";
}

TEST_F(WorkTest, EveryTaskIsClaimedOnce) {
  constexpr std::size_t kTasks = 200;
  const UserId user = db_.add_user();
  std::vector<CreateCommand> commands;
  std::vector<Hint> hints;
  for (std::size_t i = 0; i < kTasks; ++i) {
    commands.push_back(create_command(user));
    hints.push_back({commands.back().id, 0});
  }
  must(store_.create(commands));
  std::mutex mutex;
  std::map<TaskId, int> claimed;
  in_parallel(8, [&](std::size_t t) {
    TaskStore store(db_.url());
    std::vector<Hint> mine = hints;
    std::rotate(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(t * 25), mine.end());
    for (std::size_t i = 0; i < kTasks; i += 20) {
      const auto got = until_free(std::span<const Hint>(mine).subspan(i, 20), [&](auto some) {
        return store.claim(some, WorkerId::make(), some_provider);
      });
      const std::scoped_lock lock(mutex);
      for (const auto& claim : got) {
        claimed[claim ? claim->task : TaskId{}] += 1;
      }
    }
  });
  claimed.erase(TaskId{});
  EXPECT_EQ(claimed.size(), kTasks);
  for (const auto& [task, times] : claimed) {
    EXPECT_EQ(times, 1) << task.text();
  }
}

TEST_F(WorkTest, ARenewalKeepsOnlyOnesOwnLease) {
  const TaskId task = create(db_.add_user());
  const Claim mine = *claim(task);
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) + INTERVAL 1 SECOND"));
  EXPECT_FALSE(renew(mine, WorkerId::make()));
  EXPECT_LE(column(task, "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), lease_until)"), 1);
  EXPECT_TRUE(renew(mine, worker_));
  EXPECT_GE(column(task, "TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), lease_until)"), 20);
  Claim old = mine;
  old.epoch -= 1;
  EXPECT_FALSE(renew(old, worker_));
  pass_deadline(task);
  EXPECT_TRUE(renew(mine, worker_)) << "the sweeper judges deadlines";
  must(store_.sweep(10));
  EXPECT_FALSE(renew(mine, worker_));
}

TEST_F(WorkTest, SuccessChargesAndReturnsTheRest) {
  const UserId user = db_.add_user(credits(500));
  const TaskId task = create(user);
  const Claim mine = *claim(task);
  SettleCommand command = settle_command(Settle::kSucceed, mine);
  command.duration_ms = 10'001;  // 12.501 credits, halves up
  command.call = 1;
  command.call_state = 2;
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  const auto view = find(task, user);
  EXPECT_EQ(view->state, TaskState::kSucceeded);
  EXPECT_EQ(view->charged, Units{12'501});
  EXPECT_EQ(view->duration_ms, 10'001);
  EXPECT_EQ(view->output_key, command.output_key);
  EXPECT_EQ(column(task, "output_bytes"), 1234);
  EXPECT_EQ(db_.text(Sql("SELECT output_checksum FROM tasks")),
            std::string(command.output_checksum.begin(), command.output_checksum.end()));
  EXPECT_EQ(calls_in(task, 2), 1);
  EXPECT_EQ(db_.balance(user), (Balance{credits(500) - Units{12'501}, Units{}, 3}));

  EXPECT_EQ(settle(command), SettleOutcome::kSettled) << "the same again: its answer was lost";
  SettleCommand other = command;
  other.output_key += "x";
  EXPECT_EQ(settle(other), SettleOutcome::kNotOurs);
  EXPECT_EQ(settle(settle_command(Settle::kFail, mine)), SettleOutcome::kNotOurs);
  EXPECT_EQ(settle(settle_command(Settle::kRetry, mine)), SettleOutcome::kNotOurs);
  EXPECT_EQ(settle(settle_command(Settle::kRelease, mine)), SettleOutcome::kNotOurs);
  EXPECT_EQ(must(store_.cancel(task)), CancelOutcome::kAlreadyFinal);
  EXPECT_FALSE(claim(task, mine.epoch));
  EXPECT_EQ(db_.balance(user).seq, 3U);
}

// Settlements of claims whose tasks are as they left them do without reading their rows.
class AsClaimed : public WorkTest {
 protected:
  AsClaimed() { db_.rows_read("tasks"); }  // Counts from here on.

  // Tasks of users of their own, each with a call under way.
  void claim_some(std::size_t count) {
    std::vector<Hint> hints;
    while (hints.size() < count) {
      users_.push_back(db_.add_user(credits(500)));
      hints.push_back({.task = create(users_.back())});
    }
    for (auto& claimed : store_.claim(hints, worker_, [](const Claim&) { return "primary"; })) {
      claims_.push_back(must(std::move(claimed)).value());
      ends_.push_back(settle_command(Settle::kSucceed, claims_.back()));
      ends_.back().calls = {call_of(claims_.back().task, 1, CallOutcome::kDelivered)};
    }
  }
  std::vector<SettleOutcome> settle_all() {
    std::vector<SettleOutcome> out;
    for (auto& outcome : store_.settle(ends_)) {
      out.push_back(must(std::move(outcome)));
    }
    return out;
  }
  // The second's claim is over: it has `epoch` now.
  void expect_all_but_one(std::int64_t epoch) {
    const Balance before = db_.balance(users_[1]);
    for (const char* which : {"at first", "a repeat"}) {
      EXPECT_THAT(settle_all(),
                  testing::ElementsAre(
                      SettleOutcome::kSettled, SettleOutcome::kNotOurs, SettleOutcome::kSettled))
          << which;
      expect_done(0);
      expect_done(2);
    }
    EXPECT_EQ(column(claims_[1].task, "epoch"), epoch);
    EXPECT_EQ(db_.balance(users_[1]), before);
  }
  void expect_done(std::size_t i) {
    const TaskId task = claims_.at(i).task;
    EXPECT_EQ(find(task, users_[i])->state, TaskState::kSucceeded);
    EXPECT_EQ(find(task, users_[i])->output_key, ends_[i].output_key);
    EXPECT_EQ(history(task), "1 1 primary 2");
    EXPECT_EQ(calls(task), "1 primary 1 26 390 75000");
    EXPECT_EQ(column(task, "worker IS NULL AND lease_until IS NULL AND wake_at IS NULL"), 1);
    EXPECT_EQ(db_.balance(users_[i]), (Balance{credits(425), Units{}, 3}));
  }

  std::vector<UserId> users_;
  std::vector<Claim> claims_;
  std::vector<SettleCommand> ends_;
};

TEST_F(AsClaimed, RowsAreFoundOnce) {
  claim_some(20);
  const std::int64_t before = db_.rows_read("tasks");
  EXPECT_THAT(settle_all(), testing::Each(SettleOutcome::kSettled));
  const std::int64_t unread = db_.rows_read("tasks") - before;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    expect_done(i);
  }
  claims_.clear(), ends_.clear();
  claim_some(20);
  for (SettleCommand& end : ends_) {
    end.held.reset();
  }
  const std::int64_t again = db_.rows_read("tasks");
  EXPECT_THAT(settle_all(), testing::Each(SettleOutcome::kSettled));
  // On MySQL, where an UPDATE would wait for a held row, they are read anyway.
  EXPECT_EQ(db_.rows_read("tasks") - again - unread, db_.is_mariadb() ? 20 : 0);
}

// Whichever way a claim is over: the settlement says so of that task, and settles the others.
TEST_F(AsClaimed, OneThatAnotherHasClaimedIsTheOnlyOne) {
  claim_some(3);
  db_.execute(Sql("UPDATE tasks SET epoch=epoch+2, attempt_epoch=epoch WHERE id=")
              << claims_[1].task);
  expect_all_but_one(column(claims_[1].task, "epoch"));
  EXPECT_EQ(column(claims_[1].task, "state"), 2);
  EXPECT_EQ(db_.balance(users_[1]).seq, 2U);
}

TEST_F(AsClaimed, OneThatWasCanceledIsTheOnlyOne) {
  claim_some(3);
  EXPECT_EQ(must(store_.cancel(claims_[1].task)), CancelOutcome::kCanceled);
  expect_all_but_one(column(claims_[1].task, "epoch"));
  EXPECT_EQ(db_.balance(users_[1]), (Balance{credits(500), Units{}, 3}));
}

TEST_F(AsClaimed, OneWhoseUserHoldsMoreWasCanceledAllTheSame) {
  claim_some(3);
  create(users_[1]);  // So that his balance does not tell.
  EXPECT_EQ(must(store_.cancel(claims_[1].task)), CancelOutcome::kCanceled);
  expect_all_but_one(column(claims_[1].task, "epoch"));
}

// What a command says of its task is held against the row before anything is booked.
TEST_F(AsClaimed, ACommandThatIsWrongAboutItsTaskFailsAlone) {
  claim_some(3);
  const UserId rich = db_.add_user(credits(500));
  create(rich);
  ends_[1].user = rich;
  EXPECT_THAT(settle_all(),
              testing::ElementsAre(
                  SettleOutcome::kSettled, SettleOutcome::kFailed, SettleOutcome::kSettled));
  EXPECT_EQ(db_.balance(rich).seq, 2U);
  ends_[1].user = users_[1];
  ends_[1].held = credits(1);
  EXPECT_EQ(settle(ends_[1]), SettleOutcome::kSettled);
  expect_done(1);
}

// Of a batch some may be read and some not.
TEST_F(AsClaimed, ThoseThatAreReadAndThoseThatAreNot) {
  claim_some(2);
  ends_[1] = settle_command(Settle::kRetry, claims_[1]);
  db_.execute(Sql("UPDATE tasks SET epoch=epoch+2, attempt_epoch=epoch WHERE id=")
              << claims_[0].task);
  EXPECT_THAT(settle_all(),
              testing::ElementsAre(SettleOutcome::kNotOurs, SettleOutcome::kRequeued));
}

// A hedge's row is the newest, and the first call has won.
TEST_F(AsClaimed, AHedgeIsNotTakenForTheCallThatWon) {
  claim_some(1);
  EXPECT_TRUE(start(claims_[0].task, claims_[0].epoch, 2, "hedge"));
  EXPECT_THAT(settle_all(), testing::ElementsAre(SettleOutcome::kSettled));
  EXPECT_EQ(history(claims_[0].task), "1 1 primary 2, 2 1 hedge 4");
}

// What was found to be released by what was rolled back is released by nobody.
TEST_F(AsClaimed, ARepeatReleasesNobody) {
  db_.execute(Sql("UPDATE release_window SET size=1"));
  const UserId user = db_.add_user(credits(2'000));
  const std::vector<TaskId> tasks = {create(user), create(user), create(user)};
  const SettleCommand end = settle_command(Settle::kSucceed, *claim(tasks[0]));
  EXPECT_EQ(settle(end), SettleOutcome::kSettled);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks[1], 1}}));
  EXPECT_EQ(settle(end), SettleOutcome::kSettled);
  EXPECT_THAT(store_.released(), testing::IsEmpty());
  EXPECT_EQ(column(tasks[2], "lane"), static_cast<std::int64_t>(Lane::kParked));
}

TEST_F(AsClaimed, OneTwiceIsSettledOnce) {
  claim_some(2);
  ends_.push_back(ends_[0]);
  EXPECT_THAT(settle_all(), testing::Each(SettleOutcome::kSettled));
  expect_done(0);
  expect_done(1);
}

TEST_F(AsClaimed, AHeldRowDelaysItsOwnTaskAlone) {
  claim_some(3);
  {
    const RowHolder holder(db_.url(), row_of_task(claims_[1].task));
    const double before = meters::retries(meters::Retry::kUnread).Value();
    const auto outcomes = store_.settle(ends_);
    EXPECT_EQ(meters::retries(meters::Retry::kUnread).Value() - before, db_.is_mariadb() ? 1 : 0);
    EXPECT_TRUE(outcomes[0]);
    ASSERT_FALSE(outcomes[1]);
    EXPECT_EQ(outcomes[1].error(), StoreFault::kLocked);
    EXPECT_TRUE(outcomes[2]);
  }
  expect_done(0);
  expect_done(2);
  EXPECT_EQ(column(claims_[1].task, "state"), 2);
  EXPECT_EQ(settle(ends_[1]), SettleOutcome::kSettled);
  expect_done(1);
}

TEST_F(AsClaimed, ARowThatWasWrittenAheadIsBroughtBack) {
  claim_some(1);
  db_.execute(
      Sql("UPDATE tasks SET created_at=created_at + INTERVAL 1 DAY, "
          "updated_at=updated_at + INTERVAL 1 DAY, "
          "deadline_at=deadline_at + INTERVAL 1 DAY"));
  EXPECT_THAT(settle_all(), testing::ElementsAre(SettleOutcome::kSettled));
  expect_done(0);
  EXPECT_EQ(column(claims_[0].task, "deadline_at<=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"), 1);
}

TEST_F(WorkTest, FailureReturnsEverything) {
  const UserId user = db_.add_user(credits(150));
  const TaskId task = create(user);
  SettleCommand command = settle_command(Settle::kFail, *claim(task));
  command.failure = FailureCode::kProviderRejected;
  command.call = 1;
  command.call_state = 3;
  command.call_detail = std::string(300, 'd') + "\xFF";
  command.failure_message = "\xFF\xC3\xA9 too long: " + std::string(300, 'm');
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  const auto view = find(task, user);
  EXPECT_EQ(view->failure, FailureCode::kProviderRejected);
  EXPECT_EQ(view->failure_message.substr(0, 15), "?\xC3\xA9 too long: m");
  EXPECT_EQ(view->failure_message.size(), 201U);
  EXPECT_EQ(view->charged, Units{});
  EXPECT_EQ(calls_in(task, 3), 1);
  EXPECT_EQ(db_.balance(user).available, credits(150));
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
}

// Its COMMIT was answered to nobody: the row says whose it is, and that nobody works on it.
TEST_F(WorkTest, AClaimThatNobodyHeardOfIsPutBack) {
  const TaskId task = create(db_.add_user());
  const Hint hint{task, 0};
  const ClaimOutcome mine = claim(task);
  ASSERT_TRUE(mine);
  ASSERT_EQ(store_.claimed_until().size(), 1U);
  const Instant until = store_.claimed_until().front();
  const auto again = [&](WorkerId worker, Instant then) {
    return only(store_.claim({&hint, 1}, worker, some_provider, [&](const Hint& asked, Instant at) {
      return asked == hint && at == then;
    }));
  };
  EXPECT_FALSE(again(WorkerId::make(), until)) << "another's";
  EXPECT_FALSE(again(worker_, until + std::chrono::microseconds(1))) << "of a later claim";
  EXPECT_EQ(column(task, "state=2 AND epoch=1"), 1);
  EXPECT_FALSE(again(worker_, until)) << "its hint has had its turn";
  EXPECT_EQ(column(task, "state=1 AND epoch=2 AND claims=0 AND lost_leases=0"), 1);
  EXPECT_EQ(calls_in(task, kCallFailed), 1) << "nobody was called";
  EXPECT_EQ(must(store_.sweep(10)).publish, (std::vector<Hint>{{task, 2}}));
  EXPECT_TRUE(claim(task, 2));
  db_.expect_invariants();
}

TEST_F(WorkTest, ALeaseIsRenewedOrOverOrAnothers) {
  const Claim mine = *claim(create(db_.add_user())), reaped = *claim(create(db_.add_user())),
              canceled = *claim(create(db_.add_user()));
  expire_lease(reaped.task);
  must(store_.sweep(10));
  must(store_.cancel(canceled.task));
  const auto renewal = [&](const Claim& claim) {
    const Lease lease{claim.task, claim.epoch};
    return only(store_.renew({&lease, 1}, worker_));
  };
  EXPECT_EQ(renewal(mine), Renewal::kRenewed);
  EXPECT_EQ(renewal(canceled), Renewal::kEnded);
  EXPECT_EQ(renewal(reaped), Renewal::kTaken);
  ASSERT_TRUE(claim(reaped.task, reaped.epoch + 1));
  EXPECT_EQ(renewal(reaped), Renewal::kTaken);
}

TEST_F(WorkTest, RetriesWaitAndEnd) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  std::uint32_t epoch = 0;
  for (std::uint32_t i = 1; i <= kClaimsMax; ++i) {
    const ClaimOutcome mine = claim(task, epoch);
    ASSERT_TRUE(mine) << i;
    EXPECT_EQ(mine->claims, i);
    EXPECT_EQ(mine->calls, i - 1);
    SettleCommand command = settle_command(Settle::kRetry, *mine);
    command.retry_after = 8s;
    command.call = i;
    command.call_state = 4;
    if (i < kClaimsMax) {
      EXPECT_EQ(settle(command), SettleOutcome::kRequeued);
      EXPECT_EQ(settle(command), SettleOutcome::kRequeued) << "repeated";
      epoch = mine->epoch + 1;
      EXPECT_EQ(column(task, "TIMESTAMPDIFF(SECOND, updated_at, next_run_at)"), 8);
      EXPECT_EQ(column(task, "wake_at=next_run_at"), 1);
      EXPECT_FALSE(claim(task, epoch)) << "not due";
      make_due(task);
    } else {
      EXPECT_EQ(settle(command), SettleOutcome::kSettled);
    }
  }
  EXPECT_EQ(find(task, user)->state, TaskState::kFailed);
  EXPECT_EQ(find(task, user)->failure, FailureCode::kProviderUnavailable);
  EXPECT_EQ(calls_in(task, 4), 5);
}

TEST_F(WorkTest, ARetryPastTheDeadlineEndsNow) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  SettleCommand command = settle_command(Settle::kRetry, *claim(task));
  command.retry_after = 901s;
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  EXPECT_EQ(find(task, user)->state, TaskState::kFailed);
}

TEST_F(WorkTest, AReleaseCostsNoClaim) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  const Claim first = *claim(task);
  EXPECT_EQ(settle(settle_command(Settle::kRelease, first)), SettleOutcome::kRequeued);
  EXPECT_EQ(column(task, "claims"), 0);
  EXPECT_EQ(calls_in(task, kCallUnknown), 1) << "its call is closed";
  EXPECT_EQ(must(store_.sweep(10)).publish, (std::vector<Hint>{{task, 2}}));
  const ClaimOutcome second = claim(task, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->claims, 1U);
  EXPECT_EQ(second->calls, 1U);
}

// A worker without room gives it back for a while, but never past the end of its time.
TEST_F(WorkTest, AReleaseMayBeForAWhile) {
  const UserId user = db_.add_user();
  for (const auto after : {8s, 9000s}) {
    const TaskId task = create(user);
    SettleCommand command = settle_command(Settle::kRelease, *claim(task));
    command.retry_after = after;
    EXPECT_EQ(settle(command), SettleOutcome::kRequeued);
    EXPECT_EQ(column(task, "claims"), 0);
    EXPECT_FALSE(claim(task, 2)) << "not due";
    EXPECT_EQ(column(task, "next_run_at > UTC_TIMESTAMP(6)"), 1);
    EXPECT_EQ(column(task, "next_run_at <= deadline_at AND wake_at <= deadline_at"), 1);
  }
}

TEST_F(WorkTest, ABatchOfEveryKind) {
  const UserId a = db_.add_user(), b = db_.add_user();
  std::vector<SettleCommand> commands;
  for (const auto kind : {Settle::kSucceed, Settle::kFail, Settle::kRetry, Settle::kRelease}) {
    for (const UserId user : {a, b}) {
      commands.push_back(settle_command(kind, *claim(create(user))));
    }
  }
  commands.push_back(commands[0]);  // repeated in the batch
  commands.push_back(commands[0]);  // … by a rival
  commands.back().output_key = "other";
  commands.push_back(commands[2]);
  commands.back().epoch = 7;  // foreign epoch
  commands.push_back(commands[2]);
  commands.back().task = TaskId::make();  // unknown
  const auto outcomes = must(store_.settle(commands));
  using enum SettleOutcome;
  EXPECT_EQ(outcomes,
            (std::vector{kSettled,
                         kSettled,
                         kSettled,
                         kSettled,
                         kRequeued,
                         kRequeued,
                         kRequeued,
                         kRequeued,
                         kSettled,
                         kNotOurs,
                         kNotOurs,
                         kNotOurs}));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM ledger WHERE kind=2")), 4);
}

TEST_F(WorkTest, NoMoreIsCapturedThanTheRequestAllows) {
  const UserId user = db_.add_user(credits(1'000));
  for (const Units most : {credits(40), credits(74), credits(75), kHoldAmount}) {
    const TaskId id = create(user);
    SettleCommand command = settle_command(Settle::kSucceed, *claim(id));  // 75 credits of audio.
    command.charge_max = most;
    EXPECT_EQ(settle(command), SettleOutcome::kSettled);
    EXPECT_EQ(find(id, user)->charged, std::min(most, credits(75)));
  }
}

TEST_F(WorkTest, OneBadSettlementFailsAlone) {
  const UserId user = db_.add_user(), other = db_.add_user();
  std::vector<SettleCommand> commands = {settle_command(Settle::kSucceed, *claim(create(user))),
                                         settle_command(Settle::kSucceed, *claim(create(other)))};
  commands[0].output_key = std::string(161, 'k');  // Too long for its column.
  EXPECT_EQ(must(store_.settle(commands)),
            (std::vector{SettleOutcome::kFailed, SettleOutcome::kSettled}));
  EXPECT_EQ(column(commands[0].task, "state"), 2);

  commands[0] = settle_command(Settle::kFail, *claim(create(user)));
  commands[0].user = UserId::make();
  EXPECT_EQ(settle(commands[0]), SettleOutcome::kFailed) << "another user's balance";
}

TEST_F(WorkTest, CallsFollowEachOther) {
  const TaskId task = create(db_.add_user());
  const Claim mine = *claim(task);
  CallStart start{.task = task,
                  .epoch = mine.epoch,
                  .n = 2,
                  .provider = "fallback",
                  .previous = 1,
                  .previous_state = 3,
                  .previous_detail = "503"};
  EXPECT_TRUE(only(store_.start_calls({&start, 1})));
  EXPECT_TRUE(only(store_.start_calls({&start, 1}))) << "repeated";
  EXPECT_EQ(column(task, "attempts"), 2);
  EXPECT_EQ(db_.text(Sql("SELECT CONCAT(state, provider, detail, ended_at IS NOT NULL) "
                         "FROM attempts WHERE n=1")),
            "3primary5031");
  EXPECT_EQ(db_.text(Sql("SELECT CONCAT(state, provider, ended_at IS NULL) "
                         "FROM attempts WHERE n=2")),
            "1fallback1");
  CallStart gap = start;
  gap.n = 4;
  const auto waits = store_.start_calls({&gap, 1});
  ASSERT_FALSE(waits.front()) << "the one before it is on its way";
  EXPECT_EQ(waits.front().error(), StoreFault::kLocked);
  EXPECT_EQ(column(task, "attempts"), 2);
  CallStart stale = start;
  stale.epoch = 0;
  stale.n = 3;
  EXPECT_FALSE(only(store_.start_calls({&stale, 1})));
  SettleCommand done = settle_command(Settle::kSucceed, mine);
  done.call = 2;
  done.call_state = 2;
  settle(done);
  start.n = 3;
  EXPECT_FALSE(only(store_.start_calls({&start, 1}))) << "final";
}

// What a call cost is known as soon as its task's price is, and never before or without it.
TEST_F(WorkTest, CallsAreWrittenWithTheEndOfTheirTask) {
  const Claim mine = *claim(create(db_.add_user()));
  SettleCommand done = settle_command(Settle::kSucceed, mine);
  done.call = 2;
  done.call_state = kCallSucceeded;
  EXPECT_TRUE(start(mine.task, mine.epoch, 2, "primary", 1));
  CallRecord failed = call_of(mine.task, 1, CallOutcome::kFailed);
  failed.price.reset();
  done.calls = {call_of(mine.task, 2, CallOutcome::kDelivered), failed};
  EXPECT_EQ(calls(mine.task), "");
  EXPECT_EQ(settle(done), SettleOutcome::kSettled);
  const std::string written = "1 primary 3 - - -, 2 primary 1 26 390 75000";
  EXPECT_EQ(calls(mine.task), written);
  EXPECT_EQ(settle(done), SettleOutcome::kSettled) << "its answer was lost";
  EXPECT_EQ(calls(mine.task), written);
  EXPECT_EQ(db_.text(Sql("SELECT CONCAT_WS(' ', took_ms, first_byte_ms, price_unit, price, "
                         "TIMESTAMPDIFF(SECOND, sent_at, UTC_TIMESTAMP(6))>=2) FROM "
                         "provider_calls WHERE n=2")),
            "1500 250 2 15000 1");
}

TEST_F(WorkTest, ASettlementThatIsNotOursWritesNoCalls) {
  const Claim mine = *claim(create(db_.add_user()));
  must(store_.cancel(mine.task));
  SettleCommand late = settle_command(Settle::kSucceed, mine);
  late.calls = {call_of(mine.task, 1, CallOutcome::kDelivered)};
  EXPECT_EQ(settle(late), SettleOutcome::kNotOurs);
  EXPECT_EQ(calls(mine.task), "1 primary 7 - - -") << "nobody paid for it";
}

// An operator must be able to explain every call on a provider's bill.
TEST_F(WorkTest, CallsOfWhoeverIsGoneAreWrittenAsLost) {
  const UserId user = db_.add_user();
  const Claim canceled = *claim(create(user)), reaped = *claim(create(user)),
              expired = *claim(create(user)), uncalled = *claim(create(user));
  EXPECT_TRUE(start(reaped.task, reaped.epoch, 2, "second", 1));
  EXPECT_TRUE(start(reaped.task, reaped.epoch, 3, "third"));
  db_.execute(Sql("UPDATE tasks SET attempt_state=3, attempt_detail='not called', "
                  "attempt_ended_at=UTC_TIMESTAMP(6) WHERE id=")
              << uncalled.task);
  expire_lease(reaped.task);
  expire_lease(uncalled.task);
  pass_deadline(expired.task);
  must(store_.cancel(canceled.task));
  must(store_.sweep(10));
  EXPECT_EQ(calls(canceled.task), "1 primary 7 - - -");
  EXPECT_EQ(calls(reaped.task), "1 primary 3 - - -, 2 second 7 - - -, 3 third 7 - - -");
  EXPECT_EQ(calls(expired.task), "1 primary 7 - - -");
  EXPECT_EQ(calls(uncalled.task), "") << "nobody was called";
  // Whoever comes back knows better, and what was told before stays.
  const std::vector<CallRecord> told = {call_of(reaped.task, 2, CallOutcome::kUndelivered),
                                        call_of(canceled.task, 1, CallOutcome::kDropped)};
  must(store_.record_calls(told));
  EXPECT_EQ(calls(canceled.task), "1 primary 6 26 390 -");
  const std::vector<CallRecord> later = {call_of(canceled.task, 1, CallOutcome::kUndelivered)};
  must(store_.record_calls(later));
  EXPECT_EQ(calls(canceled.task), "1 primary 6 26 390 -") << "what has been told stays";
  const Claim again = *claim(reaped.task, static_cast<std::uint32_t>(column(reaped.task, "epoch")));
  expire_lease(again.task);
  must(store_.sweep(10));
  EXPECT_EQ(calls(reaped.task),
            "1 primary 3 - - -, 2 second 2 26 390 -, 3 third 7 - - -, 4 primary 7 - - -");
}

// Whose lease was reaped a moment before it gave the task back finds it queued, as if it had done
// so.
TEST_F(WorkTest, WhoGivesBackWhatWasReapedTellsWhatItsCallsCost) {
  for (const auto kind : {Settle::kRetry, Settle::kRelease}) {
    const Claim mine = *claim(create(db_.add_user()));
    expire_lease(mine.task);
    must(store_.sweep(10));
    EXPECT_EQ(calls(mine.task), "1 primary 7 - - -");
    SettleCommand back = settle_command(kind, mine);
    back.calls = {call_of(mine.task, 1, CallOutcome::kUndelivered)};
    EXPECT_EQ(settle(back), SettleOutcome::kRequeued);
    EXPECT_EQ(calls(mine.task), "1 primary 2 26 390 -");
    EXPECT_EQ(settle(back), SettleOutcome::kRequeued) << "its answer was lost";
    EXPECT_EQ(calls(mine.task), "1 primary 2 26 390 -");
  }
}

// It said when its row was written, which may have been long before: a call waits for its turn.
TEST_F(WorkTest, ACallStartedWhenItWasSent) {
  const Claim mine = *claim(create(db_.add_user()));
  ASSERT_TRUE(start(mine.task, mine.epoch, 2, "second", 1));
  for (const char* table : {"tasks SET attempt_started_at=UTC_TIMESTAMP(6)-INTERVAL 60 SECOND",
                            "past_attempts SET started_at=UTC_TIMESTAMP(6)-INTERVAL 90 SECOND"}) {
    Session(db_.url()).execute(Sql::trusted(std::string("UPDATE ") + table));
  }
  SettleCommand done = settle_command(Settle::kSucceed, mine);
  done.call = 2;
  done.call_state = kCallSucceeded;
  done.calls = {call_of(mine.task, 1, CallOutcome::kFailed),
                call_of(mine.task, 2, CallOutcome::kDelivered)};
  done.calls[0].sent = std::chrono::steady_clock::now() - std::chrono::seconds(30);
  done.calls[1].waited = true;
  ASSERT_EQ(settle(done), SettleOutcome::kSettled);
  const auto ago = [&](std::uint32_t n) {
    return db_.number(Sql("SELECT TIMESTAMPDIFF(SECOND,a.started_at,t.updated_at) FROM attempts a "
                          "JOIN tasks t ON t.id=a.task_id WHERE a.n=")
                      << n);
  };
  EXPECT_THAT(ago(2), testing::AllOf(testing::Ge(2), testing::Le(40))) << "as the call says";
  EXPECT_THAT(ago(1), testing::AllOf(testing::Ge(90), testing::Le(130)))
      << "it did not wait: as its row says";
  db_.expect_invariants();
}

TEST_F(WorkTest, NoNumberOfACallKeepsATaskFromItsEnd) {
  const Claim mine = *claim(create(db_.add_user()));
  SettleCommand done = settle_command(Settle::kSucceed, mine);
  CallRecord call = call_of(mine.task, 1, CallOutcome::kDelivered);
  call.provider = std::string(200, 'p');
  call.took = std::chrono::hours(24 * 365 * 200);
  call.first_byte = std::chrono::milliseconds(-5);
  call.price = ProviderPrice{PriceUnit::kBillableUnit, Micros{kPriceMax * kMicros}};
  call.counted = {.audio_ms = INT64_MAX, .reported = kQuantityMax};
  done.calls = {call};
  EXPECT_EQ(settle(done), SettleOutcome::kSettled);
}

// A hedge's call and the one that follows it are written by themselves, and meet in a batch.
TEST_F(WorkTest, TwoCallsOfOneTaskMayComeTogether) {
  const TaskId task = create(db_.add_user());
  const Claim mine = *claim(task);
  const CallStart hedge{.task = task, .epoch = mine.epoch, .n = 2, .provider = "hedge"};
  CallStart third{.task = task, .epoch = mine.epoch, .n = 3, .provider = "third"};
  for (const auto& order : {std::vector{hedge, third}, std::vector{third, hedge}}) {
    const auto started = store_.start_calls(order);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].n == 2) {
        EXPECT_TRUE(started[i] && *started[i]);
      } else if (!started[i]) {
        EXPECT_EQ(started[i].error(), StoreFault::kLocked) << "its lease is not lost";
      } else {
        EXPECT_TRUE(*started[i]);
      }
    }
  }
  EXPECT_TRUE(only(store_.start_calls({&third, 1})));
  EXPECT_TRUE(only(store_.start_calls({&hedge, 1}))) << "whose answer was lost";
  EXPECT_EQ(history(task), "1 1 primary 1, 2 1 hedge 1, 3 1 third 1");
}

TEST_F(WorkTest, TwoCallsOfOneTaskAreWrittenByTheGroup) {
  const TaskId task = create(db_.add_user());
  const Claim mine = *claim(task);
  std::atomic<int> written{0};
  GroupCommit<CallStart, bool> group(
      db_.url(), patient_group(1), [](TaskStore& store, std::span<const CallStart> starts) {
        return store.start_calls(starts);
      });
  {
    RowHolder holder(db_.url(), row_of_task(task));  // So that they come together.
    for (const std::uint32_t n : {3U, 2U, 4U}) {
      ASSERT_TRUE(group.submit(
          {.task = task, .epoch = mine.epoch, .n = n, .provider = "p" + std::to_string(n)},
          [&](const Result<bool, StoreFault>& ours) { written += ours && *ours ? 1 : 0; }));
    }
    holder.release();
  }
  EXPECT_TRUE(test::eventually(60s, [&] { return written == 3; })) << written;
  EXPECT_EQ(history(task), "1 1 primary 1, 2 1 p2 1, 3 1 p3 1, 4 1 p4 1");
}

// So that what comes meanwhile shares the next transaction.
TEST_F(WorkTest, BatchesOfAGroupBeginApart) {
  constexpr auto kSpacing = 100ms;
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begun;  // By the group's only thread, until it has stopped.
  GroupCommit<CallStart, bool> group(db_.url(),
                                     {.threads = 1, .spacing = kSpacing, .wait_max = 1h},
                                     [&](TaskStore&, std::span<const CallStart> starts) {
                                       begun.push_back(Clock::now());
                                       return Batch<bool>(starts.size(), true);
                                     });
  std::vector<Clock::time_point> asked;  // Each before its batch was taken.
  for (int i = 0; i < 3; ++i) {
    std::atomic<bool> answered{false};
    asked.push_back(Clock::now());
    ASSERT_TRUE(group.submit({.task = TaskId::make()},
                             [&](const Result<bool, StoreFault>&) { answered = true; }));
    ASSERT_TRUE(test::eventually(60s, [&] { return answered.load(); }));
  }
  group.stop();
  ASSERT_EQ(begun.size(), 3U);
  EXPECT_GE(begun[1] - asked[0], kSpacing);
  EXPECT_GE(begun[2] - asked[1], kSpacing);
}

// More than half of what it may carry gains nothing by waiting.
TEST_F(WorkTest, HalfABatchDoesNotWaitUntilItIsDue) {
  std::vector<std::size_t> sizes;  // By the group's only thread, until it has stopped.
  GroupCommit<CallStart, bool> group(db_.url(),
                                     {.threads = 1,
                                      .batch_max = 8,
                                      .spacing = std::chrono::minutes(10),
                                      .wait_max = std::chrono::minutes(20)},
                                     [&](TaskStore&, std::span<const CallStart> starts) {
                                       sizes.push_back(starts.size());
                                       return Batch<bool>(starts.size(), true);
                                     });
  std::atomic<int> answered{0};
  const auto ask = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(group.submit({.task = TaskId::make()},
                               [&](const Result<bool, StoreFault>&) { ++answered; }));
    }
  };
  ask(1);  // At once: there was none before it.
  ASSERT_TRUE(test::eventually(20s, [&] { return answered.load() == 1; }));
  ask(3);
  ask(1);
  EXPECT_TRUE(test::eventually(60s, [&] { return answered.load() == 5; })) << answered;
  group.stop();
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 4}));
}

// Rivals for a row would meet again at the end of each pause, were they all to wait for it.
TEST_F(WorkTest, AHeldRowIsTriedAgainBeforeTheNextBatchIsDue) {
  int tries = 0;  // By the group's only thread, until it has stopped.
  // What waits for a minute is not tried any more, but answered.
  GroupCommit<CallStart, bool> group(
      db_.url(),
      {.threads = 1, .spacing = std::chrono::minutes(1), .wait_max = 30s, .wait_held_max = 30s},
      [&](TaskStore&, std::span<const CallStart> starts) {
        if (++tries == 1) {
          return Batch<bool>(starts.size(), StoreFault::kLocked);
        }
        return Batch<bool>(starts.size(), true);
      });
  std::atomic<bool> answered{false}, done{false};
  ASSERT_TRUE(group.submit({.task = TaskId::make()}, [&](const Result<bool, StoreFault>& outcome) {
    done = outcome && *outcome;
    answered = true;
  }));
  EXPECT_TRUE(test::eventually(90s, [&] { return answered.load(); }));
  EXPECT_TRUE(done);
  group.stop();
  EXPECT_EQ(tries, 2);
}

TEST_F(WorkTest, TheHistoryOfManyClaimsAndHedgesIsComplete) {
  const TaskId task = create(db_.add_user());
  const ClaimOutcome first = claim(task);
  ASSERT_TRUE(first);
  EXPECT_TRUE(start(task, 1, 2, "hedge"));
  EXPECT_EQ(history(task), "1 1 primary 1, 2 1 hedge 1") << "both under way";
  EXPECT_TRUE(start(task, 1, 3, "third", 1)) << "after one that is not the newest";
  EXPECT_EQ(history(task), "1 1 primary 3 503, 2 1 hedge 1, 3 1 third 1");
  SettleCommand command = settle_command(Settle::kRetry, *first);
  command.call = 3;
  command.call_state = kCallUnknown;
  command.call_detail = "timeout";
  EXPECT_EQ(settle(command), SettleOutcome::kRequeued);

  const Hint hint{task, 2};
  ASSERT_TRUE(only(store_.claim({&hint, 1}, worker_, no_provider)));
  EXPECT_EQ(history(task), "1 1 primary 3 503, 2 1 hedge 4, 3 1 third 4 timeout");
  EXPECT_TRUE(start(task, 3, 4, "later"));
  expire_lease(task);
  EXPECT_EQ(must(store_.sweep(10)).reaped, 1U);

  const ClaimOutcome last = claim(task, 4);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->calls, 4U);
  EXPECT_TRUE(start(task, 5, 6, "hedge"));
  command = settle_command(Settle::kSucceed, *last);
  command.call = 5;
  command.call_state = kCallSucceeded;
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  EXPECT_EQ(history(task),
            "1 1 primary 3 503, 2 1 hedge 4, 3 1 third 4 timeout, 4 3 later 4, 5 5 primary 2, "
            "6 5 hedge 4");
  EXPECT_EQ(past_calls(), 5);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM attempts WHERE ended_at>=started_at")), 6);
}

TEST_F(WorkTest, ABatchOfManyProviders) {
  const UserId user = db_.add_user();
  const std::vector<std::string> names = {"a", "b", "", "a"};
  std::vector<Hint> hints;
  for (std::size_t i = 0; i < 2 * names.size(); ++i) {
    hints.push_back({create(user), 0});
    if (i >= names.size()) {  // Called before.
      ASSERT_EQ(settle(settle_command(Settle::kRelease, claim(hints[i].task).value())),
                SettleOutcome::kRequeued);
      hints[i].epoch = 2;
    }
  }
  std::map<TaskId, std::string> named;
  for (std::size_t i = 0; i < hints.size(); ++i) {
    named[hints[i].task] = names[i % names.size()];
  }
  const auto claims =
      must(store_.claim(hints, worker_, [&](const Claim& claim) { return named.at(claim.task); }));
  EXPECT_EQ(history(hints[0].task), "1 1 a 1");
  EXPECT_EQ(history(hints[1].task), "1 1 b 1");
  EXPECT_EQ(history(hints[2].task), "");
  EXPECT_EQ(history(hints[3].task), "1 1 a 1");
  EXPECT_EQ(history(hints[4].task), "1 1 primary 4, 2 3 a 1");
  EXPECT_EQ(history(hints[5].task), "1 1 primary 4, 2 3 b 1");
  EXPECT_EQ(history(hints[6].task), "1 1 primary 4");
  EXPECT_EQ(history(hints[7].task), "1 1 primary 4, 2 3 a 1");
  EXPECT_EQ(past_calls(), 3);
  for (const ClaimOutcome& claim : claims) {
    EXPECT_EQ(column(claim.value().task, "state"), 2);
    EXPECT_EQ(column(claim.value().task, "epoch"), claim->epoch);
  }
}

// Bytes of a task's row, as InnoDB stores it: nothing for NULL, a length before what varies.
class RowSizeTest : public WorkTest {
 protected:
  RowSizeTest() {
    Rows columns = db_.session().query(
        Sql("SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_OCTET_LENGTH FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='tasks'"));
    while (columns.next()) {
      const std::string name = columns.text(1), type = columns.text(2);
      size_ += "+IF(" + name + " IS NULL,0,";
      if (type == "binary") {
        size_ += columns.text(3);
      } else if (type.starts_with("var") || type.ends_with("blob")) {
        size_ += "1+LENGTH(" + name + ")";
      } else {
        size_ += type == "tinyint" ? "1" : type == "int" ? "4" : "8";
      }
      size_ += ")";
    }
  }
  std::int64_t size(TaskId task) {
    return db_.number(Sql::trusted("SELECT 0" + size_ + " FROM tasks WHERE id=") << task);
  }
  Claim claim_for(TaskId task, std::uint32_t epoch, const std::string& provider) {
    const Hint hint{task, epoch};
    return only(store_.claim({&hint, 1}, worker_, [&](const Claim&) { return provider; })).value();
  }
  static SettleCommand long_success(const Claim& claim, std::uint32_t call) {
    SettleCommand command = settle_command(Settle::kSucceed, claim);
    command.output_key = std::string(120, 'k');
    command.call = call;
    command.call_state = kCallSucceeded;
    return command;
  }

  const std::string provider_ = std::string(24, 'p');
  std::string size_;
};

TEST_F(RowSizeTest, TheUsualWayNeverGrows) {
  const TaskId task = create(db_.add_user());
  const std::int64_t created = size(task);
  const Claim mine = claim_for(task, 0, provider_);
  EXPECT_EQ(size(task), created) << "nor shrinks before the end";
  EXPECT_TRUE(renew(mine, worker_));
  EXPECT_EQ(settle(long_success(mine, 1)), SettleOutcome::kSettled);
  db_.execute(Sql("UPDATE tasks SET output_deleted_at=updated_at"));
  EXPECT_EQ(size(task), created) << "the room was what it took";
  EXPECT_EQ(column(task, "LENGTH(room)"), 0);
}

TEST_F(RowSizeTest, NoWayIsLongerThanTheBeginning) {
  const TaskId task = create(db_.add_user());
  const std::int64_t created = size(task);
  const auto expect_no_larger = [&](const char* when) { EXPECT_LE(size(task), created) << when; };
  SettleCommand command = settle_command(Settle::kRetry, claim_for(task, 0, "a"));
  EXPECT_TRUE(start(task, 1, 2, provider_, 1));
  expect_no_larger("a longer name than before");
  command.call = 2;
  command.call_state = kCallFailed;
  command.call_detail = std::string(100, 'd');
  EXPECT_EQ(settle(command), SettleOutcome::kRequeued);
  expect_no_larger("requeued");
  claim_for(task, 2, "");
  expect_no_larger("claimed without a provider");
  EXPECT_TRUE(start(task, 3, 3, provider_));
  expire_lease(task);
  EXPECT_EQ(must(store_.sweep(10)).reaped, 1U);
  expect_no_larger("reaped");
  const Claim last = claim_for(task, 4, provider_);
  expect_no_larger("claimed again");
  EXPECT_EQ(settle(long_success(last, 4)), SettleOutcome::kSettled);
  expect_no_larger("settled");

  const TaskId unnamed = create(db_.add_user());
  claim_for(unnamed, 0, "");
  EXPECT_EQ(size(unnamed), created);
  EXPECT_TRUE(start(unnamed, 1, 1, provider_));
  EXPECT_EQ(size(unnamed), created);
  must(store_.cancel(unnamed));
  EXPECT_LE(size(unnamed), created);
}

TEST_F(WorkTest, ZombiesAreFenced) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  const Claim zombie = *claim(task);
  expire_lease(task);
  const SweepResult swept = must(store_.sweep(10));
  EXPECT_EQ(swept.reaped, 1U);
  ASSERT_EQ(swept.publish, (std::vector<Hint>{{task, 2}}));
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, zombie)), SettleOutcome::kNotOurs);
  const ClaimOutcome second = claim(task, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->claims, 2U);
  for (const auto kind : {Settle::kSucceed, Settle::kFail, Settle::kRetry, Settle::kRelease}) {
    EXPECT_EQ(settle(settle_command(kind, zombie)), SettleOutcome::kNotOurs);
  }
  EXPECT_FALSE(renew(zombie, worker_));
  EXPECT_TRUE(renew(*second, worker_));
  SettleCommand untold = settle_command(Settle::kSucceed, *second);
  untold.call = 0;
  EXPECT_EQ(settle(untold), SettleOutcome::kSettled);
  EXPECT_EQ(calls_in(task, kCallUnknown), 2) << "nobody said how they ended";
}

TEST_F(WorkTest, CancelReturnsEverythingAndFences) {
  const UserId user = db_.add_user(credits(300));
  const TaskId queued = create(user), running = create(user);
  const Claim mine = *claim(running);
  EXPECT_EQ(must(store_.cancel(queued)), CancelOutcome::kCanceled);
  EXPECT_EQ(must(store_.cancel(running)), CancelOutcome::kCanceled);
  EXPECT_EQ(must(store_.cancel(running)), CancelOutcome::kAlreadyFinal);
  EXPECT_EQ(must(store_.cancel(TaskId::make())), CancelOutcome::kNotFound);
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, mine)), SettleOutcome::kNotOurs);
  EXPECT_EQ(db_.balance(user), (Balance{credits(300), Units{}, 5}));
  EXPECT_EQ(calls_in(running, kCallUnknown), 1);
}

TEST_F(WorkTest, AUserCancelsWhatIsHisAndOpen) {
  const UserId user = db_.add_user(), stranger = db_.add_user();
  const TaskId queued = create(user), done = create(user);
  const Claim running = claim_many(user, 1).front();
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(done))), SettleOutcome::kSettled);
  const std::vector<CancelCommand> commands = {{.task = queued, .user = user},
                                               {.task = queued, .user = stranger},
                                               {.task = running.task, .user = user},
                                               {.task = done, .user = user},
                                               {.task = TaskId::make(), .user = user}};
  const auto outcomes = must(store_.cancel(commands));
  EXPECT_EQ(outcomes[0].outcome, CancelOutcome::kCanceled);
  EXPECT_EQ(outcomes[1].outcome, CancelOutcome::kNotFound);
  EXPECT_EQ(outcomes[2].outcome, CancelOutcome::kCanceled);
  EXPECT_EQ(outcomes[3].outcome, CancelOutcome::kAlreadyFinal);
  EXPECT_EQ(outcomes[3].task.state, TaskState::kSucceeded);
  EXPECT_EQ(outcomes[4].outcome, CancelOutcome::kNotFound);
  // As it is told, so it stands.
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    const auto found = find(commands[i].task, user);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->state, TaskState::kCanceled);
    EXPECT_EQ(found->charged, Units{});
    EXPECT_EQ(found->updated_at, outcomes[i].task.updated_at);
    EXPECT_EQ(found->created_at, outcomes[i].task.created_at);
    EXPECT_EQ(found->claims, outcomes[i].task.claims);
  }
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, running)), SettleOutcome::kNotOurs);
  EXPECT_FALSE(renew(running, worker_)) << "the worker hears of it";
  EXPECT_EQ(calls_in(running.task, kCallUnknown), 1);
}

TEST_F(WorkTest, ACancelEndsWhatAHedgeLeftOpen) {
  const UserId user = db_.add_user();
  const Claim running = claim_many(user, 1).front();
  const CallStart second{
      .task = running.task, .epoch = running.epoch, .n = 2, .provider = "second"};
  EXPECT_TRUE(only(store_.start_calls({&second, 1})));
  const CancelCommand command{.task = running.task, .user = user};
  EXPECT_EQ(only(store_.cancel({&command, 1})).outcome, CancelOutcome::kCanceled);
  EXPECT_EQ(calls_in(running.task, kCallUnknown), 2);
}

// What is final is told without any lock: rows that others hold are in nobody's way.
TEST_F(WorkTest, ACancelWaitsForNoRow) {
  const UserId user = db_.add_user();
  const TaskId canceled = create(user), open = create(user), other = create(db_.add_user());
  const std::vector<CancelCommand> commands = {
      {.task = canceled, .user = user}, {.task = open, .user = user}, {.task = other}};
  ASSERT_EQ(only(store_.cancel({commands.data(), 1})).outcome, CancelOutcome::kCanceled);
  for (const Sql& held : {balance_of(user), row_of_task(open)}) {
    RowHolder holder(db_.url(), held);
    const auto outcomes = store_.cancel({commands.data(), 2});
    ASSERT_TRUE(outcomes[0]);
    EXPECT_EQ(outcomes[0]->outcome, CancelOutcome::kAlreadyFinal);
    EXPECT_EQ(outcomes[0]->task.state, TaskState::kCanceled);
    ASSERT_FALSE(outcomes[1]);
    EXPECT_EQ(outcomes[1].error(), StoreFault::kLocked);
  }
  RowHolder holder(db_.url(), row_of_task(open));
  const auto outcomes = store_.cancel(commands);
  EXPECT_FALSE(outcomes[1]);
  ASSERT_TRUE(outcomes[2]) << "a neighbour's goes on";
  EXPECT_EQ(outcomes[2]->outcome, CancelOutcome::kCanceled);
}

TEST_F(WorkTest, TheSameTaskTwiceInABatchIsCanceledOnce) {
  const UserId user = db_.add_user(credits(150));
  const CancelCommand command{.task = create(user), .user = user};
  const std::vector<CancelCommand> twice = {command, command};
  const auto outcomes = until_free(std::span<const CancelCommand>(twice),
                                   [&](auto some) { return store_.cancel(some); });
  EXPECT_EQ(outcomes[0].outcome, CancelOutcome::kCanceled);
  EXPECT_EQ(outcomes[1].outcome, CancelOutcome::kAlreadyFinal);
  EXPECT_EQ(outcomes[1].task.state, TaskState::kCanceled);
  EXPECT_EQ(db_.balance(user), (Balance{credits(150), Units{}, 3}));
}

TEST_F(WorkTest, CancelAgainstSettle) {
  constexpr std::size_t kRounds = 300;
  const UserId user = db_.add_user();
  const std::vector<Claim> claims = claim_many(user, kRounds);
  std::atomic<int> canceled{0}, settled{0};
  in_parallel(2, [&](std::size_t side) {
    TaskStore store(db_.url());
    for (const Claim& claim : claims) {
      if (side == 0) {
        canceled += must(store.cancel(claim.task)) == CancelOutcome::kCanceled ? 1 : 0;
      } else {
        const SettleCommand command = settle_command(Settle::kSucceed, claim);
        const auto outcomes =
            until_free(std::span(&command, 1), [&](auto some) { return store.settle(some); });
        settled += outcomes.front() == SettleOutcome::kSettled ? 1 : 0;
      }
    }
  });
  EXPECT_EQ(canceled + settled, static_cast<int>(kRounds));
  for (const Claim& claim : claims) {
    expect_ended_once(claim.task);
  }
}

TEST_F(WorkTest, DeadlineAgainstSettle) {
  constexpr std::size_t kRounds = 300;
  const UserId user = db_.add_user();
  std::vector<SettleCommand> commands;
  for (const Claim& claim : claim_many(user, kRounds)) {
    const bool retry = commands.size() % 3 == 0;
    commands.push_back(settle_command(retry ? Settle::kRetry : Settle::kSucceed, claim));
  }
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6), wake_at=UTC_TIMESTAMP(6)"));
  std::atomic<std::size_t> expired{0}, settled{0};
  in_parallel(3, [&](std::size_t side) {
    TaskStore store(db_.url());
    if (side == 0) {
      for (std::size_t i = 0; i < kRounds; i += 7) {
        const auto some = std::span<const SettleCommand>(commands).subspan(
            i, std::min<std::size_t>(7, kRounds - i));
        for (const SettleOutcome outcome :
             until_free(some, [&](auto those) { return store.settle(those); })) {
          settled += outcome == SettleOutcome::kSettled ? 1U : 0U;
        }
      }
    } else {
      // Tasks whose user's balance is held are looked at again a second later.
      EXPECT_TRUE(test::eventually(30s, [&] {
        expired += must(store.sweep(11)).expired;
        return expired + settled >= kRounds;
      }));
    }
  });
  EXPECT_EQ(expired + settled, kRounds);
  for (const SettleCommand& command : commands) {
    expect_ended_once(command.task);
  }
}

TEST_F(WorkTest, WorkersReportAndAreForgotten) {
  const WorkerId old = WorkerId::make();
  must(store_.report_worker(old, "a", 1, {.in_flight = 0, .places = 200}));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 2 DAY"));
  must(store_.report_worker(
      worker_, "host", 42, {.in_flight = 7, .places = 200, .status_json = R"({"v":1})"}));
  must(store_.report_worker(
      worker_, "host", 42, {.in_flight = 9, .places = 200, .status_json = R"({"v":2})"}));
  EXPECT_EQ(must(store_.forget_silent(100)), 1U);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM workers")), 1);
  EXPECT_EQ(db_.text(Sql("SELECT CONCAT(host, pid, in_flight, status) FROM workers")),
            R"(host429{"v":2})");
  EXPECT_TRUE(store_.ping());
}

}  // namespace
}  // namespace audiogen::store
