// The door to links that are mailed: to sign in, to make an account, to show that a new address is
// read. Of each only the SHA-256 is stored. What opens a session by one is WebSessions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/crypto.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/store/door.h"

namespace audiogen::store {

enum class MailedLink : std::uint8_t {
  kNone,    // Nobody is there who may have one, or he has enough that still work.
  kSignIn,  // To an account that is there.
  kSignUp,  // To make one.
};

struct MailChange {
  std::string before, after;
};

// Addresses are in lower case, as accounts have them. See Door for threads, blocking and failures.
class MailLinks : private Door {
 public:
  explicit MailLinks(Session& session, const ActionNote* note = nullptr) : Door(session, note) {}

  // A link for whoever reads mail to `email`: to sign in where that address has an account, else to
  // make one where `sign_up` lets it. At most kMailedLinksMax unused ones of an address work at a
  // time.
  Result<MailedLink, Fault> add(std::string_view email, const Sha256& token_hash, SignUp sign_up);

  // A link that makes an account for `email`, of an operator; when its time is over. Faults:
  // kBadEmail, kEmailTaken.
  Result<Instant, Fault> invite(std::string_view email, const Sha256& token_hash);

  // Notes that `user` wants `email` as his address, in place of what he wanted before. Whether
  // somebody has it is told to nobody before he reads its mail. Faults: kNoSuchSession, kNotFresh.
  Result<Done, Fault> ask_change(UserId user,
                                 SessionId asker,
                                 std::string_view email,
                                 const Sha256& token_hash);

  // Gives `user` the address that the link was mailed to. Links that sign in by the one he had work
  // no more. Faults: kBadLogin, also when somebody else has the address now.
  Result<MailChange, Fault> confirm_change(UserId user, const Sha256& token_hash);
};

// Inside a transaction, before the user's links are locked: whoever confirms a change of address
// has done so by then, or fails.
void lock_mail_change(Session& session, UserId user);
// The change that was asked for, if one was, is not confirmed any more.
void end_mail_change(Session& session, UserId user);

}  // namespace audiogen::store
