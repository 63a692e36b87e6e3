#include "api/server/answers_of_store.h"

#include <string>

#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/domain/key_request.h"

namespace audiogen::api {

ApiError worded(const store::Fault& fault, const Call& call) {
  using Code = store::FaultCode;
  switch (fault.code) {
    case Code::kBadKeyExpiry:
      return invalid_parameter("expires_at",
                               "expires_at must be in the future and at most ten years ahead.");
    case Code::kTooManyKeys:
      return limit_reached("An account has at most " + std::to_string(kKeysMax) +
                           " API keys; delete one first.");
    case Code::kAskerIsGone:
      return call.key().session ? not_signed_in() : invalid_api_key();
    case Code::kNotFresh:
      return step_up_required();
    case Code::kScopeNotOwn:
      return scope_not_own(fault.about);
    case Code::kExpiryNotOwn:
      return expiry_not_own(fault.about);
    case Code::kSpendingNotOwn:
      return spending_not_own();
    case Code::kLimitNotOwn:
      return limit_not_own(fault.about);
    case Code::kNoSuchKey:
      return key_not_found();
    case Code::kBadLogin:
      return invalid_login();
    case Code::kNoSuchSession:
      return session_not_found();
    default:
      break;
  }
  static Occasionally line;
  if (line.due()) {
    log::warn("account requests unavailable",
              {{"request_id", call.request_id()}, {"reason", fault.detail}});
  }
  return service_unavailable();
}

}  // namespace audiogen::api
