// Signing in to the console and out again, the sessions of a user, his password.
//
// Who can fill it, and what the others feel:
//  - Hashing a password takes 19 MiB and 26 ms of a core, so it has threads of its own, two of
//  them:
//    no I/O thread and none of the pool for accounts waits for it, and however many try at once,
//    no more memory is taken. Addresses take turns there; what waits too long gets a 503.
//  - An address may try 20 times a minute, but guess at one account eight times and then once a
//    minute; from all addresses together five guesses a minute are made at it. So nobody keeps its
//    owner from signing in by his password but from five addresses at once, and not by a link.
//  - An account that is not there costs as much as one that is, and is answered alike.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/rate_limiter.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"
#include "common/domain/sign_in.h"
#include "common/domain/sign_in_request.h"

namespace audiogen::api {

class Mails;

// A session that is to be opened for whoever makes this call; it ends the one of his cookie.
store::NewWebSession new_session(const Call& call, const Sha256& token, bool secure);

class SignIns {
 public:
  // All are to live as long as this; without `mails` nobody is written to.
  SignIns(const Config& config, RateLimiter& limiter, DoorsPool& pool, Mails* mails);

  // By a link, which may make the account (SIGNUP), or a password. The cookie's session, if there
  // is one, ends: an id never outlives a sign-in.
  Handling open(Call call);
  Handling list(Call call);
  Handling current(Call call);
  Handling close_current(Call call);
  Handling close(Call call);
  Handling set_password(Call call);

  // For whatever else signs somebody in: the session that is to be opened with `token`, and the
  // answer to who is signed in by it, or why not. `how` is for the log.
  store::NewWebSession new_session(const Call& call, const NewToken& token) const;
  void answer_opened(const Call& call,
                     const Result<store::OpenedWebSession, ApiError>& opened,
                     const NewToken& token,
                     const char* how) const;

  // Finishes the hashes that are under way.
  void stop() { hashers_.stop(); }

 private:
  struct Hasher {};  // api/console/argon2.h keeps nothing from one call to the next.

  Handling open_by_link(Call call, Sha256 link);
  Handling open_by_password(Call call, PasswordSignIn shown);
  std::optional<ApiError> refusal(const Call& call,
                                  const PasswordChange& change,
                                  const store::WebSessionState& state) const;

  const bool secure_;  // The cookie's.
  // As stored of an account without a password or of none, which nobody knows.
  const std::string nobodys_;
  RateLimiter& limiter_;
  DoorsPool& pool_;
  StorePool<Hasher> hashers_;
  Mails* const mails_;
  const bool signs_up_;  // A link may make an account.
};

}  // namespace audiogen::api
