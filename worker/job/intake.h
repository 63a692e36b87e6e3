// Where tasks come in: hints wait here until there is a place, then their tasks are claimed, as
// many together as have come.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/lifecycle.h"
#include "common/domain/route.h"
#include "common/domain/waiting.h"
#include "common/queue/consumer.h"
#include "common/store/group_commit.h"
#include "worker/job/provider_queues.h"
#include "worker/job/roster.h"
#include "worker/job/scheduler.h"
#include "worker/job/suspects.h"
#include "worker/job/workers_told.h"

namespace audiogen::worker {

// May somebody have left a call for it that goes on, and that can be asked for?
bool may_have_ticket(const store::Claim& claim, const Chain& chain);

class Intake {
 public:
  using Ack = std::function<void(const queue::Delivery&)>;
  using Begin = std::function<void(const JobPtr&)>;
  using MayClaim = std::function<bool()>;

  // `may_claim`: false while nothing can be done with a further task. Nobody tells when that
  // changes, so it is asked again and again. `ack` tells the broker that a hint is done: its task
  // is claimed, so that the lease guards it from here on, or there is nothing to do. `begin` gets
  // each job, entered in `roster`, on the claims' thread. Both must be thread-safe and must not
  // block.
  Intake(const DatabaseUrl& database,
         WorkerId worker,
         const CurrentChain& chains,
         Roster& roster,
         Suspects& suspects,
         Scheduler& scheduler,
         MayClaim may_claim,
         Ack ack,
         Begin begin);
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Takes hints; what there is no place for, or nobody to call for, waits here, its message
  // unacknowledged. Thread-safe, never blocks.
  void deliver(std::vector<queue::Delivery> deliveries);

  // Takes those of the hints for which there are places, without a message of the broker, and
  // returns the others. Thread-safe, never blocks.
  std::vector<Hint> take(std::span<const Hint> hints);
  // What is ready and would be taken in vain: it waits here for its provider. Thread-safe, never
  // blocks.
  std::vector<TaskId> waiting_for_providers() const;
  // Is this hint one of those, and to be claimed here?
  bool has_hint(const Hint& hint) const;

  // Takes hints of tasks that were tried before and are due again: two of three places that are
  // free from now on are theirs. As many as may wait here; returns the others. Thread-safe, never
  // blocks.
  std::vector<Hint> take_tried(std::span<const Hint> hints);

  // How many take() would take. Thread-safe, never blocks.
  Room room() const;
  // The same of the bulk lane, as others are told who say what can be done in time: none, once as
  // many wait here for their provider as there are places. Some cannot be done then, though others
  // could. Thread-safe, never blocks.
  std::size_t room_told() const;

  // How many workers are not asked to drain: what waits for a provider each of them has after a
  // while, and they go on with it together (WorkersTold). Thread-safe, never blocks.
  void set_workers(std::uint64_t count);

  // What waits here for providers, and how fast that goes, by route. Nothing until any of it was
  // looked at by the chain in force. Thread-safe, never blocks.
  RouteLines lines() const;

  // How far the broker has come with its queues, by what waits here. Thread-safe, never blocks.
  QueuesSeen queues_seen() const;

  // Claims what waits, as far as there are places and somebody to call: what would wait here for a
  // provider had better wait in the database, where others can have it. Thread-safe, never blocks.
  void go_on();

  // Claims nothing more: what is not acknowledged the broker gives to another worker.
  void close();
  // And waits for what was asked for.
  void stop();

 private:
  using Clock = Job::Clock;
  // The queue of a provider, and of which chain, counted.
  struct Behind {
    Position provider = 0;
    std::uint64_t chain = 0;
    Positions sooner = 0;               // See ProviderQueues::Seen.
    ProviderQueues::Arrival arrival{};  // The same.
    bool tried = false;                 // The same, of what was taken.
  };
  // What came of a hint; nothing where there is nothing to do.
  struct Answer {
    std::optional<Claimed> claimed{};
    std::optional<Behind> behind{};  // Left, because this provider has no opening.
    // Of one that is left.
    std::uint32_t epoch = 0;
    bool tried = false;
    std::chrono::milliseconds time_left{0};
  };
  using Outcome = Result<Answer, store::StoreFault>;
  // A hint that has got a place.
  struct Turn {
    queue::Delivery delivery;
    std::optional<Behind> from{};  // It was taken from there.
    bool look = false;             // It waits there, and is looked at anew.
  };

  void look_again() LOCKS_REQUIRED(mutex_);
  bool is_in_queues(const std::shared_ptr<const Chain>& chain) const LOCKS_REQUIRED(mutex_);
  bool may_be_ours(const Hint& hint) const;
  void note_heard(std::span<const Hint> hints,
                  const store::Batch<store::ClaimOutcome>& outcomes,
                  const std::vector<Instant>& until);
  std::size_t callable() const LOCKS_REQUIRED(mutex_);
  void look_who_serves(const std::shared_ptr<const Chain>& chain) LOCKS_REQUIRED(mutex_);
  void claim(const Turn& turn, int tries);
  void claim_later(const Turn& turn, int tries);
  void answered(const Turn& turn, int tries, Clock::time_point asked_at, Outcome outcome);
  // What `claims_` runs.
  store::Batch<Answer> claim_batch(store::TaskStore& store, std::span<const Hint> hints);
  void wait_for_provider(const Turn& turn, const Answer& answer);
  void not_claimed(const queue::Delivery& delivery);
  void not_free(const queue::Delivery& delivery);
  bool gave_up(const queue::Delivery& delivery);
  void give_back_turn(const queue::Delivery& delivery);
  void claimed(const queue::Delivery& delivery, Claimed claimed, Clock::time_point asked_at);

  const WorkerId worker_;
  const CurrentChain& chains_;
  Roster& roster_;
  Suspects& suspects_;
  Scheduler& scheduler_;
  const MayClaim may_claim_;
  const Ack ack_;
  const Begin begin_;

  std::atomic<bool> closed_{false};
  mutable Mutex mutex_;
  Waiting<queue::Delivery> waiting_ GUARDED_BY(mutex_);  // Not asked for yet.
  std::uint64_t connection_ GUARDED_BY(mutex_) = 0;      // The newest by which a hint came.
  ProviderQueues queues_ GUARDED_BY(mutex_);             // Of this chain, the so-many-th:
  std::weak_ptr<const Chain> queues_of_ GUARDED_BY(mutex_);
  std::uint64_t chains_seen_ GUARDED_BY(mutex_) = 0;
  Positions left_alone_ GUARDED_BY(mutex_) = 0;  // Of its providers, when they were seen last.
  bool from_queues_ GUARDED_BY(mutex_) = false;  // The last place went to one of those there.
  std::size_t looks_ GUARDED_BY(mutex_) = 0;     // Turns of those that are looked at anew.
  bool looks_again_ GUARDED_BY(mutex_) = false;
  // Claims that may have been carried out without our hearing of it, until we hear of them: the
  // epoch of their hint, and until when the task may be ours.
  struct Unheard {
    std::uint32_t epoch = 0;
    std::vector<Instant> until;
  };
  std::unordered_map<TaskId, Unheard> unheard_ GUARDED_BY(mutex_);
  // Asked for beyond what there is room for: for none of the last ones that came anybody could be
  // called.
  std::atomic<std::size_t> beyond_room_{0};
  WorkersTold workers_ GUARDED_BY(mutex_);
  store::GroupCommit<Hint, Answer> claims_;
};

}  // namespace audiogen::worker
