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
// Of those that wait for their provider so many are looked at anew at a time, and so many, or more,
// have an opening of it.
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
      if (delivery.connection > connection_) {
        // The broker brings again what was not acknowledged, to us or to another.
        connection_ = delivery.connection;
        waiting_.erase_deliveries([newest = connection_](const queue::Delivery& old) {
          return old.tag != 0 && old.connection < newest;
        });
      }
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

void Intake::set_workers(std::uint64_t count) {
  const MutexLock lock(mutex_);
  workers_.tell(count, Clock::now());
}

RouteLines Intake::lines() const {
  std::map<Position, ProviderQueues::Line> waiting;
  const auto chain = chains_.get();
  {
    const MutexLock lock(mutex_);
    if (!is_in_queues(chain)) {
      return {};
    }
    waiting = queues_.lines(Clock::now());
  }
  struct AtAccount {
    std::size_t entries = 0, tasks = 0;
  };
  std::map<const Account*, AtAccount> in_line;
  Positions have_lines = 0;
  RouteLines out;
  for (const auto& [provider, line] : waiting) {
    out.waiting.here.express += line.here.express.size();
    out.waiting.here.bulk += line.here.bulk.size();
    out.waiting.first.express += line.first.express.size();
    out.waiting.first.bulk += line.first.bulk.size();
    if (provider < chain->size()) {
      AtAccount& at = in_line[chain->at(provider).account()];
      ++at.entries;
      at.tasks += line.here.express.size() + line.here.bulk.size();
      have_lines |= bit_of(provider);
    }
  }
  std::vector<std::optional<RouteLine>> of(chain->size());  // Nullopt: nobody goes there now.
  for (Position i = 0; i < chain->size(); ++i) {
    if (chain->closed_to_calls(i).count() > 0 || chain->is_on_trial(i)) {
      continue;
    }
    // Entries of one account take turns for its places: each has as many as any other, or more
    // where those have too few that wait.
    const auto& line = waiting[i];
    const AtAccount& all = in_line[chain->at(i).account()];
    const auto tasks = static_cast<double>(line.here.express.size() + line.here.bulk.size());
    const double part = all.entries == 0 ? 1
                                         : std::max(1.0 / static_cast<double>(all.entries),
                                                    tasks / static_cast<double>(all.tasks));
    of[i] = with_line(chain->pace_of(i, roster_.places(), have_lines, part), line.here, line.first);
  }
  const auto wait = [](const RouteLine& line) {
    return line.pace > 0 ? line.alone.bulk : line.before.here.bulk;
  };
  for (std::uint8_t route = 0; route < kRoutes; ++route) {
    std::optional<RouteLine> soonest;
    // What waits at one with a queue_wait they get from there, where none of their own waits.
    Positions relieve = 0;
    for (Position i = 0; i < of.size(); ++i) {
      if (!of[i] || (relieve & bit_of(i)) != 0 || !chain->may_serve(i, Route{route})) {
        continue;
      }
      relieve |= chain->relievers(i) & ~have_lines;
      if (!soonest || wait(*of[i]) < wait(*soonest)) {
        soonest = of[i];
      }
    }
    if (soonest) {
      out.of[Route{route}] = *soonest;
    }
  }
  return out;
}

std::vector<TaskId> Intake::waiting_for_providers() const {
  const MutexLock lock(mutex_);
  return queues_.tasks();
}

bool Intake::has_hint(const Hint& hint) const {
  const MutexLock lock(mutex_);
  return !closed_.load() && queues_.has(hint);
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
  return waiting_.beside(roster_.room(chains_.get()->room() + looks_)).bulk;
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
    const auto openings = [&](Position provider) {
      return provider < chain->size() ? chain->openings(provider) : 0;
    };
    const auto now = Clock::now();
    // Of those that are full none is invited to wait; where others of its account have all places
    // one is, so that it has its turn.
    const auto invites = [&](Position provider) {
      const Bulkhead& at = chain->at(provider);
      const bool any = at.idle() > 0 || (at.account() != nullptr && chain->is_lone(provider));
      return any ? openings(provider) : 0;
    };
    queues_.invite(chain->size(), invites, now);
    // What waits for its provider has what that has, where there seems to be no room as well: a
    // fallback is none for others.
    const bool anybody = may_claim_() && (most > 0 || chain->capacity() > 0);
    std::size_t looks = anybody ? std::max(most, looks_ + kLooksAtOnce) : 0;
    const auto look = [&](Lane lane) { return roster_.reserve(lane, looks); };
    const auto take_known = [&]() LOCKS_REQUIRED(mutex_) {
      const auto known = queues_.next(roster_.room(looks), openings, look);
      if (known) {
        next.push_back({.delivery = {.hint = known->hint},
                        .from = Behind{.provider = known->provider,
                                       .chain = chains_seen_,
                                       .arrival = known->arrival,
                                       .tried = known->tried}});
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
    for (; looks_ < kLooksAtOnce; ++looks_, ++looks) {
      const auto hint = queues_.due(now, look);
      if (!hint) {
        break;
      }
      next.push_back({.delivery = {.hint = *hint}, .look = true});
    }
    if (next.empty() || !queues_.empty()) {
      look_again();
    }
  }
  for (const Turn& turn : next) {
    claim(turn, 0);
  }
}

// Is it the chain whose providers' queues those are? Not by lock(): whoever gives back the last
// reference to a chain waits for its providers.
bool Intake::is_in_queues(const std::shared_ptr<const Chain>& chain) const {
  return !queues_of_.owner_before(chain) && !chain.owner_before(queues_of_);
}

// What waits for a provider that is left alone another may have; who serves what, a new chain says
// anew.
void Intake::look_who_serves(const std::shared_ptr<const Chain>& chain) {
  if (!is_in_queues(chain)) {
    queues_.begin_anew(Clock::now());
    queues_of_ = chain;
    ++chains_seen_;
    left_alone_ = 0;
  }
  Positions left_alone = 0;
  for (Position i = 0; i < chain->size(); ++i) {
    const bool is = chain->closed_to_calls(i).count() > 0 || chain->is_on_trial(i);
    left_alone |= is ? bit_of(i) : 0;
  }
  // Another may have those that wait for one that is left alone: just now, or for longer where that
  // other one was as well, and is back.
  const Positions since = left_alone & ~left_alone_, back = left_alone_ & ~left_alone;
  left_alone_ = left_alone;
  if (const Positions all = since | (back != 0 ? left_alone : 0); all != 0) {
    queues_.look_at_all(all, Clock::now());
  }
}

// As long as nobody could be called for all that come, because they are too late, or wait for their
// provider, more and more are asked for at a time: they take nobody's slot, and whoever could have
// one must not wait behind them. What is only looked at anew takes nothing of it.
std::size_t Intake::callable() const {
  const std::size_t room = may_claim_() ? chains_.get()->room() : 0;
  return room == 0 ? 0 : std::max(room, beyond_room_.load()) + looks_;
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
    looks_ -= turn.look ? 1U : 0U;
    if (turn.from && turn.from->chain == chains_seen_) {
      queues_.judged(turn.from->provider,
                     delivery.hint.task,
                     locked || (!outcome->claimed && !outcome->behind));
    }
    // What is only looked at waits on where its row is somebody's for a moment.
    const bool waits = locked && turn.look && queues_.look_later(delivery.hint, Clock::now());
    if (!waits && (locked || !outcome->behind)) {
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
  std::shared_ptr<const Chain> chain;  // It may be another before the answer to COMMIT comes.
  std::uint64_t of_chain = 0;
  std::unordered_map<TaskId, Lane> lanes;
  std::vector<TaskId> newcomers;
  {
    const MutexLock lock(mutex_);
    chain = chains_.get();
    look_who_serves(chain);
    of_chain = chains_seen_;
    for (const Hint& hint : hints) {
      lanes[hint.task] = hint.lane;
      if (!queues_.knows(hint.task)) {
        newcomers.push_back(hint.task);
      }
    }
  }
  Openings openings(*chain);
  const auto waits_at = [&](TaskId task) {
    const MutexLock lock(mutex_);
    return queues_.waits_at(task);
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
    const Lane lane = lanes.at(claim.task);
    const auto in_line = [&](Position provider) {
      const MutexLock lock(mutex_);
      return queues_.line(claim.task, lane, provider, workers_.count(), claim.claims > 1);
    };
    const auto before = looked.find(claim.task);  // In a try before this one.
    const bool judged = before != looked.end();
    auto first = judged  ? before->second.first
                 : later ? std::nullopt
                         : chain->choose_in_line(*request, 0, time, in_line, waits_at(claim.task));
    const auto before_it = [&](Position provider) {
      const MutexLock lock(mutex_);
      return queues_.before(claim.task, lane, provider);
    };
    const auto has_opening = [&] { return openings.take(*first, before_it(*first)); };
    bool open = !first || judged || has_opening();
    // One probe tells whether a provider works again. Whoever has none of it does not wait for
    // that.
    while (!open && chain->is_on_trial(*first)) {
      const auto next = chain->choose_in_line(*request, *first + 1, time, in_line);
      if (!next) {
        break;
      }
      first = next;
      open = has_opening();
    }
    if (!open) {
      Positions sooner = 0;
      for (Position i = 0; i < *first; ++i) {
        sooner |= chain->could_have(i, *request, time) ? bit_of(i) : 0;
      }
      // Of its creator's hint there is no other: a sweeper that sends one writes that. Of the rest
      // several hear after a while.
      const bool heard_first =
          (claim.hinted_once && claim.claims == 1) || claim.due_for < kFirstLook;
      left[claim.task] = {.behind = Behind{.provider = *first,
                                           .chain = of_chain,
                                           .sooner = sooner,
                                           .arrival = {.first = heard_first}},
                          .epoch = claim.epoch - 1,
                          .tried = claim.claims > 1,
                          .time_left = time.left};
      return Kind::kLeave;
    }
    const bool in_time = later || first;
    const bool named = first && !needs_references(*request);  // They are fetched before a call.
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
  std::size_t called = 0, in_vain = 0;
  for (const TaskId task : newcomers) {
    const auto found = looked.find(task);
    const bool is_called = found != looked.end() && found->second.in_time;
    called += is_called ? 1U : 0U;
    in_vain += !is_called && (found != looked.end() || left.contains(task)) ? 1U : 0U;
  }
  if (!newcomers.empty()) {
    beyond_room_ = called > 0 ? 0 : std::min(2 * in_vain, kBatchMax);
  }
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
  if (!gave_up(delivery)) {
    not_claimed(delivery);  // Whoever pulls finds the task again, or the sweeper does.
  }
}

// While this worker stops what it has not claimed is not acknowledged: the broker gives it to
// another one at once.
bool Intake::gave_up(const queue::Delivery& delivery) {
  const bool stops = closed_.load();
  if (stops) {
    roster_.unreserve(delivery.hint.lane);
  }
  return stops;
}

// It takes no place, and keeps no message: the next one in the broker may be for another provider.
void Intake::wait_for_provider(const Turn& turn, const Answer& answer) {
  if (gave_up(turn.delivery)) {
    return;
  }
  const Hint& hint = turn.delivery.hint;
  {
    const MutexLock lock(mutex_);
    const auto in_force = chains_.get();
    look_who_serves(in_force);
    const auto [provider, chain, sooner, arrival, tried] = *answer.behind;
    // What was pulled others may pull as well, or have heard of.
    auto heard = turn.from ? turn.from->arrival : arrival;
    heard.first = heard.first && (turn.from || turn.delivery.tag != 0);
    // By another chain, or where that provider has failed others meanwhile, somebody else may have
    // this one soon.
    const bool in_turn = chain == chains_seen_,
               waits = in_turn && in_force->closed_to_calls(provider).count() == 0;
    const ProviderQueues::Seen seen{.now = Clock::now(),
                                    .left = waits ? answer.time_left : std::chrono::milliseconds(0),
                                    .sooner = in_turn ? sooner : 0,
                                    .arrival = heard};
    if (turn.from && turn.from->chain == chain && turn.from->provider == provider) {
      queues_.put_back(provider, hint, turn.from->tried, seen);
    } else {
      queues_.add(provider, hint, answer.tried, seen);
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
