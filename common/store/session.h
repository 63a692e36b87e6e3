// One connection to the database and its transactions: where the traps of Connector/C++ 1.1.12 are
// kept in (reliability 1, F1, F2, F5). Nothing outside this folder sees the connector.
//
// The connector's commit(), rollback() and setAutoCommit() swallow errors: only the statements are
// used.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/pricing.h"
#include "common/store/sql.h"

namespace sql {
class Connection;
class Driver;
class ResultSet;
class Statement;
}  // namespace sql

namespace audiogen::store {

// What a failed statement means for the caller.
enum class DbFault {
  kConflict,        // Deadlock: the whole transaction may be run again.
  kBusy,            // A lock or the statement's time ran out: another session holds the rows.
  kDuplicate,       // A unique key was there already.
  kConstraint,      // A CHECK or range refused the row: our bug, or a lost update.
  kUnavailable,     // No usable connection; nothing was committed.
  kUnknownOutcome,  // The connection died while COMMIT was under way: it may have been committed.
  kBug,             // Anything else.
};

// Classifies a server or client error number.
DbFault classify(int code);

class DbError : public std::exception {
 public:
  DbError(DbFault fault, int code, std::string message)
      : fault_(fault), code_(code), message_(std::move(message)) {}
  DbFault fault() const { return fault_; }
  int code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  DbFault fault_;
  int code_;
  std::string message_;
};

// The rows of one query, read forward. Columns count from 1.
class Rows {
 public:
  Rows(std::unique_ptr<sql::Statement> statement, std::unique_ptr<sql::ResultSet> result);
  Rows(Rows&&) noexcept;
  Rows& operator=(Rows&&) noexcept;
  ~Rows();

  bool next();
  bool is_null(std::uint32_t column) const;
  std::int64_t i64(std::uint32_t column) const;
  std::uint64_t u64(std::uint32_t column) const;
  std::uint32_t u32(std::uint32_t column) const { return static_cast<std::uint32_t>(u64(column)); }
  std::string text(std::uint32_t column) const;  // Bytes as they are.
  Uuid uuid(std::uint32_t column) const;
  Units units(std::uint32_t column) const { return Units{i64(column)}; }
  Instant time(std::uint32_t column) const;
  template <class IdType>
  IdType id(std::uint32_t column) const {
    return IdType{uuid(column)};
  }

 private:
  std::unique_ptr<sql::Statement> statement_;
  std::unique_ptr<sql::ResultSet> result_;
};

struct SessionOptions {
  std::chrono::seconds connect_timeout{2};
  std::chrono::seconds read_timeout{5};  // Above the server's lock wait, which is set per session.
  std::chrono::seconds write_timeout{5};
  std::chrono::seconds statement_max{8};  // Then the server ends it (MariaDB). 0: never.
};

// How long a statement waits for a row another transaction holds.
inline constexpr std::chrono::seconds kLockWait{3};

// One connection, opened when first needed and thrown away at the first sign of trouble. For one
// thread at a time. Every method blocks, at most about the read timeout, and throws DbError.
//
// A connection that died while it was idle is replaced without a word: the first statement of a
// transaction, or one outside any, is sent again on a new one. So a statement outside a transaction
// must be safe to run twice. While the server refuses connections, it is asked at most ten times a
// second; calls in between fail at once.
class Session {
 public:
  explicit Session(const DatabaseUrl& url, SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A statement that returns no rows; the number of rows it changed.
  std::uint64_t execute(const Sql& sql);
  Rows query(const Sql& sql);

  // Runs `body` inside one READ COMMITTED transaction and commits. A conflict rolls back and runs
  // it again, at most five times, 5-80 ms apart. Any other failure rolls back and throws. `body`
  // must be safe to run again.
  void transact(const std::function<void()>& body);

  // The same, and goes on when the reply to COMMIT was lost: runs the body once more on a new
  // connection, with `again` true. `body` must then find out under its locks whether its first run
  // was committed (they wait for a COMMIT still under way), and do nothing twice. Throws
  // kUnknownOutcome when even that could not be done within a few seconds.
  void transact_surely(const std::function<void(bool again)>& body);

  // The database's clock.
  Instant now();

  // Drops the connection; the next use opens a new one.
  void disconnect();
  bool connected() const { return connection_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;

  void connect();
  // Runs `use` on the connection, opened first if need be.
  template <class Use>
  auto perform(const Use& use);
  void commit();
  void rollback_quietly();
  [[noreturn]] void fail(int code, const char* what, bool committing);

  DatabaseUrl url_;
  SessionOptions options_;
  std::unique_ptr<sql::Connection> connection_;
  bool proven_ = false;  // connection_ has answered a statement before.
  bool in_transaction_ = false;
  std::optional<Clock::time_point> refused_at_;  // The last connect failed then.
};

// Loads the connector's driver. Call once in main before any thread uses a Session (the connector's
// own registry of drivers is not synchronised).
void init_driver();

}  // namespace audiogen::store
