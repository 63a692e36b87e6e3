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

// Holds that are looked at beyond those that are wanted, where the transaction is to be short: the
// tasks of some have ended since.
inline constexpr std::uint32_t kEndedSeen = 16;

struct Released {
  std::vector<Hint> hints;      // To be sent once this is committed.
  std::vector<UserId> further;  // Of these more could be: so many of their oldest tasks have ended.
  std::vector<UserId> left;     // Not looked at: the others' tasks are enough for one transaction.
};

// Of these users' parked tasks, as many as may be released by what `books`, which has locked their
// balances, says; some of them when they are many. A task whose row others hold stays where it is,
// and so do its user's after it: it is released by whoever comes next.
Released release_next(Session& session,
                      Books& books,
                      std::span<const UserId> users,
                      Instant now,
                      std::uint32_t beyond = kEndedSeen);

}  // namespace audiogen::store
