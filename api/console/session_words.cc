#include "api/console/session_words.h"

#include "common/domain/pricing.h"

namespace audiogen::api {

ApiError session_worded(const store::Fault& fault, const Call& call) {
  using Code = store::FaultCode;
  switch (fault.code) {
    case Code::kNoSuchSession:
      return not_signed_in();  // The one that asks: it was ended a moment ago.
    case Code::kBadLogin:
      return invalid_parameter("token",
                               "The link was used, is too old or not yours, or somebody has its "
                               "address by now.");
    case Code::kOtherAddress:
      return invalid_parameter("email", "email must be the mail address of this account.");
    case Code::kCreditsLeft:
      return invalid_parameter("forfeit_credits",
                               format_credits(fault.available) +
                                   " credits are left, and nobody can use them afterwards: say "
                                   "forfeit_credits, or use them first.");
    default:
      return worded(fault, call);
  }
}

}  // namespace audiogen::api
