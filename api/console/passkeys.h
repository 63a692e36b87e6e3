// Signing in to the console with a passkey (Web Authentication Level 2), and a user's passkeys.
//
// Who can fill it, and what the others feel: a challenge is sealed, not kept, so asking for one
// costs no row and no wait; it counts as an attempt to sign in, 20 a minute of an address, as does
// answering it. A passkey that is not there costs a look-up and a signature to check, as one that
// is, and is answered alike. A user has ten.
#pragma once

#include <optional>
#include <string>

#include "api/console/sign_ins.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"
#include "common/base/mutex.h"
#include "common/domain/webauthn.h"

namespace audiogen::api {

class Mails;

class Passkeys {
 public:
  // All are to live as long as this; without `mails` nobody is written to.
  Passkeys(RelyingParty party, const SignIns& sign_ins, DoorsPool& pool, Mails* mails);

  // What a browser needs to ask for a signature, and the session that this opens.
  Handling challenge(Call call);
  Handling open_session(Call call);

  // What it needs to make one, and the passkey that it has made.
  Handling invite(Call call);
  Handling add(Call call);
  Handling list(Call call);
  Handling rename(Call call);
  Handling remove(Call call);

 private:
  std::optional<Sha256> remembered_key() const;
  // Asks the store unless it is remembered.
  Result<Sha256, store::Fault> key(StoreDoors& doors);

  const RelyingParty party_;
  const SignIns& sign_ins_;
  DoorsPool& pool_;
  Mails* const mails_;
  mutable Mutex mutex_;
  std::optional<Sha256> key_ GUARDED_BY(mutex_);  // It never changes.
};

}  // namespace audiogen::api
