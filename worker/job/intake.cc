#include "worker/job/intake.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

// Nobody tells when a breaker lets calls through again, or the blob store works.
constexpr std::chrono::milliseconds kLookAgainAfter{250};

// Here, so that they are told from the start.
metrics::Histogram& waits =
    metrics::histogram("task_wait_seconds",
                       "From a task's creation to its first claim, by the database's clock",
                       {},
                       {.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900});

}  // namespace

bool may_have_ticket(const store::Claim& claim, const Chain& chain) {
  return claim.calls > 0 && chain.gives_tickets();
}

Intake::Intake(const DatabaseUrl& database,
               WorkerId worker,
               const CurrentChain& chains,
               Roster& roster,
               Suspects& suspects,
               Scheduler& scheduler,
               MayClaim may_claim,
               Ack ack,
               Begin begin)
    : worker_(worker),
      chains_(chains),
      roster_(roster),
      suspects_(suspects),
      scheduler_(scheduler),
      may_claim_(std::move(may_claim)),
      ack_(std::move(ack)),
      begin_(std::move(begin)),
      claims_(database,
              {.use = "claim",
               .threads = 1,
               .batch_max = kBatchMax,
               .capacity = kWaitingMax,
               .spacing = kSpacing,
               .wait_held_max = std::chrono::milliseconds(500)},
              [this](store::TaskStore& store, std::span<const Hint> hints) {
                return claim_batch(store, hints);
              }) {}

void Intake::deliver(std::vector<queue::Delivery> deliveries) {
  {
    const MutexLock lock(mutex_);
    for (queue::Delivery& delivery : deliveries) {
      waiting_.add(std::move(delivery));
    }
  }
  go_on();
}

std::vector<Hint> Intake::take(std::span<const Hint> hints) {
  std::vector<Hint> taken, left;
  {
    const MutexLock lock(mutex_);
    const std::size_t most = callable();
    const Room ours = waiting_.spoken_for(roster_.room(most));
    for (const Hint& hint : hints) {
      const bool takes = !closed_.load() && roster_.reserve(hint.lane, most, ours.of(hint.lane));
      (takes ? taken : left).push_back(hint);
    }
  }
  for (const Hint& hint : taken) {
    claim(queue::Delivery{.hint = hint}, 0);
  }
  return left;
}

std::vector<Hint> Intake::take_tried(std::span<const Hint> hints) {
  std::vector<Hint> left;
  {
    const MutexLock lock(mutex_);
    for (const Hint& hint : hints) {
      if (closed_.load() || !waiting_.add_tried(hint)) {
        left.push_back(hint);
      }
    }
  }
  go_on();
  return left;
}

QueuesSeen Intake::queues_seen() const {
  const MutexLock lock(mutex_);
  return waiting_.queues_seen();
}

Room Intake::room() const {
  const MutexLock lock(mutex_);
  return closed_.load() ? Room{} : waiting_.beside(roster_.room(callable()));
}

void Intake::go_on() {
  std::vector<queue::Delivery> next;
  {
    const MutexLock lock(mutex_);
    if (closed_.load() || waiting_.empty()) {
      return;
    }
    const std::size_t most = callable();
    // Whoever has taken a place meanwhile says when it is free again.
    const auto reserve = [&](Lane lane) { return roster_.reserve(lane, most); };
    while (auto delivery = waiting_.next(roster_.room(most), reserve)) {
      next.push_back(std::move(*delivery));
    }
    if (next.empty()) {
      look_again();
    }
  }
  for (const queue::Delivery& delivery : next) {
    claim(delivery, 0);
  }
}

// As long as all that come are too late for a call, more and more are claimed at a time: they take
// nobody's slot, and whoever is in time must not wait behind them.
std::size_t Intake::callable() const {
  const std::size_t room = may_claim_() ? chains_.get()->room() : 0;
  return room == 0 ? 0 : std::max(room, beyond_room_.load());
}

void Intake::look_again() {
  if (std::exchange(looks_again_, true)) {
    return;
  }
  scheduler_.after(kLookAgainAfter, [this] {
    {
      const MutexLock lock(mutex_);
      looks_again_ = false;
    }
    go_on();
  });
}

void Intake::close() {
  closed_.store(true);
}

void Intake::stop() {
  close();
  claims_.stop();
}

void Intake::claim(const queue::Delivery& delivery, int tries) {
  if (closed_.load()) {
    roster_.unreserve(delivery.hint.lane);
    return;  // Never acknowledged: the broker gives it to another worker.
  }
  AG_CRASH_POINT("worker.delivered");
  const auto asked_at = Clock::now();
  const bool taken =
      claims_.submit(delivery.hint, [this, delivery, tries, asked_at](Outcome outcome) {
        if (!outcome && outcome.error() == store::StoreFault::kLocked &&
            !may_be_ours(delivery.hint)) {
          not_free(delivery);
        } else if (!outcome) {
          claim_later(delivery, tries);  // The database is away: keep the message and ask again.
        } else if (!*outcome) {
          not_claimed(delivery);
        } else {
          claimed(delivery, std::move(**outcome), asked_at);
        }
      });
  if (!taken) {
    claim_later(delivery, tries);
  }
}

void Intake::claim_later(const queue::Delivery& delivery, int tries) {
  scheduler_.after(store_pause(tries), [this, delivery, tries] { claim(delivery, tries + 1); });
}

store::Batch<std::optional<Claimed>> Intake::claim_batch(store::TaskStore& store,
                                                         std::span<const Hint> hints) {
  struct Looked {
    std::shared_ptr<const GenerationRequest> request;
    bool in_time = false;
  };
  std::unordered_map<TaskId, Looked> looked;
  bool any_in_time = false;
  const auto chain = chains_.get();  // The file may be another before the answer to COMMIT comes.
  using Provider = std::optional<std::string>;
  const auto first_provider = [&](const store::Claim& claim) {
    const bool alone = runs_alone(claim.lost_leases);
    if (alone && !suspects_.offer(claim.task)) {
      return Provider();
    }
    auto request = decode_request(claim.request);
    if (!request) {
      return Provider(std::string());
    }
    // For what is to run alone, or may go on at a provider, nobody is chosen yet.
    const bool later = alone || may_have_ticket(claim, *chain);
    const auto first = later ? std::nullopt : chain->choose(*request, 0, time_of(claim));
    const bool in_time = later || first;
    const bool named = first && !needs_references(*request);  // They are fetched before a call.
    any_in_time = any_in_time || in_time;
    looked[claim.task] = {std::make_shared<const GenerationRequest>(std::move(*request)), in_time};
    return Provider(named ? chain->at(*first).name() : std::string());
  };
  const auto unheard = [this](const Hint& hint, Instant until) {
    const MutexLock lock(mutex_);
    const auto found = unheard_.find(hint.task);
    return found != unheard_.end() && found->second.epoch == hint.epoch &&
           std::find(found->second.until.begin(), found->second.until.end(), until) !=
               found->second.until.end();
  };
  auto outcomes = store.claim(hints, worker_, first_provider, unheard);
  note_heard(hints, outcomes, store.claimed_until());
  std::optional<TaskId> suspect;
  beyond_room_ = any_in_time || looked.empty() ? 0 : std::min(2 * looked.size(), kBatchMax);
  store::Batch<std::optional<Claimed>> out;
  out.reserve(outcomes.size());
  for (auto& outcome : outcomes) {
    if (!outcome) {
      out.push_back(outcome.error());
    } else if (auto& claim = *outcome) {
      if (runs_alone(claim->lost_leases)) {
        suspect = claim->task;
      }
      auto& [request, in_time] = looked[claim->task];
      out.push_back(std::optional(Claimed{std::move(*claim), std::move(request), in_time, chain}));
    } else {
      out.push_back(std::optional<Claimed>());
    }
  }
  suspects_.granted(suspect);
  return out;
}

void Intake::note_heard(std::span<const Hint> hints,
                        const store::Batch<store::ClaimOutcome>& outcomes,
                        const std::vector<Instant>& until) {
  // The same hint may have come twice: then what the other one claimed is no claim unheard of.
  std::unordered_set<TaskId> claimed;
  for (std::size_t i = 0; i < hints.size(); ++i) {
    if (outcomes[i] && *outcomes[i]) {
      claimed.insert(hints[i].task);
    }
  }
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < hints.size(); ++i) {
    if (outcomes[i] || claimed.contains(hints[i].task)) {
      unheard_.erase(hints[i].task);
    } else if (outcomes[i].error() == store::StoreFault::kUnknownOutcome) {
      Unheard& claim = unheard_[hints[i].task];
      if (claim.epoch != hints[i].epoch) {
        claim = {};
      }
      claim.epoch = hints[i].epoch;
      claim.until.insert(claim.until.end(), until.begin(), until.end());
    }
  }
}

// A COMMIT that hangs in the server keeps the row: once it is through, nobody else knows of it.
bool Intake::may_be_ours(const Hint& hint) const {
  const MutexLock lock(mutex_);
  const auto found = unheard_.find(hint.task);
  return found != unheard_.end() && found->second.epoch == hint.epoch;
}

// A row that somebody keeps for seconds must not keep a place here.
void Intake::not_free(const queue::Delivery& delivery) {
  if (closed_.load()) {
    roster_.unreserve(delivery.hint.lane);
    return;  // Not acknowledged: the broker gives it to another worker.
  }
  not_claimed(delivery);  // Whoever pulls finds the task again, or the sweeper does.
}

// Final, taken, or not due: the table comes back to it if it must.
void Intake::not_claimed(const queue::Delivery& delivery) {
  ack_(delivery);
  give_back_turn(delivery);
  roster_.unreserve(delivery.hint.lane);
}

// What no message brought was not drawn from a lane.
void Intake::give_back_turn(const queue::Delivery& delivery) {
  if (delivery.tag != 0) {
    const MutexLock lock(mutex_);
    waiting_.give_back(delivery.hint.lane);
  }
}

void Intake::claimed(const queue::Delivery& delivery, Claimed claimed, Clock::time_point asked_at) {
  AG_CRASH_POINT("worker.claimed");
  if (!claimed.in_time) {
    give_back_turn(delivery);
  }
  auto chain = std::move(claimed.chain);
  const auto job =
      std::make_shared<Job>(std::move(claimed), std::move(chain), asked_at, Clock::now());
  roster_.enter(job, delivery.hint.lane);
  ack_(delivery);
  if (job->claim.claims == 1) {
    const store::Claim& claim = job->claim;
    const auto wait = claim.deadline_at - claim.created_at - claim.until_deadline;
    waits.observe(std::chrono::duration<double>(wait).count());
  }
  if (log::enabled(log::Level::kDebug)) {
    log::debug(
        "task claimed", about(*job), {{"claims", job->claim.claims}, {"epoch", job->claim.epoch}});
  }
  begin_(job);
}

}  // namespace audiogen::worker
