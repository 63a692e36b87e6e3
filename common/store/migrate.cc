#include "common/store/migrate.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/store/session.h"

namespace audiogen::store {

extern const std::string_view migration_0001;
extern const std::string_view migration_0002;
extern const std::string_view migration_0003;
extern const std::string_view migration_0004;
extern const std::string_view migration_0005;
extern const std::string_view migration_0006;
extern const std::string_view migration_0007;
extern const std::string_view migration_0008;
extern const std::string_view migration_0009;
extern const std::string_view migration_0010;

namespace {

// A large table may be altered for a long time.
constexpr SessionOptions kPatient{.read_timeout = std::chrono::hours(6),
                                  .statement_max = std::chrono::seconds(0),
                                  .idle_in_transaction_max = std::chrono::seconds(60),
                                  .reconnects = false};
constexpr int kNoSuchTable = 1146;

// What the server answers to DDL that has been done already: table, column, key, constraint exists;
// table, key or column to drop, or table to rename, is gone.
constexpr std::array kDoneAlready = {1050, 1060, 1061, 1826, 3822, 1051, 1091, kNoSuchTable};

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_quote(char c) {
  return c == '\'' || c == '"' || c == '`';
}

// Where the quoted piece that starts at `at` ends (one past its closing quote).
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote != '`') {
      ++i;
    } else if (text[i] == quote) {
      if (i + 1 < text.size() && text[i + 1] == quote) {
        ++i;  // A doubled quote stands for itself.
      } else {
        return i + 1;
      }
    }
  }
  return text.size();
}

// Where the comment that starts at `at` ends, or `at` when none starts there.
std::size_t end_of_comment(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  const bool dashes = rest.starts_with("--") && (rest.size() == 2 || is_space(rest[2]));
  std::size_t end = at;
  if (dashes || rest.starts_with("#")) {
    end = text.find('\n', at);
  } else if (rest.starts_with("/*")) {
    end = text.find("*/", at + 2);
    end = end == std::string_view::npos ? end : end + 2;
  }
  return std::min(end, text.size());
}

// How far one migration has come.
struct Progress {
  std::uint64_t done = 0;  // Statements.
  // The next statement was sent, and whether it was done is not known: DDL commits by itself, so
  // its record can be lost.
  bool in_doubt = false;
  bool complete = false;
};

class Migrator {
 public:
  explicit Migrator(const DatabaseUrl& url) : session_(url, kPatient) {}

  Result<std::vector<int>> run(std::span<const Migration> known) {
    // A lock of the server, not a row: the first DDL statement would release a row's lock, and a
    // row that says "locked" would outlive a crash. This one ends with our connection.
    Rows locked =
        session_.query(Sql("SELECT GET_LOCK(CONCAT('audiogen.migrate.', MD5(DATABASE())), 600)"));
    if (!locked.next() || locked.is_null(1) || locked.i64(1) != 1) {
      return Error{"another process has been migrating this database for ten minutes; try again"};
    }
    session_.execute(
        Sql("CREATE TABLE IF NOT EXISTS schema_migrations ("
            "version INT UNSIGNED NOT NULL PRIMARY KEY, statements_done INT UNSIGNED NOT NULL, "
            "in_doubt TINYINT UNSIGNED NOT NULL, applied_at DATETIME(6) NULL) ENGINE=InnoDB"));
    const int newest = known.empty() ? 0 : known.back().version;
    Rows rows = session_.query(Sql("SELECT MAX(version) FROM schema_migrations"));
    if (rows.next() && !rows.is_null(1) && rows.i64(1) > newest) {
      return Error{"the database's schema is version " + std::to_string(rows.i64(1)) +
                   ", newer than this program, which knows " + std::to_string(newest) +
                   "; use the newer program"};
    }
    std::vector<int> applied;
    for (const Migration& migration : known) {
      if (!progress(migration.version).complete) {
        apply(migration);
        applied.push_back(migration.version);
      }
    }
    return applied;
  }

 private:
  Progress progress(int version) {
    Rows rows = session_.query(Sql("SELECT statements_done, in_doubt, applied_at IS NOT NULL "
                                   "FROM schema_migrations WHERE version=")
                               << version);
    if (!rows.next()) {
      return {};
    }
    return {.done = rows.u64(1), .in_doubt = rows.u64(2) != 0, .complete = rows.u64(3) != 0};
  }

  void apply(const Migration& migration) {
    session_.execute(Sql("INSERT IGNORE INTO schema_migrations VALUES (")
                     << migration.version << ",0,0,NULL)");
    const Progress before = progress(migration.version);
    const std::vector<std::string> statements = split_statements(migration.sql);
    for (std::uint64_t i = before.done; i < statements.size(); ++i) {
      step(migration.version, statements[i], i, before.in_doubt && i == before.done);
    }
    session_.execute(Sql("UPDATE schema_migrations SET applied_at=UTC_TIMESTAMP(6) WHERE version=")
                     << migration.version);
  }

  // Runs statement `index`. What changes rows commits together with its record; DDL commits before
  // its record, so it is marked first.
  void step(int version, const std::string& statement, std::uint64_t index, bool in_doubt) {
    session_.execute(Sql("UPDATE schema_migrations SET in_doubt=1 WHERE version=") << version);
    try {
      session_.transact([&] {
        try {
          session_.execute(Sql::trusted(statement));
        } catch (const DbError& e) {
          if (!in_doubt ||
              std::find(kDoneAlready.begin(), kDoneAlready.end(), e.code()) == kDoneAlready.end()) {
            throw;
          }
        }
        in_doubt = true;  // For the next try of this transaction, if there is one.
        session_.execute(Sql("UPDATE schema_migrations SET in_doubt=0, statements_done=")
                         << index + 1 << " WHERE version=" << version);
      });
    } catch (const DbError& e) {
      if (e.fault() != DbFault::kUnavailable && e.fault() != DbFault::kUnknownOutcome) {
        // Refused, so not done: what is in its way was not put there by us.
        session_.execute(Sql("UPDATE schema_migrations SET in_doubt=0 WHERE version=") << version);
      }
      throw DbError(e.fault(),
                    e.code(),
                    "migration " + std::to_string(version) + " at \"" +
                        statement.substr(0, std::min<std::size_t>(statement.find('\n'), 60)) +
                        "\": " + e.what());
    }
  }

  Session session_;
};

}  // namespace

std::vector<std::string> split_statements(std::string_view file) {
  std::vector<std::string> out;
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t start = kNone;  // Of the statement, once it has begun.
  std::size_t at = 0;
  while (at <= file.size()) {
    if (at == file.size() || file[at] == ';') {
      if (start != kNone) {
        out.emplace_back(file.substr(start, at - start));
      }
      start = kNone;
      ++at;
    } else if (const std::size_t end = end_of_comment(file, at); end != at) {
      at = end;
    } else if (is_space(file[at])) {
      ++at;
    } else {
      start = std::min(start, at);
      at = is_quote(file[at]) ? end_of_quoted(file, at) : at + 1;
    }
  }
  return out;
}

std::span<const Migration> migrations() {
  static const std::array all = {Migration{1, migration_0001},
                                 Migration{2, migration_0002},
                                 Migration{3, migration_0003},
                                 Migration{4, migration_0004},
                                 Migration{5, migration_0005},
                                 Migration{6, migration_0006},
                                 Migration{7, migration_0007},
                                 Migration{8, migration_0008},
                                 Migration{9, migration_0009},
                                 Migration{10, migration_0010}};
  return all;
}

int newest_migration() {
  return migrations().back().version;
}

Result<std::vector<int>> migrate(const DatabaseUrl& url) {
  return migrate(url, migrations());
}

Result<std::vector<int>> migrate(const DatabaseUrl& url, std::span<const Migration> known) {
  try {
    return Migrator(url).run(known);
  } catch (const DbError& e) {
    return Error{std::string("the schema could not be migrated: ") + e.what()};
  }
}

Result<int> schema_version(const DatabaseUrl& url) {
  try {
    Session session(url);
    Rows rows = session.query(
        Sql("SELECT COALESCE(MAX(version), 0) FROM schema_migrations WHERE applied_at IS NOT "
            "NULL"));
    AG_CHECK(rows.next());
    return static_cast<int>(rows.i64(1));
  } catch (const DbError& e) {
    if (e.code() == kNoSuchTable) {
      return 0;
    }
    return Error{std::string("the schema's version could not be read: ") + e.what()};
  }
}

}  // namespace audiogen::store
