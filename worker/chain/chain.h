// The ordered chain of providers: who can serve a request, who is trusted at the moment, and what
// to do after a fault (README.md, "After a fault").
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/domain/lifecycle.h"
#include "common/domain/operator_action.h"
#include "common/domain/route.h"
#include "common/domain/worker_status.h"
#include "worker/chain/breaker.h"
#include "worker/chain/bulkhead.h"
#include "worker/chain/provider.h"

namespace audiogen::worker {

// A provider's position in the chain, and several of them as bits: the last bit is that of all from
// the 64th on.
using Position = std::size_t;
using Positions = std::uint64_t;
constexpr Positions bit_of(Position position) {
  return Positions{1} << std::min<Position>(position, 63);
}

// What happens to a task after a provider's fault.
enum class NextStep {
  kSameProvider,  // Once more, after `wait`.
  kNextProvider,
  // The claim ends, by `trouble`, which means:
  kRetryLater,  // Back to the queue; ends as the failure code when attempts are used up.
  kFail,        // Now, with the failure code.
  kGiveBack,    // Back to the queue: no attempt is used up.
};
struct Decision {
  NextStep step = NextStep::kFail;
  FailureCode failure = FailureCode::kInternalError;
  std::chrono::milliseconds wait{0};
  Trouble trouble = Trouble::kNobodyNow;
};

// Why nobody is named for a task, and for how long that stays so at least.
struct Nobody {
  Trouble trouble = Trouble::kLeftAlone;  // kNobodyCan, kOutOfTime, kLeftAlone or kNotTaken
  std::chrono::milliseconds wait{0};
  // The same by what they have said alone: another worker's breakers may let it through.
  std::chrono::milliseconds said{0};

  // Is there somebody who would have it in its time?
  bool passes() const { return trouble == Trouble::kLeftAlone || trouble == Trouble::kNotTaken; }
};

// The provider at `position` was asked for a task, and is not to be asked again before `until`.
// Nullopt: it has not said when, so not before the first of those who have.
struct SaidLater {
  std::size_t position = 0;
  std::optional<std::chrono::steady_clock::time_point> until;
};

// Where a task stands when a provider has failed it.
struct Standing {
  int tries = 1;         // Calls to this provider in this claim, the failed one included.
  bool called = true;    // Somebody was called in this claim, and took it.
  bool another = false;  // A further provider could serve it.
  // Why nobody serves it in this claim, unless there is another: kNobodyCan when all have said that
  // they cannot.
  Trouble nobody = Trouble::kLeftAlone;
  std::chrono::milliseconds time_left{0};       // Until the task's deadline.
  std::chrono::milliseconds call_time{10'000};  // Must remain for a call to this provider.
  std::chrono::milliseconds closed{0};          // Its breaker lets nobody through before.
  double jitter = 0;                            // In [-1, 1].
};

// Pure. Content that was refused is not shopped around; an unknown outcome is not repeated at the
// same provider; what was never called uses up nothing.
Decision after_fault(const ProviderFault& fault, const Standing& standing);
// Whether it asks the same provider again, after so many calls to it in this claim, as long as
// there is time. Pure.
bool comes_again(const ProviderFault& fault, int tries);

// What has failed: a text that fails everywhere is no provider's fault.
struct Failing {
  std::optional<std::uint64_t> what{};  // As a number; nullopt: something like nothing else.
  bool elsewhere = false;               // Another provider has just failed it in the same way.
  bool comes_again = false;             // At the same provider, a moment later.
};

// As long as it lives, and is not given back, a slot of a provider, of those that are free, is for
// a task that will ask it in a moment: else ever more tasks would be claimed for the one.
// Thread-safe.
class KeptSlot {
 public:
  explicit KeptSlot(std::shared_ptr<std::atomic<std::size_t>> of) : of_(std::move(of)) { ++*of_; }
  ~KeptSlot() { give_back(); }
  KeptSlot(const KeptSlot&) = delete;
  KeptSlot& operator=(const KeptSlot&) = delete;

  void give_back() { *of_ -= given_back_.exchange(true) ? 0U : 1U; }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> of_;
  std::atomic<bool> given_back_{false};
};

// One configuration's providers. Thread-safe.
class Chain {
 public:
  // `accounts` keeps the places of accounts that providers name, and outlives it; null: none are
  // kept.
  explicit Chain(std::vector<std::unique_ptr<AudioProvider>> providers,
                 Accounts* accounts = nullptr);

  // The first provider at or after `from` that can serve `request`, whose usual call, in its turn,
  // fits into the task's time, and whose breaker lets calls through; nullopt: none now.
  std::optional<std::size_t> choose(const GenerationRequest& request,
                                    std::size_t from,
                                    TaskTime time) const;
  // The same of a task before which others wait that are not here: `others(position)` of each.
  // Where it would be too late behind all of them, as if they were not, for they may leave: then it
  // stays with the one at `stays`, where it waits already, as long as that one could have it.
  using Others = std::function<std::size_t(std::size_t position)>;
  std::optional<std::size_t> choose_in_line(const GenerationRequest& request,
                                            std::size_t from,
                                            TaskTime time,
                                            const Others& others,
                                            std::optional<std::size_t> stays = {}) const;
  // The first such provider after the one at `slow` that is of its tier: to be asked as well. Where
  // that one gives tickets, one that gives none: of two the second would be lost with its worker.
  std::optional<std::size_t> choose_beside(const GenerationRequest& request,
                                           std::size_t slow,
                                           TaskTime time) const;
  // The first such provider at or after `from` that has a free slot.
  std::optional<std::size_t> choose_free(const GenerationRequest& request,
                                         std::size_t from,
                                         TaskTime time) const;
  // Could the one at `position` serve `request` in this time, were it trusted, and nobody before
  // it?
  bool could_have(std::size_t position, const GenerationRequest& request, TaskTime time) const;
  // Could any provider before `position` serve `request`, were it trusted and in time?
  bool is_fallback(const GenerationRequest& request, std::size_t position) const;
  // Why choose() names none, or none of those that were not asked. Those at the positions `except`
  // are known to be unable; `later`: what others have said.
  Nobody nobody(const GenerationRequest& request,
                TaskTime time,
                std::span<const std::size_t> except = {},
                std::span<const SaidLater> later = {}) const;
  // For how many more tasks the provider at `position` could be called now, or soon: as room(), of
  // this one alone. To one with a queue_wait come those whom others have a free slot for: what
  // waits there too long they get. 0 while it is left alone.
  std::size_t openings(std::size_t position) const;
  // The same of all entries of an account together, trusted or not.
  std::size_t openings(const Account& account) const;
  // Does nobody wait for a slot at the provider at `position`, nor come in a moment?
  bool is_lone(std::size_t position) const;
  // Is the next call to it a probe, which tells whether it works again?
  bool is_on_trial(std::size_t position) const;
  // For a task that waits a moment to ask the provider at `position` again, or for its references.
  // One that says "later" would else fill the worker with tasks whose turn never comes.
  std::shared_ptr<KeptSlot> keep_slot(std::size_t position) const;
  // How many more tasks can be called for now, or soon: free slots of the providers that are
  // trusted, and a few that may wait, so that no slot idles while the next task is claimed. A
  // provider counts if it serves what none before it does: the others only get what those have
  // failed, or, where one has a queue_wait, what waits for it too long.
  std::size_t room() const;
  // How many tasks can be called for at once while all providers are trusted, counted as for
  // room(). 0 while all of them are left alone.
  std::size_t capacity() const;
  // The same as if no other worker had places of the providers' accounts.
  std::size_t capacity_alone() const;
  // What a call for `request` may need, with all that follows it, whoever of those is asked that
  // may have it.
  std::chrono::milliseconds needed_for(const GenerationRequest& request) const;
  // What those who are asked first need for a call, with all that follows it: the most of those
  // that are trusted, 0 where none is known. A provider counts if it serves what none before it
  // does, as for room(). Somebody may need less.
  std::chrono::milliseconds needed_most() const;
  // How fast the provider at `position` goes, with `slots` at the most, and what its calls take and
  // want; with those to whom what waits there is passed on, but for `have_lines`: those have others
  // waiting for each of their places. `part`: of the places of its account, those that are for what
  // waits there. Nothing is said of what waits. The pace of one that has not shown it is not known.
  RouteLine pace_of(std::size_t position,
                    std::size_t slots,
                    Positions have_lines,
                    double part) const;
  // To whom all that waits at the one at `position` is passed on, as bits: none where it has no
  // queue_wait. Those who can do less get some of it.
  Positions relievers(std::size_t position) const;
  // May the one at `position` serve any request of this route?
  bool may_serve(std::size_t position, Route route) const;
  // The longest timeout of a call that is paid again when it is cut off: neither free nor to be
  // gone on with by a ticket.
  std::chrono::milliseconds longest_unresumed() const;
  // Does any provider send the files that requests refer to, not their addresses?
  bool sends_reference_bytes() const;
  // Does any provider give tickets?
  bool gives_tickets() const;
  std::optional<std::size_t> find(const std::string& name) const;
  std::size_t size() const { return links_.size(); }
  Bulkhead& at(std::size_t position) const { return links_[position]->provider; }

  // For how long the breaker of the provider at `position` lets no call through.
  std::chrono::milliseconds closed_to_calls(std::size_t position) const;

  // Asks for leave to call: is there time for it, and does the breaker let it through? Every call
  // that got leave is followed by failed(), or by answered() and, when its audio could be delivered
  // or not, proved().
  bool admit(std::size_t position, TaskTime time) const;
  // A call goes on that somebody else was given leave for.
  void resume(std::size_t position) const;
  void failed(std::size_t position, Fault fault, const Failing& of = {}) const;
  // What is held against the provider at `position`, which has failed `what` so, whoever had it in
  // whichever claim. It is remembered; what others were held to have failed in the same way is
  // taken back.
  Failing failing(std::uint64_t what, std::size_t position, Fault fault) const;
  void answered(std::size_t position) const;
  // nullopt: good audio.
  void proved(std::size_t position, std::optional<Fault> fault, const Failing& of = {}) const;

  // Whose breakers operators hold, and until when; those that are not named are their own again.
  struct Override {
    std::string provider;
    Breaker::Override said;
  };
  void set_overrides(std::span<const Override> overrides) const;

  // For operators, in their order.
  std::vector<ProviderStatus> status() const;

 private:
  void said_nothing(std::size_t position) const;
  // To whom what waits at the one at `position` is passed on: their slots, and those of them that
  // are free. None where it has no queue_wait.
  struct Relief {
    std::size_t slots = 0, idle = 0;
  };
  Relief relief_of(std::size_t position) const;
  template <class Relieves>
  Positions relievers_that(std::size_t position, const Relieves& relieves) const;

  struct Link {
    Link(std::unique_ptr<AudioProvider> of, std::shared_ptr<Account> account)
        : provider(std::move(of), std::move(account)) {}
    std::chrono::milliseconds closed_to_calls();
    bool probes();  // Is the next call a probe, if there may be one?
    Bulkhead provider;
    // Slots that are kept, were there as many.
    const std::shared_ptr<std::atomic<std::size_t>> coming =
        std::make_shared<std::atomic<std::size_t>>(0);
    Mutex mutex;
    Breaker breaker GUARDED_BY(mutex);
  };
  template <class Count>
  std::size_t slots(Count count) const;
  // Is it one of those that may have `request`? The one place where that is decided: a scene is
  // never read aloud by one that only narrates if another can make it, trusted at the moment or
  // not; one of sounds by their names alone, whoever knows those.
  bool serves(std::size_t position, const GenerationRequest& request) const;
  std::vector<std::unique_ptr<Link>> links_;
  struct Failed {
    std::uint64_t what;
    std::size_t position;
    Fault fault;
  };
  mutable Mutex mutex_;
  mutable std::deque<Failed> failed_ GUARDED_BY(mutex_);  // The newest last.
};

// Who has openings left for what is claimed together. Entries of one account share them.
class Openings {
 public:
  explicit Openings(const Chain& chain) : chain_(chain) {}
  // One more task for the provider at `position`, which choose() named, beside those that are kept
  // for others. False: it has no opening.
  bool take(std::size_t position, std::size_t kept = 0);

 private:
  const Chain& chain_;
  struct Some {
    std::size_t open = 0, taken = 0;
  };
  std::map<std::size_t, Some> entries_;
  std::map<const Account*, Some> accounts_;
};

// The chain in force. A new one takes its place without disturbing tasks that still use the old
// one.
class CurrentChain {
 public:
  explicit CurrentChain(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}

  std::shared_ptr<const Chain> get() const;
  // What operators say of breakers, `now`: to all chains, and to those that come.
  void obey(const std::vector<BreakerOrder>& orders, Breaker::Time now);
  void replace(std::shared_ptr<const Chain> chain);
  // Destroys replaced chains that nobody uses any more. Blocks while their providers close: never
  // call it on a provider's thread.
  void collect();

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Chain> chain_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const Chain>> replaced_ GUARDED_BY(mutex_);
  std::vector<Chain::Override> overrides_ GUARDED_BY(mutex_);
};

}  // namespace audiogen::worker
