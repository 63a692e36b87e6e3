// The session of the console that asks for something, judged in the transaction that does it: one
// that its owner ends, or that is over, changes nothing meanwhile.
#pragma once

#include <optional>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/store/fault.h"
#include "common/store/session.h"

namespace audiogen::store {

struct AskingSession {
  Instant now;         // The database's clock.
  bool fresh = false;  // Its owner has just shown who he is (fresh_until()).
};

// Locks the row. Nullopt: it is over, ended, or not of `user`. Blocks; inside a transaction.
std::optional<AskingSession> lock_asking_session(Session& session, UserId user, SessionId asker);

// The same for what only a fresh one may: the database's time, else kNoSuchSession or kNotFresh.
Result<Instant, Fault> lock_fresh_session(Session& session, UserId user, SessionId asker);

}  // namespace audiogen::store
