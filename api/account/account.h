// What belongs to the owner of a key: the account, its keys, its ledger.
#pragma once

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/rate_limiter.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"

namespace audiogen::api {

class Mails;

class Account {
 public:
  // All are to live as long as this; without `mails` nobody is written to.
  Account(const Config& config, const RateLimiter& limiter, DoorsPool& pool, Mails* mails);

  Handling show(Call call);
  Handling list_keys(Call call);
  // This answer has the key's text.
  Handling create_key(Call call);
  Handling change_key(Call call);
  // The other answer that has a key's text.
  Handling rotate_key(Call call);
  Handling delete_key(Call call);
  // The key of the call itself.
  Handling delete_current_key(Call call);
  Handling list_ledger(Call call);

 private:
  // Writes to the account's owner that there is such a key, if it manages.
  void tell_of(const Call& call, Scopes scopes) const;

  const Config& config_;
  const RateLimiter& limiter_;
  DoorsPool& pool_;
  Mails* const mails_;
};

}  // namespace audiogen::api
