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
// Of those that wait for their provider and are looked at anew, as many at a time, or more.
constexpr std::size_t kLooksAtOnce = 64;

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
  std::vector<queue::Delivery> known;
  {
    const MutexLock lock(mutex_);
    for (queue::Delivery& delivery : deliveries) {
      // What has waited for its provider for long is hinted again.
      if (!closed_.load() && queues_.has(delivery.hint)) {
        known.push_back(delivery);
      } else {
        waiting_.add(std::move(delivery));
      }
    }
  }
  for (const queue::Delivery& delivery : known) {
    ack_(delivery);
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
      if (!closed_.load() && queues_.has(hint)) {
        continue;  // It has been taken.
      }
      const bool takes = !closed_.load() && !queues_.full() &&
                         roster_.reserve(hint.lane, most, ours.of(hint.lane));
      (takes ? taken : left).push_back(hint);
    }
  }
  for (const Hint& hint : taken) {
    claim({.delivery = {.hint = hint}}, 0);
  }
  return left;
}

std::vector<Hint> Intake::take_tried(std::span<const Hint> hints) {
  std::vector<Hint> left;
  {
    const MutexLock lock(mutex_);
    for (const Hint& hint : hints) {
      if (closed_.load() || (!queues_.has(hint) && !waiting_.add_tried(hint))) {
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

std::vector<TaskId> Intake::waiting_for_providers() const {
  const MutexLock lock(mutex_);
  return queues_.tasks();
}

Room Intake::room() const {
  const MutexLock lock(mutex_);
  return closed_.load() || queues_.full() ? Room{} : waiting_.beside(roster_.room(callable()));
}

std::size_t Intake::room_told() const {
  const MutexLock lock(mutex_);
  if (closed_.load() || !may_claim_() || queues_.size() >= roster_.places()) {
    return 0;
  }
  return waiting_.beside(roster_.room(chains_.get()->room())).bulk;
}

void Intake::go_on() {
  std::vector<Turn> next;
  {
    const MutexLock lock(mutex_);
    if (closed_.load() || (waiting_.empty() && queues_.empty())) {
      return;
    }
    const std::size_t most = callable();
    // Whoever has taken a place meanwhile says when it is free again.
    const auto reserve = [&](Lane lane) { return roster_.reserve(lane, most); };
    const auto chain = chains_.get();
    look_who_serves(chain);
    const auto openings = [&](Position provider) { return chain->openings(provider); };
    // What waits for its provider has what that has, where there seems to be no room as well: a
    // fallback is none for others.
    const bool anybody = may_claim_() && chain->capacity() > 0;
    const std::size_t looks = anybody ? std::max(most, kLooksAtOnce) : 0;
    const auto look = [&](Lane lane) { return roster_.reserve(lane, looks); };
    const auto take_known = [&]() LOCKS_REQUIRED(mutex_) {
      const auto known = queues_.next(roster_.room(looks), openings, look);
      if (known) {
        next.push_back({.delivery = {.hint = known->hint},
                        .from = Behind{.provider = known->provider, .chain = chains_seen_}});
      }
      return known.has_value();
    };
    const auto take_unknown = [&]() LOCKS_REQUIRED(mutex_) {
      auto unknown = queues_.full() ? std::nullopt : waiting_.next(roster_.room(most), reserve);
      if (unknown) {
        next.push_back({.delivery = std::move(*unknown)});
      }
      return unknown.has_value();
    };
    // Both have every second place.
    while (from_queues_ ? take_unknown() || take_known() : take_known() || take_unknown()) {
      from_queues_ = next.back().from.has_value();
    }
    const auto now = Clock::now();
    while (const auto hint = queues_.due(now, look)) {
      next.push_back({.delivery = {.hint = *hint}});
    }
    if (next.empty() || !queues_.empty()) {
      look_again();
    }
  }
  for (const Turn& turn : next) {
    claim(turn, 0);
  }
}

// What waits for a provider that is left alone another may have, and so may have one that is not
// any more what waits for those after it; who serves what, a new chain says anew.
void Intake::look_who_serves(const std::shared_ptr<const Chain>& chain) {
  // Not by lock(): whoever gives back the last reference to a chain waits for its providers.
  if (queues_of_.owner_before(chain) || chain.owner_before(queues_of_)) {
    for (const Hint& hint : queues_.take_all()) {
      waiting_.add({.hint = hint});
    }
    queues_of_ = chain;
    ++chains_seen_;
    left_alone_.assign(chain->size(), false);
  }
  bool changed = false;
  std::size_t first_back = chain->size();
  for (Position i = 0; i < chain->size(); ++i) {
    const bool left_alone = chain->closed_to_calls(i).count() > 0 || chain->is_on_trial(i);
    if (left_alone_[i] && !left_alone) {
      first_back = std::min(first_back, i);
    }
    changed = changed || left_alone_[i] != left_alone;
    left_alone_[i] = left_alone;
  }
  if (changed) {
    const auto another = [first_back, left_alone = left_alone_](Position provider) {
      return left_alone[provider] || provider > first_back;
    };
    queues_.look_at_all(another, Clock::now());
  }
}

// As long as nobody could be called for all that come, because they are too late, or wait for their
// provider, more and more are asked for at a time: they take nobody's slot, and whoever could have
// one must not wait behind them.
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

void Intake::claim(const Turn& turn, int tries) {
  if (closed_.load()) {
    roster_.unreserve(turn.delivery.hint.lane);
    return;  // Never acknowledged: the broker gives it to another worker.
  }
  AG_CRASH_POINT("worker.delivered");
  const bool taken = claims_.submit(turn.delivery.hint,
                                    [this, turn, tries, asked_at = Clock::now()](Outcome outcome) {
                                      answered(turn, tries, asked_at, std::move(outcome));
                                    });
  if (!taken) {
    claim_later(turn, tries);
  }
}

void Intake::claim_later(const Turn& turn, int tries) {
  scheduler_.after(store_pause(tries), [this, turn, tries] { claim(turn, tries + 1); });
}

void Intake::answered(const Turn& turn, int tries, Clock::time_point asked_at, Outcome outcome) {
  const queue::Delivery& delivery = turn.delivery;
  const bool locked = !outcome && outcome.error() == store::StoreFault::kLocked;
  if (!outcome && !(locked && !may_be_ours(delivery.hint))) {
    claim_later(turn, tries);  // The database is away: keep the message and ask again.
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (turn.from && turn.from->chain == chains_seen_) {
      queues_.judged(turn.from->provider,
                     delivery.hint.task,
                     locked || (!outcome->claimed && !outcome->behind));
    }
    if (locked || !outcome->behind) {
      queues_.drop(delivery.hint);
    }
  }
  if (locked) {
    not_free(delivery);
  } else if (outcome->claimed) {
    claimed(delivery, *std::move(outcome->claimed), asked_at);
  } else if (outcome->behind) {
    wait_for_provider(turn, *outcome);
  } else {
    not_claimed(delivery);
  }
}

store::Batch<Intake::Answer> Intake::claim_batch(store::TaskStore& store,
                                                 std::span<const Hint> hints) {
  using Kind = store::ClaimVerdict::Kind;
  struct Looked {
    std::shared_ptr<const GenerationRequest> request;
    bool in_time = false;
    std::optional<Position> first{};
  };
  std::unordered_map<TaskId, Looked> looked;
  std::unordered_map<TaskId, Answer> left;
  bool any_called = false;
  std::shared_ptr<const Chain> chain;  // It may be another before the answer to COMMIT comes.
  std::uint64_t of_chain = 0;
  {
    const MutexLock lock(mutex_);
    chain = chains_.get();
    look_who_serves(chain);
    of_chain = chains_seen_;
  }
  Openings openings(*chain);
  const auto ask = [&](auto count, TaskId task, Position provider) {
    const MutexLock lock(mutex_);
    return (queues_.*count)(task, provider);
  };
  const auto judge = [&](const store::Claim& claim) -> store::ClaimVerdict {
    if (left.contains(claim.task)) {
      return Kind::kLeave;  // In a try before this one.
    }
    const bool alone = runs_alone(claim.lost_leases);
    if (alone && !suspects_.offer(claim.task)) {
      return Kind::kPutOff;
    }
    auto request = decode_request(claim.request);
    if (!request) {
      return std::string();
    }
    // For what is to run alone, or may go on at a provider, nobody is chosen yet.
    const bool later = alone || may_have_ticket(claim, *chain);
    const TaskTime time = time_of(claim);
    const auto before = looked.find(claim.task);  // In a try before this one.
    const bool judged = before != looked.end();
    auto first = judged  ? before->second.first
                 : later ? std::nullopt
                         : chain->choose_in_line(*request, time, [&](Position provider) {
                             return ask(&ProviderQueues::line, claim.task, provider);
                           });
    const auto has_opening = [&] {
      return openings.take(*first, ask(&ProviderQueues::before, claim.task, *first));
    };
    bool open = !first || judged || has_opening();
    // One probe tells whether a provider works again. Whoever has none of it does not wait for
    // that.
    while (!open && chain->is_on_trial(*first)) {
      const auto next = chain->choose(*request, *first + 1, time);
      if (!next) {
        break;
      }
      first = next;
      open = has_opening();
    }
    if (!open) {
      left[claim.task] = {.behind = Behind{.provider = *first, .chain = of_chain},
                          .epoch = claim.epoch - 1,
                          .tried = claim.claims > 1,
                          .time_left = time.left};
      return Kind::kLeave;
    }
    const bool in_time = later || first;
    const bool named = first && !needs_references(*request);  // They are fetched before a call.
    any_called = any_called || in_time;
    looked[claim.task] = {
        std::make_shared<const GenerationRequest>(std::move(*request)), in_time, first};
    return named ? chain->at(*first).name() : std::string();
  };
  const auto unheard = [this](const Hint& hint, Instant until) {
    const MutexLock lock(mutex_);
    const auto found = unheard_.find(hint.task);
    return found != unheard_.end() && found->second.epoch == hint.epoch &&
           std::find(found->second.until.begin(), found->second.until.end(), until) !=
               found->second.until.end();
  };
  auto outcomes = store.claim(hints, worker_, judge, unheard);
  note_heard(hints, outcomes, store.claimed_until());
  std::optional<TaskId> suspect;
  const std::size_t in_vain = looked.size() + left.size();
  beyond_room_ = any_called || in_vain == 0 ? 0 : std::min(2 * in_vain, kBatchMax);
  store::Batch<Answer> out;
  out.reserve(outcomes.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    auto& outcome = outcomes[i];
    if (!outcome) {
      out.push_back(outcome.error());
    } else if (auto& claim = *outcome) {
      if (runs_alone(claim->lost_leases)) {
        suspect = claim->task;
      }
      auto& [request, in_time, first] = looked[claim->task];
      out.push_back(
          Answer{.claimed = Claimed{
                     std::move(*claim), std::move(request), in_time, chain, first.value_or(0)}});
    } else {
      const auto waits = left.find(hints[i].task);
      const bool this_one = waits != left.end() && waits->second.epoch == hints[i].epoch;
      out.push_back(this_one ? std::move(waits->second) : Answer());
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

// It takes no place, and keeps no message: the next one in the broker may be for another provider.
void Intake::wait_for_provider(const Turn& turn, const Answer& answer) {
  const Hint& hint = turn.delivery.hint;
  {
    const MutexLock lock(mutex_);
    const auto in_force = chains_.get();
    look_who_serves(in_force);
    const auto [provider, chain] = *answer.behind;
    if (chain != chains_seen_) {
      waiting_.add({.hint = hint});  // Of another chain, which may serve it otherwise.
    } else {
      // Where that has failed others meanwhile, somebody else may have this one soon.
      const bool waits = in_force->closed_to_calls(provider).count() == 0;
      const ProviderQueues::Seen seen{
          .now = Clock::now(), .left = waits ? answer.time_left : std::chrono::milliseconds(0)};
      if (turn.from && turn.from->chain == chain && turn.from->provider == provider) {
        queues_.put_back(provider, hint, seen);
      } else {
        queues_.add(provider, hint, answer.tried, seen);
      }
    }
  }
  not_claimed(turn.delivery);
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
