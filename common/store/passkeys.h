// The door to passkeys: the public keys by which somebody signs in to the console, and which of
// their answers were taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/crypto.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/domain/webauthn.h"
#include "common/store/door.h"
#include "common/store/web_sessions.h"

namespace audiogen::store {

struct Passkey {
  PasskeyId id;
  std::string name;
  bool synced = false;
  Instant created_at;
  std::optional<Instant> last_used_at;
};

// A challenge that was answered, and until when it could be.
struct AnsweredChallenge {
  Sha256 hash{};
  Instant expires_at;
};

// One that is to be added. The name is one of is_key_name().
struct NewPasskey {
  PasskeyId id{};
  std::string name{};
  std::string credential_id{};  // Bytes, as the public key.
  std::string public_key{};
  std::uint32_t counter = 0;
  bool synced = false;
};

// What an answer is checked by.
struct StoredPasskey {
  PasskeyId id;
  UserId user;
  std::string public_key;
  bool synced = false;
};

// See Door for threads, blocking and failures.
class Passkeys : private Door {
 public:
  explicit Passkeys(Session& session) : Door(session) {}

  // What challenges are sealed by: the same for all processes and for good, made by the first call.
  Result<Sha256, Fault> challenge_key();

  // Oldest first, as the next.
  Result<std::vector<Passkey>, Fault> list(UserId user);
  // What a new one must not be.
  Result<std::vector<std::string>, Fault> credential_ids(UserId user);

  // The session that asks must be fresh: of this, and of remove(), the faults kNoSuchSession and
  // kNotFresh. Besides: kTooManyPasskeys, kPasskeyTaken, kChallengeUsed.
  Result<Passkey, Fault> add(UserId user,
                             SessionId asker,
                             const NewPasskey& made,
                             const AnsweredChallenge& answered);
  // Faults: kNoSuchPasskey, also for another user's.
  Result<Passkey, Fault> rename(UserId user, PasskeyId id, std::string_view name);
  // Faults besides: kNoSuchPasskey; kLastWayIn where he has no other and no password.
  Result<Done, Fault> remove(UserId user, SessionId asker, PasskeyId id);

  // The passkey that its authenticator calls so, if there is one.
  Result<std::optional<StoredPasskey>, Fault> find(std::string_view credential_id);
  // Opens a session for somebody whose answer was right. Faults: kBadLogin, when the passkey was
  // removed meanwhile; kChallengeUsed; kCounterBack.
  Result<OpenedWebSession, Fault> open_session(PasskeyId id,
                                               std::uint32_t counter,
                                               const AnsweredChallenge& answered,
                                               const NewWebSession& made);

 private:
  std::optional<Passkey> load(UserId user, PasskeyId id);
  std::size_t lock_all(UserId user);
  std::optional<Fault> beyond(UserId user, SessionId asker);
  bool take(const AnsweredChallenge& answered);
};

}  // namespace audiogen::store
