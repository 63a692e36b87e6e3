#include "api/admin/faults.h"

#include "common/domain/api_key.h"
#include "common/domain/ledger.h"
#include "common/domain/pricing.h"

namespace audiogen::api {
namespace {

// What the database said goes behind our own words.
std::string with_detail(std::string words, const store::Fault& fault) {
  return fault.detail.empty() ? words : words + ": " + fault.detail;
}

}  // namespace

std::string worded(const store::Fault& fault) {
  using Code = store::FaultCode;
  switch (fault.code) {
    case Code::kBadEmail:
      return "--email must be an address like ann@example.com, of at most 254 visible ASCII "
             "characters";
    case Code::kBadUserName:
      return "--user must be an email address or a user id (usr_...)";
    case Code::kBadAmount:
      return "--credits must not be 0, and at most " + format_credits(kBalanceMax);
    case Code::kNotAnAdjustment:
      return "--credits must be more than 0; only --kind adjustment may take credits back";
    case Code::kBadReference:
      return "--reference must be 1 to 128 visible ASCII characters without spaces";
    case Code::kBadKeyName:
      return "--name must be 1 to 100 characters of UTF-8, none of them a control character, "
             "invisible or changing the direction of text, and no white space at either end";
    case Code::kBadSpendLimit:
      return "--spend-limit must be a whole number of credits from " +
             std::to_string(kSpendLimitMin) + " to " + std::to_string(kSpendLimitMax);
    case Code::kBadKeyExpiry:
      return "--expires must be in the future and at most ten years ahead";
    case Code::kTooManyKeys:
      return "the user has " + std::to_string(kKeysMax) + " keys, and may have no more";
    case Code::kAskerIsGone:
    case Code::kScopeNotOwn:
    case Code::kExpiryNotOwn:
    case Code::kSpendingNotOwn:
    case Code::kLimitNotOwn:
    case Code::kNotFresh:
    case Code::kBadLogin:
    case Code::kNoSuchSession:
    case Code::kNoSuchPasskey:
    case Code::kNoSuchIssuer:
    case Code::kTooManyPasskeys:
    case Code::kPasskeyTaken:
    case Code::kChallengeUsed:
    case Code::kCounterBack:
    case Code::kLastWayIn:
    case Code::kOtherAddress:
    case Code::kCreditsLeft:
      return "a key cannot give what it lacks";  // Nobody asks by a key or a session here.
    case Code::kNoSuchUser:
      return "--user: there is no user " + fault.about;
    case Code::kAccountEnded:
      return "--user: the owner of " + fault.about +
             " has ended the account: it gets no plan and no credits, and only --kind adjustment "
             "may take some back";
    case Code::kEmailTaken:
      return "--email: " + fault.about + " has an account already" +
             (fault.user ? " (" + fault.user->text() + ")" : "");
    case Code::kReferenceReused:
      return "--reference " + fault.about + " was booked already with another user, kind or amount";
    case Code::kWouldOverdraw:
      return "--credits takes more than the " + format_credits(fault.available) +
             " credits that are available";
    case Code::kBalanceTooLarge:
      return "--credits would give the user more than " + format_credits(kBalanceMax) + " credits";
    case Code::kNoSuchKey:
      return "--key: there is no key " + fault.about;
    case Code::kAmbiguousKey:
      return "--key: several keys have the prefix " + fault.about + "; name one by its id";
    case Code::kNoSuchWorker:
      return "there is no worker " + fault.about;
    case Code::kWorkerGone:
      return "worker " + fault.about + " has ended already";
    case Code::kNoSuchProvider:
      return "no worker has a provider " + fault.about;
    case Code::kNoOverride:
      return "nobody holds the breaker of " + fault.about;
    case Code::kIntakePaused:
      return "the intake is paused already";
    case Code::kIntakeOpen:
      return "the intake is not paused";
    case Code::kNoSuchTask:
      return "there is no task " + fault.about;
    case Code::kAlreadyFinal:
      return fault.about + " has ended already, and a final task stays as it is";
    case Code::kLocked:
      return with_detail(
          "another session of the database holds the rows, nothing was done, try again", fault);
    case Code::kBusy:
      return with_detail("the database was too busy, nothing was done, try again", fault);
    case Code::kUnavailable:
      return with_detail("the database is away, nothing was done", fault);
    case Code::kUnknownOutcome:
      return with_detail(
          "the database went away and it may have been done or not; look before you try again",
          fault);
    case Code::kAccessDenied:
      return "the database refused the user or the password of DATABASE_URL";
    case Code::kNoTables:
      return "the database has no tables yet, or old ones; run audio-api migrate";
    case Code::kUnexpected:
      break;
  }
  return with_detail("the database failed, nothing was done", fault);
}

}  // namespace audiogen::api
