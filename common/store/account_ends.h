// The door to the end of an account: what ends at once, and what is wiped after it, piece by piece,
// however much there is. What the account has moved stays on the books, and so does what it had
// left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/store/door.h"
#include "common/store/history.h"
#include "common/store/task_store.h"

namespace audiogen::store {

// What one step looks at or changes, at most.
inline constexpr std::uint64_t kWipeRows = 200;  // Of the ledger: some 100 tasks.
// A step waits while the files of so many tasks deleted of late, of all users together, are still
// there: an account with very many keeps nobody's deletion from its minute.
inline constexpr std::uint64_t kWipeBacklog = 1'000;

enum class Wiping : std::uint8_t {
  kMore,   // There is more to do at once.
  kLater,  // Something is in the way, or may still come: again in a moment.
  kDone,   // Nothing is left of it, nor a note.
};

// The address in place of the one that a user had: nobody has it, and no mail reaches it (RFC 2606
// section 2).
std::string address_of_deleted(UserId user);

// See Door for threads, blocking and failures.
class AccountEnds : private Door {
 public:
  explicit AccountEnds(Session& session) : Door(session) {}

  // Ends the account of `user`, whose session `asker` must be fresh: keys, sessions, links and the
  // password are gone, and the address is free. `email`: the account's, so that nobody ends one
  // by mistake. `forfeits`: he knows that what is left of his credits is lost. Everything at once
  // or nothing. Faults: kNoSuchSession, kNotFresh, kOtherAddress, kCreditsLeft.
  Result<Done, Fault> end(UserId user, SessionId asker, std::string_view email, bool forfeits);

  // Ended accounts of which something is still to be wiped.
  Result<std::vector<UserId>, Fault> open();

  // Cancels the open tasks of an ended account among the next 2,000 entries of his ledger before
  // `to`, from its end where that is 0, by `tasks`, a store of this thread's. True: there may be
  // more, and `to` is where the next step begins. After `stop` none is begun.
  Result<bool, Fault> cancel_tasks(TaskStore& tasks,
                                   UserId user,
                                   std::uint64_t& to,
                                   const std::stop_token& stop = {});

  // Wipes the next tasks of an ended account, as History::erase() does; at the end what else its
  // owner wrote, and what came while it was ending. What another session holds is left for the next
  // step, which begins with it. Any number of processes may do it at once; done again it does no
  // harm.
  Result<Wiping, Fault> wipe(UserId user);

 private:
  void end_ways_in(UserId user);
  bool wipe_rest(UserId user);
};

}  // namespace audiogen::store
