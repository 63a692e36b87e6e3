#include "tests/simulation/worker.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace audiogen::simulation {
namespace {

// Seldomer than workers tell of themselves, so what others know of them is older than it could be;
// and what remembered seeds show stays what it was.
constexpr Duration kReportEvery = 5 * store::kWorkersReport;

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kWatchEvery = seconds(1);  // Of leases.
constexpr Duration kLookEvery = seconds(1);   // Of the sweeper.
constexpr std::size_t kExpressPart = 8;       // As in worker/job/roster.h.
constexpr Duration kDrainLimit = seconds(20), kGiveBackLimit = seconds(5);
constexpr int kCallsMax = 3;  // In a claim.

// As in worker/job/batches.h.
Duration store_pause(int tries) {
  return milliseconds(std::min(200 << std::min(tries, 4), 2000));
}

WorkerId make_worker_id(std::size_t number) {
  WorkerId id;
  id.uuid.bytes[15] = static_cast<std::uint8_t>(number & 0xFFU);
  id.uuid.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  return id;
}

}  // namespace

Worker::Worker(Shared& shared,
               Database& database,
               Store& store,
               Broker& broker,
               std::size_t number,
               std::function<void(Worker&)> crash)
    : Process(shared.timeline, shared.random, "worker " + std::to_string(number)),
      shared_(shared),
      database_(database),
      store_(store),
      broker_(broker),
      claimant_{make_worker_id(number), number},
      crash_(std::move(crash)),
      claims_(
          shared,
          database,
          *this,
          std::nullopt,
          milliseconds(500),
          [this](Transaction& tx, auto& items, Runs& runs) {
            store_.claim(tx, items, runs, claimant_, [this](const store::Claim& claim) {
              return first_provider(claim);
            });
          },
          [this] { batch_of_claims_over(); }),
      renewals_(
          shared,
          database,
          *this,
          false,
          seconds(2),
          [this](Transaction& tx, auto& items, Runs&) { store_.renew(tx, items, claimant_.id); }),
      calls_(shared,
             database,
             *this,
             false,
             seconds(2),
             [this](Transaction& tx, auto& items, Runs&) { store_.start_calls(tx, items); }),
      settlements_(shared,
                   database,
                   *this,
                   Settled{},
                   seconds(2),
                   [this](Transaction& tx, auto& items, Runs&) {
                     store_.settle(tx, items);
                     for (const auto& item : items) {
                       if (shared_.is(Mutant::kHintBeforeCommit)) {
                         publisher_.submit(item.outcome.released);
                       }
                     }
                   }),
      publisher_(shared, broker, *this, [](const Hint&) {}),
      sweeps_(shared, database, store, *this),
      crowds_(shared,
              database,
              store,
              *this,
              number,
              [this](std::span<const Hint> hints) { publisher_.submit(hints); }),
      next_report_(steady()),
      next_crowds_(steady()) {
  after(shared.random.between(milliseconds(0), kLookEvery), [this] { report(); });
  after(kWatchEvery, [this] { watch(); });
  if (shared.plan.pull) {
    after(milliseconds(500), [this] { pull(); });
  }
  broker.consume(*this, shared.plan.places);
}

void Worker::log(const Job& job, const std::string& what) {
  shared_.note(name(), [&] {
    return short_name(job.claim.task) + " epoch " + std::to_string(job.claim.epoch) + ": " + what;
  });
}

// --- places

Room Worker::places() const {
  return {.bulk = left(Lane::kBulk), .express = left(Lane::kExpress)};
}

std::size_t Worker::left(Lane lane) const {
  if (roster_closed_ && !shared_.is(Mutant::kOthersBesideSuspect)) {
    return 0;
  }
  const auto rest = [](std::size_t all, std::size_t used) { return all - std::min(all, used); };
  const std::size_t places = shared_.plan.places, more = places / kExpressPart;
  return lane == Lane::kExpress ? rest(places + more, bulk_ + express_)
                                : rest(places, bulk_ + rest(express_, more));
}

bool Worker::reserve(Lane lane, std::size_t spoken_for) {
  if (left(lane) <= spoken_for) {
    return false;
  }
  ++reserved_;
  ++taken(lane);
  return true;
}

void Worker::unreserve(Lane lane) {
  --reserved_;
  --taken(lane);
  freed();
}

void Worker::enter(const JobPtr& job) {
  --reserved_;
  JobPtr& entry = jobs_[job->claim.task];
  if (entry != nullptr && !entry->aside) {
    --taken(entry->lane);
  }
  entry = job;  // Where it was lost and claimed again, the old one is on its way out.
}

void Worker::step_aside(const JobPtr& job) {
  if (has(job) && !job->aside) {
    job->aside = true;
    --taken(job->lane);
    freed();
  }
}

void Worker::leave(const JobPtr& job) {
  if (!has(job)) {
    return;
  }
  if (!job->aside) {
    --taken(job->lane);
  }
  jobs_.erase(job->claim.task);
  freed();
}

bool Worker::has(const JobPtr& job) const {
  const auto found = jobs_.find(job->claim.task);
  return found != jobs_.end() && found->second == job;
}

void Worker::freed() {
  look_at_suspect();
  go_on();
}

// --- suspects

bool Worker::offer(TaskId task) {
  if (closed_ || !isolation_.offer(task, !jobs_.empty(), shared_.random.real(), steady())) {
    return false;
  }
  roster_closed_ = true;
  return true;
}

void Worker::batch_of_claims_over() {
  if (!isolation_.granted(std::nullopt)) {
    roster_closed_ = false;
    freed();
  }
}

void Worker::came(const JobPtr& job) {
  isolation_.granted(job->claim.task);
  if (closed_) {
    suspect_is_over();
    give_back(job, Duration(0));
    return;
  }
  log(*job, "will run alone");
  suspect_ = job;
  watch_suspect(job);
}

void Worker::watch_suspect(const JobPtr& job) {
  look_at_suspect();
  if (suspect_ == job && isolation_.waits()) {
    after(kWatchEvery, [this, job] { watch_suspect(job); });
  }
}

void Worker::look_at_suspect() {
  if (suspect_ == nullptr) {
    return;
  }
  using Company = worker::Roster::Company;
  const JobPtr job = suspect_;
  const bool alone =
      (jobs_.size() == 1 && reserved_ == 0) || shared_.is(Mutant::kSuspectBeginsAtOnce);
  const auto company = !has(job) || job->aside ? Company::kGone
                       : alone                 ? Company::kAlone
                                               : Company::kOthers;
  if (company != Company::kGone && isolation_.waits() && job->lost) {
    leave(job);  // Which looks again.
    return;
  }
  switch (isolation_.look(company, steady())) {
    case worker::Isolation::Next::kWait:
      break;
    case worker::Isolation::Next::kBegin:
      begin(job);
      break;
    case worker::Isolation::Next::kGiveBack:
      suspect_is_over();
      give_back(job, alone_delay(shared_.random.jitter()));
      break;
    case worker::Isolation::Next::kOver:
      suspect_is_over();
      break;
  }
}

void Worker::suspect_is_over() {
  isolation_.end(steady());
  suspect_.reset();
  roster_closed_ = false;
  freed();
}

void Worker::give_back(const JobPtr& job, Duration wait) {
  give_up(job, Trouble::kNoRoom, wait);
}

// --- intake

Room Worker::room() const {
  return closed_ ? Room{} : waiting_.beside(places());
}

void Worker::deliver(const Delivery& delivery) {
  waiting_.add(delivery);
  go_on();
}

std::vector<Hint> Worker::take(const std::vector<Hint>& hints) {
  const Room ours = waiting_.spoken_for(places());
  std::vector<Hint> taken, left;
  for (const Hint& hint : hints) {
    (!closed_ && reserve(hint.lane, ours.of(hint.lane)) ? taken : left).push_back(hint);
  }
  for (const Hint& hint : taken) {
    claim({hint, 0}, 0);
  }
  return left;
}

std::vector<Hint> Worker::take_tried(const std::vector<Hint>& hints) {
  std::vector<Hint> left;
  std::copy_if(hints.begin(), hints.end(), std::back_inserter(left), [this](const Hint& hint) {
    return closed_ || !waiting_.add_tried(hint);
  });
  go_on();
  return left;
}

QueuesSeen Worker::queues_seen() const {
  if (shared_.is(Mutant::kTrustQueue)) {
    return {.bulk = kBeginning, .express = kBeginning};
  }
  return waiting_.queues_seen();
}

void Worker::go_on() {
  std::vector<Delivery> next;
  while (!closed_) {
    Room room = places();
    if (shared_.is(Mutant::kBulkFirst) && room.bulk > 0 && waiting_.any(Lane::kBulk)) {
      room.express = 0;
    }
    auto delivery = waiting_.next(room, [this](Lane lane) { return reserve(lane); });
    if (!delivery) {
      break;
    }
    next.push_back(*delivery);
  }
  for (const Delivery& delivery : next) {
    claim(delivery, 0);
  }
}

void Worker::ack(const Delivery& delivery) {
  if (delivery.message != 0) {
    shared_.timeline.after(shared_.way(),
                           [this, delivery] { broker_.ack(*this, delivery.message); });
  }
}

void Worker::claim(const Delivery& delivery, int tries) {
  if (closed_) {
    unreserve(delivery.hint.lane);
    return;
  }
  const auto asked_at = steady();
  claims_.submit(delivery.hint, [this, delivery, tries, asked_at](const auto& outcome) {
    const bool locked = !outcome && outcome.error() == store::StoreFault::kLocked;
    if (!outcome && !locked) {
      after(store_pause(tries), [this, delivery, tries] { claim(delivery, tries + 1); });
    } else if (locked && closed_) {
      unreserve(delivery.hint.lane);
    } else if (outcome && *outcome) {
      ack(delivery);
      claimed(**outcome, delivery.hint.lane, asked_at);
    } else {
      ack(delivery);
      if (delivery.message != 0) {
        waiting_.give_back(delivery.hint.lane);
      }
      unreserve(delivery.hint.lane);
    }
  });
}

std::optional<std::string> Worker::first_provider(const store::Claim& claim) {
  const bool alone = runs_alone(claim.lost_leases) && !shared_.is(Mutant::kSuspectsTogether);
  if (alone && !offer(claim.task)) {
    return std::nullopt;
  }
  return alone || !shared_.plan.start_named ? "" : "p";
}

void Worker::claimed(const store::Claim& claim, Lane lane, ClockLook::Steady asked_at) {
  const auto job = std::make_shared<Job>();
  job->claim = claim;
  job->lane = lane;
  job->began_at = steady();
  job->lease_from = shared_.is(Mutant::kLeaseFromAnswer) ? steady() : asked_at;
  job->row = claim.calls + (claim.provider.empty() ? 0U : 1U);
  enter(job);
  const auto ago = std::chrono::duration_cast<Duration>(steady() - asked_at);
  shared_.judge.leased(of(*job), shared_.timeline.now() - ago);
  log(*job, "is mine, claim " + std::to_string(claim.claims));
  if (runs_alone(claim.lost_leases) && !shared_.is(Mutant::kSuspectsTogether)) {
    came(job);
  } else {
    begin(job);
  }
}

void Worker::begin(const JobPtr& job) {
  if (shared_.strikes(shared_.plan.uncalled)) {
    const std::vector<Trouble> troubles = {
        Trouble::kOursUncalled, Trouble::kNoRoom, Trouble::kBadReference, Trouble::kNobodyNow};
    const Trouble trouble = shared_.random.pick(troubles);
    after(shared_.random.between(milliseconds(1), seconds(8)), [this, job, trouble] {
      if (job->lost) {
        leave(job);
      } else {
        give_up(job, trouble, trouble == Trouble::kNoRoom ? seconds(3) : seconds(0));
      }
    });
  } else if (job->claim.provider.empty()) {
    write_and_call(job);
  } else {
    call(job);
  }
}

// --- calls

void Worker::write_and_call(const JobPtr& job) {
  if (job->given_back) {
    give_up(job, Trouble::kStopping, Duration(0));
  } else {
    write(job, job->row + 1);
  }
}

void Worker::write(const JobPtr& job, std::uint32_t row) {
  if (job->lost) {
    leave(job);
    return;
  }
  store::CallStart start;
  start.task = job->claim.task;
  start.epoch = job->claim.epoch;
  start.n = row;
  calls_.submit(start, [this, job, row](const auto& ours) {
    if (!ours) {
      after(store_pause(1), [this, job, row] { write(job, row); });
    } else if (!*ours) {
      lose(job, "lost before the next call");
      leave(job);
    } else {
      job->row = row;
      call(job);
    }
  });
}

void Worker::call(const JobPtr& job) {
  if (lease_is_over(*job) && !shared_.is(Mutant::kCallOnThaw)) {
    lose(job, "over before the call");
    leave(job);
    return;
  }
  ++job->calls;
  const std::uint64_t number = ++job->call;
  job->called = true;
  log(*job, "calls");
  if (!shared_.healed && shared_.is_deadly(job->claim.task)) {
    after(shared_.random.between(milliseconds(1), seconds(3)), [this, job] {
      if (job->called && !shared_.healed) {
        log(*job, "ends its worker");
        crash_(*this);
      }
    });
  }
  shared_.judge.call_made(of(*job));
  const Duration time = shared_.strikes(shared_.plan.provider_slow)
                            ? shared_.random.between(seconds(5), seconds(90))
                            : shared_.random.between(milliseconds(50), seconds(3));
  after(time, [this, job, number] {
    if (job->called && job->call == number) {
      end_call(*job);
      answered(job);
    }
  });
  if (job->given_back || job->lost) {
    end_call(*job);
    after(milliseconds(1), [this, job] { answered(job); });
  }
}

void Worker::end_call(Job& job) {
  job.called = false;
  shared_.judge.call_ended(of(job));
}

void Worker::answered(const JobPtr& job) {
  if (job->lost) {
    leave(job);
  } else if (job->given_back) {
    give_up(job, Trouble::kStopping, Duration(0));
  } else if (shared_.strikes(shared_.plan.provider_fails)) {
    failed(job);
  } else {
    after(shared_.random.between(milliseconds(5), milliseconds(400)),
          [this, job] { succeed(job); });
  }
}

void Worker::failed(const JobPtr& job) {
  log(*job, "the provider failed");
  const double which = shared_.random.real();
  if (job->calls < kCallsMax && which < 0.5) {
    after(which < 0.2 ? shared_.random.between(milliseconds(100), seconds(20)) : Duration(0),
          [this, job] { write_and_call(job); });
  } else if (which < 0.9) {
    // Some say when to come again.
    const Duration wait =
        which < 0.6 ? shared_.random.between(seconds(0), seconds(60)) : seconds(0);
    give_up(job, Trouble::kNobodyNow, wait);
  } else {
    give_up(job, Trouble::kContentRefused, Duration(0));
  }
}

// --- the end

void Worker::succeed(const JobPtr& job) {
  store::SettleCommand command;
  command.kind = ClaimEnd::Kind::kSucceed;
  command.output_key = encode_base32(job->claim.task.uuid) + "/" + std::to_string(job->claim.epoch);
  command.duration_ms = static_cast<std::int64_t>(shared_.random.below(130'000));
  command.charge_max = shared_.random.chance(0.3) ? credits(20) : kHoldAmount;
  shared_.judge.delivered(of(*job), command.output_key, command.duration_ms, command.charge_max);
  command.task = job->claim.task;
  command.user = job->claim.user;
  command.epoch = job->claim.epoch;
  settle(job, command, 0);
}

void Worker::give_up(const JobPtr& job, Trouble trouble, Duration not_before) {
  const auto wait = std::chrono::duration_cast<milliseconds>(not_before);
  const auto left = job->claim.until_deadline - (steady() - job->began_at);
  store::SettleCommand command{end_by(trouble,
                                      job->claim.claims,
                                      std::chrono::duration_cast<milliseconds>(left),
                                      shared_.random.jitter(),
                                      wait)};
  command.task = job->claim.task;
  command.user = job->claim.user;
  command.epoch = job->claim.epoch;
  log(*job, "gives up");
  settle(job, command, 0);
}

void Worker::settle(const JobPtr& job, const store::SettleCommand& command, int tries) {
  if (job->lost) {
    leave(job);
    return;
  }
  settlements_.submit(command, [this, job, command, tries](const auto& outcome) {
    using Outcome = store::SettleOutcome;
    if (!outcome && outcome.error() == store::StoreFault::kLocked) {
      step_aside(job);
    }
    if (!outcome || outcome->outcome == Outcome::kFailed) {
      after(store_pause(tries), [this, job, command, tries] { settle(job, command, tries + 1); });
      return;
    }
    publisher_.submit(outcome->released);
    if (outcome->outcome == Outcome::kNotOurs) {
      log(*job, "was not mine any more");
    } else {
      log(*job, outcome->outcome == Outcome::kSettled ? "settled" : "put back");
      const bool succeeded = command.kind == ClaimEnd::Kind::kSucceed;
      const bool worked = succeeded || command.failure != FailureCode::kDeadlineExceeded;
      ended_ += outcome->outcome == Outcome::kSettled && worked ? 1U : 0U;
      shared_.judge.settle_answered(of(*job), succeeded, command.output_key);
    }
    leave(job);
  });
}

// --- leases

bool Worker::lease_is_over(const Job& job) const {
  return steady() - job.lease_from > kLeaseSelfStop && !shared_.is(Mutant::kNoSelfStop);
}

void Worker::watch() {
  std::vector<JobPtr> all;
  for (const auto& [task, job] : jobs_) {
    all.push_back(job);
  }
  for (const JobPtr& job : all) {
    if (job->lost) {
      continue;
    }
    if (lease_is_over(*job)) {
      lose(job, "not renewed in time");
    } else if (!job->renewing && steady() - job->lease_from > kLeaseRenew) {
      job->renewing = true;
      renew(job);
    }
  }
  after(kWatchEvery, [this] { watch(); });
}

void Worker::renew(const JobPtr& job) {
  const auto asked_at = steady();
  renewals_.submit({job->claim.task, job->claim.epoch}, [this, job, asked_at](const auto& ours) {
    job->renewing = false;
    if (ours && *ours) {
      job->lease_from = shared_.is(Mutant::kLeaseFromAnswer) ? steady() : asked_at;
      const auto ago = std::chrono::duration_cast<Duration>(steady() - asked_at);
      shared_.judge.leased(of(*job), shared_.timeline.now() - ago);
    } else if (ours) {
      lose(job, "taken back");
    }
  });
}

void Worker::lose(const JobPtr& job, const char* why) {
  if (std::exchange(job->lost, true)) {
    return;
  }
  log(*job, std::string("lost: ") + why);
  if (job->called) {
    end_call(*job);
    after(milliseconds(1), [this, job] { answered(job); });
  }
}

// --- upkeep

// The sweeper's thread: one thing after the other.
void Worker::report() {
  if (steady() < next_report_) {
    upkeep();
    return;
  }
  next_report_ = steady() + kReportEvery;
  database_.execute(
      *this,
      [this, places = shared_.plan.places, free = room().bulk, ended = ended_] {
        database_.workers[number()] = {places, free, ended, database_.now()};
      },
      [this](bool) { upkeep(); });
}

void Worker::upkeep() {
  sweeps_.sweep(publisher_.flows(), queues_seen(), [this](const Sweeps::Result& result) {
    const auto& [tried, others] = result.publish;
    publisher_.submit(take_tried(tried));
    publisher_.submit(take(others));
    const auto go_on_later = [this, pause = result.more ? Duration(0) : kLookEvery] {
      after(pause, [this] { report(); });
    };
    if (steady() < next_crowds_) {
      go_on_later();
      return;
    }
    crowds_.look([this, go_on_later] {
      next_crowds_ = steady() + kLookEvery;
      go_on_later();
    });
  });
}

// As in worker/upkeep/puller.cc.
void Worker::pull() {
  const bool connected = broker_.connected();
  while (!asked_at_.empty() && steady() - asked_at_.front().first > seconds(5)) {
    asked_for_.erase(asked_at_.front().second);
    asked_at_.pop_front();
  }
  const auto go_on_pulling = [this, connected] {
    const Duration pause = connected ? (finding_ ? milliseconds(250) : milliseconds(3000))
                                     : (finding_ ? milliseconds(50) : milliseconds(500));
    after(pause, [this] {
      if (!closed_) {
        pull();
      }
    });
  };
  const Room free = room();
  const std::size_t most = std::max(free.bulk, free.express);
  if (most == 0) {
    go_on_pulling();
    return;
  }
  const auto found = std::make_shared<std::vector<Hint>>();
  database_.execute(
      *this,
      [this, found, most, connected, express_only = free.bulk == 0] {
        *found = store_.ready(most, seconds(connected ? 1 : 0), asked_for_, express_only);
      },
      [this, found, go_on_pulling](bool) {
        std::set<TaskId> left;
        for (const Hint& hint : take(*found)) {
          left.insert(hint.task);
        }
        for (const Hint& hint : *found) {
          if (!left.contains(hint.task)) {
            asked_for_.insert(hint.task);
            asked_at_.emplace_back(steady(), hint.task);
          }
        }
        finding_ = !found->empty();
        go_on_pulling();
      });
}

void Worker::stop(Action ended) {
  closed_ = true;
  waiting_ = {};
  broker_.leave(*this);
  if (suspect_ != nullptr && isolation_.waits()) {
    const JobPtr job = suspect_;
    suspect_is_over();
    give_back(job, Duration(0));
  }
  after(kDrainLimit, [this] {
    for (const auto& [task, job] : std::map(jobs_)) {
      job->given_back = true;
      if (job->called) {
        end_call(*job);
        after(milliseconds(1), [this, held = job] { answered(held); });
      }
    }
  });
  after(kDrainLimit + kGiveBackLimit, [this, ended = std::move(ended)] {
    database_.execute(
        *this,
        [this] { database_.workers[number()].has_ended = true; },
        [ended](bool) { ended(); });
  });
}

}  // namespace audiogen::simulation
