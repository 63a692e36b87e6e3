// How the service stands, as one look at a real server tells it, and what a look leaves alone.
#include "common/store/situations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using State = Situation::Worker::State;
using std::chrono::seconds;
using testing::DoubleEq;
using testing::FieldsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class SituationsTest : public TaskStoreTest {
 protected:
  Situation look() { return look(situations_); }
  static Situation look(Situations& from) {
    auto out = from.look();
    if (!out) {
      ADD_FAILURE() << out.error().detail;
      return {};
    }
    return *std::move(out);
  }
  // So many open tasks of `user`, which no ledger knows of: for the time of a look. They wake
  // within `wakes`.
  void add_open(UserId user, std::uint64_t count, TaskState state, seconds wakes) {
    Sql sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, lease_until, ");
    sql << "next_run_at, deadline_at, wake_at, created_at, updated_at) SELECT UNHEX(LPAD(HEX(seq), "
           "32, '0')), "
        << user << "," << state << ", '', 1, 5, IF(" << state << "=" << TaskState::kRunning
        << ", UTC_TIMESTAMP(6) + INTERVAL 30 SECOND, NULL), UTC_TIMESTAMP(6) - INTERVAL 60 SECOND, "
           "UTC_TIMESTAMP(6) + INTERVAL 800 SECOND, UTC_TIMESTAMP(6) + INTERVAL "
        << wakes.count()
        << " SECOND, UTC_TIMESTAMP(6) - INTERVAL 70 SECOND, UTC_TIMESTAMP(6) FROM (WITH RECURSIVE "
           "s AS (SELECT 1 AS seq UNION ALL SELECT seq+1 FROM s WHERE seq<200) SELECT "
           "a.seq*1000+b.seq AS seq FROM s a JOIN s b LIMIT "
        << count << ") s";
    db_.execute(sql);
  }
  void remove_open() { db_.execute(Sql("DELETE FROM tasks WHERE request=''")); }

  Session session_{db_.as("api"), kLooksPatience};  // Who looks.
  Situations situations_{session_};
};

TEST_F(SituationsTest, NothingIsThereWhenNothingIs) {
  const Situation none = look();
  EXPECT_EQ(none.open(), AtLeast{});
  EXPECT_EQ(none.oldest_waiting(), seconds(0));
  EXPECT_EQ(none.arrivals_per_second, 0);
  EXPECT_EQ(none.credits_held, Units{});
  EXPECT_THAT(none.workers, IsEmpty());
  EXPECT_THAT(none.apis, IsEmpty());
  const std::int64_t off =
      db_.number(Sql("SELECT ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), ") << none.at << "))");
  EXPECT_LE(off, 60) << "the database's clock";
}

TEST_F(SituationsTest, OpenTasksAreCountedByWhatTheyWaitFor) {
  const UserId user = db_.add_user();
  const TaskId ready = create(user), running = create(user), later = create(user),
               canceled = create(user);
  create(user);
  ASSERT_TRUE(claim(running));
  SettleCommand retry = settle_command(Settle::kRetry, *claim(later));
  retry.call = 1;
  retry.call_state = kCallFailed;
  retry.retry_after = std::chrono::seconds(90);
  EXPECT_EQ(settle(retry), SettleOutcome::kRequeued);
  must(store_.cancel(canceled));
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 100 SECOND WHERE id=")
              << ready);
  const Situation now = look();
  EXPECT_EQ(now.ready, (AtLeast{2, true}));
  EXPECT_EQ(now.running, (AtLeast{1, true}));
  EXPECT_EQ(now.waiting_retry, (AtLeast{1, true}));
  EXPECT_EQ(now.parked, (AtLeast{0, true}));
  EXPECT_GE(now.oldest_ready, seconds(100));
  EXPECT_LT(now.oldest_ready, seconds(160));
  EXPECT_EQ(now.oldest_parked, seconds(0));
  EXPECT_EQ(now.credits_held, db_.balance(user).held);
  // But for the one that is 100 s old now: five were created, in the last minute.
  EXPECT_DOUBLE_EQ(now.arrivals_per_second, 4.0 / 60);
  // A row that another session holds is read like any other.
  const RowHolder holder(db_.url(), row_of_task(ready));
  EXPECT_EQ(look().ready.value, 2U);
}

// What is tried for the fourth time waits for minutes, and was in no count: running and backlog
// went down while nothing had ended.
TEST_F(SituationsTest, WhatWaitsForLongIsCountedToo) {
  const UserId user = db_.add_user();
  const TaskId later = create(user);
  SettleCommand retry = settle_command(Settle::kRetry, *claim(later));
  retry.call = 1;
  retry.call_state = kCallFailed;
  retry.retry_after = std::chrono::seconds(500);
  EXPECT_EQ(settle(retry), SettleOutcome::kRequeued);
  const auto expect_counted = [&] {
    const Situation now = look();
    EXPECT_EQ(now.waiting_retry, (AtLeast{1, true}));
    EXPECT_EQ(now.ready.value, 0U);
    EXPECT_EQ(now.credits_held, db_.balance(user).held);
  };
  expect_counted();
  // The sweeper looks at it meanwhile, and does not lose sight of it either.
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6)"));
  must(store_.sweep(10));
  expect_counted();
  EXPECT_TRUE(must(store_.ready(10, std::chrono::seconds(0))).empty()) << "it is not due";
  EXPECT_EQ(look().retry_later, 1U) << "nor within the next minute";
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) + INTERVAL 59 SECOND"));
  EXPECT_EQ(look().retry_later, 0U);
}

// A million that wait for their next try made each pull read a hundred thousand rows, for seconds.
TEST_F(SituationsTest, APullReadsSomeRowsHoweverManyWait) {
  const UserId user = db_.add_user();
  constexpr std::uint64_t kMoreThanAreRead = 6'000;
  add_open(user, kMoreThanAreRead, TaskState::kQueued, seconds(5));
  db_.execute(Sql("UPDATE tasks SET epoch=1, next_run_at=UTC_TIMESTAMP(6) + INTERVAL 300 SECOND"));
  const TaskId fresh = create(user);
  EXPECT_TRUE(must(store_.ready(250, seconds(0))).empty()) << "it is not in turn";
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) WHERE id=") << fresh);
  EXPECT_EQ(must(store_.ready(250, seconds(0))), (std::vector<Hint>{{fresh, 0}}));
  remove_open();
}

TEST_F(SituationsTest, ParkedTasksAreCountedWithoutBeingRead) {
  const UserId crowd = db_.add_user(), other = db_.add_user();
  db_.execute(Sql("UPDATE release_window SET size=5"));
  for (int i = 0; i < 12; ++i) {
    create(crowd);
  }
  create(other);
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 50 SECOND WHERE lane=2"));
  const Situation now = look();
  EXPECT_EQ(now.ready, (AtLeast{6, true}));
  EXPECT_EQ(now.parked, (AtLeast{7, true}));
  EXPECT_GE(now.oldest_parked, seconds(50));
  EXPECT_LT(now.oldest_ready, now.oldest_parked);
  EXPECT_EQ(now.credits_held, db_.balance(crowd).held + db_.balance(other).held);
  EXPECT_THAT(now.by_plan, IsEmpty()) << "their share grows with the workers";
  // Shortly before its deadline one is read among those that are released: it counts once.
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE lane=2"));
  const Situation then = look();
  EXPECT_EQ(then.ready, (AtLeast{6, true}));
  EXPECT_EQ(then.parked, (AtLeast{7, true}));
  EXPECT_EQ(then.credits_held, now.credits_held);
}

// Of each who waits for his plan all that he asks for: what is released takes of the same places,
// and what another one leaves of his is not for him.
TEST_F(SituationsTest, WhatIsParkedIsToldByWhatPlansAllow) {
  const UserId greedy = db_.add_user(), modest = db_.add_user(), unlimited = db_.add_user();
  const auto create_some = [&](UserId user, int count, std::uint32_t limit) {
    std::vector<CreateCommand> commands;
    for (int i = 0; i < count; ++i) {
      commands.push_back(create_command(user));
      commands.back().released_max = limit;
    }
    must(store_.create(commands));
    return commands;
  };
  const std::vector<CreateCommand> of_greedy = create_some(greedy, 20, 2);
  const std::vector<CreateCommand> of_modest = create_some(modest, 51, 50);
  db_.execute(Sql("UPDATE release_window SET size=5"));
  create_some(unlimited, 8, 0);
  const Situation now = look();
  EXPECT_EQ(now.parked, (AtLeast{18 + 1 + 3, true}));
  EXPECT_THAT(now.by_plan,
              UnorderedElementsAre(FieldsAre(2U, 20U, DoubleEq(20.0 / 60)),
                                   FieldsAre(50U, 51U, DoubleEq(51.0 / 60))));
  EXPECT_DOUBLE_EQ(now.arrivals_per_second, (20.0 + 51 + 8) / 60);
  EXPECT_EQ(now.credits_held,
            db_.balance(greedy).held + db_.balance(modest).held + db_.balance(unlimited).held);
  // What runs waits no more, and what is tried again in minutes is no work for anybody now.
  for (std::size_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(claim(of_modest[i].id));
  }
  db_.execute(Sql("UPDATE tasks SET created_at=created_at - INTERVAL 61 SECOND WHERE user_id=")
              << modest);
  db_.execute(Sql("UPDATE tasks SET next_run_at=UTC_TIMESTAMP(6) + INTERVAL 90 SECOND WHERE id=")
              << of_greedy.front().id);
  EXPECT_THAT(look().by_plan,
              UnorderedElementsAre(FieldsAre(2U, 19U, DoubleEq(20.0 / 60)),
                                   FieldsAre(50U, 1U, DoubleEq(0))));
}

TEST_F(SituationsTest, MoreThanALookReadsAreSoManyOrMore) {
  const UserId user = db_.add_user();
  add_open(user, kOpenLooked - 1, TaskState::kQueued, seconds(60));
  EXPECT_EQ(look().ready, (AtLeast{kOpenLooked - 1, true}));
  remove_open();
  add_open(user, kOpenLooked + 5, TaskState::kQueued, seconds(60));
  const Situation now = look();
  EXPECT_EQ(now.ready, (AtLeast{kOpenLooked, false}));
  EXPECT_EQ(now.running, (AtLeast{0, false}));
  EXPECT_FALSE(now.backlog().exact);
  remove_open();
}

TEST_F(SituationsTest, TheRateOfManyArrivalsIsThatOfTheLast) {
  const UserId user = db_.add_user();
  std::vector<CreateCommand> commands;
  for (std::uint64_t i = 0; i < kNewestLooked; ++i) {
    commands.push_back(create_command(user));
    if (commands.size() == 100) {
      must(store_.create(commands));
      commands.clear();
    }
  }
  db_.execute(Sql("UPDATE tasks SET created_at=UTC_TIMESTAMP(6) - INTERVAL 10 SECOND"));
  const double rate = look().arrivals_per_second;
  EXPECT_LE(rate, static_cast<double>(kNewestLooked) / 10);
  EXPECT_GE(rate, static_cast<double>(kNewestLooked) / 60) << "10 s, and what this test took";
  db_.execute(Sql("UPDATE tasks SET created_at=UTC_TIMESTAMP(6) - INTERVAL 61 SECOND"));
  EXPECT_EQ(look().arrivals_per_second, 0);
}

// Of whose creations nobody would be told, nor how many workers they need.
TEST_F(SituationsTest, AnApiWhoseClockIsBehindCountsAsWell) {
  CreateCommand late = create_command(db_.add_user());
  late.id = TaskId{first_uuid_at(local_now() - std::chrono::hours(3))};
  must(store_.create({&late, 1}));
  EXPECT_DOUBLE_EQ(look().arrivals_per_second, 1.0 / 60);
}

TEST_F(SituationsTest, AWorkerThatIsGoneSaysHowItWentAndHoldsNoWork) {
  const WorkerId working = WorkerId::make(), ended = WorkerId::make(), lost = WorkerId::make(),
                 ahead = WorkerId::make();
  WorkerStatus status{.version = "9.9", .draining = true};
  for (const WorkerId worker : {working, ended, lost, ahead}) {
    must(store_.report_worker(
        worker,
        "host",
        12,
        {.in_flight = 3, .places = 200, .status_json = encode_worker_status(status)}));
  }
  must(store_.report_worker_ended(ended));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 31 SECOND WHERE id=") << lost);
  // The database's clock was set back after it was killed.
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at + INTERVAL 10 MINUTE WHERE id=") << ahead);
  const Situation now = look();
  ASSERT_THAT(now.workers, SizeIs(4));
  for (const auto& worker : now.workers) {
    EXPECT_EQ(worker.host, "host");
    EXPECT_EQ(worker.pid, 12U);
    EXPECT_EQ(worker.status.version, "9.9");
    EXPECT_EQ(worker.state,
              worker.id == working ? State::kWorking
              : worker.id == ended ? State::kEnded
                                   : State::kLost);
    EXPECT_EQ(worker.in_flight, worker.id == working ? 3U : 0U);
    EXPECT_EQ(worker.drains(), worker.id == working);
    EXPECT_EQ(worker.ended_at.has_value(), worker.id == ended);
  }
}

TEST_F(SituationsTest, AProcessOfTheApiTellsSinceWhenHintsAreUnsent) {
  const ApiId sent = ApiId::make(), unsent = ApiId::make(), gone = ApiId::make();
  const Instant now = look().at;
  must(store_.report_api(sent, TaskId{first_uuid_at(now)}));
  must(store_.report_api(unsent, TaskId{first_uuid_at(now - std::chrono::minutes(1))}));
  must(store_.report_api(gone, TaskId{first_uuid_at(now)}));
  must(store_.report_api_ended(gone));
  const Situation then = look();
  ASSERT_THAT(then.apis, SizeIs(3));
  for (const auto& api : then.apis) {
    EXPECT_EQ(api.alive, api.id != gone);
    if (api.id == unsent) {
      EXPECT_GE(api.unsent, seconds(60));
    }
  }
}

TEST_F(SituationsTest, AProcessOfTheApiTellsHowManyCreationsItRefused) {
  const ApiId telling = ApiId::make(), gone = ApiId::make();
  must(store_.report_api(telling, TaskId::make(), CreationCount{.answered = 1, .refused = 1}));
  must(store_.report_api(telling, TaskId::make(), CreationCount{.answered = 40, .refused = 10}));
  must(store_.report_api(gone, TaskId::make(), CreationCount{.answered = 1, .refused = 1}));
  must(store_.report_api_ended(gone));
  Situation then = look();
  ASSERT_THAT(then.apis, SizeIs(2));
  for (const auto& api : then.apis) {
    EXPECT_EQ(api.refused_share(), api.id == telling ? std::optional(0.25) : std::nullopt);
  }
  EXPECT_EQ(then.refused_share(), 0.25);
  // As programs of the step before do.
  db_.execute(Sql("INSERT INTO api_processes (id, unsent_from, seen_at) VALUES (")
              << ApiId::make() << "," << TaskId::make() << ",UTC_TIMESTAMP(6))");
  then = look();
  ASSERT_THAT(then.apis, SizeIs(3));
  EXPECT_EQ(then.refused_share(), 0.25) << "of those that tell";
  must(store_.report_api_ended(telling));
  EXPECT_EQ(look().refused_share(), std::nullopt) << "none tells";
}

TEST_F(SituationsTest, OneSessionHasTheTurn) {
  Session other(db_.as("api"), kLooksPatience);
  Situations others(other);
  EXPECT_TRUE(*situations_.take_turn());
  EXPECT_TRUE(*situations_.take_turn()) << "and keeps it";
  EXPECT_FALSE(*others.take_turn());
  look();
  EXPECT_TRUE(*situations_.take_turn());
  EXPECT_FALSE(*others.leave_turn());
  EXPECT_FALSE(*others.take_turn()) << "nobody leaves what is another's";
  EXPECT_FALSE(*situations_.leave_turn());
  EXPECT_TRUE(*others.take_turn());
  EXPECT_FALSE(*situations_.take_turn());
  other.disconnect();
  EXPECT_TRUE(test::eventually(seconds(10), [&] { return *situations_.take_turn(); }));
}

// A look must cost the same beside millions of final tasks, and of waiting ones.
TEST_F(SituationsTest, ALookReadsNeitherFinalTasksNorAllThatWait) {
  const UserId user = db_.add_user();
  db_.execute(
      Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, charged, failure, "
          "next_run_at, deadline_at, created_at, updated_at) SELECT UNHEX(LPAD(HEX(s.seq+1000000), "
          "32, '0')), ")
      << user
      << ", 4, '', 1, 1, 0, 7, NOW(6), NOW(6), NOW(6), NOW(6) FROM (WITH RECURSIVE s AS (SELECT 1 "
         "AS seq UNION ALL SELECT seq+1 FROM s WHERE seq<900) SELECT seq FROM s) s");
  add_open(user, 800, TaskState::kQueued, seconds(700));  // As though they were parked.
  create(user);
  const auto rows_read = [&] { return db_.rows_read("tasks"); };
  rows_read();  // Counts from here on.
  Session session(db_.as("api"), kLooksPatience);
  Situations fresh(session);
  look(fresh);
  const auto before = rows_read();
  EXPECT_EQ(look(fresh).ready.value, 1U);
  EXPECT_LT(rows_read() - before, 120);
  remove_open();
}

}  // namespace
}  // namespace audiogen::store
