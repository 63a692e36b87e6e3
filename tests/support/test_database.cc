#include "tests/support/test_database.h"

#include <cstdio>
#include <cstdlib>
#include <regex>

#include <gtest/gtest.h>

#include "common/store/migrate.h"

namespace audiogen::test {
namespace {

using store::Sql;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr,
               "%s: set TEST_DATABASE_URL=mysql://user:pass@127.0.0.1:port/mysql?socket=/path of a "
               "user that may create databases\n",
               why);
  std::exit(1);
}

// `base` with a new database made in it.
DatabaseUrl make_database(const DatabaseUrl& base) {
  store::init_driver();
  DatabaseUrl url = base;
  url.database = "audiogen_test_" + random_base32(12);
  store::Session session(base);
  session.execute(Sql::trusted("CREATE DATABASE " + url.database + " CHARACTER SET utf8mb4"));
  return url;
}

// The invariants as counts of offending rows.
constexpr const char* kInvariants = R"sql(
SELECT 'balance = sum and number of its ledger rows', COUNT(*) FROM (
  SELECT b.user_id FROM balances b LEFT JOIN (
    SELECT user_id, SUM(d_available) a, SUM(d_held) h, MAX(seq) s, COUNT(*) n
    FROM ledger GROUP BY user_id) l ON l.user_id = b.user_id
  WHERE COALESCE(l.a, 0) <> b.available OR COALESCE(l.h, 0) <> b.held
     OR COALESCE(l.s, 0) <> b.seq OR COALESCE(l.n, 0) <> b.seq) x
UNION ALL SELECT 'ledger rows belong to a balance', COUNT(*) FROM ledger l
  LEFT JOIN balances b ON b.user_id = l.user_id WHERE b.user_id IS NULL
UNION ALL SELECT 'double entry', COUNT(*) FROM ledger WHERE d_available + d_held + d_system <> 0
UNION ALL SELECT 'never negative', COUNT(*) FROM ledger WHERE available_after < 0 OR held_after < 0
UNION ALL SELECT 'unbroken chain', COUNT(*) FROM (
  SELECT seq, available_after, held_after, d_available, d_held,
    COALESCE(LAG(available_after) OVER w, 0) pa, COALESCE(LAG(held_after) OVER w, 0) ph,
    COALESCE(LAG(seq) OVER w, 0) ps
  FROM ledger WINDOW w AS (PARTITION BY user_id ORDER BY seq)) x
  WHERE available_after <> pa + d_available OR held_after <> ph + d_held OR seq <> ps + 1
UNION ALL SELECT 'one hold per task', COUNT(*) FROM tasks t
  LEFT JOIN ledger l ON l.source_id = t.id AND l.kind = 1
  WHERE l.user_id IS NULL OR l.d_held <> t.held OR l.user_id <> t.user_id
UNION ALL SELECT 'final = resolved once, parts add up', COUNT(*) FROM tasks t
  LEFT JOIN ledger r ON r.source_id = t.id AND r.kind = 2
  WHERE (t.state >= 3) <> (r.user_id IS NOT NULL)
     OR (t.state >= 3 AND (r.d_system <> t.charged OR -r.d_held <> t.held
                           OR r.user_id <> t.user_id))
UNION ALL SELECT 'failed or canceled = full return', COUNT(*) FROM tasks
  WHERE state IN (4, 5) AND charged <> 0
UNION ALL SELECT 'held = open holds', COUNT(*) FROM (
  SELECT b.user_id FROM balances b LEFT JOIN (
    SELECT user_id, SUM(held) h FROM tasks WHERE state IN (1, 2) GROUP BY user_id) t
    ON t.user_id = b.user_id
  WHERE b.held <> COALESCE(t.h, 0)) x
UNION ALL SELECT 'ledger rows of tasks have their task', COUNT(*) FROM ledger l
  LEFT JOIN tasks t ON t.id = l.source_id WHERE l.kind IN (1, 2) AND t.id IS NULL
UNION ALL SELECT 'open = the sweeper will look', COUNT(*) FROM tasks
  WHERE (state IN (1, 2)) <> (wake_at IS NOT NULL)
UNION ALL SELECT 'looked at when the deadline has passed', COUNT(*) FROM tasks
  WHERE state IN (1, 2)
    AND wake_at > GREATEST(deadline_at, UTC_TIMESTAMP(6)) + INTERVAL 5 SECOND
UNION ALL SELECT 'idempotency rows have their task', COUNT(*) FROM idempotency i
  LEFT JOIN tasks t ON t.id = i.task_id WHERE t.id IS NULL OR t.user_id <> i.user_id
UNION ALL SELECT 'lease exactly while running', COUNT(*) FROM tasks
  WHERE (state = 2) <> (lease_until IS NOT NULL) OR (state = 2) <> (worker IS NOT NULL)
UNION ALL SELECT 'attempts counted', COUNT(*) FROM tasks t LEFT JOIN (
    SELECT task_id, COUNT(*) n, MAX(n) top FROM attempts GROUP BY task_id) a ON a.task_id = t.id
  WHERE t.attempts <> COALESCE(a.n, 0) OR t.attempts <> COALESCE(a.top, 0)
UNION ALL SELECT 'an attempt has all its columns', COUNT(*) FROM tasks
  WHERE (attempts > 0) <> (attempt_provider IS NOT NULL)
     OR (attempts > 0) <> (attempt_epoch IS NOT NULL)
     OR (attempts > 0) <> (attempt_state IS NOT NULL)
     OR (attempts > 0) <> (attempt_started_at IS NOT NULL)
     OR (attempts > 0 AND attempt_state <> 1) <> (attempt_ended_at IS NOT NULL)
UNION ALL SELECT 'no started attempt outside a running task', COUNT(*) FROM attempts a
  JOIN tasks t ON t.id = a.task_id WHERE a.state = 1 AND t.state <> 2)sql";

}  // namespace

DatabaseUrl test_server() {
  const char* text = std::getenv("TEST_DATABASE_URL");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) {
    give_up("TEST_DATABASE_URL is missing");
  }
  static const std::regex kForm(
      R"(mysql://([^:@/]+):([^@/]*)@([^:@/]+)(?::(\d+))?/([^?]+)(?:\?socket=(.+))?)");
  std::cmatch part;
  if (!std::regex_match(text, part, kForm)) {
    give_up("TEST_DATABASE_URL is malformed");
  }
  DatabaseUrl url{.user = part[1],
                  .password = part[2],
                  .host = part[3],
                  .database = part[5],
                  .socket = part[6]};
  if (part[4].matched) {
    url.port = static_cast<std::uint16_t>(std::stoi(part[4]));
  }
  return url;
}

TestDatabase::TestDatabase(Tables tables) : url_(make_database(test_server())), session_(url_) {
  if (tables == Tables::kAll) {
    const auto applied = store::migrate(url_);
    if (!applied) {
      give_up(applied.error().message.c_str());
    }
  }
}

TestDatabase::~TestDatabase() {
  try {
    session_.disconnect();  // Ends what a failed test may have left open.
    session_.execute(Sql::trusted("DROP DATABASE " + url_.database));
  } catch (const store::DbError& e) {
    std::fprintf(stderr, "cannot drop the test's database: %s\n", e.what());
  }
}

DatabaseUrl TestDatabase::tcp_url(std::uint16_t port) const {
  DatabaseUrl url = url_;
  url.socket.clear();
  url.host = "127.0.0.1";
  if (port != 0) {
    url.port = port;
  }
  return url;
}

std::int64_t TestDatabase::number(const Sql& sql) {
  store::Rows rows = session_.query(sql);
  if (!rows.next()) {
    ADD_FAILURE() << "no row";
    return 0;
  }
  return rows.i64(1);
}

std::string TestDatabase::text(const Sql& sql) {
  store::Rows rows = session_.query(sql);
  if (!rows.next()) {
    ADD_FAILURE() << "no row";
    return {};
  }
  return rows.text(1);
}

UserId TestDatabase::add_user(Units available) {
  const UserId user = UserId::make();
  session_.transact([&] {
    Sql users("INSERT INTO users (id, email, plan, purchased, created_at) VALUES (");
    users << user << ",";
    users.utf8(user.text() + "@example.com", 254) << ",1,0,UTC_TIMESTAMP(6))";
    session_.execute(users);
    const int booked = available > Units{} ? 1 : 0;
    session_.execute(Sql("INSERT INTO balances (user_id, available, held, seq) VALUES (")
                     << user << "," << available << ",0," << booked << ")");
    if (booked != 0) {
      session_.execute(
          Sql("INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, "
              "d_system, available_after, held_after, created_at) VALUES (")
          << user << ",1,3," << new_uuid() << "," << available << ",0," << Units{} - available
          << "," << available << ",0,UTC_TIMESTAMP(6))");
    }
  });
  return user;
}

Balance TestDatabase::balance(UserId user) {
  store::Rows rows =
      session_.query(Sql("SELECT available, held, seq FROM balances WHERE user_id=") << user);
  if (!rows.next()) {
    ADD_FAILURE() << "no balance";
    return {};
  }
  return {.available = rows.units(1), .held = rows.units(2), .seq = rows.u64(3)};
}

void TestDatabase::expect_invariants() {
  store::Rows rows = session_.query(Sql::trusted(kInvariants));
  while (rows.next()) {
    EXPECT_EQ(rows.i64(2), 0) << "invariant: " << rows.text(1);
  }
}

}  // namespace audiogen::test
