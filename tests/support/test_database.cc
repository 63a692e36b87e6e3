#include "tests/support/test_database.h"

#include <cstdio>
#include <cstdlib>
#include <regex>

#include <gtest/gtest.h>

#include "common/store/audit.h"
#include "common/store/grants.h"
#include "common/store/migrate.h"

namespace audiogen::test {
namespace {

using store::Sql;

// From where clients come, as the server sees it: by socket and by TCP, or to a cluster's nodes.
std::vector<std::string> client_hosts() {
  const char* const clients = std::getenv("TEST_DATABASE_CLIENTS");
  return clients != nullptr ? std::vector<std::string>{clients}
                            : std::vector<std::string>{"localhost", "127.0.0.1"};
}

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

}  // namespace

DatabaseUrl test_server() {
  const char* text = std::getenv("TEST_DATABASE_URL");
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

// Beside other load a test may think for longer between two statements than a program ever does.
TestDatabase::TestDatabase(Tables tables)
    : url_(make_database(test_server())),
      session_(url_, {.idle_in_transaction_max = std::chrono::minutes(1)}) {
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
    for (const auto& [role, url] : roles_) {
      for (const std::string& host : client_hosts()) {
        session_.execute(Sql::trusted("DROP USER '" + url.user + "'@'" + host + "'"));
      }
    }
  } catch (const store::DbError& e) {
    std::fprintf(stderr, "cannot drop the test's database: %s\n", e.what());
  }
}

DatabaseUrl TestDatabase::as(const std::string& role) {
  const auto [found, fresh] = roles_.try_emplace(role, url_);
  DatabaseUrl& url = found->second;
  if (fresh) {
    url.user = role + "_" + random_base32(12);
    url.password = random_base32(20);
    std::vector<store::Grantee> grantees;
    for (const std::string& host : client_hosts()) {
      session_.execute(Sql::trusted("CREATE USER '" + url.user + "'@'" + host +
                                    "' IDENTIFIED BY '" + url.password + "'"));
      grantees.push_back({role, url.user + "@" + host});
    }
    if (const auto given = store::bring_grants(url_, grantees); !given) {
      give_up(given.error().message.c_str());
    }
  }
  return url;
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

bool TestDatabase::is_mariadb() {
  if (!is_mariadb_) {
    is_mariadb_ = number(Sql("SELECT VERSION() LIKE '%MariaDB%'")) == 1;
  }
  return *is_mariadb_;
}

std::int64_t TestDatabase::rows_read(const std::string& table) {
  if (is_mariadb()) {
    execute(Sql("SET GLOBAL userstat=1"));
  }
  const Sql counted =
      is_mariadb()
          ? Sql("SELECT COALESCE(SUM(rows_read),0) FROM information_schema.table_statistics "
                "WHERE table_schema=DATABASE() AND table_name=")
          : Sql("SELECT COALESCE(SUM(count_fetch),0) FROM "
                "performance_schema.table_io_waits_summary_by_table WHERE "
                "object_schema=DATABASE() AND object_name=");
  return number(Sql(counted).bytes(table));
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
    session_.execute(Sql("INSERT INTO balances (user_id, available, held, seq, released, parked, "
                         "parked_after, released_max, crowded) VALUES (")
                     << user << "," << available << ",0," << booked << ",0,0,0,0,0)");
    if (booked != 0) {
      const Uuid grant = new_uuid();
      session_.execute(Sql("INSERT INTO grants (id, reference, user_id, kind, amount, created_at) "
                           "VALUES (")
                       << grant << "," << grant << "," << user << ",3," << available
                       << ",UTC_TIMESTAMP(6))");
      session_.execute(
          Sql("INSERT INTO ledger (user_id, seq, kind, source_id, d_available, d_held, "
              "d_system, available_after, held_after, created_at) VALUES (")
          << user << ",1,3," << grant << "," << available << ",0," << Units{} - available << ","
          << available << ",0,UTC_TIMESTAMP(6))");
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
  const auto checks = store::audit(url_);
  ASSERT_TRUE(checks) << checks.error().detail;
  for (const store::Check& check : *checks) {
    if (check.kind == store::Check::Kind::kInvariant) {
      EXPECT_EQ(check.bad, 0U) << check.name;
    }
  }
}

}  // namespace audiogen::test
