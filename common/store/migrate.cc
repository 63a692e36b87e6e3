#include "common/store/migrate.h"

#include <algorithm>
#include <array>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
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
extern const std::string_view migration_0011;
extern const std::string_view migration_0012;
extern const std::string_view migration_0013;
extern const std::string_view migration_0014;
extern const std::string_view migration_0015;
extern const std::string_view migration_0016;
extern const std::string_view migration_0017;
extern const std::string_view migration_0018;
extern const std::string_view migration_0019;
extern const std::string_view migration_0020;
extern const std::string_view migration_0021;
extern const std::string_view migration_0022;
extern const std::string_view migration_0023;
extern const std::string_view migration_0024;
extern const std::string_view migration_0025;
extern const std::string_view migration_0026;
extern const std::string_view migration_0027;
extern const std::string_view migration_0028;
extern const std::string_view migration_0029;
extern const std::string_view migration_0030;
extern const std::string_view migration_0031;
extern const std::string_view migration_0032;

namespace {

// A large table may be altered for a long time, and between two statements there are pauses. What
// is locked in a transaction is free as soon as with anybody else.
constexpr SessionOptions kPatient{.read_timeout = std::chrono::hours(6),
                                  .statement_max = std::chrono::seconds(0),
                                  .lock_wait = std::chrono::seconds(1),
                                  .idle_max = std::chrono::seconds(60),
                                  .rests = true,
                                  .reconnects = false};
constexpr int kNoSuchTable = 1146, kNoSuchColumn = 1054;

// What the server answers to DDL that has been done already: table, column, key, constraint exists;
// table, key or column to drop, or table to rename, is gone.
constexpr std::array kDoneAlready = {1050, 1060, 1061, 1826, 3822, 1051, 1091, kNoSuchTable};

// Before a statement that moves rows.
constexpr std::string_view kRepeat = "REPEAT ";
// A piece that took longer is followed by a smaller one, one that took less by a larger one.
constexpr std::chrono::milliseconds kPieceLong{400}, kPieceShort{100};
constexpr std::chrono::seconds kPieceRest{1};  // Between two pieces, at most.
constexpr std::chrono::seconds kWordEvery{5};  // In the log.

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
  Migrator(const DatabaseUrl& url, const Patience& patience)
      : session_(url, kPatient), patience_(patience) {}

  Result<std::vector<int>> run(std::span<const Migration> known) {
    // A lock of the server, not a row: the first DDL statement would release a row's lock, and a
    // row that says "locked" would outlive a crash. This one ends with our connection.
    Rows locked = session_.query(Sql("SELECT GET_LOCK(").append(lock_name("migrate")) << ", 600)");
    if (!locked.next() || locked.is_null(1) || locked.i64(1) != 1) {
      return Error{"another process has been migrating this database for ten minutes; try again"};
    }
    // For metadata locks; without it the server waits for a day, and all others behind it.
    session_.execute(Sql("SET SESSION lock_wait_timeout=") << patience_.each.count());
    make_record();
    const int newest = known.empty() ? 0 : known.back().version;
    const SchemaLook schema = look_at_schema(session_);
    if (schema.begun > newest) {
      // On the way back from a newer program.
      if (newest > 0 && schema_fit(schema, newest) == SchemaFit::kFits) {
        return std::vector<int>();
      }
      return Error{"the database's schema is version " + std::to_string(schema.begun) +
                   ", newer than this program, which knows " + std::to_string(newest) +
                   "; use the newer program"};
    }
    std::vector<const Migration*> missing;
    for (const Migration& migration : known) {
      if (!progress(migration.version).complete) {
        missing.push_back(&migration);
      }
    }
    if (schema.complete > 0) {
      give_notice(schema.complete, missing);
    }
    std::vector<int> applied;
    for (const Migration* migration : missing) {
      apply(*migration);
      applied.push_back(migration->version);
    }
    return applied;
  }

 private:
  // The table of what was applied. Its rows say `serves_from` since programs may serve on a schema
  // that is newer than they are; before, each stood for programs that know it.
  void make_record() {
    session_.execute(
        Sql("CREATE TABLE IF NOT EXISTS schema_migrations ("
            "version INT UNSIGNED NOT NULL PRIMARY KEY, statements_done INT UNSIGNED NOT NULL, "
            "in_doubt TINYINT UNSIGNED NOT NULL, applied_at DATETIME(6) NULL, "
            "serves_from INT UNSIGNED NULL) ENGINE=InnoDB"));
    if (Rows rows = session_.query(Sql("SHOW COLUMNS FROM schema_migrations LIKE 'serves_from'"));
        !rows.next()) {
      session_.execute(
          Sql("ALTER TABLE schema_migrations ADD COLUMN serves_from INT UNSIGNED NULL"));
    }
  }

  static int serves_from(const Migration& migration) {
    return migration.older == Older::kServe ? migration.version - 1 : migration.version;
  }

  // Says in the database that a migration has begun. False: that is said already.
  bool begin(const Migration& migration) {
    return session_.execute(
               Sql("INSERT IGNORE INTO schema_migrations (version, statements_done, in_doubt, "
                   "applied_at, serves_from) VALUES (")
               << migration.version << ",0,0,NULL," << serves_from(migration) << ")") > 0;
  }

  // Programs that may not serve beside all that is missing stop before it comes.
  void give_notice(int program, const std::vector<const Migration*>& missing) {
    for (const Migration* migration : missing) {
      const SchemaLook then{
          .complete = program, .begun = migration->version, .serves_from = serves_from(*migration)};
      if (schema_fit(then, program) == SchemaFit::kFits) {
        continue;
      }
      if (begin(*migration)) {
        log::info("a migration tells older programs to stop",
                  {{"version", migration->version}, {"seconds", patience_.notice.count() / 1000}});
        std::this_thread::sleep_for(patience_.notice);
      }
      return;
    }
  }

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
    begin(migration);
    const Progress before = progress(migration.version);
    const std::vector<std::string> statements = split_statements(migration.sql);
    for (std::uint64_t i = before.done; i < statements.size(); ++i) {
      if (statements[i].starts_with(kRepeat)) {
        repeat(migration.version, statements[i].substr(kRepeat.size()), i);
      } else {
        step(migration.version, statements[i], i, before.in_doubt && i == before.done);
      }
    }
    session_.execute(Sql("UPDATE schema_migrations SET applied_at=UTC_TIMESTAMP(6) WHERE version=")
                     << migration.version);
  }

  // Runs statement `index`, as soon as nobody else has its table.
  void step(int version, const std::string& statement, std::uint64_t index, bool in_doubt) {
    for (int tries = 1;; ++tries) {
      try {
        try_step(version, statement, index, in_doubt);
        return;
      } catch (const DbError& e) {
        if (e.fault() != DbFault::kBusy || tries >= patience_.tries) {
          fail(version, statement, e);
        }
        log::warn("a migration waits for a table that others use",
                  {{"version", version},
                   {"statement", first_line(statement)},
                   {"try", tries},
                   {"of", patience_.tries},
                   {"kept_perhaps", holders()}});
      }
      std::this_thread::sleep_for(patience_.pause);
    }
  }

  // What changes rows commits together with its record; DDL commits before its record, so it is
  // marked first. With `in_doubt` it may have been done before; set when it may be from now on.
  void try_step(int version, const std::string& statement, std::uint64_t index, bool& in_doubt) {
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
        in_doubt = true;  // For the next try, if there is one.
        session_.execute(Sql("UPDATE schema_migrations SET in_doubt=0, statements_done=")
                         << index + 1 << " WHERE version=" << version);
      });
    } catch (const DbError& e) {
      // That it was refused now says nothing of what was in doubt before.
      const bool still = in_doubt;
      if (!still && e.fault() != DbFault::kUnavailable && e.fault() != DbFault::kUnknownOutcome) {
        // Refused, so not done: what is in its way was not put there by us.
        session_.execute(Sql("UPDATE schema_migrations SET in_doubt=0 WHERE version=") << version);
      }
      throw;
    }
  }

  // Runs statement `index` piece by piece, each in a transaction of its own, until one is not full:
  // so rows that programs go on writing do not keep it for ever. What is done no longer meets the
  // statement's condition, so whoever runs it again goes on with what is left; so the record needs
  // no transaction with the last piece, and no piece is locked while the server waits for us.
  void repeat(int version, const std::string& statement, std::uint64_t index) {
    using Clock = std::chrono::steady_clock;
    const auto give_up_after = patience_.tries * (patience_.each + patience_.pause);
    std::uint64_t rows = patience_.rows, moved = 0;
    auto last_moved = Clock::now(), last_word = last_moved;
    for (bool more = true; more;) {
      const auto began = Clock::now();
      try {
        const std::uint64_t changed =
            session_.execute(Sql::trusted(statement + "\nLIMIT " + std::to_string(rows)));
        if (changed < rows) {
          session_.execute(Sql("UPDATE schema_migrations SET statements_done=")
                           << index + 1 << " WHERE version=" << version);
        }
        more = changed >= rows;
        moved += changed;
        last_moved = Clock::now();
        rows = rows_of_next(rows, last_moved - began);
      } catch (const DbError& e) {
        const bool others = e.fault() == DbFault::kBusy || e.fault() == DbFault::kConflict;
        const auto waited =
            std::chrono::floor<std::chrono::milliseconds>(Clock::now() - last_moved);
        if (!others || waited > give_up_after) {
          fail(version, statement, e);
        }
        rows = std::max<std::uint64_t>(rows / 2, 1);  // Perhaps without the row that is kept.
      }
      const auto now = Clock::now();
      if (!more || now - last_word > kWordEvery) {
        last_word = now;
        log::info(more ? "a migration moves rows" : "a migration has moved rows",
                  {{"version", version},
                   {"statement", first_line(statement)},
                   {"rows", moved},
                   {"piece", rows}});
      }
      if (more) {
        // As long as it had the disk and the locks for itself, others have them now.
        std::this_thread::sleep_for(std::min<Clock::duration>(now - began, kPieceRest));
      }
    }
  }

  std::uint64_t rows_of_next(std::uint64_t rows, std::chrono::steady_clock::duration took) const {
    if (took > kPieceLong) {
      return std::max<std::uint64_t>(rows / 2, 1);
    }
    return took < kPieceShort ? std::min(rows * 2, patience_.rows) : rows;
  }

  [[noreturn]] void fail(int version, const std::string& statement, const DbError& e) {
    throw DbError(e.fault(),
                  e.code(),
                  "migration " + std::to_string(version) + " at \"" + first_line(statement) +
                      "\": " + e.what() + in_the_way(e));
  }

  static std::string first_line(const std::string& statement) {
    return statement.substr(0, std::min<std::size_t>(statement.find('\n'), 60));
  }

  // The end of the sentence about `e`.
  std::string in_the_way(const DbError& e) {
    return e.fault() == DbFault::kBusy
               ? "; its table was kept, perhaps " + holders() + "; try again"
               : std::string();
  }

  // The connections with the oldest transactions, in words: whose lock is waited for no server says
  // unasked, but who keeps a table for long is one of these.
  std::string holders() {
    try {
      Rows rows = session_.query(
          Sql("SELECT p.id, p.user, p.command, p.time FROM information_schema.innodb_trx t JOIN "
              "information_schema.processlist p ON p.id=t.trx_mysql_thread_id WHERE "
              "p.id<>CONNECTION_ID() AND p.db=DATABASE() ORDER BY t.trx_started LIMIT 5"));
      std::string out;
      while (rows.next()) {
        out += (out.empty() ? "" : ", ") + ("by connection " + rows.text(1)) + " of " +
               rows.text(2) + " (" + rows.text(3) + " for " + rows.text(4) + " s)";
      }
      return out.empty() ? "by a connection that has ended since" : out;
    } catch (const DbError& e) {
      if (e.fault() == DbFault::kUnavailable) {
        throw;
      }
      return "by somebody whom only a user with the right PROCESS sees";
    }
  }

  Session session_;
  const Patience patience_;
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
                                 Migration{10, migration_0010},
                                 Migration{11, migration_0011},
                                 Migration{12, migration_0012},
                                 Migration{13, migration_0013},
                                 Migration{14, migration_0014},
                                 Migration{15, migration_0015},
                                 Migration{16, migration_0016},
                                 Migration{17, migration_0017},
                                 Migration{18, migration_0018, Older::kServe},
                                 Migration{19, migration_0019, Older::kServe},
                                 Migration{20, migration_0020, Older::kServe},
                                 Migration{21, migration_0021, Older::kServe},
                                 Migration{22, migration_0022, Older::kServe},
                                 Migration{23, migration_0023, Older::kServe},
                                 Migration{24, migration_0024, Older::kServe},
                                 Migration{25, migration_0025, Older::kServe},
                                 Migration{26, migration_0026, Older::kServe},
                                 Migration{27, migration_0027, Older::kServe},
                                 Migration{28, migration_0028, Older::kServe},
                                 Migration{29, migration_0029, Older::kServe},
                                 Migration{30, migration_0030, Older::kServe},
                                 Migration{31, migration_0031, Older::kServe},
                                 Migration{32, migration_0032, Older::kServe}};
  return all;
}

int newest_migration() {
  return migrations().back().version;
}

Result<std::vector<int>> migrate(const DatabaseUrl& url) {
  return migrate(url, migrations());
}

Result<std::vector<int>> migrate(const DatabaseUrl& url,
                                 std::span<const Migration> known,
                                 const Patience& patience) {
  try {
    return Migrator(url, patience).run(known);
  } catch (const DbError& e) {
    return Error{std::string("the schema could not be migrated: ") + e.what()};
  }
}

SchemaLook look_at_schema(Session& session) {
  // Of a row that does not say it, or of all in a database that no program has migrated since rows
  // do, `serves_from` is its own version.
  const auto read = [&session](const char* newest) {
    Rows rows = session.query(
        Sql::trusted(std::string("SELECT COALESCE(MAX(CASE WHEN applied_at IS NOT NULL THEN "
                                 "version END), 0), COALESCE(MAX(version), 0), COALESCE(MAX(") +
                     newest + "), 0) FROM schema_migrations"));
    AG_CHECK(rows.next());
    return SchemaLook{.complete = static_cast<int>(rows.i64(1)),
                      .begun = static_cast<int>(rows.i64(2)),
                      .serves_from = static_cast<int>(rows.i64(3))};
  };
  try {
    return read("COALESCE(serves_from, version)");
  } catch (const DbError& e) {
    if (e.code() == kNoSuchTable) {
      return {};
    }
    if (e.code() != kNoSuchColumn) {
      throw;
    }
  }
  return read("version");
}

Result<SchemaLook> look_at_schema(const DatabaseUrl& url) {
  try {
    Session session(url);
    return look_at_schema(session);
  } catch (const DbError& e) {
    return Error{std::string("the schema's version could not be read: ") + e.what()};
  }
}

}  // namespace audiogen::store
