// What grows by itself has an end, and a pass that ends it reads and deletes no more than its
// share, however much there is: counted by the server, row by row.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/task_fixture.h"
#include "worker/upkeep/janitor.h"

namespace audiogen::store {
namespace {

using std::chrono::days;
using std::chrono::hours;

// Ten thousand numbers, as n.
constexpr char kNumbers[] =
    "(SELECT a.d+10*b.d+100*c.d+1000*e.d AS n FROM digits a, digits b, digits c, digits e) s";
constexpr std::int64_t kMany = 10'000;
// What a statement reads beside its rows: the ends of a range, a look for the next one.
constexpr std::int64_t kSome = 20;
// How often a row is read that is deleted: to be locked, to be found again and to be deleted. Where
// it is known by what others may have as well, to be counted, too.
constexpr std::int64_t kReads = 3, kReadsOfMany = 5;

class Growth : public TaskStoreTest {
 protected:
  Growth() {
    db_.execute(
        Sql("CREATE TABLE digits AS SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 "
            "UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 "
            "UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9"));
    db_.rows_read("tasks");  // Counts from here on.
  }

  std::int64_t count(const std::string& table) {
    return db_.number(Sql::trusted("SELECT COUNT(*) FROM " + table));
  }
  // `expressions` may use n; the ids of rows are made of it and of `hours_ago`.
  void fill(const std::string& into, const std::string& expressions) {
    db_.execute(
        Sql::trusted("INSERT INTO " + into + " SELECT " + expressions + " FROM " + kNumbers));
  }
  // An id made so many hours ago, the n-th of its kind.
  static std::string id(hours ago) {
    const Uuid first = first_uuid_at(
        std::chrono::floor<Instant::duration>(std::chrono::system_clock::now()) - ago);
    Sql sql;
    sql << first;
    return "CONCAT(LEFT(" + sql.text() + ",8),LPAD(n,8,'0'))";
  }

  // What `pass` has read and deleted of a table.
  struct Spent {
    std::int64_t read = 0, deleted = 0;
  };
  template <class Pass>
  Spent spent(const std::string& table, const Pass& pass) {
    const std::int64_t rows = count(table), before = db_.rows_read(table);
    pass();
    const std::int64_t after = db_.rows_read(table), deleted = rows - count(table);
    EXPECT_GE(after - before, deleted) << "the server does not count";
    return {.read = after - before, .deleted = deleted};
  }

  const UserId user_ = db_.add_user();
};

// As many as one transaction has made: a page goes on where the one before it ended, and reads
// nothing of what was passed.
TEST_F(Growth, ManyTasksOfOneTimeAreReadOnce) {
  Sql user;
  user << user_;
  const std::string at = "UTC_DATE() + INTERVAL 2 DAY";
  fill(
      "tasks (id, user_id, state, request, output_format, held, lane, created_at, deadline_at, "
      "wake_at)",
      id(hours(1)) + "," + user.text() + ",1,'{}',1,1000,2,UTC_TIMESTAMP(6)," + at + "," + at);
  const std::int64_t before = db_.rows_read("tasks");
  int looks = 0;
  for (; must(store_.sweep(100)).more && looks < 100; ++looks) {
  }
  EXPECT_GE(looks, 2) << "what had been put into the future was not looked for";
  EXPECT_LE(db_.rows_read("tasks") - before, kMany + kMany / 10);
  // A pull is of 5,000 rows at most, each read once.
  db_.execute(
      Sql("UPDATE tasks SET lane=1, wake_at=UTC_TIMESTAMP(6) + INTERVAL 1 SECOND, "
          "next_run_at=UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"));
  const std::int64_t due = db_.rows_read("tasks");
  EXPECT_THAT(must(store_.ready(10'000, std::chrono::seconds(1), {}, false)), testing::IsEmpty());
  EXPECT_LE(db_.rows_read("tasks") - due, kMany / 2 + kMany / 10);
  db_.execute(Sql("DELETE FROM tasks"));  // They have no holds.
}

TEST_F(Growth, SilentProcessesGoSomeAtATime) {
  fill("workers (id, host, pid, in_flight, status, started_at, seen_at)",
       id(hours(30)) + ",'h',1,0,'{}',UTC_TIMESTAMP(6),UTC_TIMESTAMP(6) - INTERVAL 25 HOUR");
  fill("workers (id, host, pid, in_flight, status, started_at, seen_at)",
       id(hours(1)) + ",'h',1,0,'{}',UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)");
  fill("api_processes (id, unsent_from, seen_at)",
       id(hours(30)) + ",REPEAT('a',16),UTC_TIMESTAMP(6) - INTERVAL 25 HOUR");
  fill("api_processes (id, unsent_from, seen_at)",
       id(hours(1)) + ",REPEAT('a',16),UTC_TIMESTAMP(6)");
  for (const char* table : {"workers", "api_processes"}) {
    const Spent pass = spent(table, [&] { EXPECT_EQ(must(store_.forget_silent(100)), 100U); });
    EXPECT_EQ(pass.deleted, 100) << table;
    EXPECT_LE(pass.read, kReads * 100 + kSome) << table;
  }
}

TEST_F(Growth, OldProviderCallsGoSomeAtATimeAndTheirTasksStay) {
  fill("past_attempts (task_id, n, epoch, provider, state, started_at, ended_at)",
       id(days(100)) + ",1,1,'p',3,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)");
  fill("past_attempts (task_id, n, epoch, provider, state, started_at, ended_at)",
       id(days(1)) + ",1,1,'p',3,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)");
  const Instant until = must(store_.now());
  const Spent pass = spent("past_attempts", [&] {
    EXPECT_EQ(must(store_.forget_past_calls(days(90), 500, until)), 500U);
  });
  EXPECT_EQ(pass.deleted, 500);
  EXPECT_LE(pass.read, kReadsOfMany * 500 + kSome);
  // And no more than what is old, in the end.
  EXPECT_EQ(worker::purge_past_calls(store_, days(90), [](auto) { return false; }),
            static_cast<std::size_t>(kMany) - 500);
  EXPECT_EQ(count("past_attempts"), kMany);
  const Spent nothing = spent("past_attempts", [&] {
    EXPECT_EQ(worker::purge_past_calls(store_, days(90), [](auto) { return false; }), 0U);
  });
  EXPECT_LE(nothing.read, kSome);
}

TEST_F(Growth, ACallIsForgottenWithAllOfItsTask) {
  const std::string of = " FROM (SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 3) t";
  const TaskId old{first_uuid_at(must(store_.now()) - days(100))};
  Sql sql("INSERT INTO past_attempts (task_id, n, epoch, provider, state, started_at) SELECT ");
  db_.execute((sql << old).append(Sql::trusted(",k,1,'p',3,UTC_TIMESTAMP(6)" + of)));
  EXPECT_EQ(must(store_.forget_past_calls(days(90), 2, must(store_.now()))), 3U);
}

TEST_F(Growth, RecordsOfCallsGoSomeAtATime) {
  const auto fill_calls = [&](hours ago) {
    fill("provider_calls (task_id, n, provider, outcome, sent_at)",
         id(ago) + ",1,'p',1,UTC_TIMESTAMP(6)");
  };
  fill_calls(days(100));
  fill_calls(days(1));
  const Instant until = must(store_.now());
  const Spent pass = spent(
      "provider_calls", [&] { EXPECT_EQ(must(store_.forget_calls(days(90), 500, until)), 500U); });
  EXPECT_EQ(pass.deleted, 500);
  EXPECT_LE(pass.read, kReadsOfMany * 500 + kSome);
  EXPECT_EQ(worker::purge_calls(store_, days(90), [](auto) { return false; }),
            static_cast<std::size_t>(kMany) - 500);
  EXPECT_EQ(count("provider_calls"), kMany) << "no more than what is old";
}

TEST_F(Growth, ClaimsThatAreOverGoSomeAtATime) {
  for (const hours ago : {hours(days(100)), hours(days(1))}) {
    fill("past_claims (task_id, epoch, worker, claimed_at, ended_at, ended_as)",
         id(ago) + ",1,REPEAT('w',16),UTC_TIMESTAMP(6),UTC_TIMESTAMP(6),3");
  }
  const Instant until = must(store_.now());
  const Spent pass = spent(
      "past_claims", [&] { EXPECT_EQ(must(store_.forget_claims(days(90), 500, until)), 500U); });
  EXPECT_EQ(pass.deleted, 500);
  EXPECT_LE(pass.read, kReadsOfMany * 500 + kSome);
  EXPECT_EQ(worker::purge_claims(store_, days(90), [](auto) { return false; }),
            static_cast<std::size_t>(kMany) - 500);
  EXPECT_EQ(count("past_claims"), kMany) << "no more than what is old";
}

TEST_F(Growth, OldKeysGoSomeAtATime) {
  const CreateCommand command = create_command(user_);
  ASSERT_EQ(only(store_.create({&command, 1})).kind, CreateOutcome::Kind::kCreated);
  must(store_.cancel(command.id));
  const auto fill_keys = [&](const std::string& name, const std::string& ago) {
    Sql ids;
    ids << user_;
    Sql task;
    task << command.id;
    fill("idempotency (user_id, idem_key, fingerprint, task_id, created_at)",
         ids.text() + ",CONCAT('" + name + "',n),REPEAT('f',32)," + task.text() +
             ",UTC_TIMESTAMP(6) - INTERVAL " + ago);
  };
  fill_keys("old", "8 DAY");
  fill_keys("new", "6 DAY");
  const Instant now = must(store_.now());
  const Spent pass = spent("idempotency", [&] {
    const auto old = must(store_.old_idempotency(500, now - days(30), now));
    EXPECT_EQ(must(store_.forget_idempotency(old)), 500U);
  });
  EXPECT_EQ(pass.deleted, 500);
  EXPECT_LE(pass.read, (2 + kReads) * 500 + kSome);
}

TEST_F(Growth, TicketsGoSomeAtATime) {
  fill("tickets (task_id, n, provider, ticket, created_at)",
       "CONCAT('o',LPAD(n,15,'0')),1,'p','t',UTC_TIMESTAMP(6) - INTERVAL 2 HOUR");
  fill("tickets (task_id, n, provider, ticket, created_at)",
       "CONCAT('n',LPAD(n,15,'0')),1,'p','t',UTC_TIMESTAMP(6)");
  const Spent pass =
      spent("tickets", [&] { EXPECT_EQ(must(store_.forget_tickets(hours(1), 500)), 500U); });
  EXPECT_EQ(pass.deleted, 500);
  EXPECT_LE(pass.read, kReads * 500 + kSome);
}

TEST_F(Growth, SessionsAndLinksGoSomeAtATime) {
  Sql user;
  user << user_;
  const auto fill_all = [&](const std::string& kind, const std::string& at, hours ago) {
    fill("sessions (id, user_id, token_hash, created_at, last_seen_at, user_agent, address)",
         id(ago) + "," + user.text() + ",CONCAT('" + kind + "',LPAD(n,31,'0'))," + at + "," + at +
             ",'',''");
    fill("login_links (token_hash, user_id, expires_at)",
         "CONCAT('" + kind + "',LPAD(n,31,'0'))," + user.text() + "," + at);
    fill("used_challenges (challenge_hash, expires_at)",
         "CONCAT('" + kind + "',LPAD(n,31,'0'))," + at);
    fill("sign_ups (token_hash, email, invited, expires_at)",
         "CONCAT('" + kind + "',LPAD(n,31,'0')),'e',0," + at);
    fill("mail_changes (user_id, token_hash, email, expires_at)",
         id(ago) + ",CONCAT('" + kind + "',LPAD(n,31,'0')),'e'," + at);
  };
  fill_all("o", "UTC_TIMESTAMP(6) - INTERVAL 40 DAY - INTERVAL n SECOND", days(40));
  fill_all("n", "UTC_TIMESTAMP(6) + INTERVAL 1 DAY + INTERVAL n SECOND", hours(0));
  for (const char* table :
       {"sessions", "login_links", "used_challenges", "sign_ups", "mail_changes"}) {
    const Spent pass = spent(table, [&] { must(store_.purge_sessions(100)); });
    // Sessions by two rules: what nobody used, and what is old.
    const std::int64_t rules = std::string(table) == "sessions" ? 2 : 1;
    EXPECT_EQ(pass.deleted, rules * 100) << table;
    EXPECT_LE(pass.read, rules * kReadsOfMany * 100 + kSome) << table;
  }
}

}  // namespace
}  // namespace audiogen::store
