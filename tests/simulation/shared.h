// What all parts of one simulation have in common: time, chance, what goes wrong, and who watches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/judge.h"
#include "tests/simulation/timeline.h"

namespace audiogen::simulation {

// A deliberate break, to see that the judge notices.
enum class Mutant : std::uint8_t {
  kNone,
  kNoEpochAtSettle,   // A settlement looks at the state alone.
  kSettleTwice,       // What is final is settled again.
  kNoEpochAtClaim,    // A claim looks at nothing but whether the task is open.
  kClaimEarly,        // Neither a claim nor a pull looks at when the task is due.
  kNoEpochAtReap,     // Putting a task back leaves its epoch.
  kNoWakeAtRetry,     // Putting a task back forgets when to look at it.
  kNoWakeAtClaim,     // So does a claim.
  kTrustJumpedClock,  // Leases and deadlines are judged right after the clock was set.
  kNoPullBack,        // What a clock has put into the future stays there.
  kPullFromCreation,  // What is brought back twice has lost its time by the second.
  kPulledStaysAhead,  // So has what still seems to be of the future then.
  kSweepByOldClock,   // Rows are judged by when they were looked at, whatever happened since.
  kPullBackOnce,      // What others hold then, and what a lost COMMIT leaves unknown, stays there.
  kPullBackByOldClock,  // What is brought back is by the clock of the look, whenever that was.
  kMarksStay,           // So do the marks of the sweepers.
  kNoSelfStop,          // A worker works on after its own lease.
  kLeaseFromAnswer,     // A worker counts its lease from the answer, not from the question.
  kCallOnThaw,          // A worker makes a call without a look at its own lease.
  kNoLocks,             // Transactions do not keep each other from rows.
  kBlindRepeat,      // After a lost COMMIT a transaction runs again as though for the first time.
  kLostIsNothing,    // A lost COMMIT is taken for one that was not carried out.
  kClaimsUnlimited,  // No number of claims ends a task.
  kCancelKeepsCredits,    // A cancellation charges the whole hold.
  kChargeWhole,           // So does a success.
  kNoReturn,              // The end of a task leaves its hold.
  kReleaseNobodyAtEnd,    // The end of a task releases nobody.
  kNoLookAfterCrowds,     // Nobody releases what that leaves.
  kHintBeforeCommit,      // What that releases is hinted before anybody knows whether it was.
  kReleaseAll,            // Whoever releases does not look at the window,
  kParkNobody,            // nor does whoever creates.
  kNoPlanLimit,           // What a user's plan allows is forgotten.
  kReleaseNewest,         // The newest parked task is released first.
  kReleasePastHeld,       // One whose row others hold is passed over.
  kParkedIsClaimed,       // Parked tasks are hinted and claimed like all others.
  kCancelKeepsPlace,      // A cancellation leaves the count of a user's open tasks,
  kParkedEndsAsReleased,  // or any end takes from that of the released.
  kLostNotCounted,        // A lost lease is not counted.
  kLostAlwaysCounted,     // It is, where nobody could renew it.
  kSuspectsTogether,      // Suspects are worked on like all others.
  kSuspectBeginsAtOnce,   // One does not wait until the worker has nothing else.
  kOthersBesideSuspect,   // The worker goes on taking tasks meanwhile.
  kBulkFirst,             // The express lane has what places the bulk lane leaves.
  kSmallAreRefused,       // Who has little under way is refused for what crowds want.
  kTrustQueue,            // A hint is taken to wait in the broker though nothing comes from there.
  kLastMutant = kTrustQueue,
};
std::string_view mutant_name(Mutant mutant);

// What a seed makes of the world. Each kind of trouble is in about a third of them, so that some
// seeds have much of one and none of the others.
struct Plan {
  std::size_t apis = 1, workers = 1, users = 1, tasks = 1;
  std::size_t places = 1;             // Of a worker.
  std::size_t sweep_limit = 200;      // Rows of a look: small, so that a look does not see all.
  std::vector<std::size_t> bursts{};  // So many tasks at once, of one user each.
  std::vector<std::uint32_t> released_max{};  // By the plan of each user; 0: no limit.
  bool calm = false;                          // Nothing goes wrong.
  bool pull = true;
  bool start_named = true;  // Claims name the provider that is called first.
  Duration deadline{};      // Of every task.
  Duration heals{};         // From here on nothing goes wrong any more.
  double credits_for = 1;   // Of the tasks that come.

  // Probabilities, each time.
  double commit_lost = 0, row_slow = 0;
  double hint_lost = 0, hint_twice = 0, hint_late = 0, hint_refused = 0;
  double provider_fails = 0, provider_slow = 0, cancels = 0, uncalled = 0;
  double deadly = 0;  // Of tasks: each ends the worker that has anybody called for it.

  // Mean time from one to the next; zero: never.
  Duration worker_dies{}, worker_freezes{}, worker_stops{}, api_dies{}, api_freezes{};
  Duration database_away{}, broker_away{}, broker_purged{}, clock_set{}, row_held{};
};
Plan plan_for(Random& random);
std::string describe(const Plan& plan);

// What happened, for people. Says nothing unless it is on.
class Log {
 public:
  bool on = false;
  void line(Duration at, const std::string& who, const std::string& what);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Shared {
  Shared(std::uint64_t seed, Mutant broken, bool log_on)
      : random(seed), plan(plan_for(random)), mutant(broken), judge(timeline), seed_(seed) {
    log.on = log_on;
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  Timeline timeline;
  Random random;
  const Plan plan;
  const Mutant mutant;
  Log log;
  Judge judge;
  bool healed = false;

  bool is(Mutant of) const { return mutant == of; }
  // Chances of trouble end when everything heals.
  bool strikes(double probability) { return !healed && random.chance(probability); }
  // Does this task end whoever has anybody called for it?
  bool is_deadly(TaskId task) const;
  // One way over the network.
  Duration way() { return random.between(Duration(100), Duration(3000)); }
  // `what` is made only when somebody reads it.
  template <class What>
  void note(const std::string& who, const What& what) {
    if (log.on) {
      log.line(timeline.now(), who, what());
    }
  }

 private:
  const std::uint64_t seed_;
};

// The number of a task, which tells in a log which is which.
std::size_t number_of(TaskId task);
std::string short_name(TaskId task);

}  // namespace audiogen::simulation
