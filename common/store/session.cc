#include "common/store/session.h"

#include <random>
#include <thread>
#include <utility>

#include <cppconn/connection.h>
#include <cppconn/driver.h>
#include <cppconn/exception.h>
#include <cppconn/resultset.h>
#include <cppconn/statement.h>

#include "common/base/check.h"
#include "common/base/log.h"

namespace audiogen::store {
namespace {

constexpr int kTransactionTries = 5;
constexpr std::chrono::milliseconds kConnectPause{100};
// A connection the server had closed says so at once; what takes longer is trouble of another kind.
constexpr std::chrono::milliseconds kStaleWithin{500};
constexpr std::chrono::seconds kResolveWithin{2};

// Error numbers of a connection that is gone.
bool is_lost(int code) {
  return code == 2006 || code == 2013 || code == 1927 || code == 4031;
}

// Server messages that name tables, columns and rules but never quote values of a statement.
bool is_safe_text(int code) {
  switch (code) {
    case 1044:
    case 1045:
    case 1049:
    case 1054:
    case 1142:
    case 1146:
    case 1205:
    case 1213:
    case 1264:
    case 1406:
    case 3819:
    case 4025:
      return true;
    default:
      return code >= 2000 && code < 3000;
  }
}

sql::Driver* driver() {
  static sql::Driver* const instance = get_driver_instance();
  return instance;
}

// Between tries of a transaction that met a conflict.
std::chrono::milliseconds conflict_pause(int tries) {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::chrono::milliseconds(5 + std::uniform_int_distribution<int>(0, 15 * tries)(random));
}

void run(sql::Connection& connection, const std::string& text) {
  const std::unique_ptr<sql::Statement> statement(connection.createStatement());
  statement->execute(sql::SQLString(text));
}

}  // namespace

void init_driver() {
  driver();
}

DbFault classify(int code) {
  switch (code) {
    case 1213:  // deadlock, also a lost certification
    case 1020:  // record changed since the snapshot
      return DbFault::kConflict;
    case 1205:  // lock wait timeout
    case 1317:  // query interrupted
    case 1969:  // max_statement_time
      return DbFault::kBusy;
    case 1062:
      return DbFault::kDuplicate;
    case 4025:  // CHECK failed (MariaDB)
    case 3819:  // CHECK failed (MySQL 8)
    case 1690:  // out of range in an expression
    case 1264:  // out of range for a column
      return DbFault::kConstraint;
    case 1040:  // too many connections
    case 1203:  // the same, for this user
    case 1047:  // not in the primary component
    case 1053:  // server shutdown
    case 1180:  // error during commit
    case 1290:  // read-only
    case 1836:  // read-only mode
    case 1927:  // connection was killed
    case 4031:  // the same, for being idle (MySQL 8)
    case 1021:  // disk full
    case 1114:  // table (or disk) full
    case 1045:  // access denied
    case 1044:
    case 1049:  // unknown database
      return DbFault::kUnavailable;
    default:
      return code >= 2000 && code < 3000 ? DbFault::kUnavailable : DbFault::kBug;
  }
}

Rows::Rows(std::unique_ptr<sql::Statement> statement, std::unique_ptr<sql::ResultSet> result)
    : statement_(std::move(statement)), result_(std::move(result)) {}
Rows::Rows(Rows&&) noexcept = default;
Rows& Rows::operator=(Rows&&) noexcept = default;
Rows::~Rows() = default;

bool Rows::next() {
  return result_->next();
}
bool Rows::is_null(std::uint32_t column) const {
  return result_->isNull(column);
}
std::int64_t Rows::i64(std::uint32_t column) const {
  return result_->getInt64(column);
}
std::uint64_t Rows::u64(std::uint32_t column) const {
  return result_->getUInt64(column);
}
std::string Rows::text(std::uint32_t column) const {
  const sql::SQLString value = result_->getString(column);
  return {value.c_str(), value.length()};
}

Uuid Rows::uuid(std::uint32_t column) const {
  const sql::SQLString value = result_->getString(column);
  Uuid id;
  AG_CHECK(value.length() == id.bytes.size());
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(value.c_str()[i]);
  }
  return id;
}

Instant Rows::time(std::uint32_t column) const {
  const auto at = parse_db_time(text(column));
  AG_CHECK(at.has_value());
  return *at;
}

Session::Session(const DatabaseUrl& url, SessionOptions options) : url_(url), options_(options) {}
Session::~Session() = default;

void Session::disconnect() {
  connection_.reset();
  proven_ = false;
}

void Session::connect() {
  if (refused_at_ && Clock::now() - *refused_at_ < kConnectPause) {
    throw DbError(DbFault::kUnavailable, 2002, "database error 2002: refused a moment ago");
  }
  try {
    sql::ConnectOptionsMap options;
    // Never OPT_RECONNECT: it would lose the transaction and the session's settings without a word.
    options["hostName"] = url_.socket.empty()
                              ? "tcp://" + url_.host + ":" + std::to_string(url_.port)
                              : "unix://" + url_.socket;
    options["userName"] = url_.user;
    options["password"] = url_.password;
    options["schema"] = url_.database;
    options["OPT_CONNECT_TIMEOUT"] = static_cast<int>(options_.connect_timeout.count());
    options["OPT_READ_TIMEOUT"] = static_cast<int>(options_.read_timeout.count());
    options["OPT_WRITE_TIMEOUT"] = static_cast<int>(options_.write_timeout.count());
    options["OPT_CHARSET_NAME"] = sql::SQLString("utf8mb4");
    connection_.reset(driver()->connect(options));
    // The connector has just forced REPEATABLE READ (F2); this comes after it.
    run(*connection_, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    // A frozen process must not hold a user's rows for hours: the server ends its session. What
    // MySQL does not know stands in a comment that only MariaDB reads.
    run(*connection_,
        "SET SESSION time_zone='+00:00', wait_timeout=60, innodb_lock_wait_timeout=" +
            std::to_string(kLockWait.count()) +
            "/*M!100301 , idle_transaction_timeout=10, max_statement_time=" +
            std::to_string(options_.statement_max.count()) +
            " */"
            ", sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    refused_at_.reset();
  } catch (const sql::SQLException& e) {
    disconnect();
    refused_at_ = Clock::now();
    fail(e.getErrorCode(), e.what(), false);
  }
}

void Session::fail(int code, const char* what, bool committing) {
  DbFault fault = classify(code);
  const bool undecided =
      fault == DbFault::kUnavailable || fault == DbFault::kBusy || fault == DbFault::kBug;
  if (committing && undecided) {
    fault = DbFault::kUnknownOutcome;
  }
  if (fault == DbFault::kUnavailable || fault == DbFault::kUnknownOutcome) {
    disconnect();
  }
  std::string message = "database error " + std::to_string(code);
  if (is_safe_text(code)) {
    message += ": " + std::string(what).substr(0, 160);
  }
  throw DbError(fault, code, std::move(message));
}

template <class Use>
auto Session::perform(const Use& use) {
  for (;;) {
    const bool may_be_stale = proven_ && !in_transaction_;
    if (!connection_) {
      if (in_transaction_) {
        throw DbError(DbFault::kUnavailable, 2006, "database error 2006: transaction lost");
      }
      connect();
    }
    const Clock::time_point began = Clock::now();
    try {
      auto answer = use(*connection_);
      proven_ = true;
      return answer;
    } catch (const sql::SQLException& e) {
      if (may_be_stale && is_lost(e.getErrorCode()) && Clock::now() - began < kStaleWithin) {
        disconnect();
        continue;  // At most once: the new connection is not proven.
      }
      fail(e.getErrorCode(), e.what(), false);
    }
  }
}

std::uint64_t Session::execute(const Sql& sql) {
  return perform([&](sql::Connection& connection) {
    const std::unique_ptr<sql::Statement> statement(connection.createStatement());
    return static_cast<std::uint64_t>(
        statement->executeUpdate(sql::SQLString(sql.text().data(), sql.text().size())));
  });
}

Rows Session::query(const Sql& sql) {
  return perform([&](sql::Connection& connection) {
    std::unique_ptr<sql::Statement> statement(connection.createStatement());
    std::unique_ptr<sql::ResultSet> result(
        statement->executeQuery(sql::SQLString(sql.text().data(), sql.text().size())));
    return Rows(std::move(statement), std::move(result));
  });
}

void Session::commit() {
  if (!connection_) {
    throw DbError(DbFault::kUnavailable, 2006, "database error 2006: transaction lost");
  }
  AG_CRASH_POINT("store.commit_sent");
  try {
    run(*connection_, "COMMIT");
  } catch (const sql::SQLException& e) {
    fail(e.getErrorCode(), e.what(), true);
  }
  AG_CRASH_POINT("store.committed");
}

void Session::rollback_quietly() {
  in_transaction_ = false;
  if (!connection_) {
    return;
  }
  try {
    run(*connection_, "ROLLBACK");
  } catch (const sql::SQLException&) {
    disconnect();  // Closing the connection rolls back too.
  }
}

void Session::transact(const std::function<void()>& body) {
  AG_CHECK(!in_transaction_);
  for (int tries = 1;; ++tries) {
    try {
      execute(Sql("BEGIN"));
      in_transaction_ = true;
      body();
      commit();
      in_transaction_ = false;
      return;
    } catch (const DbError& e) {
      rollback_quietly();
      if (e.fault() != DbFault::kConflict || tries == kTransactionTries) {
        throw;
      }
      log::debug("transaction conflict", {{"code", e.code()}, {"tries", tries}});
    } catch (...) {
      rollback_quietly();
      throw;
    }
    std::this_thread::sleep_for(conflict_pause(tries));
  }
}

void Session::transact_surely(const std::function<void(bool again)>& body) {
  try {
    transact([&] { body(false); });
    return;
  } catch (const DbError& e) {
    if (e.fault() != DbFault::kUnknownOutcome) {
      throw;
    }
    log::warn("commit without an answer", {{"code", e.code()}});
  }
  const Clock::time_point until = Clock::now() + kResolveWithin;
  for (;;) {
    try {
      transact([&] { body(true); });
      return;
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kUnavailable || Clock::now() >= until) {
        throw DbError(DbFault::kUnknownOutcome, e.code(), e.what());
      }
    }
    std::this_thread::sleep_for(kConnectPause);
  }
}

Instant Session::now() {
  Rows rows = query(Sql("SELECT UTC_TIMESTAMP(6)"));
  AG_CHECK(rows.next());
  return rows.time(1);
}

}  // namespace audiogen::store
