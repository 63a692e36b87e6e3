// The database schema's versions: schema/NNNN_*.sql, compiled into the program, applied in order.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/config.h"
#include "common/base/result.h"

namespace audiogen::store {

struct Migration {
  int version = 0;  // 1, 2, 3 … without gaps
  std::string_view sql;
};

// The migrations compiled into this program.
std::span<const Migration> migrations();

// Version of the newest migration this program knows.
int newest_migration();

// How a statement gets a table that others use. Whoever comes to a table while DDL waits for it
// waits behind that, so it waits `each` time for whole seconds only, lets everybody by, and tries
// again: `tries` in all.
struct TablePatience {
  std::chrono::seconds each{2};
  std::chrono::milliseconds pause{5'000};
  int tries = 86;  // Ten minutes, and whatever the statement itself takes.
};

// Applies the migrations not yet applied, in order. The versions applied now; an error is one
// sentence for the operator.
//
// Safe to run from several processes at once: they take turns. Safe to run again after a crash
// anywhere: it goes on at the statement that was under way. Safe while the service runs: creations
// wait for it for about `patience.each`, and it waits for whoever keeps a table, with a line in the
// log for each try that says who may. A database newer than the program is refused. Needs the right
// to create, alter and rename tables and to create views, and PROCESS to say who; blocks until
// done.
Result<std::vector<int>> migrate(const DatabaseUrl& url);
Result<std::vector<int>> migrate(const DatabaseUrl& url,
                                 std::span<const Migration> known,
                                 const TablePatience& patience = {});

// Version of the database's schema: its newest migration that was applied completely. 0: none.
Result<int> schema_version(const DatabaseUrl& url);

// The statements of an SQL file, without the semicolons that end them and the comments before them.
// Knows quotes and comments.
std::vector<std::string> split_statements(std::string_view file);

}  // namespace audiogen::store
