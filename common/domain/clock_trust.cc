#include "common/domain/clock_trust.h"

#include <algorithm>

namespace audiogen {
namespace {

using std::chrono::microseconds;

microseconds between(ClockLook::Steady from, ClockLook::Steady to) {
  return std::chrono::floor<microseconds>(to - from);
}

// What of `moved` is not explained by anything from `least` to `most`.
microseconds beyond(microseconds moved, microseconds least, microseconds most) {
  return moved > most ? moved - most : moved < least ? moved - least : microseconds(0);
}

bool above(microseconds step, microseconds limit) {
  return step > limit || step < -limit;
}

}  // namespace

microseconds step_of_database(const ClockLook& from, const ClockLook& to) {
  return beyond(to.database - from.database,
                between(from.answered, to.asked),
                between(from.asked, to.answered));
}

microseconds step_of_local(const ClockLook& from, const ClockLook& to) {
  return to.local - from.local - between(from.asked, to.asked);
}

microseconds ahead_of_local(const ClockLook& look) {
  return beyond(look.database - look.local, microseconds(0), between(look.asked, look.answered));
}

std::optional<microseconds> ClockWatch::look(const ClockLook& now) {
  const bool away = last_ && now.answered - last_->answered > kLeaseRenew;
  missed_ = !last_ || away;
  microseconds step = last_ ? step_of_database(*last_, now) : microseconds(0);
  // Of a clock that is wrong, and was not seen for long, nobody can tell where it was a moment ago:
  // it may have been set back, and forward again over leases that were made meanwhile. But whoever
  // is always late, because the database is slow, judges in the end.
  const bool waited = until_ && now.answered < *until_ + kLease;
  const bool unseen = !last_ || (away && !waited && !above(step, kClockStep));
  if (unseen) {
    step = ahead_of_local(now);
  }
  last_ = now;
  const bool jumped = above(step, kClockStep);
  if (jumped && (step > microseconds(0) || unseen)) {
    until_ = now.answered + kLease;
  }
  if (away) {
    // From when leases are judged again.
    away_until_ = std::max(now.answered, until_.value_or(now.answered)) + kLease;
  }
  return jumped ? std::optional(step) : std::nullopt;
}

Instant ClockWatch::judged_by(const ClockLook& look) {
  return look.database - between(look.asked, look.answered);
}

DeletionTrust::Verdict DeletionTrust::look(const ClockLook& now) {
  if (last_ && (above(step_of_database(*last_, now), kClockAgreement) ||
                above(step_of_local(*last_, now), kClockAgreement))) {
    jumped_at_ = now.answered;
  }
  last_ = now;
  if (above(ahead_of_local(now), kClockAgreement)) {
    return Verdict::kDisagree;
  }
  return jumped_at_ && now.asked - *jumped_at_ < kClockProof ? Verdict::kJumped : Verdict::kTrusted;
}

}  // namespace audiogen
