// The database as it fails: lost answers, lost connections, conflicts, a server that is away or
// silent (reliability 1, F1, F2, F5; 10, rows 9-20).
#include <atomic>
#include <set>
#include <thread>

#include "tests/store/task_fixture.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using test::TcpProxy;
using Cut = TcpProxy::Cut;
using Clock = std::chrono::steady_clock;

// --- one session

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    db_.execute(Sql("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, CHECK (n < 1000))"));
    db_.execute(Sql("INSERT INTO t VALUES (1, 0), (2, 0)"));
  }
  static std::uint64_t id_of(Session& session) {
    Rows rows = session.query(Sql("SELECT CONNECTION_ID()"));
    EXPECT_TRUE(rows.next());
    return rows.u64(1);
  }
  void kill(std::uint64_t connection) {
    db_.execute(Sql("KILL ") << connection);
    // The server ends it a little later.
    const auto until = Clock::now() + 5s;
    while (db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE id=")
                      << connection) != 0) {
      ASSERT_LT(Clock::now(), until);
      std::this_thread::yield();
    }
  }
  std::int64_t n(int id) { return db_.number(Sql("SELECT n FROM t WHERE id=") << id); }
  static DbFault fault_of(const std::function<void()>& use) {
    try {
      use();
    } catch (const DbError& e) {
      return e.fault();
    }
    ADD_FAILURE() << "no error";
    return DbFault::kBug;
  }

  test::TestDatabase db_{test::TestDatabase::Tables::kNone};
  Session session_{db_.url()};
};

// The connector's own commit() would have returned as if all were well (F1).
TEST_F(SessionTest, ACommitThatFailsIsNotSilent) {
  const DbFault fault = fault_of([&] {
    session_.transact([&] {
      session_.execute(Sql("UPDATE t SET n=1 WHERE id=1"));
      kill(id_of(session_));
    });
  });
  EXPECT_EQ(fault, DbFault::kUnknownOutcome);
  EXPECT_EQ(n(1), 0);
  session_.transact([&] { session_.execute(Sql("UPDATE t SET n=2 WHERE id=1")); });
  EXPECT_EQ(n(1), 2);
}

TEST_F(SessionTest, AnUndecidedCommitIsRunAgain) {
  std::vector<bool> runs;
  session_.transact_surely([&](bool again) {
    runs.push_back(again);
    session_.execute(Sql("UPDATE t SET n=n+1 WHERE id=1"));
    if (!again) {
      kill(id_of(session_));
    }
  });
  EXPECT_EQ(runs, (std::vector{false, true}));
  EXPECT_EQ(n(1), 1);
}

// The connector forces REPEATABLE READ whenever it connects (F2).
TEST_F(SessionTest, EveryConnectionReadsCommitted) {
  for (int connection = 0; connection < 3; ++connection) {
    session_.transact([&] {
      Rows before = session_.query(Sql("SELECT n FROM t WHERE id=1"));
      db_.execute(Sql("UPDATE t SET n=n+1 WHERE id=1"));
      Rows after = session_.query(Sql("SELECT n FROM t WHERE id=1"));
      ASSERT_TRUE(before.next() && after.next());
      EXPECT_EQ(after.i64(1), before.i64(1) + 1) << "connection " << connection;
    });
    if (connection == 0) {
      kill(id_of(session_));
    } else {
      session_.disconnect();
    }
  }
}

TEST_F(SessionTest, AConnectionThatDiedIdleIsReplaced) {
  const std::uint64_t first = id_of(session_);
  kill(first);
  EXPECT_NE(id_of(session_), first);
  kill(id_of(session_));
  session_.transact([&] { session_.execute(Sql("UPDATE t SET n=7 WHERE id=1")); });
  kill(id_of(session_));
  EXPECT_EQ(session_.execute(Sql("UPDATE t SET n=8 WHERE id=1")), 1U);
}

TEST_F(SessionTest, ALostTransactionNeverGoesOnElsewhere) {
  const DbFault fault = fault_of([&] {
    session_.transact([&] {
      session_.execute(Sql("UPDATE t SET n=1 WHERE id=1"));
      kill(id_of(session_));
      EXPECT_EQ(fault_of([&] { session_.execute(Sql("UPDATE t SET n=1 WHERE id=2")); }),
                DbFault::kUnavailable);
      session_.execute(Sql("UPDATE t SET n=1 WHERE id=2"));
    });
  });
  EXPECT_EQ(fault, DbFault::kUnavailable);
  EXPECT_EQ(n(1) + n(2), 0);
}

TEST_F(SessionTest, ADeadlockIsRunAgain) {
  Session rival(db_.url());
  rival.execute(Sql("BEGIN"));
  for (int i = 10; i < 40; ++i) {  // Much to undo, so that the other one is the victim.
    rival.execute(Sql("INSERT INTO t VALUES (") << i << ", 0)");
  }
  rival.execute(Sql("UPDATE t SET n=n+1 WHERE id=2"));
  std::atomic<int> runs{0};
  std::atomic<bool> first_locked{false};
  std::jthread victim([&] {
    session_.transact([&] {
      ++runs;
      session_.execute(Sql("UPDATE t SET n=n+10 WHERE id=1"));
      first_locked = true;
      session_.execute(Sql("UPDATE t SET n=n+10 WHERE id=2"));
    });
  });
  while (!first_locked) {
    std::this_thread::yield();
  }
  rival.execute(Sql("UPDATE t SET n=n+1 WHERE id=1"));
  rival.execute(Sql("COMMIT"));
  victim.join();
  EXPECT_GE(runs, 2);
  EXPECT_EQ(n(1), 11);
  EXPECT_EQ(n(2), 11);
}

TEST_F(SessionTest, ALockWaitEndsAndUndoesEverything) {
  Session holder(db_.url());
  holder.execute(Sql("BEGIN"));
  holder.execute(Sql("UPDATE t SET n=n+1 WHERE id=2"));
  const auto began = Clock::now();
  const DbFault fault = fault_of([&] {
    session_.transact([&] {
      session_.execute(Sql("UPDATE t SET n=5 WHERE id=1"));
      session_.execute(Sql("UPDATE t SET n=5 WHERE id=2"));
    });
  });
  EXPECT_EQ(fault, DbFault::kBusy);
  EXPECT_LT(Clock::now() - began, kLockWait + 2s);
  holder.execute(Sql("COMMIT"));
  EXPECT_EQ(n(1), 0);
  EXPECT_EQ(n(2), 1);
}

TEST_F(SessionTest, ErrorsHaveAKindAndQuoteNoValue) {
  EXPECT_EQ(fault_of([&] { session_.execute(Sql("INSERT INTO t VALUES (1, 0)")); }),
            DbFault::kDuplicate);
  EXPECT_EQ(fault_of([&] { session_.execute(Sql("UPDATE t SET n=1000 WHERE id=1")); }),
            DbFault::kConstraint);
  EXPECT_EQ(fault_of([&] { session_.execute(Sql("UPDATE t SET n=99999999999 WHERE id=1")); }),
            DbFault::kConstraint);
  EXPECT_EQ(fault_of([&] { session_.execute(Sql("UPDATE nowhere SET n=1")); }), DbFault::kBug);
  session_.execute(Sql("CREATE TABLE s (k VARCHAR(20) PRIMARY KEY)"));
  session_.execute(Sql("INSERT INTO s VALUES ('secret-key')"));
  for (const char* statement : {"INSERT INTO s VALUES ('secret-key')", "nonsense 'secret-key'"}) {
    try {
      session_.execute(Sql::trusted(statement));
      ADD_FAILURE() << "no error";
    } catch (const DbError& e) {
      EXPECT_EQ(std::string(e.what()).find("secret"), std::string::npos) << e.what();
    }
  }
}

TEST_F(SessionTest, AFrozenClientLosesItsLocks) {
  EXPECT_GT(db_.number(Sql("SELECT @@wait_timeout")), 0);
  Session frozen(db_.url());
  frozen.execute(Sql("BEGIN"));
  frozen.execute(Sql("UPDATE t SET n=n+1 WHERE id=1"));
  const auto until = Clock::now() + 20s;  // The server gives it 10 s.
  bool freed = false;
  while (!freed && Clock::now() < until) {
    try {
      session_.transact([&] { session_.execute(Sql("UPDATE t SET n=n+10 WHERE id=1")); });
      freed = true;
    } catch (const DbError& e) {
      EXPECT_EQ(e.fault(), DbFault::kBusy);
    }
  }
  EXPECT_TRUE(freed);
  EXPECT_EQ(n(1), 10);
}

TEST_F(SessionTest, AServerThatRefusesIsAskedTenTimesASecond) {
  TcpProxy proxy(db_.url().port);
  proxy.refuse();
  Session session(db_.tcp_url(proxy.port()));
  const auto until = Clock::now() + 1s;
  while (Clock::now() < until) {
    EXPECT_EQ(fault_of([&] { session.now(); }), DbFault::kUnavailable);
  }
  EXPECT_LE(proxy.connections(), 12U);
  EXPECT_GE(proxy.connections(), 3U);
}

TEST(Clip, KeepsWellFormedTextOnly) {
  EXPECT_EQ(clip_utf8("", 5), "");
  EXPECT_EQ(clip_utf8("abcdef", 5), "abcde");
  EXPECT_EQ(clip_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8E\xB5x", 3),
            "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x8E\xB5");
  EXPECT_EQ(clip_utf8("\xFF"
                      "a\x80",
                      9),
            "?a?");
  EXPECT_EQ(clip_utf8("\xC0\xAF", 9), "??") << "overlong";
  EXPECT_EQ(clip_utf8("\xE0\x80\xAF", 9), "???") << "overlong";
  EXPECT_EQ(clip_utf8("\xED\xA0\x80", 9), "???") << "surrogate";
  EXPECT_EQ(clip_utf8("\xF4\x90\x80\x80", 9), "????") << "above U+10FFFF";
  EXPECT_EQ(clip_utf8("\xE2\x82", 9), "??") << "cut";
}

// --- the store behind a proxy

class FaultTest : public TaskStoreTest, public ::testing::WithParamInterface<Cut> {
 protected:
  TcpProxy proxy_{db_.url().port};
  TaskStore far_{db_.tcp_url(proxy_.port())};

  void SetUp() override { ASSERT_TRUE(far_.ping()); }
  std::int64_t tasks() { return db_.number(Sql("SELECT COUNT(*) FROM tasks")); }
};

std::string name_of(const ::testing::TestParamInfo<Cut>& info) {
  switch (info.param) {
    case Cut::kClose:
      return "Close";
    case Cut::kReset:
      return "Reset";
    case Cut::kSilence:
      break;
  }
  return "Silence";
}
INSTANTIATE_TEST_SUITE_P(Cuts,
                         FaultTest,
                         ::testing::Values(Cut::kClose, Cut::kReset, Cut::kSilence),
                         name_of);

TEST_P(FaultTest, CreateWithoutTheReplyToCommit) {
  const UserId user = db_.add_user(credits(450)), other = db_.add_user(credits(150));
  const std::vector<CreateCommand> commands = {create_command(user, "k"),
                                               create_command(user, "k"),
                                               create_command(user),
                                               create_command(other),
                                               create_command(other)};
  proxy_.drop_reply_after("COMMIT", GetParam());
  const auto outcomes = must(far_.create(commands));
  ASSERT_EQ(outcomes.size(), 5U);
  EXPECT_EQ(proxy_.triggered(), 1);
  using Kind = CreateOutcome::Kind;
  EXPECT_EQ(outcomes[0].kind, Kind::kCreated);
  EXPECT_EQ(outcomes[1].kind, Kind::kReplayed);
  EXPECT_EQ(outcomes[2].kind, Kind::kCreated);
  EXPECT_EQ(outcomes[3].kind, Kind::kCreated);
  EXPECT_EQ(outcomes[4].kind, Kind::kInsufficient);
  EXPECT_EQ(outcomes[0].task.id, commands[0].id);
  EXPECT_EQ(outcomes[1].task.id, commands[0].id);
  EXPECT_EQ(outcomes[0].task.created_at, find(commands[0].id, user)->created_at);
  EXPECT_EQ(tasks(), 3);
}

TEST_P(FaultTest, SettleWithoutTheReplyToCommit) {
  const UserId user = db_.add_user();
  std::vector<SettleCommand> commands;
  for (const auto kind : {Settle::kSucceed, Settle::kFail, Settle::kRetry, Settle::kRelease}) {
    commands.push_back(settle_command(kind, *claim(create(user))));
  }
  commands.push_back(commands[0]);
  commands.back().epoch = 0;
  proxy_.drop_reply_after("COMMIT", GetParam());
  using enum SettleOutcome;
  EXPECT_EQ(must(far_.settle(commands)),
            (std::vector{kSettled, kSettled, kRequeued, kRequeued, kNotOurs}));
  EXPECT_EQ(proxy_.triggered(), 1);
}

TEST_P(FaultTest, ClaimWithoutTheReplyToCommit) {
  const TaskId task = create(db_.add_user());
  proxy_.drop_reply_after("COMMIT", GetParam());
  const std::vector<Hint> hints = {{task, 0}, {TaskId::make(), 0}};
  const auto claims = must(far_.claim(hints, worker_, some_provider));
  EXPECT_EQ(proxy_.triggered(), 1);
  ASSERT_TRUE(claims[0]);
  EXPECT_FALSE(claims[1]);
  EXPECT_EQ(claims[0]->epoch, 1U);
  EXPECT_EQ(claims[0]->request, create_command(UserId{}).request);
  EXPECT_EQ(column(task, "claims"), 1);
  const AttemptStart next{.task = task, .epoch = 1, .n = 2, .provider = "b"};
  proxy_.drop_reply_after("COMMIT", GetParam());
  EXPECT_TRUE(only(far_.start_attempts({&next, 1})));
  EXPECT_EQ(proxy_.triggered(), 2);
  EXPECT_EQ(column(task, "attempts"), 2);
}

TEST_P(FaultTest, APastAttemptIsArchivedOnce) {
  const TaskId task = create(db_.add_user());
  ASSERT_EQ(settle(settle_command(Settle::kRelease, claim(task).value())),
            SettleOutcome::kRequeued);
  proxy_.drop_reply_after("COMMIT", GetParam());
  const Hint hint{task, 2};
  ASSERT_TRUE(only(far_.claim({&hint, 1}, worker_, some_provider)));
  EXPECT_EQ(proxy_.triggered(), 1);
  EXPECT_EQ(db_.text(Sql("SELECT GROUP_CONCAT(n) FROM past_attempts")), "1");
  proxy_.drop_reply_after("COMMIT", GetParam());
  const AttemptStart next{.task = task, .epoch = 3, .n = 3, .provider = "b"};
  EXPECT_TRUE(only(far_.start_attempts({&next, 1})));
  EXPECT_EQ(proxy_.triggered(), 2);
  EXPECT_EQ(db_.text(Sql("SELECT GROUP_CONCAT(n ORDER BY n) FROM past_attempts")), "1,2");
}

TEST_P(FaultTest, CancelWithoutTheReplyToCommit) {
  const TaskId task = create(db_.add_user());
  proxy_.drop_reply_after("COMMIT", GetParam());
  EXPECT_EQ(must(far_.cancel(task)), CancelOutcome::kCanceled);
  EXPECT_EQ(proxy_.triggered(), 1);
}

// Row 10: never an answer without a row.
TEST_F(FaultTest, ACommitThatNeverArrivedIsRunAgain) {
  const CreateCommand command = create_command(db_.add_user(), "k");
  proxy_.cut_before("COMMIT");
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
  EXPECT_EQ(proxy_.triggered(), 1);
  EXPECT_EQ(tasks(), 1);
}

TEST_F(FaultTest, WithoutAnyWayBackTheOutcomeIsUnknown) {
  const CreateCommand first = create_command(db_.add_user(), "k");
  proxy_.drop_reply_after("COMMIT");
  proxy_.refuse();
  const auto began = Clock::now();
  const auto outcome = far_.create({&first, 1});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), StoreFault::kUnknownOutcome);
  EXPECT_LT(Clock::now() - began, 5s);
  // The client sends the request again, and finds what was done.
  proxy_.accept_again();
  CreateCommand again = first;
  again.id = TaskId::make();
  // The store pauses after a refused connection.
  Batch<CreateOutcome> retried = StoreFault::kUnavailable;
  ASSERT_TRUE(test::eventually(5s, [&] {
    retried = far_.create({&again, 1});
    return static_cast<bool>(retried);
  }));
  const CreateOutcome replay = only(retried);
  EXPECT_EQ(replay.kind, CreateOutcome::Kind::kReplayed);
  EXPECT_EQ(replay.task.id, first.id);
}

// The cable is pulled before COMMIT arrives: the server still holds the rows for its dead client.
TEST_F(FaultTest, ARowHeldByADeadTransactionIsNotGuessedAbout) {
  const CreateCommand command = create_command(db_.add_user());
  proxy_.cut_before("COMMIT", Cut::kSilence);
  const auto began = Clock::now();
  const auto outcome = far_.create({&command, 1});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), StoreFault::kUnknownOutcome);
  EXPECT_LT(Clock::now() - began, 12s);
  EXPECT_EQ(tasks(), 0);
}

TEST_F(FaultTest, DownAndBack) {
  const UserId user = db_.add_user();
  const CreateCommand command = create_command(user);
  proxy_.refuse();
  proxy_.cut_all();
  for (int i = 0; i < 3; ++i) {
    const auto began = Clock::now();
    const auto outcome = far_.create({&command, 1});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error(), StoreFault::kUnavailable);
    EXPECT_FALSE(far_.ping());
    EXPECT_LT(Clock::now() - began, 3s);
  }
  proxy_.accept_again();
  const auto until = Clock::now() + 5s;
  while (!far_.ping()) {
    ASSERT_LT(Clock::now(), until);
  }
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
}

TEST_F(FaultTest, SilentAndBack) {
  const UserId user = db_.add_user();
  const CreateCommand command = create_command(user);
  proxy_.blackhole();
  auto began = Clock::now();
  EXPECT_FALSE(far_.create({&command, 1})) << "an open connection without answers";
  EXPECT_LT(Clock::now() - began, 6s);
  began = Clock::now();
  EXPECT_FALSE(far_.create({&command, 1})) << "a server that accepts and says nothing";
  EXPECT_LT(Clock::now() - began, 3s);
  proxy_.resume();
  const auto until = Clock::now() + 5s;
  while (!far_.ping()) {
    ASSERT_LT(Clock::now(), until);
  }
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
}

TEST_F(FaultTest, IdleConnectionsMayEnd) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  const auto every_call = [&] {
    const FindCommand query{task, user};
    EXPECT_TRUE(only(far_.find({&query, 1})));
    proxy_.cut_all();
    const CreateCommand command = create_command(user);
    EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
    proxy_.cut_all(Cut::kClose);
    must(far_.sweep(10));
    proxy_.cut_all();
    EXPECT_TRUE(far_.ping());
    proxy_.cut_all();
    must(far_.report_api(ApiId::make(), task));
    proxy_.cut_all();
  };
  every_call();
  every_call();
}

TEST_F(FaultTest, ADeadlockWithinABatchGoesUnseen) {
  UserId a = db_.add_user(), b = db_.add_user();
  if (b < a) {
    std::swap(a, b);
  }
  Session rival(db_.url());
  rival.execute(Sql("BEGIN"));
  for (int i = 0; i < 30; ++i) {  // Much to undo, so that the other one is the victim.
    rival.execute(Sql("INSERT INTO workers VALUES (")
                  << WorkerId::make() << ", 'h', 1, 1, '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))");
  }
  (void)rival.query(Sql("SELECT seq FROM balances WHERE user_id=") << b << " FOR UPDATE");
  const std::vector<CreateCommand> commands = {create_command(b), create_command(a)};
  std::jthread victim([&] {
    for (const CreateOutcome& outcome : must(store_.create(commands))) {
      EXPECT_EQ(outcome.kind, CreateOutcome::Kind::kCreated);
    }
  });
  const auto until = Clock::now() + 2s;
  while (db_.number(Sql("SELECT COUNT(*) FROM information_schema.innodb_trx "
                        "WHERE trx_state='LOCK WAIT'")) == 0) {
    ASSERT_LT(Clock::now(), until);
    test::pace(150ms);  // The table is renewed only for those who ask less often.
  }
  (void)rival.query(Sql("SELECT seq FROM balances WHERE user_id=") << a << " FOR UPDATE");
  rival.execute(Sql("COMMIT"));
  victim.join();
  EXPECT_EQ(tasks(), 2);
}

}  // namespace
}  // namespace audiogen::store
