// One connection to the database and its transactions: where the traps of Connector/C++ 1.1.12 are
// kept in (README.md, "Traps of the connector"). Nothing outside this folder sees the connector.
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
#include <utility>
#include <vector>

#include "common/base/config.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/api_key.h"
#include "common/domain/pricing.h"
#include "common/store/sql.h"

namespace prometheus {
class Counter;
}
namespace audiogen::metrics {
class Histogram;
}
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
  kBusy,            // Another session holds a row, longer than we wait for one.
  kTimeout,         // The server ended the statement: too long, or told to.
  kDuplicate,       // A unique key was there already.
  kConstraint,      // A CHECK, range or length refused the row: our bug, or a lost update.
  kUnavailable,     // No usable connection; nothing was committed.
  kUnknownOutcome,  // The connection died while COMMIT was under way: it may have been committed.
  kUnexpected,      // Anything else; nothing was committed.
};

// How long an undecided COMMIT is asked after.
inline constexpr std::chrono::seconds kResolveWithin{2};
inline constexpr std::chrono::milliseconds kConnectPause{100};  // Between connections refused.

// Classifies a server or client error number.
DbFault classify(int code);

// Whether one row of a statement brought the fault about, so that the other rows would pass without
// it. A positive list: an error nobody has thought of says nothing about any row.
bool is_row_fault(DbFault fault);

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
  Scopes scopes(std::uint32_t column) const { return {static_cast<std::uint8_t>(u32(column))}; }
  Instant time(std::uint32_t column) const;
  std::optional<Instant> maybe_time(std::uint32_t column) const {
    return is_null(column) ? std::nullopt : std::optional(time(column));
  }
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
  // How long a statement waits for a row another transaction holds. 0: writes do not wait at all
  // (on MySQL, which knows no zero, 1 s), reads for update 1 s: they have SKIP LOCKED.
  std::chrono::seconds lock_wait{3};
  // The server ends a session whose transaction hears nothing from us for this long, or which takes
  // nothing of an answer for this long (2 s at the least), so that what a frozen process or a cut
  // cable holds is free again. Nothing of ours thinks that long between two statements. More is for
  // sessions that lock no row.
  std::chrono::seconds idle_in_transaction_max{1};
  // The same for a session without a transaction (MariaDB; MySQL only where it `rests`).
  std::chrono::seconds idle_max{60};
  // For who keeps something on the server between its transactions, a named lock. MySQL has one
  // limit for all that is idle: it is the one above in a transaction, and `idle_max` after it. What
  // sets it goes along with BEGIN and COMMIT.
  bool rests = false;
  // Whether a connection that died while idle is replaced. Without it one connection is all this
  // session ever has: what it keeps on the server (a snapshot, a variable, a named lock) is either
  // there or every later statement fails.
  bool reconnects = true;
};

// One connection, opened when first needed and thrown away at the first sign of trouble. For one
// thread at a time. Every method blocks, at most about the read timeout, and throws DbError.
//
// A connection that died while it was idle is replaced without a word: what a transaction sends
// first, or a statement outside any, is sent again on a new one. So a statement outside a
// transaction must be safe to run twice. While the server refuses connections, it is asked at most
// ten times a second; calls in between fail at once.
class Session {
 public:
  explicit Session(const DatabaseUrl& url, SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A statement that returns no rows; the number of rows it changed.
  std::uint64_t execute(const Sql& sql);
  Rows query(const Sql& sql);
  // Inside a transaction only: sends `sql`, which returns no rows, in one round trip with what
  // follows it, at the latest with COMMIT, and throws its failure there. The fewer round trips lie
  // between the first lock and COMMIT, the shorter others find the rows taken, and the less likely
  // this process is frozen in between.
  void later(const Sql& sql);
  // Sends what waits. Whoever means to catch the failure of his own statement does this first, or
  // he catches those of others.
  void flush();

  // Runs `body` inside one READ COMMITTED transaction and commits. A conflict rolls back and runs
  // it again, at most five times, 5-80 ms apart. Any other failure rolls back and throws. `body`
  // must be safe to run again. `use`, one of few words, is what its time is told as.
  void transact(const std::function<void()>& body, const char* use = "other");

  // The same, and goes on when the reply to COMMIT was lost: runs the body once more on a new
  // connection, with `again` true. `body` must then find out under its locks whether its first run
  // was committed (they wait for a COMMIT still under way), and do nothing twice. Throws
  // kUnknownOutcome when even that could not be done within a few seconds.
  void transact_surely(const std::function<void(bool again)>& body);

  // Inside a transaction that has sent something only: whether a write fails at once (kBusy) where
  // another transaction holds its row. Not on MySQL, whatever lock_wait says.
  bool never_waits() const;
  // Inside a transaction only: rolls back what it did, and begins it anew.
  void restart();

  // Inside a transaction only: counts `by` once that is committed.
  void count(prometheus::Counter& counter, double by = 1);

  // The database's clock.
  Instant now();

  // Drops the connection; the next use opens a new one.
  void disconnect();
  bool connected() const { return connection_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;

  // Statements that go to the server together.
  struct Packet {
    std::string text;
    std::size_t statements = 0;
    void add(std::string_view statement);
  };

  void connect();
  // Runs `use` on the connection, opened first if need be.
  template <class Use>
  auto perform(const Use& use);
  std::string as_sent(const Sql& sql) const;
  // Sends a packet none of whose statements returns rows.
  void send(const Packet& packet);
  void begin();
  void commit();
  void rollback_quietly();
  void count_committed(std::string_view use, Clock::time_point began);
  [[noreturn]] void fail(int code, const char* what, bool committing);

  DatabaseUrl url_;
  SessionOptions options_;
  std::unique_ptr<sql::Connection> connection_;
  bool is_mariadb_ = false;
  bool proven_ = false;  // connection_ has answered a statement before.
  bool in_transaction_ = false;
  bool begun_ = false;       // The server has answered to something of this transaction.
  Packet pending_;           // What goes before the next statement of this transaction.
  std::size_t opening_ = 0;  // How many statements of this transaction begin it.
  // What is counted if this transaction is committed.
  std::vector<std::pair<prometheus::Counter*, double>> counts_;
  std::vector<std::pair<std::string_view, metrics::Histogram*>> times_;  // By their use.
  bool connected_before_ = false;
  std::optional<Clock::time_point> refused_at_;  // The last connect failed then.
};

// Loads the connector's driver. Call once in main before any thread uses a Session (the connector's
// own registry of drivers is not synchronised).
void init_driver();

}  // namespace audiogen::store
