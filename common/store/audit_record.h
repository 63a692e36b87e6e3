// What the last audit found, kept for whoever tells monitors: an audit is a command, and has ended
// when they ask.
#pragma once

#include <span>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/store/audit.h"
#include "common/store/fault.h"

namespace audiogen::store {

// Keeps what an audit that came to its end found, in place of what the one before did. Blocks.
// Faults: only those of the database.
Result<Done, Fault> keep_audit(const DatabaseUrl& url, std::span<const Check> checks);

}  // namespace audiogen::store
