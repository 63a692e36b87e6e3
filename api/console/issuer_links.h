// The issuers whose word opens an account, for its owner. How somebody signs in by one: oidc.h.
#pragma once

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"

namespace audiogen::api {

class Mails;

class IssuerLinks {
 public:
  // Both are to live as long as this; without `mails` nobody is written to.
  IssuerLinks(DoorsPool& pool, Mails* mails) : pool_(pool), mails_(mails) {}

  Handling list(Call call);
  Handling remove(Call call);

 private:
  DoorsPool& pool_;
  Mails* const mails_;
};

}  // namespace audiogen::api
