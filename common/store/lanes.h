// Releases parked tasks in a transaction that holds their users' balances.
#pragma once

#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/task.h"
#include "common/store/books.h"
#include "common/store/session.h"

namespace audiogen::store {

// Of these users' parked tasks, as many as may be released by what `books`, which has locked their
// balances, says; some of them when they are many. The hints to be sent once this is committed. A
// task whose row others hold stays where it is, and so do its user's after it: it is released by
// whoever comes next.
std::vector<Hint> release_next(Session& session,
                               Books& books,
                               std::span<const UserId> users,
                               Instant now);

}  // namespace audiogen::store
