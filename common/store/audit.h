// The books, the tasks and the queue checked against their rules: the one place where the
// invariants stand. `audio-api admin audit` runs it, and so do the tests.
#pragma once

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

// Counts what breaks each rule, in order, all in one consistent snapshot on a connection of its
// own. Reads every row: minutes for many millions, and blocks that long; waits for nobody's locks
// and holds none. Faults: only those of the database.
Result<std::vector<Check>, Fault> audit(const DatabaseUrl& url);

}  // namespace audiogen::store
