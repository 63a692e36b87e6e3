// The door to the issuers that open an account, for its owner. What they open it by, and who is
// linked when, is WebSessions::open_by_identity().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/oidc.h"
#include "common/store/door.h"

namespace audiogen::store {

struct IssuerLink {
  IssuerLinkId id;
  // Nullopt, each of them: not since it is kept. The address besides: the issuer verified none.
  std::optional<std::string> issuer, email;
  Instant linked_at;
  std::optional<Instant> last_used_at;
};

// See Door for threads, blocking and failures.
class IssuerLinks : private Door {
 public:
  explicit IssuerLinks(Session& session) : Door(session) {}

  // Oldest first.
  Result<std::vector<IssuerLink>, Fault> list(UserId user);

  // From then on its word opens the account no more, until its owner links it again. Sessions that
  // are open stay. Faults: kNoSuchIssuer, also for another user's; kNoSuchSession and kNotFresh
  // of the session that asks; kLastWayIn where he has neither a password nor a passkey.
  Result<Done, Fault> remove(UserId user, SessionId asker, IssuerLinkId id);
};

}  // namespace audiogen::store
