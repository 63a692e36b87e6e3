// The database schema's versions: schema/NNNN_*.sql, compiled into the program, applied in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/domain/schema_range.h"

namespace audiogen::store {

class Session;

// What a migration means for programs of the step before, which do not know it.
enum class Older {
  kStop,   // They must not serve once it has begun.
  kServe,  // They serve while it is applied, and after it: it takes away nothing that they need.
};

struct Migration {
  int version = 0;  // 1, 2, 3 … without gaps
  // A statement that begins with REPEAT moves rows: README.md, "Rows move in pieces".
  std::string_view sql;
  Older older = Older::kStop;
};

// The migrations compiled into this program.
std::span<const Migration> migrations();

// Version of the newest migration this program knows.
int newest_migration();

// How a migration goes about among programs that are at work.
struct Patience {
  // Whoever comes to a table while DDL waits for it waits behind that, so it waits `each` time for
  // whole seconds only, lets everybody by, and tries again: `tries` in all.
  std::chrono::seconds each{2};
  std::chrono::milliseconds pause{5'000};
  int tries = 86;  // Ten minutes, and whatever the statement itself takes.
  // Between the word that older programs must stop and the first statement that they could meet:
  // they hear of it within two seconds, and workers give back what they have within ten.
  std::chrono::milliseconds notice{15'000};
  // The most rows that one piece of a REPEAT changes.
  std::uint64_t rows = 1'000;
};

// Applies the migrations not yet applied, in order. The versions applied now; an error is one
// sentence for the operator.
//
// Safe to run from several processes at once: they take turns. Safe to run again after a crash
// anywhere: it goes on at the statement that was under way. Safe while the service runs: creations
// wait for it for about `patience.each`, and it waits for whoever keeps a table, with a line in the
// log for each try that says who may. Before the first statement of a migration that older programs
// cannot bear it tells them and waits for `patience.notice`. On a database newer than the program
// there is nothing to do where the program may serve on it; any other is refused. Needs the right
// to create, alter and rename tables and to create views, and PROCESS to say who; blocks until
// done.
Result<std::vector<int>> migrate(const DatabaseUrl& url);
Result<std::vector<int>> migrate(const DatabaseUrl& url,
                                 std::span<const Migration> known,
                                 const Patience& patience = {});

// What the database says of its schema; zeros before the first migration. Any user of the programs
// may ask. The second one throws DbError.
Result<SchemaLook> look_at_schema(const DatabaseUrl& url);
SchemaLook look_at_schema(Session& session);

// The statements of an SQL file, without the semicolons that end them and the comments before them.
// Knows quotes and comments.
std::vector<std::string> split_statements(std::string_view file);

}  // namespace audiogen::store
