// What the store counts for /metrics, the same for both programs. Nothing that has not been
// committed counts; what was committed without an answer, and so was not seen to be, may be
// missing: the truth is in the tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/metrics.h"
#include "common/domain/ledger.h"
#include "common/domain/task.h"
#include "common/store/session.h"

namespace audiogen::store::meters {

// Makes all that are known by name, so that each is told from the start, and its first change is
// seen. Once, at the start of a program.
void begin();

// Statements and connections that failed.
prometheus::Counter& errors(DbFault fault);

enum class Retry : std::uint8_t {
  kConflict,   // A transaction, after a deadlock.
  kStale,      // A statement, on a new connection, when the one before had died while it was idle.
  kUndecided,  // A transaction whose COMMIT was not answered: to find out what became of it.
  kUnread,     // A settlement of tasks one of which was not as its claim had left it, or was held.
  kEnded,      // A transaction of whose statements the server ended one, as it was told to.
};
prometheus::Counter& retries(Retry retry);

// `use` is one of few words.
metrics::Histogram& transactions(std::string_view use);

// Of group commits, each observed once for all that go together.
metrics::Histogram& commit_sizes(std::string_view use);
metrics::Histogram& commit_waits(std::string_view use);

// Of tasks that end.
prometheus::Counter& finished(TaskState state, std::optional<FailureCode> code);
prometheus::Counter& audio_seconds();

// Notes what an entry of the ledger moves.
void count_credits(Session& session, const Entry& entry);

}  // namespace audiogen::store::meters
