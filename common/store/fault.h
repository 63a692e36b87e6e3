// Why a door of the store did not do what it was asked: a code and the data that belongs to it.
// Whoever speaks to people words it; nothing here knows how they named what they asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/domain/pricing.h"
#include "common/store/commands.h"
#include "common/store/session.h"

namespace audiogen::store {

enum class FaultCode : std::uint8_t {
  // A rule about the values alone.
  kBadEmail,         // Not like an address, or above 254 bytes. `about`: what was given.
  kBadUserName,      // Neither an address nor a user's id. `about`: what was given.
  kBadAmount,        // 0, or more than kBalanceMax to either side.
  kNotAnAdjustment,  // Only adjustments take credits back.
  kBadReference,     // Not 1-128 visible ASCII characters.
  kBadKeyName,       // Not one of is_key_name().
  kBadSpendLimit,    // Not one of is_spend_limit().
  // A rule about the values and what is there.
  kNoSuchUser,       // `about`: what was given.
  kAccountEnded,     // Its owner has ended it. `about`: its id.
  kEmailTaken,       // `about`: the address; `user`: whose it is.
  kReferenceReused,  // Booked with another user, kind or amount. `about`: the reference.
  kWouldOverdraw,    // `available`: what there is to take.
  kBalanceTooLarge,  // More than kBalanceMax would be available.
  kNoSuchKey,        // `about`: its id.
  kBadKeyExpiry,     // Not one of is_key_expiry().
  kTooManyKeys,      // The user has kKeysMax.
  kAskerIsGone,      // The key or session that asks was deleted, or has ended.
  kScopeNotOwn,      // It lacks a scope that it would give. `about`: its name.
  kExpiryNotOwn,     // It ends before the key that it would make last. `about`: when it ends.
  kSpendingNotOwn,   // It has a spend limit, and would let another key spend.
  kLimitNotOwn,      // It would raise its own spend limit. `about`: that.
  kNotFresh,         // The session that asks began too long ago for it.
  kOtherAddress,     // The account has another mail address than the one given.
  kCreditsLeft,      // `available`: what would be lost.
  kBadLogin,         // No such link, or it is used or too old; or a password that is no longer it.
  kNoSuchSession,    // It is not there, or has ended, or is another user's.
  kNoSuchTask,       // `about`: its id.
  kAlreadyFinal,     // `about`: the task's id.
  kNoSuchPasskey,    // It is not there, or is another user's.
  kNoSuchIssuer,     // The same of a link to one.
  kTooManyPasskeys,  // The user has kPasskeysMax.
  kPasskeyTaken,     // The credential is registered already, with whomever.
  kChallengeUsed,    // What answers it was taken before.
  kCounterBack,      // The authenticator has counted its signatures backwards.
  kLastWayIn,        // Without it nobody could sign in to the account.
  kNoSuchWorker,     // `about`: its id.
  kWorkerGone,       // It has ended; `about`: its id.
  kNoSuchProvider,   // No worker has one of this name. `about`: the name.
  kNoOverride,       // Nobody holds its breaker. `about`: the provider's name.
  kIntakePaused,     // It is paused already.
  kIntakeOpen,       // It is not paused.
  kAmbiguousKey,     // Several keys have this prefix. `about`: that.
  // The database was in the way. `detail`: its own words, where there are any.
  kLocked,          // Another session holds the rows; nothing was done, worth trying again.
  kBusy,            // A deadlock, or a statement that took too long; as kLocked.
  kUnavailable,     // It is away; nothing was done.
  kUnknownOutcome,  // It went away during COMMIT: it may have been done.
  kAccessDenied,    // It refused the user or the password.
  kNoTables,        // It has no tables, or those of an older version.
  kUnexpected,      // Anything else; nothing was done.
};

struct Fault {
  FaultCode code;
  std::string about = {};
  std::optional<UserId> user = std::nullopt;
  Units available = {};
  std::string detail = {};  // For operators and logs, never for clients.
};

// Whether a rule said no: nothing was done, and the same again would be refused again. Otherwise
// the database was in the way.
bool is_refusal(FaultCode code);

Fault to_fault(const DbError& error);
Fault to_fault(StoreFault fault);

}  // namespace audiogen::store
