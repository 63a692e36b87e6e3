// Tasks that are parked and released: by whom, in which order, and that the counts are always true.
#include <algorithm>

#include <gmock/gmock.h>

#include "common/store/accounts.h"
#include "common/store/meters.h"
#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

constexpr std::uint32_t kWindow = 6;

class LanesTest : public TaskStoreTest {
 protected:
  LanesTest() { set_window(kWindow); }

  void set_window(std::uint32_t size) {
    db_.execute(Sql("UPDATE release_window SET size=") << size);
  }
  std::vector<TaskId> create_many(UserId user, std::size_t count) {
    std::vector<CreateCommand> commands;
    std::vector<TaskId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      commands.push_back(create_command(user));
      ids.push_back(commands.back().id);
    }
    for (const CreateOutcome& outcome : must(store_.create(commands))) {
      EXPECT_EQ(outcome.kind, CreateOutcome::Kind::kCreated);
      lanes_.push_back(outcome.lane);
    }
    return ids;
  }
  Lane lane(TaskId task) { return static_cast<Lane>(column(task, "lane")); }
  std::int64_t of(UserId user, const char* name) {
    const std::string which = name;
    Sql sql = which == "released" ? Sql("SELECT released") : Sql("SELECT parked");
    return db_.number(sql << " FROM balances WHERE user_id=" << user);
  }
  // Claims and ends it.
  void work(TaskId task, std::uint32_t epoch) {
    const ClaimOutcome claimed = claim(task, epoch);
    ASSERT_TRUE(claimed);
    EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claimed)), SettleOutcome::kSettled);
  }
  // As the look of a worker would have just found it.
  void set_known(const char* what) {
    db_.execute(Sql(
        "UPDATE release_window SET bulk_share=0, takes=0, express_wait=0, bulk_wait=0, needs=0, "
        "looked_at=UTC_TIMESTAMP(6)"));
    db_.execute(Sql::trusted("UPDATE release_window SET " + std::string(what)));
  }
  CreateOutcome create_within(UserId user, std::chrono::seconds deadline) {
    CreateCommand command = create_command(user);
    command.deadline = deadline;
    return create(command);
  }
  // The look of the one whose turn it is, to its end.
  std::vector<Hint> look_after_crowds(std::size_t limit = 100) {
    while (!must(store_.look_after_crowds(limit))) {
    }
    return store_.released();
  }

  std::vector<Lane> lanes_;
};

TEST_F(LanesTest, WhatIsBeyondTheWindowIsParkedUntilOneEnds) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 3);
  EXPECT_EQ(std::count(lanes_.begin(), lanes_.end(), Lane::kExpress), kExpressMax);
  EXPECT_EQ(std::count(lanes_.begin(), lanes_.end(), Lane::kBulk), kWindow - kExpressMax);
  EXPECT_EQ(std::count(lanes_.begin(), lanes_.end(), Lane::kParked), 3);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(lane(tasks[i]), lanes_[i]) << i;
  }
  EXPECT_EQ(of(user, "released"), kWindow);
  EXPECT_EQ(of(user, "parked"), 3);
  EXPECT_FALSE(claim(tasks[kWindow])) << "a parked task is nobody's to claim";

  work(tasks[1], 0);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks[kWindow], 1}})) << "the oldest of them";
  EXPECT_EQ(lane(tasks[kWindow]), Lane::kBulk);
  EXPECT_EQ(lane(tasks[kWindow + 1]), Lane::kParked);
  EXPECT_FALSE(claim(tasks[kWindow], 0)) << "an old hint, if there were any";
  work(tasks[kWindow], 1);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks[kWindow + 1], 1}}));
  EXPECT_TRUE(store_.released().empty()) << "told once";
}

TEST_F(LanesTest, OthersAreNotConcerned) {
  const UserId many = db_.add_user(), few = db_.add_user();
  create_many(many, kWindow + 5);
  lanes_.clear();
  create_many(few, 2);
  EXPECT_EQ(lanes_, (std::vector<Lane>{Lane::kExpress, Lane::kExpress}));
}

TEST_F(LanesTest, ManyEndTogetherAndAsManyAreReleased) {
  const UserId one = db_.add_user(), other = db_.add_user();
  const auto first = create_many(one, kWindow + 10), second = create_many(other, kWindow + 1);
  std::vector<Hint> hints;
  for (std::size_t i = 0; i < kWindow; ++i) {
    hints.push_back({first[i], 0});
    hints.push_back({second[i], 0});
  }
  std::vector<SettleCommand> commands;
  for (ClaimOutcome& claimed : must(store_.claim(hints, worker_, some_provider))) {
    commands.push_back(settle_command(Settle::kSucceed, claimed.value()));
  }
  must(store_.settle(commands));
  const auto released = store_.released();
  EXPECT_EQ(released.size(), kWindow + 1U);
  for (std::size_t i = 0; i < kWindow; ++i) {
    EXPECT_THAT(released, testing::Contains(Hint{first[kWindow + i], 1}));
  }
  EXPECT_THAT(released, testing::Contains(Hint{second[kWindow], 1}));
  EXPECT_EQ(of(one, "released"), kWindow);
  EXPECT_EQ(of(one, "parked"), 10 - static_cast<int>(kWindow));
  EXPECT_EQ(of(other, "parked"), 0);
}

// Put back is not ended: its place is its own.
TEST_F(LanesTest, ARetryReleasesNobody) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 1);
  const ClaimOutcome claimed = claim(tasks[0]);
  ASSERT_TRUE(claimed);
  EXPECT_EQ(settle(settle_command(Settle::kRetry, *claimed)), SettleOutcome::kRequeued);
  EXPECT_TRUE(store_.released().empty());
  EXPECT_EQ(lane(tasks[0]), Lane::kExpress);
  EXPECT_EQ(of(user, "released"), kWindow);
}

TEST_F(LanesTest, WhatWasCanceledWhileItWasParkedIsPassedBy) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 3);
  const CancelCommand cancel{.task = tasks[kWindow], .user = user};
  EXPECT_EQ(only(store_.cancel({&cancel, 1})).outcome, CancelOutcome::kCanceled);
  EXPECT_EQ(of(user, "parked"), 2);
  EXPECT_EQ(of(user, "released"), kWindow);
  work(tasks[0], 0);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks[kWindow + 1], 1}}));
}

// Many of them: what one look passes by it need not pass by again.
TEST_F(LanesTest, BehindManyThatWereCanceledTheNextIsFound) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 101);
  std::vector<CancelCommand> cancels;
  for (std::size_t i = kWindow; i + 1 < tasks.size(); ++i) {
    cancels.push_back({.task = tasks[i], .user = user});
  }
  must(store_.cancel(cancels));
  work(tasks[0], 0);
  auto released = store_.released();
  for (int looks = 0; released.empty() && looks < 20; ++looks) {
    released = look_after_crowds();
  }
  EXPECT_EQ(released, (std::vector<Hint>{{tasks.back(), 1}}));
}

TEST_F(LanesTest, ACanceledPlaceIsGivenToTheNextByTheLookAfterCrowds) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 2);
  const CancelCommand cancel{.task = tasks[0], .user = user};
  must(store_.cancel({&cancel, 1}));
  EXPECT_EQ(look_after_crowds(), (std::vector<Hint>{{tasks[kWindow], 1}}));
  EXPECT_TRUE(look_after_crowds().empty());
}

TEST_F(LanesTest, AParkedTaskEndsAtItsDeadlineAndIsLookedAtNotBefore) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 2);
  EXPECT_EQ(column(tasks[kWindow], "wake_at=deadline_at"), 1);
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << tasks[kWindow]);
  const SweepResult early = must(store_.sweep(10));
  EXPECT_TRUE(early.publish.empty()) << "should somebody look all the same";
  EXPECT_EQ(column(tasks[kWindow], "wake_at=deadline_at"), 1);
  pass_deadline(tasks[kWindow]);
  EXPECT_EQ(must(store_.sweep(10)).expired, 1U);
  EXPECT_EQ(of(user, "parked"), 1);
  EXPECT_EQ(of(user, "released"), kWindow);
  work(tasks[0], 0);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks[kWindow + 1], 1}}));
}

TEST_F(LanesTest, ReleasedTasksAreLookedAtLikeNewOnesButTheirHintsAreNotTrusted) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 1);
  work(tasks[0], 0);
  must(store_.report_api(
      ApiId::make(),
      TaskId{first_uuid_at(
          std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + 100s)}));
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << tasks[kWindow]);
  EXPECT_EQ(must(store_.sweep(10)).publish, (std::vector<Hint>{{tasks[kWindow], 1}}));
}

// An operator's session has it: its own user waits, and nobody else.
TEST_F(LanesTest, AParkedTaskWhoseRowIsHeldKeepsNobodyElseWaiting) {
  const UserId one = db_.add_user(), other = db_.add_user();
  const auto first = create_many(one, kWindow + 2), second = create_many(other, kWindow + 2);
  RowHolder holder(db_.url(), row_of_task(first[kWindow]));
  work(first[0], 0);
  EXPECT_TRUE(store_.released().empty()) << "nobody overtakes it";
  work(second[0], 0);
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{second[kWindow], 1}}));
  holder.release();
  EXPECT_EQ(look_after_crowds(), (std::vector<Hint>{{first[kWindow], 1}}));
}

TEST_F(LanesTest, TheWindowFollowsWorkersAndCrowds) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 40);
  look_after_crowds();
  EXPECT_EQ(db_.number(Sql("SELECT size FROM release_window")), kWindow) << "no worker, no word";
  const WorkerId gone = WorkerId::make();
  must(store_.report_worker(gone, "here", 2, {.in_flight = 0, .places = 1000}));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at + INTERVAL 1 HOUR"));
  look_after_crowds();
  EXPECT_EQ(db_.number(Sql("SELECT size FROM release_window")), kWindow)
      << "the clock was set back: who lives tells again";
  must(store_.report_worker(worker_, "here", 1, {.in_flight = 0, .places = 10}));
  const auto released = look_after_crowds();
  EXPECT_EQ(db_.number(Sql("SELECT size FROM release_window")), 20);
  EXPECT_EQ(released.size(), 20 - kWindow);
  for (std::size_t i = 0; i < released.size(); ++i) {
    EXPECT_EQ(released[i], (Hint{tasks[kWindow + i], 1})) << i;
  }
  const UserId other = db_.add_user();
  create_many(other, 30);
  look_after_crowds();
  EXPECT_EQ(db_.number(Sql("SELECT size FROM release_window")), 10) << "shared by two";
  EXPECT_EQ(db_.number(Sql("SELECT tasks FROM release_window")), kWindow + 40 + 30);
  must(store_.report_worker_ended(worker_));
  look_after_crowds();
  EXPECT_EQ(db_.number(Sql("SELECT size FROM release_window")), 10) << "until one comes again";
}

// More crowds than a look sees at once.
TEST_F(LanesTest, ALookGoesOnWhereTheOneBeforeEnded) {
  std::vector<std::vector<TaskId>> all;
  for (int i = 0; i < 7; ++i) {
    all.push_back(create_many(db_.add_user(), kWindow + 2));
  }
  set_window(kWindow + 1);
  EXPECT_EQ(look_after_crowds(2).size(), 7U);
  for (const auto& tasks : all) {
    EXPECT_EQ(lane(tasks[kWindow]), Lane::kBulk);
    EXPECT_EQ(lane(tasks[kWindow + 1]), Lane::kParked);
  }
}

// A transaction holds the rows of all whose tasks it releases, and nobody waits for it for long.
TEST_F(LanesTest, NoTransactionReleasesVeryMany) {
  constexpr std::size_t kMany = 250, kTogether = 400, kAtOnce = 200;
  for (int i = 0; i < 5; ++i) {
    create_many(db_.add_user(credits(1'000'000)), kWindow + kMany);
  }
  set_window(kWindow + kMany);
  const auto transactions = [] {
    return meters::transactions("crowds").collect().histogram.sample_count;
  };
  const auto before = transactions();
  EXPECT_EQ(look_after_crowds().size(), 5 * kAtOnce);
  EXPECT_EQ(transactions() - before, (5 * kAtOnce + kTogether - 1) / kTogether);
  EXPECT_EQ(look_after_crowds().size(), 5 * (kMany - kAtOnce));
}

TEST_F(LanesTest, APlanKeepsTheWindowSmaller) {
  const UserId user = db_.add_user();
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 4; ++i) {
    commands.push_back(create_command(user));
    commands.back().released_max = 2;
  }
  std::vector<Lane> lanes;
  for (const CreateOutcome& outcome : must(store_.create(commands))) {
    lanes.push_back(outcome.lane);
  }
  EXPECT_EQ(lanes,
            (std::vector<Lane>{Lane::kExpress, Lane::kExpress, Lane::kParked, Lane::kParked}));
  EXPECT_TRUE(look_after_crowds().empty());
}

// Whoever upgrades because of what waits, and asks for nothing more until that is done.
TEST_F(LanesTest, APaidPlanReachesWhatWaitsAlready) {
  const UserId user = db_.add_user(credits(1'000'000));
  constexpr std::uint32_t kMost = 200, kTasks = 300;
  set_window(1000);
  std::vector<CreateCommand> commands;
  while (commands.size() < kTasks) {
    commands.push_back(create_command(user));
    commands.back().released_max = kMost;
  }
  must(store_.create(commands));
  EXPECT_TRUE(look_after_crowds().empty());
  ASSERT_EQ(of(user, "released"), kMost);
  const Balance before = db_.balance(user);
  Session session(db_.as("admin"));
  ASSERT_TRUE(Accounts(session).set_plan(user, Plan::kFree));
  EXPECT_TRUE(look_after_crowds().empty());
  ASSERT_TRUE(Accounts(session).set_plan(user, Plan::kPaid));
  EXPECT_EQ(look_after_crowds().size(), kTasks - kMost);
  EXPECT_EQ(of(user, "parked"), 0);
  EXPECT_EQ(db_.balance(user), before);
}

// An API goes by what it has read of a key less than a second ago. What it lets in after the change
// of the plan brought the limit of the old one back, and to say it again changed nothing.
TEST_F(LanesTest, APaidPlanIsSaidAgainWhereAnApiDidNotKnowOfIt) {
  const UserId user = db_.add_user();  // Whose plan is a paid one.
  std::vector<CreateCommand> commands;
  while (commands.size() < 4) {
    commands.push_back(create_command(user));
    commands.back().released_max = 2;
  }
  must(store_.create(commands));
  EXPECT_TRUE(look_after_crowds().empty());
  Session session(db_.as("admin"));
  ASSERT_TRUE(Accounts(session).set_plan(user, Plan::kPaid));
  EXPECT_EQ(look_after_crowds().size(), 2U);
  EXPECT_EQ(of(user, "parked"), 0);
}

// So does whatever he asks for, though he is told that there is too much of it.
TEST_F(LanesTest, ARefusedCreationTellsThePlanAsWell) {
  const UserId user = db_.add_user();
  CreateCommand command = create_command(user);
  for (int i = 0; i < 4; ++i) {
    command.id = create_command(user).id;
    command.released_max = 2;
    ASSERT_EQ(create(command).kind, CreateOutcome::Kind::kCreated);
  }
  const Balance before = db_.balance(user);
  command.id = create_command(user).id;
  command.open_max = 4;
  command.released_max = 3;
  EXPECT_EQ(create(command).kind, CreateOutcome::Kind::kTooManyOpen);
  EXPECT_EQ(look_after_crowds().size(), 1U);
  command.released_max = 0;
  command.only_again = true;
  EXPECT_EQ(create(command).kind, CreateOutcome::Kind::kNothingNew);
  EXPECT_EQ(look_after_crowds().size(), 1U);
  EXPECT_EQ(db_.balance(user), before) << "nothing else is written for it";
}

TEST_F(LanesTest, TheNextLaneIsThatOfTheNextCreation) {
  Session session(db_.as("api"));
  Accounts accounts(session);
  const auto next = [&](UserId user, std::uint32_t released_max = 0) {
    const auto lane = accounts.next_lane(user, released_max);
    EXPECT_TRUE(lane) << lane.error().detail;
    return lane ? std::optional(*lane) : std::nullopt;
  };
  const UserId user = db_.add_user();
  for (std::uint32_t i = 0; i < kWindow + 2; ++i) {
    const auto told = next(user);
    create_many(user, 1);
    EXPECT_EQ(told, lanes_.back()) << i;
  }
  EXPECT_EQ(lanes_.back(), Lane::kParked);
  const UserId other = db_.add_user();
  create_many(other, 1);
  EXPECT_EQ(next(other), Lane::kExpress) << "nobody else's tasks count";
  EXPECT_EQ(next(other, 1), Lane::kParked) << "by the plan";
  EXPECT_EQ(accounts.next_lane(UserId::make(), 0).error().code, FaultCode::kNoSuchUser);
}

TEST_F(LanesTest, SoManyMayBeOpenAndNoMore) {
  const UserId user = db_.add_user();
  const auto limited = [&](std::optional<std::string> key = std::nullopt) {
    CreateCommand command = create_command(user, std::move(key));
    command.open_max = kWindow + 2;
    return command;
  };
  create_many(user, kWindow + 1);
  const CreateOutcome last = create(limited("k"));
  EXPECT_EQ(last.kind, CreateOutcome::Kind::kCreated);
  const Balance before = db_.balance(user);
  EXPECT_EQ(create(limited()).kind, CreateOutcome::Kind::kTooManyOpen);
  EXPECT_EQ(db_.balance(user), before) << "nothing is held for it";
  EXPECT_EQ(create(limited("k")).kind, CreateOutcome::Kind::kReplayed) << "it is there already";
  const CancelCommand cancel{.task = last.task.id, .user = user};
  must(store_.cancel({&cancel, 1}));
  EXPECT_EQ(create(limited()).kind, CreateOutcome::Kind::kCreated);
}

// By the pace of the workers and the user's share of it.
TEST_F(LanesTest, WhatWouldNotEndInTimeIsRefusedAtOnce) {
  const UserId user = db_.add_user(), other = db_.add_user();
  create_many(user, kWindow + 50);
  // One a second.
  set_known("crowds=2, tasks=70, pace=1000, bulk_share=1000000");
  const Balance before = db_.balance(user);
  const CreateOutcome refused = create_within(user, 89s);
  EXPECT_EQ(refused.kind, CreateOutcome::Kind::kTooLate);
  EXPECT_EQ(refused.again_in, 21s)
      << "91 are before it, half way between the 70 of all and twice his 56, and its own second; "
         "and of its 89 s the first 71 surely are in time";
  EXPECT_EQ(db_.balance(user), before) << "nothing is held for it";
  EXPECT_EQ(create_within(user, 120s).kind, CreateOutcome::Kind::kCreated);
  set_known("crowds=1, tasks=70, pace=1000, bulk_share=1000000");
  EXPECT_EQ(create_within(user, 80s).kind, CreateOutcome::Kind::kCreated) << "57 of his";
  set_known("crowds=1, tasks=70, pace=1000, bulk_share=500000");
  EXPECT_EQ(create_within(user, 80s).kind, CreateOutcome::Kind::kTooLate)
      << "others have half of the places";
  EXPECT_EQ(create_within(other, 1s).kind, CreateOutcome::Kind::kCreated)
      << "nothing waits before it";
  set_known("crowds=1, tasks=70, pace=1000, bulk_share=1000000, needs=30");
  EXPECT_EQ(create_within(user, 80s).kind, CreateOutcome::Kind::kTooLate)
      << "57 of his, and nobody is called for what has less than 30 s left";
  set_known("crowds=1, tasks=70, pace=0");
  EXPECT_EQ(create_within(user, 1s).kind, CreateOutcome::Kind::kCreated) << "nobody knows";
}

// By the old plan it would be parked behind his two.
TEST_F(LanesTest, WhoeverHasAnotherPlanIsJudgedByThat) {
  CreateCommand command = create_command(db_.add_user());
  for (int i = 0; i < 2; ++i) {
    command.id = create_command(command.user).id;
    command.released_max = 2;
    ASSERT_EQ(create(command).kind, CreateOutcome::Kind::kCreated);
  }
  set_known("crowds=1, tasks=2, pace=10, bulk_share=1000000");
  command.id = create_command(command.user).id;
  command.deadline = 60s;
  EXPECT_EQ(create(command).kind, CreateOutcome::Kind::kTooLate);
  command.released_max = 100;
  EXPECT_EQ(create(command).kind, CreateOutcome::Kind::kCreated);
}

// Many users, none of whom wants much.
TEST_F(LanesTest, BehindAFullExpressLaneWhoeverIsNextIsRefused) {
  const UserId first = db_.add_user(), second = db_.add_user();
  set_known("pace=4000, takes=5, express_wait=60");
  const CreateOutcome refused = create_within(first, 60s);
  EXPECT_EQ(refused.kind, CreateOutcome::Kind::kTooLate);
  EXPECT_EQ(refused.again_in, 26s);
  EXPECT_EQ(create_within(first, 100s).kind, CreateOutcome::Kind::kCreated) << "it has more time";
  EXPECT_EQ(create_within(second, 60s).kind, CreateOutcome::Kind::kTooLate);
  set_known("pace=4000, takes=5, express_wait=34");
  EXPECT_EQ(create_within(second, 60s).kind, CreateOutcome::Kind::kCreated);
}

TEST_F(LanesTest, WhatWaitsInBulkHasOnlyThoseRefusedWhoWouldWaitThereToo) {
  const UserId many = db_.add_user(), few = db_.add_user();
  create_many(many, kExpressMax);
  create_many(few, kExpressMax - 1);
  set_known("pace=4000, takes=5, express_wait=1, bulk_wait=1000, crowds=10, tasks=1000000");
  EXPECT_EQ(create_within(many, 60s).kind, CreateOutcome::Kind::kTooLate);
  EXPECT_EQ(create_within(few, 60s).kind, CreateOutcome::Kind::kCreated);
}

// All workers may be gone.
TEST_F(LanesTest, NobodyIsRefusedByWhatWasSeenLongAgo) {
  const UserId user = db_.add_user();
  set_known("pace=4000, takes=5, express_wait=60");
  EXPECT_EQ(create_within(user, 60s).kind, CreateOutcome::Kind::kTooLate);
  db_.execute(Sql("UPDATE release_window SET looked_at=looked_at - INTERVAL 1 MINUTE"));
  EXPECT_EQ(create_within(user, 60s).kind, CreateOutcome::Kind::kCreated);
  set_known("pace=4000, takes=5, express_wait=60");
  db_.execute(Sql("UPDATE release_window SET looked_at=looked_at + INTERVAL 1 MINUTE"));
  EXPECT_EQ(create_within(user, 60s).kind, CreateOutcome::Kind::kCreated) << "a clock was set";
  // A worker of the release before.
  set_known("pace=4000, takes=5, express_wait=60");
  db_.execute(Sql("UPDATE release_window SET looked_at=NULL"));
  EXPECT_EQ(create_within(user, 60s).kind, CreateOutcome::Kind::kCreated);
}

TEST_F(LanesTest, WhileWorkersAreFullTheWaitOfEachLaneIsTold) {
  const std::vector<UserId> users = {db_.add_user(), db_.add_user(), db_.add_user()};
  std::vector<Hint> hints;
  for (const UserId user : users) {
    for (const TaskId task : create_many(user, kExpressMax + 1)) {
      hints.push_back({task, 0});
    }
  }
  create_many(users[0], 20);  // One more in bulk, and what is parked waits for another of his.
  // Two are called for, one of each lane; one has been put back, and is not due.
  std::vector<ClaimOutcome> claimed;
  for (ClaimOutcome& one : must(store_.claim(
           std::vector<Hint>{hints[0], hints[1], hints[kExpressMax]}, worker_, some_provider))) {
    ASSERT_TRUE(one);
    claimed.push_back(std::move(one));
  }
  SettleCommand later = settle_command(Settle::kRetry, *claimed[1]);
  later.retry_after = 10min;
  EXPECT_EQ(settle(later), SettleOutcome::kRequeued);
  std::optional<TaskStore> looker(db_.url());
  const auto look = [&](std::uint64_t ended, std::size_t room = 0) {
    must(store_.report_worker(
        worker_,
        "here",
        1,
        {.in_flight = 2, .places = 2, .room = room, .ended = ended, .needs = 25s}));
    set_window(kWindow);
    EXPECT_TRUE(must(looker->look_after_crowds(100, 0s)));
    static_cast<void>(looker->released());
  };
  // From then on somebody looks who knows no more than that.
  const auto tell = [&](const char* what) {
    set_known(what);
    looker.emplace(db_.url());
  };
  const auto known = [&](const char* name) {
    return db_.number(Sql::trusted("SELECT " + std::string(name) + " FROM release_window"));
  };
  look(100);
  EXPECT_EQ(known("pace"), 0);
  look(1'000'000);
  const auto pace = known("pace");
  ASSERT_GT(pace, 100'000) << "the looks came within seconds";
  EXPECT_EQ(known("bulk_share"), 500'000);
  EXPECT_EQ(known("takes"), 1) << "far less than a second";
  EXPECT_EQ(known("express_wait"), 1);
  EXPECT_EQ(known("bulk_wait"), 1);
  EXPECT_EQ(known("looked_at>UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"), 1);
  // The same, at a pace that can be counted by: 10 wait express, 3 in bulk.
  tell("pace=100, bulk_share=500000, takes=20");
  look(1'000'000);
  ASSERT_EQ(known("pace"), 100) << "nothing has ended since";
  EXPECT_EQ(known("needs"), 25);
  EXPECT_EQ(known("takes"), 20);
  EXPECT_EQ(known("express_wait"), 134) << "10 at three in 40 s";
  EXPECT_EQ(known("bulk_wait"), 60) << "3 at half of the pace";
  // Those that are parked do not become theirs shortly before their deadlines, either.
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 29 SECOND, "
                  "wake_at=deadline_at WHERE lane=")
              << Lane::kParked);
  tell("pace=1000, bulk_share=500000, takes=2");
  look(1'000'000);
  EXPECT_EQ(known("express_wait"), 14);
  EXPECT_EQ(known("bulk_wait"), 6);
  look(1'000'000, 2);
  EXPECT_EQ(known("pace"), 1000) << "there are places that nobody takes: it is kept for a while";
  EXPECT_EQ(known("express_wait"), 0);
  // What waits in its last minute is looked at again when that is over, and waits all the same.
  db_.execute(Sql("UPDATE tasks SET deadline_at=UTC_TIMESTAMP(6) + INTERVAL 59 SECOND, "
                  "wake_at=deadline_at WHERE next_run_at<=UTC_TIMESTAMP(6) AND state=")
              << TaskState::kQueued << " AND lane<>" << Lane::kParked);
  tell("pace=1000, bulk_share=500000, takes=2");
  look(1'000'000);
  EXPECT_EQ(known("express_wait"), 14);
  EXPECT_EQ(known("bulk_wait"), 6);
}

// 300 wait for one provider, which makes two a second; another one is free.
TEST_F(LanesTest, AWaitIsThatOfTheRoute) {
  constexpr Route kSlow{12}, kFree{0};
  const auto report = [&](WorkerId worker, std::uint64_t waiting, std::size_t room) {
    const LaneCounts all{.express = waiting, .bulk = waiting};
    WorkerReport out{.in_flight = 2, .places = 2, .room = room};
    out.lines.waiting = {.first = {.express = waiting, .bulk = 0}, .here = {}};
    out.lines.of[kSlow] = {
        .before = {.first = all, .here = {}}, .pace = 1000, .takes = 1, .needs = 2};
    out.lines.of[kFree] = {.before = {}, .pace = 5000, .takes = 1, .needs = 2};
    must(store_.report_worker(worker, "here", 1, out));
  };
  const auto look = [&] {
    EXPECT_TRUE(must(store_.look_after_crowds(100, 20s)));
    static_cast<void>(store_.released());
  };
  const auto creates = [&](Route route, std::chrono::seconds deadline) {
    CreateCommand command = create_command(db_.add_user());
    command.route = route;
    command.deadline = deadline;
    return create(command).kind;
  };
  using Kind = CreateOutcome::Kind;
  const WorkerId other = WorkerId::make();
  report(worker_, 100, 2);
  report(other, 200, 2);
  look();
  EXPECT_EQ(db_.number(Sql("SELECT pace FROM release_window")), 0) << "there is room for others";
  EXPECT_EQ(creates(kSlow, 60s), Kind::kTooLate);
  EXPECT_EQ(creates(kSlow, 900s), Kind::kCreated);
  EXPECT_EQ(creates(kFree, 60s), Kind::kCreated);
  EXPECT_EQ(creates(Route{1}, 60s), Kind::kCreated) << "nobody knows anything of it";
  // A worker of the release before has looked since, and has said nothing of routes.
  db_.execute(Sql("UPDATE release_window SET looked_at=UTC_TIMESTAMP(6)"));
  EXPECT_EQ(creates(kSlow, 60s), Kind::kCreated);
  look();
  EXPECT_EQ(creates(kSlow, 60s), Kind::kTooLate);
  // What has become of it is told as well, and that nobody waits any more.
  report(worker_, 0, 2);
  report(other, 0, 2);
  look();
  EXPECT_EQ(creates(kSlow, 60s), Kind::kCreated);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM release_window WHERE routes=''")), 1);
  // What is no text of routes is as if there were none.
  db_.execute(Sql("UPDATE workers SET route_lines='12,1;x'"));
  look();
  EXPECT_EQ(creates(kSlow, 60s), Kind::kCreated);
}

TEST_F(LanesTest, ThePaceIsWhatAllWorkersEndWhileTheyAreFullAndSomebodyWaits) {
  const auto pace = [&] {
    must(store_.look_after_crowds(10, 0s));
    return db_.number(Sql("SELECT pace FROM release_window"));
  };
  const WorkerId other = WorkerId::make();
  const auto report = [&](std::size_t room, std::uint64_t ended) {
    must(store_.report_worker(worker_, "here", 1, {.places = 10, .room = room, .ended = ended}));
    must(store_.report_worker(other, "here", 2, {.places = 10, .ended = 50}));
  };
  report(0, 100);
  EXPECT_EQ(pace(), 0);
  report(0, 160);
  EXPECT_EQ(pace(), 0) << "nobody waits: so much was asked for, and no more";
  create_many(db_.add_user(), 100);
  EXPECT_EQ(pace(), 0) << "nothing to compare with";
  report(0, 220);
  const std::int64_t told = pace();
  EXPECT_GT(told, 0);
  report(6, 280);
  EXPECT_EQ(pace(), told) << "there are places that nobody takes, which tells nothing else";
}

// Some of them tell of all. Where time is short they are counted a page at a look, and what is told
// until a count has come to its end is what the one before has told.
TEST_F(LanesTest, OfVeryManyAPartIsCounted) {
  constexpr std::size_t kMany = 12'000, kAtOnce = 500;
  constexpr std::int64_t kPageMost = 2'500;
  set_window(kMany);
  for (std::size_t made = 0; made < kMany; made += kAtOnce) {
    create_many(db_.add_user(), kAtOnce);
  }
  std::chrono::milliseconds time{0};  // Each look at the clock takes longer than a look may.
  const LocalClocks clocks{
      .steady = [&] { return std::chrono::steady_clock::time_point(time += 1s); }};
  TaskStore store(db_.url(), clocks);
  std::int64_t pages = 0;
  const auto told = [&](const char* what) {
    return db_.number(Sql::trusted(std::string("SELECT ") + what + " FROM release_window"));
  };
  const auto wait = [&](std::size_t room = 0) {
    must(store.report_worker(worker_, "here", 1, {.places = 100, .room = room, .ended = 5}));
    const std::int64_t before = db_.rows_read("tasks");
    must(store.look_after_crowds(100, 0s));
    const std::int64_t read = db_.rows_read("tasks") - before;
    EXPECT_LE(read, kPageMost + kPageMost / 10);
    pages += read > 0 ? 1 : 0;
    return told("bulk_wait");
  };
  const char* const known = "pace=1000000, bulk_share=250000";
  // 12,000 but for 24 times 4, at 250 a second, are 48 s.
  const auto is_right = [](std::int64_t seconds) { return seconds >= 46 && seconds <= 50; };
  set_known("pace=1000000, bulk_share=250000, bulk_wait=900");
  EXPECT_TRUE(test::eventually(60s, [&] {
    const std::int64_t now = wait();
    EXPECT_EQ(told("pace"), 1'000'000);
    return now != 900 || HasFailure();
  }));
  EXPECT_GE(pages, 5) << "12,000 in pages of 2,500";
  EXPECT_TRUE(test::eventually(60s, [&] {
    set_known(known);
    const std::int64_t now = wait();
    EXPECT_TRUE(is_right(now)) << now << " after " << pages;
    return pages >= 12 || HasFailure();
  }));
  // For a moment there is room: what was counted is good again after it.
  set_known(known);
  EXPECT_EQ(wait(100), 0);
  set_known(known);
  const std::int64_t after = wait();
  EXPECT_TRUE(is_right(after)) << after;
  // Nobody has looked before, and how fast it goes is known sooner than how many wait.
  TaskStore first(db_.url(), clocks);
  db_.execute(Sql("UPDATE release_window SET looked_at=NULL"));
  std::uint64_t ended = 5;
  const auto look = [&] {
    must(first.report_worker(worker_, "here", 1, {.places = 100, .ended = ended += 100'000}));
    must(first.look_after_crowds(100, 0s));
  };
  look();
  look();
  EXPECT_EQ(told("pace"), 0) << "nobody is refused before they are counted";
  EXPECT_TRUE(test::eventually(60s, [&] {
    look();
    return told("pace") != 0;
  }));
  EXPECT_GT(told("bulk_wait"), 0);
}

// Whoever has little under way waits behind no crowd when his task has to be tried again, either.
TEST_F(LanesTest, AHintThatIsSentAgainKeepsItsLane) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kExpressMax + 1);
  const auto published = [&](TaskId task) {
    const auto hints = must(store_.sweep(10)).publish;
    return hints.size() == 1 && hints[0].task == task ? std::optional(hints[0].lane) : std::nullopt;
  };
  const auto look_now = [&](TaskId task) {
    db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << task);
  };
  look_now(tasks[0]);
  EXPECT_EQ(published(tasks[0]), Lane::kExpress);
  look_now(tasks[kExpressMax]);
  EXPECT_EQ(published(tasks[kExpressMax]), Lane::kBulk);
  ASSERT_TRUE(claim(tasks[1]));
  db_.execute(Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, "
                  "wake_at=UTC_TIMESTAMP(6) WHERE id=")
              << tasks[1]);
  EXPECT_EQ(published(tasks[1]), Lane::kExpress) << "its worker is gone";
}

// Canceled, all but the newest: what is next lies behind all their holds.
TEST_F(LanesTest, BehindVeryManyThatHaveEndedTheNextIsFoundInOneLook) {
  const UserId user = db_.add_user();
  constexpr std::size_t kMany = 1500;
  std::vector<TaskId> tasks;
  while (tasks.size() < kMany) {
    const auto some = create_many(user, 250);
    tasks.insert(tasks.end(), some.begin(), some.end());
  }
  for (std::size_t i = 0; i + 1 < kMany; i += 250) {
    std::vector<CancelCommand> cancels;
    for (std::size_t k = i; k < std::min(i + 250, kMany - 1); ++k) {
      cancels.push_back({.task = tasks[k], .user = user});
    }
    for (const auto& canceled : store_.cancel(cancels)) {
      ASSERT_TRUE(canceled);
    }
  }
  must(store_.look_after_crowds(10));
  EXPECT_EQ(store_.released(), (std::vector<Hint>{{tasks.back(), 1}}));
}

// They are read some at a time, too, and whoever is left over has his turn in the same look.
TEST_F(LanesTest, BehindVeryManyThatHaveEndedAllOfThreeFindTheirs) {
  constexpr std::size_t kUsers = 3, kEnded = 350, kThere = 140;
  for (std::size_t i = 0; i < kUsers; ++i) {
    const UserId user = db_.add_user(credits(1'000'000));
    const std::vector<TaskId> tasks = create_many(user, kWindow + kEnded + kThere);
    std::vector<CancelCommand> cancels;
    for (std::size_t k = kWindow; k < kWindow + kEnded; ++k) {
      cancels.push_back({.task = tasks[k], .user = user});
    }
    for (const auto& canceled : store_.cancel(cancels)) {
      ASSERT_TRUE(canceled);
    }
  }
  set_window(kWindow + kThere);
  must(store_.look_after_crowds(10));
  EXPECT_EQ(store_.released().size(), kUsers * kThere);
}

// It does not count, and a count that has gone wrong parks its user's tasks for ever.
TEST_F(LanesTest, AProgramOfTheReleaseBeforeCannotWriteABalance) {
  const UserId user = db_.add_user();
  const Balance before = db_.balance(user);
  Sql sql("INSERT INTO balances (user_id, available, held, seq) VALUES (");
  sql << user
      << ",1,0,2) ON DUPLICATE KEY UPDATE available=VALUES(available), held=VALUES(held), "
         "seq=VALUES(seq)";
  EXPECT_THROW(db_.execute(sql), DbError);
  EXPECT_EQ(db_.balance(user), before);
}

// A process that has the turn may freeze.
TEST_F(LanesTest, ATurnEndsWithAnIdleSession) {
  TaskStore frozen(db_.url(), {}, 1s);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(must(frozen.take_turn(TaskStore::Chore::kCrowds)));
  EXPECT_TRUE(
      test::eventually(60s, [&] { return must(store_.take_turn(TaskStore::Chore::kCrowds)); }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1s) << "it was its own so long";
}

TEST_F(LanesTest, WhoeverPullsGetsTheExpressLaneFirst) {
  const UserId many = db_.add_user(), few = db_.add_user();
  set_window(1000);
  create_many(many, 100);
  const auto express = create_many(few, 3);
  const auto hints = must(store_.ready(4, 0s));
  ASSERT_EQ(hints.size(), 4U);
  EXPECT_GE(
      std::count_if(
          hints.begin(), hints.end(), [](const Hint& hint) { return hint.lane == Lane::kExpress; }),
      3);
  for (const Hint& hint : must(store_.ready(20, 0s, {}, true))) {
    EXPECT_EQ(hint.lane, Lane::kExpress);
  }
  EXPECT_EQ(must(store_.ready(20, 0s, {}, true)).size(), kExpressMax + 3U);
}

// However many of the other are older.
TEST_F(LanesTest, WhoeverPullsFindsTheExpressLaneBehindAllThatCrowdsHave) {
  const UserId many = db_.add_user(), few = db_.add_user();
  set_window(2000);
  const auto tasks = create_many(many, 1500);
  for (std::size_t i = 0; i < kExpressMax; ++i) {
    ASSERT_TRUE(claim(tasks[i]));
  }
  const auto express = create_many(few, 1);
  const auto hints = must(store_.ready(4, 0s));
  ASSERT_EQ(hints.size(), 4U);
  EXPECT_TRUE(std::any_of(
      hints.begin(), hints.end(), [&](const Hint& hint) { return hint.task == express[0]; }));
}

TEST_F(LanesTest, AClockThatWasSetBackReleasesNobodyEarly) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 1);
  db_.execute(
      Sql("UPDATE tasks SET updated_at=updated_at + INTERVAL 1 HOUR, next_run_at="
          "next_run_at + INTERVAL 1 HOUR, created_at=created_at + INTERVAL 1 HOUR, "
          "deadline_at=deadline_at + INTERVAL 1 HOUR, wake_at=wake_at + INTERVAL 1 HOUR"));
  must(store_.sweep(10));
  EXPECT_EQ(column(tasks[kWindow], "wake_at=deadline_at"), 1);
  EXPECT_EQ(column(tasks[kWindow], "deadline_at<=UTC_TIMESTAMP(6) + INTERVAL 900 SECOND"), 1);
  EXPECT_EQ(lane(tasks[kWindow]), Lane::kParked);
}

// What is released is written by the new clock: from then on nothing tells that its deadline is
// not.
TEST_F(LanesTest, WhatIsReleasedAfterAStepBackKeepsNoDeadlineOfTheOldClock) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 1);
  const Claim first = *claim(tasks[0]);
  db_.execute(
      Sql("UPDATE tasks SET updated_at=updated_at + INTERVAL 1 HOUR, next_run_at="
          "next_run_at + INTERVAL 1 HOUR, created_at=created_at + INTERVAL 1 HOUR, "
          "deadline_at=deadline_at + INTERVAL 1 HOUR, wake_at=wake_at + INTERVAL 1 HOUR"));
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, first)), SettleOutcome::kSettled);
  EXPECT_EQ(lane(tasks[kWindow]), Lane::kBulk);
  EXPECT_EQ(column(tasks[kWindow], "deadline_at<=UTC_TIMESTAMP(6) + INTERVAL 900 SECOND"), 1);
}

// An operator's session, or a sweeper that froze: whoever has parked tasks does not wait for it.
TEST_F(LanesTest, AHeldWindowKeepsNobodyParked) {
  const UserId user = db_.add_user();
  const auto tasks = create_many(user, kWindow + 1);
  const CancelCommand cancel{.task = tasks[0], .user = user};
  must(store_.cancel({&cancel, 1}));
  ASSERT_EQ(lane(tasks[kWindow]), Lane::kParked);
  const RowHolder holder(db_.url(), Sql("SELECT * FROM release_window"));
  EXPECT_EQ(look_after_crowds(), (std::vector<Hint>{{tasks[kWindow], 1}}));
}

// Whatever the reason is: it is refused, and no program ends.
TEST_F(LanesTest, WithoutAWindowNothingIsDoneAndNobodyFalls) {
  const CreateCommand command = create_command(db_.add_user());
  db_.execute(Sql("DELETE FROM release_window"));
  EXPECT_EQ(store_.create({&command, 1}).front().error(), StoreFault::kUnavailable);
  EXPECT_FALSE(store_.look_after_crowds(10));
  db_.execute(Sql("INSERT INTO release_window (id, size) VALUES (1, 1000)"));
  EXPECT_EQ(only(store_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
}

// A thread that has just read the window goes by what it read, whoever changes it meanwhile.
TEST_F(LanesTest, AWindowIsKeptForAWhileWhereThatIsAsked) {
  const auto lane_of_a_second = [&] {
    const UserId user = db_.add_user();
    set_window(1);
    create_many(user, 1);
    set_window(kWindow);
    return lane(create_many(user, 1)[0]);
  };
  EXPECT_NE(lane_of_a_second(), Lane::kParked) << "read each time";
  set_window(1);
  store_.keep_window(24h);
  EXPECT_EQ(lane_of_a_second(), Lane::kParked);
  store_.keep_window(0ms);
  EXPECT_NE(lane_of_a_second(), Lane::kParked);
}

// What is kept ages as what is read: of a time without looks nobody knows the pace.
TEST(SeenWindowTest, WhatIsKeptIsNotTakenForNew) {
  SeenWindow seen(24h);
  EXPECT_TRUE(seen.is_due());
  const Instant looked_at{1h};
  seen.see({.size = 7, .pace = 5}, looked_at);
  EXPECT_FALSE(seen.is_due());
  EXPECT_EQ(seen.at(looked_at + 1s).pace, 5);
  EXPECT_EQ(seen.at(looked_at + 1min).pace, 0);
  EXPECT_EQ(seen.at(looked_at + 1min).size, 7);
  seen.see({.size = 8}, std::nullopt);
  EXPECT_EQ(seen.at(looked_at).size, 8);
}

// Everything at once, on several threads: the invariants count what is open.
TEST_F(LanesTest, TheCountsAreTrueWhateverHappensAtOnce) {
  const std::vector<UserId> users = {db_.add_user(), db_.add_user(), db_.add_user()};
  in_parallel(4, [&](std::size_t n) {
    TaskStore store(db_.url());
    for (int round = 0; round < 15; ++round) {
      std::vector<CreateCommand> commands;
      for (int i = 0; i < 5; ++i) {
        commands.push_back(create_command(users[(n + static_cast<std::size_t>(i)) % users.size()]));
      }
      until_free(std::span<const CreateCommand>(commands),
                 [&](auto some) { return store.create(some); });
      const auto hints = must(store.ready(8, 0s));
      std::vector<SettleCommand> ends;
      for (auto& claimed : store.claim(hints, worker_, some_provider)) {
        if (claimed && *claimed) {
          ends.push_back(
              settle_command(ends.size() % 3 == 0 ? Settle::kFail : Settle::kSucceed, **claimed));
        }
      }
      until_free(std::span<const SettleCommand>(ends),
                 [&](auto some) { return store.settle(some); });
      const std::vector<CancelCommand> cancels = {{.task = commands[n].id}};
      until_free(std::span<const CancelCommand>(cancels),
                 [&](auto some) { return store.cancel(some); });
      must(store.look_after_crowds(10));
    }
  });
  while (!look_after_crowds().empty()) {
  }
  // And with nobody in the way each crowd has as many released as it may.
  EXPECT_EQ(
      db_.number(Sql("SELECT COUNT(*) FROM balances WHERE crowded=1 AND released<") << kWindow), 0);
}

}  // namespace
}  // namespace audiogen::store
