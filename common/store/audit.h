// The books, the tasks and the queue checked against their rules: the one place where the
// invariants stand. `audio-api admin audit` runs it, and so do the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/store/fault.h"

namespace audiogen::store {

struct Check {
  enum class Kind : std::uint8_t {
    kInvariant,  // "I1" …: holds after every transaction, whatever crashed.
    kLiveness,   // "L1" …: holds while workers run; broken, something is stuck.
  };
  std::string name;  // Its number and a few words.
  Kind kind = Kind::kInvariant;
  std::uint64_t bad = 0;  // Users or rows that break it.
};

struct AuditOptions {
  // Not again what an earlier audit has found right and that cannot change any more: rows of days
  // before yesterday, up to the first one that was wrong or open. Else every row there is.
  bool recent = false;
  // Goes on where an audit of the same kind was interrupted less than an hour ago, counting what
  // that one had found, and leaves word for the next.
  bool resumes = false;
  // Tasks, or rows of the ledger, that one part reads.
  std::size_t part = 5'000;
};

// Counts what breaks each rule, in order. Reads in parts, each of so many rows, in a consistent
// snapshot of its own and far below a second; what needs the whole of a user's rows is added up
// over the parts (README.md, "An audit in parts"). Only what is open now is read in one part,
// however much it is: some 3 us a task. Waits for nobody's locks and holds none; blocks until all
// was read, about a minute for 10^6 tasks. Faults: only those of the database.
Result<std::vector<Check>, Fault> audit(const DatabaseUrl& url, const AuditOptions& options = {});

}  // namespace audiogen::store
