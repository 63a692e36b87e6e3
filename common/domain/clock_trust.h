// What may be decided by a clock that somebody may have set wrong, or right (README.md, "Clocks
// that jump"). Everything is timed by the database's clock; how it goes beside a steady clock,
// which nobody sets, tells that it was set.
#pragma once

#include <chrono>
#include <optional>

#include "common/base/time.h"
#include "common/domain/lifecycle.h"

namespace audiogen {

// One look at all clocks.
struct ClockLook {
  using Steady = std::chrono::steady_clock::time_point;

  Instant database;  // Read at some time between `asked` and `answered`.
  Steady asked, answered;
  Instant local;  // This machine's wall clock at `asked`.
};

// How far the database's clock went, between two looks, beside the steady one: above zero forward,
// below zero back; zero when the time that the looks took explains it.
std::chrono::microseconds step_of_database(const ClockLook& from, const ClockLook& to);
// The same of this machine's wall clock.
std::chrono::microseconds step_of_local(const ClockLook& from, const ClockLook& to);
// How far the database's clock is ahead of this machine's.
std::chrono::microseconds ahead_of_local(const ClockLook& look);

// A smaller step between two looks changes nothing: clocks are kept right in small steps.
inline constexpr std::chrono::seconds kClockStep{2};
// By one forward a lease is over as much sooner, and its worker, which looks at it once a second,
// knows nothing of that.
static_assert(kLeaseSelfStop + std::chrono::seconds(1) + kClockStep < kLease,
              "what nobody sees must not take a task from a worker that believes to have it");

// For whoever judges leases and deadlines: tells when the clock is set, and when not to judge.
class ClockWatch {
 public:
  // How far the clock was set since the look before (nullopt: it was not); at the first look, and
  // at one so late that it may have been set and set again, how far it is ahead of this machine's,
  // which is all there is to compare it with.
  std::optional<std::chrono::microseconds> look(const ClockLook& now);

  // After a step forward every lease seems to have run out and every deadline to have passed. For
  // the length of a lease by the steady clock nothing is concluded from that: whoever is alive has
  // renewed by then.
  bool may_judge(ClockLook::Steady now) const { return !until_ || now >= *until_; }

  // By what time leases and deadlines are to be judged that `look` seems to show to be over. Its
  // length explains a step of as much, which nobody would see.
  static Instant judged_by(const ClockLook& look);

  // Was the newest look the first, or so late that the clock may have been set, and set back, since
  // the one before? Then what was written meanwhile may lie in the future, whatever it told.
  bool missed() const { return missed_; }

  // Was the database away from here, and so probably from all, for so long that leases were lost
  // with every worker alive? Said for the length of a lease: by then all of these were found.
  bool was_away(ClockLook::Steady now) const { return away_until_ && now < *away_until_; }

 private:
  std::optional<ClockLook> last_;
  bool missed_ = true;
  std::optional<ClockLook::Steady> until_;       // The end of the grace.
  std::optional<ClockLook::Steady> away_until_;  // The end of what was_away() says.
};

// What is deleted for good is days old, so a minute makes no difference, and no clock that is kept
// at all is off by more.
inline constexpr std::chrono::minutes kClockAgreement{1};
// After a jump of either clock nothing is deleted for so long: time for somebody to notice.
inline constexpr std::chrono::hours kClockProof{24};

// For whoever deletes what is old.
class DeletionTrust {
 public:
  enum class Verdict {
    kTrusted,
    kDisagree,  // The database's clock and this machine's differ by more than kClockAgreement.
    kJumped,    // One of them was set by more than that, less than kClockProof ago.
  };
  // The first look only says where the clocks are.
  Verdict look(const ClockLook& now);

 private:
  std::optional<ClockLook> last_;
  std::optional<ClockLook::Steady> jumped_at_;
};

// The most, in time, that one run deletes of what has piled up, oldest first: should all of the
// above be deceived, a day is lost and not everything.
inline constexpr std::chrono::hours kDeletedARun{24};

}  // namespace audiogen
