// The database as it fails: lost answers, lost connections, conflicts, a server that is away or
// silent; and the traps of the connector (common/store/README.md).
#include <algorithm>
#include <atomic>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "common/store/meters.h"
#include "tests/store/task_fixture.h"
#include "tests/support/places.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using test::TcpProxy;
using Cut = TcpProxy::Cut;
using Clock = std::chrono::steady_clock;

// No call lasts longer, whatever the server does: several times what a session gives it
// (SessionOptions), and less than the connector's own 30 s for a connection. A call that waited for
// the server would wait as long as the test keeps it away.
constexpr auto kGivesUpWithin = 20s;

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
    const auto until = Clock::now() + 60s;
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
    return DbFault::kUnexpected;
  }

  test::TestDatabase db_{test::TestDatabase::Tables::kNone};
  Session session_{db_.url()};
};

TEST_F(SessionTest, WhatIsNotCommittedIsNotCounted) {
  auto& counter = metrics::counter("of_this_test_total", "");
  auto& again = meters::retries(meters::Retry::kConflict);
  auto& refused = meters::errors(DbFault::kConstraint);
  const double again_before = again.Value(), refused_before = refused.Value();
  const auto add = [&](int n) {
    session_.count(counter, n);
    session_.execute(Sql("UPDATE t SET n=n+") << n << " WHERE id=1");
  };
  session_.transact([&] { add(2); });
  EXPECT_EQ(counter.Value(), 2);
  EXPECT_EQ(fault_of([&] { session_.transact([&] { add(2'000); }); }), DbFault::kConstraint);
  EXPECT_EQ(counter.Value(), 2);
  EXPECT_EQ(refused.Value() - refused_before, 1);
  int tries = 0;
  session_.transact([&] {
    add(3);
    if (++tries == 1) {
      throw DbError(DbFault::kConflict, 1213, "as after a deadlock");
    }
  });
  EXPECT_EQ(counter.Value(), 5) << "once, however often it was tried";
  EXPECT_EQ(again.Value() - again_before, 1);
  EXPECT_EQ(n(1), 5);
}

// The connector's own commit() would have returned as if all were well.
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

// The connector forces REPEATABLE READ whenever it connects.
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

// What makes a new connection wait for a cluster's node (common/store/README.md, "A new connection
// catches up") does not stay: each later read would wait for the whole cluster. `./dev clusters`
// shows the rest.
TEST_F(SessionTest, OnlyANewConnectionWaitsForItsNode) {
  Rows version = session_.query(Sql("SELECT VERSION() LIKE '%MariaDB%'"));
  ASSERT_TRUE(version.next());
  if (version.i64(1) == 0) {
    GTEST_SKIP() << "MySQL has no such nodes";
  }
  Rows rows =
      session_.query(Sql("SELECT @@SESSION.wsrep_sync_wait, @@GLOBAL.wsrep_sync_wait, @node"));
  ASSERT_TRUE(rows.next());
  EXPECT_EQ(rows.i64(1), rows.i64(2));
  EXPECT_FALSE(rows.is_null(3)) << "it did not wait";
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
  Session session(db_.url(), test::kPatient), rival(db_.url(), test::kPatient);
  rival.execute(Sql("BEGIN"));
  for (int i = 10; i < 40; ++i) {  // Much to undo, so that the other one is the victim.
    rival.execute(Sql("INSERT INTO t VALUES (") << i << ", 0)");
  }
  rival.execute(Sql("UPDATE t SET n=n+1 WHERE id=2"));
  std::atomic<int> runs{0};
  std::atomic<bool> first_locked{false};
  std::jthread victim([&] {
    session.transact([&] {
      ++runs;
      session.execute(Sql("UPDATE t SET n=n+10 WHERE id=1"));
      first_locked = true;
      session.execute(Sql("UPDATE t SET n=n+10 WHERE id=2"));
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

// Whoever is the victim again and again gives up in the end, and has done nothing.
TEST_F(SessionTest, AfterTheFifthDeadlockInARowItIsNotRunAgain) {
  constexpr int kTries = 5;
  for (int i = 10; i < 40; ++i) {
    db_.execute(Sql("INSERT INTO t VALUES (") << i << ", 0)");
  }
  Session session(db_.url(), test::kPatient);
  std::atomic<int> runs{0}, rivalled{0};
  // For each run another one, that has more to undo, holds what the run wants second, and then
  // wants what the run holds.
  std::atomic<bool> over{false};
  std::jthread rivals([&] {
    Session rival(db_.url(), test::kPatient);
    for (int round = 1; round <= kTries; ++round) {
      rival.execute(Sql("BEGIN"));
      rival.execute(Sql("UPDATE t SET n=n+1 WHERE id>=10"));
      rival.execute(Sql("UPDATE t SET n=n+1 WHERE id=2"));
      rivalled = round;
      while (runs < round && !over) {
        std::this_thread::yield();
      }
      rival.execute(Sql("UPDATE t SET n=n+1 WHERE id=1"));
      rival.execute(Sql("ROLLBACK"));
    }
  });
  int tries = 0;
  const DbFault fault = fault_of([&] {
    session.transact([&] {
      ++tries;
      // A sixth run would meet nobody, and succeed.
      while (rivalled < std::min(tries, kTries)) {
        std::this_thread::yield();
      }
      session.execute(Sql("UPDATE t SET n=n+10 WHERE id=1"));
      runs = tries;
      session.execute(Sql("UPDATE t SET n=n+10 WHERE id=2"));
    });
  });
  over = true;
  rivals.join();
  EXPECT_EQ(fault, DbFault::kConflict);
  EXPECT_EQ(tries, kTries);
  EXPECT_EQ(n(1), 0);
  EXPECT_EQ(n(2), 0);
  session.transact([&] { session.execute(Sql("UPDATE t SET n=1 WHERE id=1")); });
  EXPECT_EQ(n(1), 1) << "the next transaction is none the worse";
}

TEST_F(SessionTest, ALockWaitEndsAndUndoesEverything) {
  Session holder(db_.url(), kHolds);
  holder.execute(Sql("BEGIN"));
  holder.execute(Sql("UPDATE t SET n=n+1 WHERE id=2"));
  Session never_waits(db_.url(), {.lock_wait = 0s});
  for (Session* session : {&session_, &never_waits}) {
    const DbFault fault = fault_of([&] {
      session->transact([&] {
        session->execute(Sql("UPDATE t SET n=5 WHERE id=1"));
        session->execute(Sql("UPDATE t SET n=5 WHERE id=2"));
      });
    });
    EXPECT_EQ(fault, DbFault::kBusy);
  }
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
  EXPECT_EQ(fault_of([&] { session_.execute(Sql("UPDATE nowhere SET n=1")); }),
            DbFault::kUnexpected);
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

// Reads locked rows only: a transaction that has written nothing yet holds as much as any other.
TEST_F(SessionTest, AFrozenClientLosesItsLocks) {
  Session frozen(db_.url());
  Rows limits = frozen.query(
      Sql("SELECT /*M!100301 @@idle_transaction_timeout */ /*!50708 @@wait_timeout */"));
  ASSERT_TRUE(limits.next());
  EXPECT_EQ(limits.u64(1), 1U) << "seconds";
  frozen.execute(Sql("BEGIN"));
  (void)frozen.query(Sql("SELECT n FROM t WHERE id=1 FOR UPDATE"));
  Session waiting(db_.url(), {.read_timeout = 30s, .statement_max = 30s, .lock_wait = 20s});
  waiting.transact([&] { waiting.execute(Sql("UPDATE t SET n=n+10 WHERE id=1")); });
  EXPECT_EQ(n(1), 10);
  EXPECT_EQ(fault_of([&] { frozen.execute(Sql("SELECT_NOTHING")); }), DbFault::kUnexpected)
      << "it goes on with a new connection";
}

// README.md gives operators a line for sessions of their own, one for each kind of server.
TEST_F(SessionTest, TheLimitForAnOperatorsOwnSessionIsUnderstood) {
  std::ostringstream readme;
  readme << std::ifstream(test::source_path("README.md")).rdbuf();
  const std::string text = readme.str();
  const auto begin = text.find(db_.is_mariadb() ? "SET SESSION idle_transaction_timeout="
                                                : "SET SESSION wait_timeout=");
  ASSERT_NE(begin, std::string::npos);
  const std::string line = text.substr(begin, text.find(';', begin) - begin);
  session_.execute(Sql::trusted(line));
  const std::regex setting(R"((\w+)=(\d+))");
  int settings = 0;
  for (std::sregex_iterator it(line.begin(), line.end(), setting), end; it != end; ++it) {
    Rows rows =
        session_.query(Sql::trusted("SELECT CAST(@@SESSION." + (*it)[1].str() + " AS SIGNED)"));
    ASSERT_TRUE(rows.next());
    EXPECT_EQ(rows.i64(1), std::stoll((*it)[2].str())) << (*it)[1].str();
    ++settings;
  }
  EXPECT_EQ(settings, 3) << line;
}

// What it keeps on the server may last between its transactions; in them it has no more time than
// anybody else.
TEST_F(SessionTest, WhoRestsDoesSoBetweenTransactionsAlone) {
  Session resting(db_.url(), {.idle_max = 20s, .rests = true});
  // In seconds, as it is now.
  const auto limit = [&] {
    Rows rows = resting.query(
        Sql("SELECT /*M!100301 IF(@@in_transaction, @@idle_transaction_timeout, @@wait_timeout) */ "
            "/*!50708 @@wait_timeout */"));
    EXPECT_TRUE(rows.next());
    return rows.u64(1);
  };
  EXPECT_EQ(limit(), 20U);
  resting.transact([&] { EXPECT_EQ(limit(), 1U); });
  EXPECT_EQ(limit(), 20U);
  resting.transact([] {});
  EXPECT_EQ(limit(), 20U);
  const Sql refused("UPDATE t SET n=1000 WHERE id=1");
  EXPECT_EQ(fault_of([&] {
              resting.transact([&] {
                EXPECT_EQ(limit(), 1U);
                resting.execute(refused);
              });
            }),
            DbFault::kConstraint);
  EXPECT_EQ(limit(), 20U);
  // What COMMIT's packet brings is decided, as everywhere.
  EXPECT_EQ(fault_of([&] {
              resting.transact([&] {
                EXPECT_EQ(limit(), 1U);
                resting.later(refused);
              });
            }),
            DbFault::kConstraint);
  EXPECT_EQ(limit(), 20U);
  resting.transact([&] { resting.execute(Sql("UPDATE t SET n=7 WHERE id=1")); });
  EXPECT_EQ(n(1), 7);
}

// More than all sockets between a server and its client hold.
class LargeAnswers : public SessionTest {
 protected:
  static constexpr std::int64_t kRows = 64;
  LargeAnswers() {
    db_.execute(Sql("CREATE TABLE large (id INT PRIMARY KEY, body MEDIUMTEXT NOT NULL)"));
    for (std::int64_t id = 0; id < kRows; ++id) {
      db_.execute(Sql("INSERT INTO large VALUES (") << id << ", REPEAT('x', 1048576))");
    }
  }
};

// While it sends an answer a server waits for its client by another limit, which has to be as
// short.
TEST_F(LargeAnswers, AClientThatStopsReadingLosesItsLocks) {
  TcpProxy proxy(db_.url().port);
  proxy.throttle(1'000'000);  // So that it is still reading when it stops.
  std::jthread frozen([&] {
    Session session(db_.tcp_url(proxy.port()), {.read_timeout = 120s});
    EXPECT_EQ(
        fault_of([&] {
          session.transact([&] { (void)session.query(Sql("SELECT body FROM large FOR UPDATE")); });
        }),
        DbFault::kUnavailable);
  });
  const Sql first = Sql("SELECT id FROM large WHERE id=0 FOR UPDATE");
  ASSERT_TRUE(test::eventually(
      60s, [&] { return !db_.session().query(Sql(first) << " SKIP LOCKED").next(); }));
  proxy.blackhole();
  Session waiting(db_.url(), {.read_timeout = 30s, .statement_max = 30s, .lock_wait = 20s});
  EXPECT_NO_THROW(EXPECT_TRUE(waiting.query(first).next()));
  proxy.cut_all();
  proxy.resume();
}

// So nobody who looks at rows slowly is taken for one that is frozen.
TEST_F(LargeAnswers, AreReadWholeBeforeTheirFirstRow) {
  Session session(db_.url());
  const std::uint64_t connection = id_of(session);
  Rows rows = session.query(Sql("SELECT body FROM large"));
  EXPECT_TRUE(test::eventually(30s, [&] {
    return db_.text(Sql("SELECT command FROM information_schema.processlist WHERE id=")
                    << connection) == "Sleep";
  }));
  std::int64_t read = 0;
  while (rows.next()) {
    ++read;
  }
  EXPECT_EQ(read, kRows);
}

TEST_F(SessionTest, ASessionWithOneConnectionNeverGetsAnother) {
  Session one(db_.url(), {.reconnects = false});
  one.execute(Sql("SET @kept=1"));
  kill(id_of(one));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fault_of([&] { (void)one.query(Sql("SELECT @kept")); }), DbFault::kUnavailable);
  }
}

// Round trips are what a lock waits for.
TEST_F(SessionTest, WhatIsSentLaterIsNotSentAlone) {
  db_.execute(Sql("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"));
  session_.transact([&] {
    (void)session_.query(Sql("SELECT n FROM t WHERE id=1 FOR UPDATE"));
    session_.later(Sql("UPDATE t SET n=3 WHERE id=1"));
    session_.later(Sql("UPDATE t SET n=4 WHERE id=2"));
    EXPECT_EQ(n(1) + n(2), 0);
    Rows seen = session_.query(Sql("SELECT SUM(n) FROM t"));
    ASSERT_TRUE(seen.next());
    EXPECT_EQ(seen.i64(1), 7) << "in its order with what follows";
    session_.later(Sql("UPDATE t SET n=5 WHERE id=2"));
  });
  EXPECT_EQ(n(1), 3);
  EXPECT_EQ(n(2), 5);
  session_.transact([] {});
  session_.transact([&] { session_.later(Sql("UPDATE t SET n=5 WHERE id=1")); });
  EXPECT_EQ(n(1), 5);
}

// The statement that is refused is not the first of its packet, and COMMIT is in it.
TEST_F(SessionTest, ARefusalAmongThoseSentLaterIsDecided) {
  const auto later = [&](const char* text) {
    return fault_of([&] {
      session_.transact([&] {
        (void)session_.query(Sql("SELECT n FROM t WHERE id=1 FOR UPDATE"));
        session_.later(Sql("UPDATE t SET n=7 WHERE id=1"));
        session_.later(Sql::trusted(text));
        session_.later(Sql("UPDATE t SET n=7 WHERE id=2"));
      });
    });
  };
  EXPECT_EQ(later("INSERT INTO t VALUES (1, 0)"), DbFault::kDuplicate);
  EXPECT_EQ(later("UPDATE t SET n=1000 WHERE id=2"), DbFault::kConstraint);
  EXPECT_EQ(later("UPDATE nowhere SET n=1"), DbFault::kUnexpected);
  EXPECT_EQ(n(1) + n(2), 0);
}

TEST_F(SessionTest, AServerThatRefusesIsAskedTenTimesASecond) {
  TcpProxy proxy(db_.url().port);
  proxy.refuse();
  Session session(db_.tcp_url(proxy.port()));
  const auto began = Clock::now();
  EXPECT_TRUE(test::eventually(60s, [&] {
    EXPECT_EQ(fault_of([&] { session.now(); }), DbFault::kUnavailable);
    return proxy.connections() >= 5;
  }));
  EXPECT_GE(Clock::now() - began, 4 * kConnectPause);
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

// Of two tasks the second is parked, and released by the end of the first.
TEST_P(FaultTest, WhatIsReleasedWithoutTheReplyToCommitIsHinted) {
  db_.execute(Sql("UPDATE release_window SET size=1"));
  const UserId user = db_.add_user();
  const TaskId first = create(user), next = create(user);
  const SettleCommand command = settle_command(Settle::kSucceed, *claim(first));
  proxy_.drop_reply_after("COMMIT", GetParam());
  EXPECT_EQ(only(far_.settle({&command, 1})), SettleOutcome::kSettled);
  EXPECT_EQ(proxy_.triggered(), 1);
  EXPECT_EQ(far_.released(), (std::vector<Hint>{{next, 1}}));
}

// Whoever claims by such a hint would lock the row when the settlement comes again.
TEST_F(FaultTest, WhatNobodyKnowsToBeReleasedIsNotHinted) {
  db_.execute(Sql("UPDATE release_window SET size=1"));
  const UserId user = db_.add_user();
  const TaskId first = create(user), next = create(user);
  const SettleCommand command = settle_command(Settle::kSucceed, *claim(first));
  proxy_.cut_before("COMMIT");
  proxy_.refuse();
  const auto outcome = far_.settle({&command, 1}).front();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), StoreFault::kUnknownOutcome);
  EXPECT_TRUE(far_.released().empty());
  EXPECT_EQ(column(next, "lane"), static_cast<int>(Lane::kParked));
  proxy_.accept_again();
  // The store pauses after a refused connection.
  ASSERT_TRUE(test::eventually(5s, [&] {
    const auto again = far_.settle({&command, 1}).front();
    return again && *again == SettleOutcome::kSettled;
  }));
  EXPECT_EQ(far_.released(), (std::vector<Hint>{{next, 1}}));
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
  const CallStart next{.task = task, .epoch = 1, .n = 2, .provider = "b"};
  proxy_.drop_reply_after("COMMIT", GetParam());
  EXPECT_TRUE(only(far_.start_calls({&next, 1})));
  EXPECT_EQ(proxy_.triggered(), 2);
  EXPECT_EQ(column(task, "attempts"), 2);
}

TEST_P(FaultTest, APastCallIsArchivedOnce) {
  const TaskId task = create(db_.add_user());
  ASSERT_EQ(settle(settle_command(Settle::kRelease, claim(task).value())),
            SettleOutcome::kRequeued);
  proxy_.drop_reply_after("COMMIT", GetParam());
  const Hint hint{task, 2};
  ASSERT_TRUE(only(far_.claim({&hint, 1}, worker_, some_provider)));
  EXPECT_EQ(proxy_.triggered(), 1);
  EXPECT_EQ(db_.text(Sql("SELECT GROUP_CONCAT(n) FROM past_attempts")), "1");
  proxy_.drop_reply_after("COMMIT", GetParam());
  const CallStart next{.task = task, .epoch = 3, .n = 3, .provider = "b"};
  EXPECT_TRUE(only(far_.start_calls({&next, 1})));
  EXPECT_EQ(proxy_.triggered(), 2);
  EXPECT_EQ(db_.text(Sql("SELECT GROUP_CONCAT(n ORDER BY n) FROM past_attempts")), "1,2");
}

TEST_P(FaultTest, CancelWithoutTheReplyToCommit) {
  const TaskId task = create(db_.add_user());
  proxy_.drop_reply_after("COMMIT", GetParam());
  EXPECT_EQ(must(far_.cancel(task)), CancelOutcome::kCanceled);
  EXPECT_EQ(proxy_.triggered(), 1);
}

// Never an answer without a row.
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
  const auto outcome = far_.create({&first, 1}).front();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error(), StoreFault::kUnknownOutcome);
  EXPECT_LT(Clock::now() - began, kGivesUpWithin);
  // The client sends the request again, and finds what was done.
  proxy_.accept_again();
  CreateCommand again = first;
  again.id = TaskId::make();
  // The store pauses after a refused connection.
  Batch<CreateOutcome> retried;
  ASSERT_TRUE(test::eventually(60s, [&] {
    retried = far_.create({&again, 1});
    return static_cast<bool>(retried.front());
  }));
  const CreateOutcome replay = only(retried);
  EXPECT_EQ(replay.kind, CreateOutcome::Kind::kReplayed);
  EXPECT_EQ(replay.task.id, first.id);
}

// The cable is pulled before COMMIT arrives: the server holds the rows for its dead client until it
// has been idle for too long, and only then is it decided that nothing was committed.
TEST_F(FaultTest, ARowHeldByADeadTransactionIsNotGuessedAbout) {
  const CreateCommand command = create_command(db_.add_user());
  proxy_.cut_before("COMMIT", Cut::kSilence);
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
  EXPECT_EQ(proxy_.triggered(), 1);
  EXPECT_EQ(tasks(), 1);
}

// Nothing was sent for it, so nobody waits to find out what became of it.
TEST_F(FaultTest, AHeldCommandIsNotPartOfAnUnknownOutcome) {
  const UserId stuck = db_.add_user();
  RowHolder holder(db_.url(), balance_of(stuck));
  const std::vector<CreateCommand> commands = {create_command(stuck),
                                               create_command(db_.add_user())};
  proxy_.drop_reply_after("COMMIT", Cut::kReset);
  const auto outcomes = far_.create(commands);
  EXPECT_EQ(proxy_.triggered(), 1);
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error(), StoreFault::kLocked);
  ASSERT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[1]->kind, CreateOutcome::Kind::kCreated);
}

// Whatever spoils a batch, each of its commands has its own answer.
TEST_F(FaultTest, AFaultOfOneCommandIsItsOwn) {
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 4; ++i) {
    commands.push_back(create_command(db_.add_user()));
  }
  db_.execute(Sql("UPDATE balances SET seq=0 WHERE user_id=") << commands[1].user);
  db_.execute(Sql("CREATE TRIGGER stop BEFORE INSERT ON tasks FOR EACH ROW BEGIN IF NEW.user_id=")
              << commands[2].user
              << " THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO=1644; END IF; END");
  const auto outcomes = far_.create(commands);
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->kind, CreateOutcome::Kind::kCreated);
  ASSERT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[1]->kind, CreateOutcome::Kind::kFailed) << "its balance lost an update";
  ASSERT_FALSE(outcomes[2]);
  EXPECT_EQ(outcomes[2].error(), StoreFault::kUnavailable) << "an error nobody has thought of";
  ASSERT_TRUE(outcomes[3]);
  EXPECT_EQ(outcomes[3]->kind, CreateOutcome::Kind::kCreated);
  db_.execute(Sql("UPDATE balances SET seq=1 WHERE user_id=") << commands[1].user);
}

// Another session ends the one statement in which a batch of eight creations is, as an operator
// does with one that he takes for stuck: a trigger holds it where it waits for a lock of his.
TEST_F(FaultTest, AStatementThatTheServerEndsIsRunOnceMore) {
  auto& again = meters::retries(meters::Retry::kEnded);
  const double before = again.Value();
  std::vector<CreateCommand> commands;
  for (int i = 0; i < 8; ++i) {
    commands.push_back(create_command(db_.add_user(credits(150))));
  }
  db_.execute(Sql("CREATE TRIGGER wait BEFORE INSERT ON tasks FOR EACH ROW BEGIN IF NEW.user_id=")
              << commands[4].user << " THEN DO GET_LOCK(DATABASE(), 4); END IF; END");
  ASSERT_EQ(db_.number(Sql("SELECT GET_LOCK(DATABASE(), 0)")), 1);
  std::optional<Batch<CreateOutcome>> outcomes;
  std::thread batch([&] { outcomes = store_.create(commands); });
  const Sql waiting(
      "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist "
      "WHERE state='User lock' AND db=DATABASE()");
  std::int64_t connection = 0;
  static_cast<void>(test::eventually(10s, [&] { return (connection = db_.number(waiting)) != 0; }));
  if (connection != 0) {
    db_.execute(Sql("KILL QUERY ") << connection);
  }
  db_.execute(Sql("DO RELEASE_LOCK(DATABASE())"));
  batch.join();
  ASSERT_NE(connection, 0) << "the batch never came to the trigger";
  for (const CreateOutcome& outcome : must(std::move(*outcomes))) {
    EXPECT_EQ(outcome.kind, CreateOutcome::Kind::kCreated);
  }
  EXPECT_EQ(tasks(), 8) << "each once";
  EXPECT_EQ(again.Value() - before, 1);
  db_.execute(Sql("DROP TRIGGER wait"));
}

// An error nobody has thought of says nothing about any row: no job is dropped for it, no hint
// acknowledged, no command called failed.
TEST_F(FaultTest, AnUnexpectedErrorIsTriedAgain) {
  const UserId user = db_.add_user();
  const TaskId running = create(user), waiting = create(user);
  const Claim claimed = claim(running).value();
  db_.execute(
      Sql("CREATE TRIGGER odd BEFORE UPDATE ON tasks FOR EACH ROW "
          "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO=1644"));
  const Lease lease{running, claimed.epoch};
  const Hint hint{waiting, 0};
  const auto end = settle_command(Settle::kSucceed, claimed);
  const auto renewed = store_.renew({&lease, 1}, worker_);
  const auto claims = store_.claim({&hint, 1}, worker_, some_provider);
  const auto settled = store_.settle({&end, 1});
  ASSERT_FALSE(renewed.front());
  ASSERT_FALSE(claims.front());
  ASSERT_FALSE(settled.front());
  for (const StoreFault fault :
       {renewed.front().error(), claims.front().error(), settled.front().error()}) {
    EXPECT_EQ(fault, StoreFault::kUnavailable);
  }
  db_.execute(Sql("DROP TRIGGER odd"));
  EXPECT_EQ(only(store_.renew({&lease, 1}, worker_)), Renewal::kRenewed);
  EXPECT_EQ(settle(end), SettleOutcome::kSettled);
}

TEST_F(FaultTest, DownAndBack) {
  const UserId user = db_.add_user();
  const CreateCommand command = create_command(user);
  proxy_.refuse();
  proxy_.cut_all();
  for (int i = 0; i < 3; ++i) {
    const auto began = Clock::now();
    const auto outcome = far_.create({&command, 1}).front();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error(), StoreFault::kUnavailable);
    EXPECT_FALSE(far_.ping());
    EXPECT_LT(Clock::now() - began, kGivesUpWithin);
  }
  proxy_.accept_again();
  ASSERT_TRUE(test::eventually(60s, [&] { return far_.ping(); }));
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
}

TEST_F(FaultTest, SilentAndBack) {
  const UserId user = db_.add_user();
  const CreateCommand command = create_command(user);
  proxy_.blackhole();
  auto began = Clock::now();
  EXPECT_FALSE(far_.create({&command, 1}).front()) << "an open connection without answers";
  EXPECT_LT(Clock::now() - began, kGivesUpWithin);
  began = Clock::now();
  EXPECT_FALSE(far_.create({&command, 1}).front()) << "a server that accepts and says nothing";
  EXPECT_LT(Clock::now() - began, kGivesUpWithin);
  proxy_.resume();
  ASSERT_TRUE(test::eventually(60s, [&] { return far_.ping(); }));
  EXPECT_EQ(only(far_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
}

// By the time at which a slow look began, a lease that was renewed since would be too long.
TEST_F(FaultTest, ASlowLookTakesNothingFromARenewedLease) {
  const TaskId task = create(db_.add_user());
  ASSERT_TRUE(claim(task));
  // Renewed in 400 ms, as it were: the look takes longer to come to it, at least five times as long
  // as a piece of data does.
  db_.execute(Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                  "lease_until=UTC_TIMESTAMP(6) + INTERVAL 30400 * 1000 MICROSECOND WHERE id=")
              << task);
  const std::string lease = db_.text(Sql("SELECT lease_until FROM tasks WHERE id=") << task);
  ASSERT_TRUE(far_.ping());
  proxy_.delay(100ms);  // Far less than is too long between the statements of a transaction.
  must(far_.sweep(10));
  EXPECT_EQ(db_.number(Sql("SELECT wake_at>UTC_TIMESTAMP(6) FROM tasks WHERE id=") << task), 1)
      << "it was looked at";
  EXPECT_EQ(db_.text(Sql("SELECT lease_until FROM tasks WHERE id=") << task), lease);
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

// Nobody who waits for one row while a batch holds the other can make a circle with it: the batch
// never waits.
TEST_F(FaultTest, ABatchNeverWaitsSoItNeverMeetsADeadlock) {
  const UserId a = db_.add_user(), b = db_.add_user();
  RowHolder rival(db_.url(), balance_of(b));
  const std::vector<CreateCommand> commands = {create_command(b), create_command(a)};
  const auto outcomes = store_.create(commands);
  EXPECT_FALSE(outcomes[0]);
  ASSERT_TRUE(outcomes[1]);
  EXPECT_EQ(outcomes[1]->kind, CreateOutcome::Kind::kCreated);
  rival.release();
  EXPECT_EQ(create(commands[0]).kind, CreateOutcome::Kind::kCreated);
  EXPECT_EQ(tasks(), 2);
}

}  // namespace
}  // namespace audiogen::store
