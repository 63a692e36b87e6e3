// The migrations on a real server: order, repetition, concurrency, crashes.
#include "common/store/migrate.h"

#include <atomic>
#include <csignal>
#include <future>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tcp_proxy.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"

namespace audiogen::store {
namespace {

using test::TestDatabase;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Patience kNobodyElse{.notice = 0ms};

TEST(SplitStatements, EndAtSemicolonsOutsideQuotesAndComments) {
  EXPECT_THAT(split_statements("a; b ;\n"), ElementsAre("a", "b "));
  EXPECT_THAT(split_statements("a"), ElementsAre("a"));
  EXPECT_THAT(split_statements(" ;;\n -- x; y\n # z;\n /* ; */ ;"), IsEmpty());
  EXPECT_THAT(split_statements("-- a;\n/* b */ c -- d\n e"), ElementsAre("c -- d\n e"));
  EXPECT_THAT(split_statements("a -- it's; here\n;b"), ElementsAre("a -- it's; here\n", "b"));
  EXPECT_THAT(split_statements("a # 'x;\n;b"), ElementsAre("a # 'x;\n", "b"));
  EXPECT_THAT(split_statements("a /* ; ' */;b"), ElementsAre("a /* ; ' */", "b"));
  EXPECT_THAT(split_statements("'a;b';\"c;d\";`e;f`"), ElementsAre("'a;b'", "\"c;d\"", "`e;f`"));
  EXPECT_THAT(split_statements("'it''s;' ;'\\';'"), ElementsAre("'it''s;' ", "'\\';'"));
  EXPECT_THAT(split_statements("'-- a;' ;'/*';b"), ElementsAre("'-- a;' ", "'/*'", "b"));
  EXPECT_THAT(split_statements("1--1;2"), ElementsAre("1--1", "2"));  // No comment without a space.
  EXPECT_THAT(split_statements("'open;"), ElementsAre("'open;"));
  EXPECT_THAT(split_statements("/* open;"), IsEmpty());
  EXPECT_THAT(split_statements(""), IsEmpty());
}

TEST(Migrate, BringsAnEmptyDatabaseUpToDateOnce) {
  TestDatabase db(TestDatabase::Tables::kNone);
  EXPECT_EQ(look_at_schema(db.url())->complete, 0);
  const auto first = migrate(db.url());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->size(), migrations().size());
  EXPECT_EQ(first->back(), newest_migration());
  EXPECT_EQ(look_at_schema(db.url())->complete, newest_migration());
  EXPECT_EQ(db.number(Sql("SELECT COUNT(*) FROM tasks")), 0);
  const auto second = migrate(db.url());
  ASSERT_TRUE(second);
  EXPECT_THAT(*second, IsEmpty());
}

TEST(Migrate, VersionsAreNumberedWithoutGaps) {
  int expected = 1;
  for (const Migration& migration : migrations()) {
    EXPECT_EQ(migration.version, expected++);
    EXPECT_FALSE(split_statements(migration.sql).empty());
  }
}

TEST(Migrate, SeveralAtOnceTakeTurns) {
  TestDatabase db(TestDatabase::Tables::kNone);
  std::atomic<std::size_t> applied{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const auto done = migrate(db.url());
      ASSERT_TRUE(done) << done.error().message;
      applied += done->size();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(applied, migrations().size());
}

TEST(Migrate, RefusesADatabaseNewerThanTheProgram) {
  TestDatabase db(TestDatabase::Tables::kNone);
  ASSERT_TRUE(migrate(db.url()));
  db.execute(Sql("INSERT INTO schema_migrations VALUES (99,1,0,UTC_TIMESTAMP(6),NULL)"));
  const auto refused = migrate(db.url());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("version 99, newer than this program"));
}

TEST(Migrate, AppliesOnlyWhatIsNew) {
  TestDatabase db(TestDatabase::Tables::kNone);
  const std::vector<Migration> both = {{1, "CREATE TABLE a (n INT)"},
                                       {2,
                                        "ALTER TABLE a ADD COLUMN m INT; INSERT INTO a (n) "
                                        "VALUES (7);"}};
  EXPECT_THAT(*migrate(db.url(), std::span(both).first(1)), ElementsAre(1));
  EXPECT_THAT(*migrate(db.url(), both, kNobodyElse), ElementsAre(2));
  EXPECT_EQ(db.number(Sql("SELECT n FROM a WHERE m IS NULL")), 7);
}

constexpr const char* kSteps[] = {"CREATE TABLE a (n INT)",
                                  "INSERT INTO a VALUES (1)",
                                  "ALTER TABLE a ADD COLUMN m INT, ADD KEY k (n)",
                                  "UPDATE a SET n=n+1",
                                  "ALTER TABLE a DROP KEY k",
                                  "CREATE TABLE b (n INT)"};

std::string all_steps() {
  std::string out;
  for (const char* step : kSteps) {
    out += std::string(step) + ";\n";
  }
  return out;
}

// DDL commits before its record: the process may die between the two, before, and after.
TEST(Migrate, GoesOnAfterACrashAtAnyStatement) {
  const std::string file = all_steps();
  const std::vector<Migration> known = {{1, file}};
  for (std::size_t at = 0; at < std::size(kSteps); ++at) {
    for (const bool done : {false, true}) {
      const std::string_view step = kSteps[at];
      const bool rows = step.starts_with("INSERT") || step.starts_with("UPDATE");
      if (done && rows) {
        continue;  // Committed together with its record: cannot be.
      }
      TestDatabase db(TestDatabase::Tables::kNone);
      ASSERT_TRUE(migrate(db.url(), {}));
      for (std::size_t i = 0; i < at + (done ? 1 : 0); ++i) {
        db.execute(Sql::trusted(kSteps[i]));
      }
      db.execute(Sql("INSERT INTO schema_migrations VALUES (1,")
                 << static_cast<std::uint64_t>(at) << ",1,NULL,NULL)");
      EXPECT_EQ(look_at_schema(db.url())->complete, 0);
      const auto applied = migrate(db.url(), known);
      ASSERT_TRUE(applied) << step << ": " << applied.error().message;
      EXPECT_THAT(*applied, ElementsAre(1));
      EXPECT_EQ(db.number(Sql("SELECT SUM(n) FROM a")), 2) << step;
      EXPECT_EQ(db.number(Sql("SELECT COUNT(*) FROM b")), 0);
    }
  }
}

// Tasks 0 to 2 with that many calls each, as version 2 of the schema keeps them.
void add_tasks_of_version_2(TestDatabase& db) {
  for (int calls = 0; calls <= 2; ++calls) {
    db.execute(Sql("INSERT INTO tasks (id, user_id, state, request, output_format, held, attempts, "
                   "next_run_at, deadline_at, created_at, updated_at) VALUES (REPEAT(CHAR(")
               << calls << "), 16), '', 1, '{}', 1, 150000, " << calls
               << ", '2026-01-01', '2026-01-01', '2026-01-01', '2026-01-01')");
  }
  db.execute(
      Sql("INSERT INTO attempts SELECT id, 1, 1, 'first', 3, '503', '2026-01-02 00:00:00.5', "
          "'2026-01-03' FROM tasks WHERE attempts>=1"));
  db.execute(
      Sql("INSERT INTO attempts SELECT id, 2, 3, 'second', 1, NULL, '2026-01-04', NULL "
          "FROM tasks WHERE attempts=2"));
}

std::string calls_in(TestDatabase& db) {
  return db.text(
      Sql("SELECT GROUP_CONCAT(CONCAT_WS(' ', HEX(task_id), n, epoch, provider, state, "
          "COALESCE(detail,'-'), started_at, COALESCE(ended_at,'-')) "
          "ORDER BY task_id, n SEPARATOR ', ') FROM attempts"));
}

// Whatever statement of it a crash comes before or after.
TEST(Migrate, TheNewestCallsMoveIntoTheirTasks) {
  const std::vector<std::string> steps = split_statements(migrations()[2].sql);
  for (std::size_t at = 0; at < steps.size(); ++at) {
    for (const bool done : {false, true}) {
      if (done && (steps[at].starts_with("UPDATE") || steps[at].starts_with("DELETE"))) {
        continue;  // Committed together with its record.
      }
      TestDatabase db(TestDatabase::Tables::kNone);
      ASSERT_TRUE(migrate(db.url(), migrations().first(2)));
      add_tasks_of_version_2(db);
      const std::string before = calls_in(db);
      for (std::size_t i = 0; i < at + (done ? 1 : 0); ++i) {
        db.execute(Sql::trusted(steps[i]));
      }
      db.execute(Sql("INSERT INTO schema_migrations VALUES (3,")
                 << static_cast<std::uint64_t>(at) << ",1,NULL,NULL)");
      const auto applied = migrate(db.url(), migrations(), kNobodyElse);
      ASSERT_TRUE(applied) << steps[at] << ": " << applied.error().message;
      EXPECT_EQ(calls_in(db), before) << steps[at];
      EXPECT_EQ(db.text(Sql("SELECT GROUP_CONCAT(CONCAT_WS(' ', attempts, attempt_provider, "
                            "attempt_epoch, attempt_state, attempt_detail, attempt_started_at, "
                            "attempt_ended_at) ORDER BY id SEPARATOR ', ') FROM tasks")),
                "0, 1 first 1 3 503 2026-01-02 00:00:00.500000 2026-01-03 00:00:00.000000, "
                "2 second 3 1 2026-01-04 00:00:00.000000");
      EXPECT_EQ(db.text(Sql("SELECT GROUP_CONCAT(n, provider) FROM past_attempts")), "1first");
      EXPECT_EQ(db.number(Sql("SELECT SUM(LENGTH(room)) FROM tasks")), 0);
    }
  }
}

// A key from before there were scopes can do what it could, and no more.
TEST(Migrate, KeysThatAreThereKeepWhatTheyCould) {
  const std::vector<std::string> steps = split_statements(migrations()[5].sql);
  for (std::size_t at = 0; at < steps.size(); ++at) {
    for (const bool done : {false, true}) {
      TestDatabase db(TestDatabase::Tables::kNone);
      ASSERT_TRUE(migrate(db.url(), migrations().first(5)));
      db.execute(
          Sql("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES "
              "('', '', '', 'p', 'n', '2026-01-01')"));
      for (std::size_t i = 0; i < at + (done ? 1 : 0); ++i) {
        db.execute(Sql::trusted(steps[i]));
      }
      db.execute(Sql("INSERT INTO schema_migrations VALUES (6,")
                 << static_cast<std::uint64_t>(at) << ",1,NULL,NULL)");
      const auto applied = migrate(db.url(), migrations(), kNobodyElse);
      ASSERT_TRUE(applied) << steps[at] << ": " << applied.error().message;
      EXPECT_EQ(db.text(Sql("SELECT CONCAT_WS(' ', scopes, COALESCE(expires_at, '-')) FROM "
                            "api_keys")),
                "1 -");
    }
  }
}

TEST(Migrate, GoesOnAfterItsConnectionWasKilled) {
  TestDatabase db(TestDatabase::Tables::kNone);
  const std::string lock = "audiogen.test." + db.url().database;
  const std::string file = "CREATE TABLE a (n INT); INSERT INTO a SELECT GET_LOCK('" + lock +
                           "', 60); CREATE TABLE b (n INT)";
  const std::vector<Migration> known = {{1, file}};
  ASSERT_EQ(db.number(Sql::trusted("SELECT GET_LOCK('" + lock + "', 0)")), 1);
  auto first = std::async(std::launch::async, [&] { return migrate(db.url(), known); });

  Session watcher(db.url());
  const Sql waiting = Sql::trusted(
      "SELECT id FROM information_schema.processlist WHERE state='User lock' AND db='" +
      db.url().database + "'");
  std::uint64_t victim = 0;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (victim == 0 && std::chrono::steady_clock::now() < deadline) {
    Rows rows = watcher.query(waiting);
    victim = rows.next() ? rows.u64(1) : 0;
  }
  ASSERT_NE(victim, 0U);
  watcher.execute(Sql("KILL ") << victim);
  const auto killed = first.get();
  ASSERT_FALSE(killed);
  EXPECT_THAT(killed.error().message, HasSubstr("could not be migrated"));

  db.session().disconnect();  // Gives the lock up.
  const auto applied = migrate(db.url(), known);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(db.number(Sql("SELECT COUNT(*) FROM a")), 1);
  EXPECT_EQ(db.number(Sql("SELECT COUNT(*) FROM b")), 0);
}

// The lock that keeps others out ended with the connection it was taken on.
TEST(Migrate, NeverGoesOnWithoutItsLock) {
  TestDatabase db(TestDatabase::Tables::kNone);
  test::TcpProxy proxy(db.url().port);
  proxy.drop_reply_after("GET_LOCK", test::TcpProxy::Cut::kReset);
  EXPECT_FALSE(migrate(db.tcp_url(proxy.port())));
  EXPECT_EQ(proxy.triggered(), 1);
  EXPECT_EQ(db.number(Sql("SELECT COUNT(*) FROM information_schema.tables WHERE "
                          "table_schema=DATABASE()")),
            0);
  EXPECT_TRUE(migrate(db.url()));
}

TEST(Migrate, ATableOfAnotherIsNotTakenForItsOwn) {
  TestDatabase db(TestDatabase::Tables::kNone);
  db.execute(Sql("CREATE TABLE users (n INT)"));
  for (int i = 0; i < 3; ++i) {
    const auto refused = migrate(db.url());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("migration 1 at \"CREATE TABLE users (\""));
  }
  db.execute(Sql("DROP TABLE users"));
  EXPECT_TRUE(migrate(db.url()));
}

// Others who come to a table wait behind the DDL that waits for it.
class MigrateWhileATableIsRead : public ::testing::Test {
 protected:
  MigrateWhileATableIsRead() {
    db_.execute(Sql("CREATE TABLE a (n INT)"));
    reader_.execute(Sql("BEGIN"));
    reader_.query(Sql("SELECT COUNT(*) FROM a"));
  }

  std::future<Result<std::vector<int>>> start(int tries) {
    return std::async(std::launch::async, [this, tries] {
      return migrate(db_.url(), known_, {.each = 1s, .pause = 50ms, .tries = tries, .notice = 0ms});
    });
  }
  // Has the migration waited for the table that often?
  bool wait_for_tries(int tries) {
    int seen = 0;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    for (bool before = false; std::chrono::steady_clock::now() < deadline && seen < tries;) {
      const bool now = db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                      "db=DATABASE() AND state LIKE "
                                      "'Waiting for table metadata lock' AND info LIKE "
                                      "'ALTER TABLE%'")) > 0;
      seen += now && !before ? 1 : 0;
      before = now;
    }
    return seen == tries;
  }

  TestDatabase db_{TestDatabase::Tables::kNone};
  Session reader_{db_.url(), {.idle_in_transaction_max = std::chrono::seconds(600)}};
  const std::vector<Migration> known_ = {{1, "ALTER TABLE a ADD COLUMN m INT"}};
};

TEST_F(MigrateWhileATableIsRead, OthersWaitForSecondsOnly) {
  auto migrating = start(std::numeric_limits<int>::max());
  // As the API's sessions are: an answer that takes longer than 5 s is none.
  Session creations(db_.url());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(wait_for_tries(1));
    EXPECT_NO_THROW(creations.execute(Sql("INSERT INTO a (n) VALUES (1)")));
  }
  reader_.execute(Sql("ROLLBACK"));
  const auto applied = migrating.get();
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_THAT(*applied, ElementsAre(1));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM a WHERE m IS NULL")), 3);
}

TEST_F(MigrateWhileATableIsRead, GivesUpAndSaysWhoKeepsIt) {
  Rows own = reader_.query(Sql("SELECT CONNECTION_ID()"));
  ASSERT_TRUE(own.next());
  const std::string connection = own.text(1);
  testing::internal::CaptureStderr();
  const auto given_up = start(2).get();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(given_up);
  EXPECT_THAT(given_up.error().message,
              HasSubstr("migration 1 at \"ALTER TABLE a ADD COLUMN m INT\""));
  EXPECT_THAT(given_up.error().message, HasSubstr("by connection " + connection + " of "));
  EXPECT_THAT(log, HasSubstr("a migration waits for a table that others use"));
  EXPECT_THAT(log, HasSubstr("by connection " + connection + " of "));
  EXPECT_EQ(db_.number(Sql("SELECT in_doubt FROM schema_migrations")), 0) << "it was refused";
  reader_.execute(Sql("ROLLBACK"));
  EXPECT_TRUE(migrate(db_.url(), known_));
}

// Done before a crash, and its table is kept when the next run asks whether it was.
TEST_F(MigrateWhileATableIsRead, ADoubtLastsUntilItIsAnswered) {
  reader_.execute(Sql("ROLLBACK"));
  ASSERT_TRUE(migrate(db_.url(), {}));
  db_.execute(Sql::trusted(std::string(known_.front().sql)));
  db_.execute(Sql("INSERT INTO schema_migrations VALUES (1,0,1,NULL,NULL)"));
  reader_.execute(Sql("LOCK TABLES a WRITE"));
  EXPECT_FALSE(start(1).get());
  auto migrating = start(std::numeric_limits<int>::max());
  ASSERT_TRUE(wait_for_tries(2));
  reader_.execute(Sql("UNLOCK TABLES"));
  const auto applied = migrating.get();
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_THAT(*applied, ElementsAre(1));
}

bool operator==(const SchemaLook& a, const SchemaLook& b) {
  return a.complete == b.complete && a.begun == b.begun && a.serves_from == b.serves_from;
}

// What programs of the step before, which do not know it, read.
TEST(MigrateUnderPrograms, ItSaysFromItsBeginningWhoMayServe) {
  TestDatabase db(TestDatabase::Tables::kNone);
  const std::vector<Migration> known = {{1, "CREATE TABLE a (n INT)"},
                                        {2, "CREATE TABLE b (n INT)", Older::kServe},
                                        {3, "ALTER TABLE nowhere ADD COLUMN m INT"}};
  ASSERT_TRUE(migrate(db.url(), std::span(known).first(1)));
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{1, 1, 1}));
  ASSERT_TRUE(migrate(db.url(), std::span(known).first(2)));
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{2, 2, 1}));
  EXPECT_FALSE(migrate(db.url(), known, kNobodyElse));
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{2, 3, 3}));
}

TEST(MigrateUnderPrograms, ADatabaseOfTheReleaseBeforeLearnsToSayIt) {
  TestDatabase db(TestDatabase::Tables::kNone);
  db.execute(
      Sql("CREATE TABLE schema_migrations (version INT UNSIGNED NOT NULL PRIMARY KEY, "
          "statements_done INT UNSIGNED NOT NULL, in_doubt TINYINT UNSIGNED NOT NULL, applied_at "
          "DATETIME(6) NULL) ENGINE=InnoDB"));
  db.execute(Sql("INSERT INTO schema_migrations VALUES (1,1,0,UTC_TIMESTAMP(6))"));
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{1, 1, 1}));
  const std::vector<Migration> known = {{1, "CREATE TABLE a (n INT)"},
                                        {2, "CREATE TABLE b (n INT)", Older::kServe}};
  EXPECT_THAT(*migrate(db.url(), std::span(known).first(1)), IsEmpty());
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{1, 1, 1}));
  EXPECT_THAT(*migrate(db.url(), known), ElementsAre(2));
  EXPECT_TRUE(*look_at_schema(db.url()) == (SchemaLook{2, 2, 1}));
}

// On the way back from a newer program, whoever starts the older one may migrate first.
TEST(MigrateUnderPrograms, AProgramOneStepBehindHasNothingToDo) {
  for (const Older older : {Older::kServe, Older::kStop}) {
    TestDatabase db(TestDatabase::Tables::kNone);
    const std::vector<Migration> known = {{1, "CREATE TABLE a (n INT)"},
                                          {2, "CREATE TABLE b (n INT)", older}};
    ASSERT_TRUE(migrate(db.url(), known));
    const auto again = migrate(db.url(), std::span(known).first(1));
    if (older == Older::kServe) {
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_THAT(*again, IsEmpty());
    } else {
      ASSERT_FALSE(again);
      EXPECT_THAT(again.error().message, HasSubstr("version 2, newer than this program"));
    }
  }
}

// Nothing that goes on side by side waits: it would wait for an hour here.
TEST(MigrateUnderPrograms, NobodyIsToldToStopWhoMayServe) {
  constexpr Patience kHour{.notice = std::chrono::hours(1)};
  TestDatabase db(TestDatabase::Tables::kNone);
  const std::vector<Migration> known = {{1, "CREATE TABLE a (n INT)"},
                                        {2, "CREATE TABLE b (n INT)"},
                                        {3, "CREATE TABLE c (n INT)", Older::kServe}};
  ASSERT_TRUE(migrate(db.url(), std::span(known).first(2), kHour)) << "there are no programs yet";
  EXPECT_THAT(*migrate(db.url(), known, kHour), ElementsAre(3));
}

// The first statement of all that is missing finds the word of the one that they cannot bear.
TEST(MigrateUnderPrograms, WhoMayNotServeIsToldBeforeAnythingChanges) {
  constexpr auto kNotice = 300ms;
  const auto missing = [](Older second, Older third) {
    return std::vector<Migration>{
        {1, "CREATE TABLE a (n INT)"},
        {2, "CREATE TABLE told AS SELECT version FROM schema_migrations", second},
        {3, "CREATE TABLE b (n INT)", third}};
  };
  for (const auto& [known, told] : {std::pair(missing(Older::kStop, Older::kServe), "1,2"),
                                    std::pair(missing(Older::kServe, Older::kStop), "1,2,3"),
                                    // Two steps at once are more than a program can have ahead.
                                    std::pair(missing(Older::kServe, Older::kServe), "1,2,3")}) {
    TestDatabase db(TestDatabase::Tables::kNone);
    ASSERT_TRUE(migrate(db.url(), std::span(known).first(1)));
    const auto began = std::chrono::steady_clock::now();
    const auto applied = migrate(db.url(), known, {.notice = kNotice});
    EXPECT_GE(std::chrono::steady_clock::now() - began, kNotice);
    ASSERT_TRUE(applied) << applied.error().message;
    EXPECT_THAT(*applied, ElementsAre(2, 3));
    EXPECT_EQ(db.text(Sql("SELECT GROUP_CONCAT(version ORDER BY version) FROM told")), told);
  }
}

// Rows that a migration moves while others write them.
class MigrateMovesRows : public ::testing::Test {
 protected:
  void fill(std::uint64_t rows) {
    db_.execute(
        Sql("CREATE TABLE a (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, "
            "n INT NOT NULL DEFAULT 1, m INT NULL, moves INT NOT NULL DEFAULT 0, "
            "writes INT NOT NULL DEFAULT 0, KEY k_m (m))"));
    // One statement has one time.
    db_.execute(Sql("CREATE TABLE pieces (at DATETIME(6) NOT NULL)"));
    db_.execute(
        Sql("CREATE TRIGGER moved AFTER UPDATE ON a FOR EACH ROW INSERT INTO pieces SELECT NOW(6) "
            "FROM DUAL WHERE OLD.m IS NULL AND NEW.m IS NOT NULL"));
    Sql insert("INSERT INTO a (n) VALUES ");
    for (std::uint64_t i = 0; i < rows; ++i) {
      if (i > 0) {
        insert << ",";
      }
      insert << "(" << i << ")";
    }
    db_.execute(insert);
  }
  std::int64_t moved() { return db_.number(Sql("SELECT COUNT(*) FROM a WHERE m IS NOT NULL")); }
  std::int64_t largest_piece() {
    return db_.number(Sql("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM pieces GROUP BY at) p"));
  }
  // Of all rows, each was moved once.
  void expect_moved(std::int64_t rows) {
    EXPECT_EQ(moved(), rows);
    EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM a WHERE moves=1 AND m=n+1")), rows);
    EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM after_it")), 0) << "the next statement ran";
  }
  std::future<Result<std::vector<int>>> start(std::uint64_t rows, int tries = 1'000'000) {
    return std::async(std::launch::async, [this, rows, tries] {
      return migrate(db_.url(), known_, {.each = 1s, .pause = 0ms, .tries = tries, .rows = rows});
    });
  }
  bool eventually_moved(std::int64_t rows) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (moved() < rows && std::chrono::steady_clock::now() < deadline) {
    }
    return moved() == rows;
  }
  void keep_row(std::uint64_t id) {
    keeper_.execute(Sql("BEGIN"));
    keeper_.query(Sql("SELECT n FROM a WHERE id=") << id << " FOR UPDATE");
  }
  // Freezes a process in the middle of the rows that it moves, and has it go on when another
  // session has written one of them. What it ended with.
  static constexpr std::int64_t kOfFrozen = 10;
  int freeze_in_the_middle(const std::vector<Migration>& known) {
    fill(kOfFrozen);
    const Sql middle = lock_name("middle");
    Sql trigger("CREATE TRIGGER waits BEFORE UPDATE ON a FOR EACH ROW SET @x=IF(OLD.id=");
    trigger << kOfFrozen << ", GET_LOCK(";
    db_.execute(trigger.append(middle) << ",60), 0)");
    EXPECT_TRUE(keeper_.query(Sql("SELECT GET_LOCK(").append(middle) << ",0)").next());
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(migrate(db_.url(), known) ? 0 : 1);
    }
    EXPECT_TRUE(test::eventually(60s, [&] {
      return db_.number(Sql("SELECT COUNT(*) FROM information_schema.processlist WHERE "
                            "db=DATABASE() AND state='User lock'")) > 0;
    }));
    int status = 0;
    EXPECT_EQ(::kill(child, SIGSTOP), 0);
    EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(status));
    EXPECT_TRUE(keeper_.query(Sql("SELECT RELEASE_LOCK(").append(middle) << ")").next());
    Session waiting(db_.url(), {.read_timeout = 30s, .statement_max = 30s, .lock_wait = 20s});
    EXPECT_NO_THROW(waiting.execute(Sql("UPDATE a SET writes=writes+1 WHERE id=1")));
    EXPECT_EQ(::kill(child, SIGCONT), 0);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  TestDatabase db_{TestDatabase::Tables::kNone};
  Session keeper_{db_.url(), {.idle_in_transaction_max = std::chrono::seconds(600)}};
  const std::vector<Migration> known_ = {
      {1,
       "REPEAT UPDATE a SET m=n+1, moves=moves+1 WHERE m IS NULL; CREATE TABLE after_it (n INT)"}};
};

TEST_F(MigrateMovesRows, InPiecesBesideWriters) {
  constexpr std::uint64_t kRows = 8'000, kPiece = 200;
  fill(kRows);
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> writes{0}, inserts{0};
  std::vector<std::thread> writers;
  for (std::uint64_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      Session session(db_.url());
      for (std::uint64_t i = writer; !done; i += 7'919) {
        session.transact([&] {
          session.execute(Sql("UPDATE a SET writes=writes+1 WHERE id=") << i % kRows + 1);
          session.execute(Sql("INSERT INTO a (n, m, moves) VALUES (0, 1, 1)"));
        });
        ++writes;
      }
    });
  }
  // Rows that programs of the step before write meanwhile. Not for ever: where a machine is busy
  // nobody would come to the end of them.
  writers.emplace_back([&] {
    constexpr std::int64_t kMost = 4'000;
    Session session(db_.url());
    for (; !done && inserts < kMost; ++inserts) {
      session.execute(Sql("INSERT INTO a (n) VALUES (1)"));
    }
  });
  const auto applied = start(kPiece).get();
  done = true;
  for (std::thread& writer : writers) {
    writer.join();
  }
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_GT(writes, 0);
  EXPECT_EQ(db_.number(Sql("SELECT SUM(writes) FROM a")), writes) << "each write is there";
  EXPECT_LE(largest_piece(), static_cast<std::int64_t>(kPiece));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM a WHERE m IS NULL AND id<=") << kRows), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM a WHERE moves>1")), 0);
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM after_it")), 0);
}

TEST_F(MigrateMovesRows, AndGoesOnWhereItWasKilled) {
  constexpr std::int64_t kRows = 2'000, kBefore = 1'000;
  fill(kRows);
  keep_row(kBefore + 1);
  auto first = start(100);
  ASSERT_TRUE(eventually_moved(kBefore));
  const std::int64_t victim =
      db_.number(Sql("SELECT IS_USED_LOCK(").append(lock_name("migrate")) << ")");
  db_.execute(Sql("KILL ") << victim);
  const auto killed = first.get();
  ASSERT_FALSE(killed);
  EXPECT_THAT(killed.error().message, HasSubstr("migration 1 at \"UPDATE a SET m=n+1"));
  EXPECT_EQ(moved(), kBefore) << "what was done stays";
  keeper_.execute(Sql("ROLLBACK"));
  testing::internal::CaptureStderr();
  const auto applied = migrate(db_.url(), known_);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(applied) << applied.error().message;
  expect_moved(kRows);
  EXPECT_THAT(log, HasSubstr("a migration has moved rows"));
  EXPECT_THAT(log, HasSubstr("\"rows\":" + std::to_string(kRows - kBefore)));
}

// Pieces become smaller until all but that row is done before it.
TEST_F(MigrateMovesRows, ARowThatSomebodyKeepsIsWaitedForAlone) {
  constexpr std::int64_t kRows = 60, kKept = 30;
  fill(kRows);
  keep_row(kKept);
  auto migrating = start(4);
  ASSERT_TRUE(eventually_moved(kKept - 1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_NO_THROW(db_.execute(Sql("UPDATE a SET writes=writes+1 WHERE id<") << kKept));
    EXPECT_NO_THROW(db_.execute(Sql("UPDATE a SET writes=writes+1 WHERE id>") << kKept));
  }
  keeper_.execute(Sql("ROLLBACK"));
  const auto applied = migrating.get();
  ASSERT_TRUE(applied) << applied.error().message;
  expect_moved(kRows);
}

TEST_F(MigrateMovesRows, AndGivesUpWhenARowIsKeptForEver) {
  fill(3);
  keep_row(2);
  const auto given_up = start(1, 1).get();
  ASSERT_FALSE(given_up);
  EXPECT_THAT(given_up.error().message, HasSubstr("migration 1 at \"UPDATE a SET m=n+1"));
  EXPECT_THAT(given_up.error().message, HasSubstr("its table was kept"));
  keeper_.execute(Sql("ROLLBACK"));
  ASSERT_TRUE(migrate(db_.url(), known_));
  expect_moved(3);
}

// A process that stops while the server moves rows for it keeps none of them. What moves in pieces
// is done when its statement is, and the process goes on when it can.
TEST_F(MigrateMovesRows, AFrozenOneKeepsNoRows) {
  EXPECT_EQ(freeze_in_the_middle(known_), 0);
  expect_moved(kOfFrozen);
}

// What does not is undone as soon as the server hears nothing more, and done again.
TEST_F(MigrateMovesRows, AFrozenOneKeepsNoRowsOfOneTransaction) {
  const std::vector<Migration> known = {
      {1, "UPDATE a SET m=n+1, moves=moves+1; CREATE TABLE after_it (n INT)"}};
  EXPECT_EQ(freeze_in_the_middle(known), 1);
  ASSERT_TRUE(migrate(db_.url(), known));
  expect_moved(kOfFrozen);
}

TEST(Migrate, SaysThatTheDatabaseIsAway) {
  TestDatabase db(TestDatabase::Tables::kNone);
  DatabaseUrl nowhere = db.url();
  nowhere.socket.clear();
  nowhere.host = "127.0.0.1";
  nowhere.port = 1;
  EXPECT_FALSE(migrate(nowhere));
  EXPECT_FALSE(look_at_schema(nowhere));
}

}  // namespace
}  // namespace audiogen::store
