// A fresh database for one test: made in the server TEST_DATABASE_URL names, dropped at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/domain/ledger.h"
#include "common/store/session.h"
#include "common/store/sql.h"

namespace audiogen::test {

// The server under test: mysql://user:pass@host:port/mysql?socket=/path, of a user that may create
// databases. Ends the process with a clear message when TEST_DATABASE_URL is missing or malformed.
DatabaseUrl test_server();

// For sessions that wait for whatever others hold, and that a test may keep waiting.
inline constexpr store::SessionOptions kPatient{
    .read_timeout = std::chrono::seconds(90),
    .statement_max = std::chrono::seconds(0),
    .lock_wait = std::chrono::seconds(60),
    .idle_in_transaction_max = std::chrono::seconds(600)};

class TestDatabase {
 public:
  enum class Tables { kAll, kNone };

  // kAll: migrated. kNone: empty.
  explicit TestDatabase(Tables tables = Tables::kAll);
  ~TestDatabase();
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  // By the server's socket when it has one.
  const DatabaseUrl& url() const { return url_; }
  // By TCP on the loopback interface; 0: the server's own port. For proxies in between.
  DatabaseUrl tcp_url(std::uint16_t port = 0) const;

  // By the account of a program: "api", "worker" or "admin", with the rights of schema/grants.sql.
  // Made when first asked for.
  DatabaseUrl as(const std::string& role);

  // A session of the test's own, for one thread at a time.
  store::Session& session() { return session_; }
  std::uint64_t execute(const store::Sql& sql) { return session_.execute(sql); }
  // The first column of the first row; fails the test when there is none.
  std::int64_t number(const store::Sql& sql);
  std::string text(const store::Sql& sql);

  // Not MySQL.
  bool is_mariadb();
  // Rows of a table of this database that the server has read so far, or looked up. MariaDB counts
  // from the first call on, and only what sessions do that were opened after it.
  std::int64_t rows_read(const std::string& table);

  // A user with this much to spend, booked as the grant a real one would have. No row in the ledger
  // for zero.
  UserId add_user(Units available = credits(1'000'000));
  Balance balance(UserId user);

  // Audits the books and the tasks and reports each broken invariant as a failure of the test. What
  // only holds while workers run is not asked for.
  void expect_invariants();

 private:
  DatabaseUrl url_;
  std::map<std::string, DatabaseUrl> roles_;
  store::Session session_;
  std::optional<bool> is_mariadb_;  // Once asked for.
};

}  // namespace audiogen::test
