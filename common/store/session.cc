#include "common/store/session.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include <cppconn/connection.h>
#include <cppconn/driver.h>
#include <cppconn/exception.h>
#include <cppconn/metadata.h>
#include <cppconn/resultset.h>
#include <cppconn/statement.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/store/meters.h"

namespace audiogen::store {
namespace {

constexpr int kTransactionTries = 5;
// A connection the server had closed says so at once; what takes longer is trouble of another kind.
constexpr std::chrono::milliseconds kStaleWithin{500};
constexpr int kShutdown = 1053;
constexpr std::int64_t kTableMargin = 1;  // Seconds.
// How long a server waits, at least, for a client that takes nothing of an answer. Answers are read
// whole before anybody looks at them, so whoever takes none for so long is frozen, or cut off.
constexpr std::chrono::seconds kUnreadLeast{2};
// What waits in later() is sent before it grows past this: a server takes no packet of more than
// max_allowed_packet, 16 MB unless it is told otherwise.
constexpr std::size_t kPacketMax = std::size_t{6} * 1024 * 1024;

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
    case 1143:
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

// Connector/C++ 1.1.12 ignores OPT_SSL_MODE. sslVerify alone does not ask for TLS, sslEnforce and
// sslCA alone go on without it where the server has none; together they make the client library
// verify chain, dates and host name before it sends anything of the login.
void add_tls(sql::ConnectOptionsMap& options, const TlsFiles& tls) {
  options["sslEnforce"] = true;
  options["sslVerify"] = true;
  const auto file = [&](const char* name, const std::string& path) {
    if (!path.empty()) {
      options[name] = sql::SQLString(path);
    }
  };
  file("sslCA", tls.ca);
  file("sslCert", tls.cert);
  file("sslKey", tls.key);
}

// The client library's text for a name that does not fit says nothing of the name. The second is
// that of Debian 13's.
std::string in_words(int code, const std::string& what) {
  constexpr int kTls = 2026;
  const bool other_host = what.find("Validation of SSL server certificate") != std::string::npos ||
                          what.find("Hostname verification failed") != std::string::npos;
  return code == kTls && other_host ? "TLS: the server's certificate is not for the host of "
                                      "DATABASE_URL"
                                    : what.substr(0, 160);
}

void run(sql::Connection& connection, const std::string& text) {
  const std::unique_ptr<sql::Statement> statement(connection.createStatement());
  statement->execute(sql::SQLString(text));
}

// Sets MySQL's limit for an idle session; nothing to MariaDB, which has one for transactions.
std::string idle_limit(std::chrono::seconds limit) {
  return "SET @idle=0/*!50708 , SESSION wait_timeout=" + std::to_string(limit.count()) + " */";
}

// Before a statement that must not wait for a lock. As the session's own setting zero makes SELECT
// … FOR UPDATE SKIP LOCKED fail with error 1180 (MariaDB 10.11.19).
constexpr std::string_view kNeverWaits =
    "/*M!100301 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ ";

// Runs `count` statements sent as one; `done` counts those that succeeded. Whether the last one
// returned rows, which are then there to be read.
bool run_all(sql::Statement& statement,
             const std::string& text,
             std::size_t count,
             std::size_t& done) {
  bool rows = statement.execute(sql::SQLString(text.data(), text.size()));
  for (done = 1; done < count; ++done) {
    rows = statement.getMoreResults();
  }
  return rows;
}

// A node of a Galera cluster answers from what it has applied, which may be less than what others
// have committed. Whoever comes to it from another node has promised things by what that one said;
// so a new connection waits until this node has all that was committed before. One empty
// transaction, by which other servers notice nothing.
void catch_up(sql::Connection& connection) {
  constexpr int kUnknownVariable = 1193;  // A MariaDB that was built without Galera.
  const std::string text =
      "SET @node=0/*M!100301 , SESSION wsrep_sync_wait=1 */;START TRANSACTION;ROLLBACK;"
      "SET @node=0/*M!100301 , SESSION wsrep_sync_wait=DEFAULT */";
  try {
    const std::unique_ptr<sql::Statement> statement(connection.createStatement());
    std::size_t done = 0;
    run_all(*statement, text, 4, done);
  } catch (const sql::SQLException& e) {
    if (e.getErrorCode() != kUnknownVariable) {
      throw;
    }
  }
}

}  // namespace

void init_driver() {
  driver();
  meters::begin();
}

DbFault classify(int code) {
  switch (code) {
    case 1213:  // deadlock, also a lost certification
    case 1020:  // record changed since the snapshot
      return DbFault::kConflict;
    case 1205:  // lock wait timeout
      return DbFault::kBusy;
    case 1317:  // query interrupted
    case 1969:  // max_statement_time (MariaDB)
    case 3024:  // max_execution_time (MySQL)
      return DbFault::kTimeout;
    case 1062:
      return DbFault::kDuplicate;
    case 4025:  // CHECK failed (MariaDB)
    case 3819:  // CHECK failed (MySQL 8)
    case 1690:  // out of range in an expression
    case 1264:  // out of range for a column
    case 1406:  // too long for a column
    case 1366:  // no value of the column's type
    case 1048:  // NULL where there must be none
      return DbFault::kConstraint;
    case 1040:  // too many connections
    case 1203:  // the same, for this user
    case 1047:  // not in the primary component
    case kShutdown:
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
      return code >= 2000 && code < 3000 ? DbFault::kUnavailable : DbFault::kUnexpected;
  }
}

bool is_row_fault(DbFault fault) {
  return fault == DbFault::kDuplicate || fault == DbFault::kConstraint;
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
  const sql::SQLString value = result_->getString(column);
  const auto at = parse_db_time({value.c_str(), value.length()});
  AG_CHECK(at.has_value());
  return *at;
}

Session::Session(const DatabaseUrl& url, SessionOptions options) : url_(url), options_(options) {}
Session::~Session() = default;

void Session::Packet::add(std::string_view statement) {
  if (statements++ != 0) {
    text += ';';
  }
  text += statement;
}

void Session::disconnect() {
  connection_.reset();
  proven_ = false;
}

void Session::connect() {
  if (connected_before_ && !options_.reconnects) {
    throw DbError(DbFault::kUnavailable, 2006, "database error 2006: the connection was lost");
  }
  if (refused_at_ && Clock::now() - *refused_at_ < kConnectPause) {
    meters::errors(DbFault::kUnavailable).Increment();
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
    if (url_.tls) {
      add_tls(options, *url_.tls);
    }
    options["CLIENT_MULTI_STATEMENTS"] = true;  // For later(). Sql lets nothing in that could add
                                                // a statement.
    connection_.reset(driver()->connect(options));
    const std::string version = connection_->getMetaData()->getDatabaseProductVersion();
    is_mariadb_ = version.find("MariaDB") != std::string::npos;
    // The connector has just forced REPEATABLE READ; this comes after it.
    run(*connection_, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    // A frozen process must not hold a user's rows: the server ends its session, whether it waits
    // for a statement or for somebody to read its answer. MySQL knows a limit for idle sessions
    // only, so there all that do not rest end soon and are replaced when needed again. What it does
    // not know stands in a comment that only MariaDB reads.
    const std::string lock_wait =
        std::to_string(std::max<std::int64_t>(1, options_.lock_wait.count()));
    const std::string idle = std::to_string(options_.idle_in_transaction_max.count());
    const std::string rest = std::to_string(options_.idle_max.count());
    const std::string unread =
        std::to_string(std::max(kUnreadLeast, options_.idle_in_transaction_max).count());
    // A table that is locked as a whole (a backup, an ALTER TABLE) is waited for until shortly
    // before we would take the silence for a database that is away. Longer than a migration asks
    // for one.
    const std::string table_wait =
        std::to_string(std::max<std::int64_t>(1, options_.read_timeout.count() - kTableMargin));
    run(*connection_,
        "SET SESSION time_zone='+00:00', wait_timeout=" + (options_.rests ? rest : idle) +
            ", net_write_timeout=" + unread + ", lock_wait_timeout=" + table_wait +
            ", innodb_lock_wait_timeout=" + lock_wait + "/*M!100301 , wait_timeout=" + rest +
            ", idle_transaction_timeout=" + idle +
            ", max_statement_time=" + std::to_string(options_.statement_max.count()) +
            " */"
            // MariaDB from 11.6 on: else what others have changed since a statement began is an
            // error (1020) to whoever wants to lock it, where everywhere else the newest is read.
            "/*M!110602 , innodb_snapshot_isolation=OFF */"
            // Of reads only; the number says that MariaDB is not meant.
            "/*!50708 , max_execution_time=" +
            std::to_string(std::chrono::milliseconds(options_.statement_max).count()) +
            " */"
            ", sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    catch_up(*connection_);
    connected_before_ = true;
    refused_at_.reset();
  } catch (const sql::SQLException& e) {
    disconnect();
    refused_at_ = Clock::now();
    if (classify(e.getErrorCode()) == DbFault::kBusy) {
      meters::errors(DbFault::kUnavailable).Increment();
      throw DbError(DbFault::kUnavailable,
                    e.getErrorCode(),
                    "database error " + std::to_string(e.getErrorCode()) +
                        ": the node has not caught up with its cluster");
    }
    fail(e.getErrorCode(), e.what(), false);
  }
}

void Session::fail(int code, const char* what, bool committing) {
  DbFault fault = classify(code);
  const bool undecided = fault == DbFault::kUnavailable || fault == DbFault::kBusy ||
                         fault == DbFault::kTimeout || fault == DbFault::kUnexpected;
  if (committing && undecided) {
    fault = DbFault::kUnknownOutcome;
  }
  meters::errors(fault).Increment();
  if (fault == DbFault::kUnavailable || fault == DbFault::kUnknownOutcome) {
    disconnect();
  }
  std::string message = "database error " + std::to_string(code);
  if (is_safe_text(code)) {
    message += ": " + in_words(code, what);
  }
  throw DbError(fault, code, std::move(message));
}

template <class Use>
auto Session::perform(const Use& use) {
  for (;;) {
    const bool may_be_stale = proven_ && !begun_ && options_.reconnects;
    if (!connection_) {
      if (begun_) {
        throw DbError(DbFault::kUnavailable, 2006, "database error 2006: transaction lost");
      }
      connect();
    }
    const Clock::time_point began = Clock::now();
    try {
      auto answer = use(*connection_);
      proven_ = true;
      begun_ = in_transaction_;
      return answer;
    } catch (const sql::SQLException& e) {
      if (may_be_stale && is_lost(e.getErrorCode()) && Clock::now() - began < kStaleWithin) {
        disconnect();
        meters::retries(meters::Retry::kStale).Increment();
        continue;  // At most once: the new connection is not proven.
      }
      fail(e.getErrorCode(), e.what(), false);
    }
  }
}

std::uint64_t Session::execute(const Sql& sql) {
  flush();
  return perform([&](sql::Connection& connection) {
    const std::unique_ptr<sql::Statement> statement(connection.createStatement());
    const std::string text = as_sent(sql);
    return static_cast<std::uint64_t>(
        statement->executeUpdate(sql::SQLString(text.data(), text.size())));
  });
}

std::string Session::as_sent(const Sql& sql) const {
  return options_.lock_wait.count() == 0 ? std::string(kNeverWaits) + sql.text() : sql.text();
}

Rows Session::query(const Sql& sql) {
  Packet packet = std::exchange(pending_, {});
  packet.add(sql.text());
  return perform([&](sql::Connection& connection) {
    std::unique_ptr<sql::Statement> statement(connection.createStatement());
    std::size_t done = 0;
    AG_CHECK(run_all(*statement, packet.text, packet.statements, done));
    std::unique_ptr<sql::ResultSet> result(statement->getResultSet());
    return Rows(std::move(statement), std::move(result));
  });
}

void Session::later(const Sql& sql) {
  AG_CHECK(in_transaction_);
  if (pending_.text.size() + sql.text().size() > kPacketMax) {
    flush();
  }
  pending_.add(as_sent(sql));
}

void Session::send(const Packet& packet) {
  perform([&](sql::Connection& connection) {
    const std::unique_ptr<sql::Statement> statement(connection.createStatement());
    std::size_t done = 0;
    return run_all(*statement, packet.text, packet.statements, done);
  });
}

void Session::flush() {
  if (const Packet packet = std::exchange(pending_, {}); packet.statements != 0) {
    send(packet);
  }
}

void Session::begin() {
  in_transaction_ = true;
  if (options_.rests) {
    pending_.add(idle_limit(options_.idle_in_transaction_max));
  }
  pending_.add("BEGIN");
  opening_ = pending_.statements;
}

void Session::commit() {
  if (!begun_) {
    if (pending_.statements == opening_) {  // Nothing came of it.
      pending_ = {};
      return;
    }
    flush();  // Sent again should the connection prove dead; never together with COMMIT.
  }
  if (!connection_) {
    throw DbError(DbFault::kUnavailable, 2006, "database error 2006: transaction lost");
  }
  AG_CRASH_POINT("store.commit_sent");
  Packet packet = std::exchange(pending_, {});
  const std::size_t before = packet.statements;  // COMMIT.
  packet.add("COMMIT");
  if (options_.rests) {
    packet.add(idle_limit(options_.idle_max));
  }
  std::size_t done = 0;
  try {
    const std::unique_ptr<sql::Statement> statement(connection_->createStatement());
    run_all(*statement, packet.text, packet.statements, done);
  } catch (const sql::SQLException& e) {
    // What the server refused before COMMIT is decided; a connection that ended may have taken
    // COMMIT along, whichever statement it ended in.
    // Below 1000 it is an exception of the connector's own.
    const bool answered =
        e.getErrorCode() >= 1000 && (e.getErrorCode() < 2000 || e.getErrorCode() >= 3000);
    const bool refused =
        answered && !is_lost(e.getErrorCode()) && e.getErrorCode() != kShutdown && done < before;
    fail(e.getErrorCode(), e.what(), !refused);
  }
  AG_CRASH_POINT("store.committed");
}

void Session::rollback_quietly() {
  in_transaction_ = false;
  begun_ = false;
  pending_ = {};
  counts_.clear();
  if (!connection_) {
    return;
  }
  try {
    run(*connection_, "ROLLBACK");
    if (options_.rests) {
      run(*connection_, idle_limit(options_.idle_max));
    }
  } catch (const sql::SQLException&) {
    disconnect();  // Closing the connection rolls back too.
  }
}

bool Session::never_waits() const {
  AG_CHECK(begun_);  // Else nobody knows what server that will be.
  return options_.lock_wait.count() == 0 && is_mariadb_;
}

void Session::restart() {
  AG_CHECK(in_transaction_);
  rollback_quietly();
  begin();
}

void Session::count(prometheus::Counter& counter, double by) {
  AG_CHECK(in_transaction_);
  counts_.emplace_back(&counter, by);
}

void Session::count_committed(std::string_view use, Clock::time_point began) {
  for (const auto& [counter, by] : std::exchange(counts_, {})) {
    counter->Increment(by);
  }
  auto known = std::find_if(
      times_.begin(), times_.end(), [&](const auto& time) { return time.first == use; });
  if (known == times_.end()) {
    known = times_.insert(known, {use, &meters::transactions(use)});
  }
  known->second->observe(std::chrono::duration<double>(Clock::now() - began).count());
}

void Session::transact(const std::function<void()>& body, const char* use) {
  AG_CHECK(!in_transaction_);
  const auto began = Clock::now();
  for (int tries = 1;; ++tries) {
    try {
      begin();
      body();
      commit();
      in_transaction_ = false;
      begun_ = false;
      count_committed(use, began);
      return;
    } catch (const DbError& e) {
      rollback_quietly();
      if (e.fault() != DbFault::kConflict || tries == kTransactionTries) {
        throw;
      }
      meters::retries(meters::Retry::kConflict).Increment();
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
    transact([&] { body(false); }, "account");
    return;
  } catch (const DbError& e) {
    if (e.fault() != DbFault::kUnknownOutcome) {
      throw;
    }
    log::warn("commit without an answer", {{"code", e.code()}});
  }
  const Clock::time_point until = Clock::now() + kResolveWithin;
  for (;;) {
    meters::retries(meters::Retry::kUndecided).Increment();
    try {
      transact([&] { body(true); }, "account");
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
