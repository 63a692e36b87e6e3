// Signing in by an issuer of OpenID Connect: there and back again. There where OIDC_ISSUER is set.
//
// Who can fill it, and what the others feel: nobody waits for the issuer but whoever signs in by
// it; calls are made by a client with a thread of its own, kCallsMax at a time, and one that takes
// too long is given up. Attempts count with the other attempts to sign in, 20 a minute from an
// address: their beginning, which only a page of ours makes, and a return with the cookie of one,
// which goes along with nothing that another site's page embeds. So that uses up nobody's.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/rate_limiter.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/oidc.h"
#include "common/http/client.h"

namespace audiogen::api {

class Mails;

class Oidc {
 public:
  // With config.oidc. All are to live as long as this; without `mails` nobody is written to.
  Oidc(const Config& config, RateLimiter& limiter, DoorsPool& pool, Mails* mails);

  // Tells our page where to send the browser.
  Handling begin(Call call);
  // It is back: signed in, or not and told so by the page. By a redirect in any case.
  Handling finish(Call call);

 private:
  using Clock = std::chrono::steady_clock;
  using Answer = Result<http::ClientResponse, http::ClientError>;
  class Fetching;
  struct Known {
    OidcIssuer issuer;
    Clock::time_point until;
  };

  std::optional<OidcIssuer> known();
  // What a call for the issuer's description came to.
  std::optional<OidcIssuer> learn(const Answer& answer);
  // The request that makes of a code the word of who came.
  http::ClientRequest redeem(const OidcIssuer& issuer,
                             const OidcAttempt& attempt,
                             const std::string& code) const;
  // The log of a session that was opened so, and its owner of an account linked by it.
  void tell_of(const Call& call,
               const store::OpenedWebSession& opened,
               const Sha256& identity) const;
  void refuse(const Call& call, const std::string& why) const;
  void go(const Call& call, const std::string& to, const std::string& headers) const;

  const bool secure_;  // The cookies'.
  const OidcClient self_;
  const SignUp sign_up_;
  RateLimiter& limiter_;
  DoorsPool& pool_;
  Mails* const mails_;
  Mutex mutex_;
  std::optional<Known> known_ GUARDED_BY(mutex_);
  http::Client client_;
};

}  // namespace audiogen::api
