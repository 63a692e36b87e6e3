// The end of an account, at its owner's wish: at once for whoever would use it, and piece by piece
// for what it has made (api/console/account_eraser.h).
#pragma once

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"

namespace audiogen::api {

class Mails;

class AccountEnd {
 public:
  // All are to live as long as this; without `mails` nobody is written to.
  AccountEnd(const Config& config, DoorsPool& pool, Mails* mails);

  Handling end(Call call);

 private:
  const bool secure_;  // The cookie's.
  DoorsPool& pool_;
  Mails* const mails_;
};

}  // namespace audiogen::api
