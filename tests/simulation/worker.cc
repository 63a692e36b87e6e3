#include "tests/simulation/worker.h"

#include <algorithm>
#include <utility>

namespace audiogen::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kWatchEvery = seconds(1);  // Of leases.
constexpr Duration kLookEvery = seconds(1);   // Of the sweeper.
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

Worker::Worker(Shared& shared, Database& database, Store& store, Broker& broker, std::size_t number)
    : Process(shared.timeline, shared.random, "worker " + std::to_string(number)),
      shared_(shared),
      database_(database),
      store_(store),
      broker_(broker),
      claimant_{make_worker_id(number), number},
      claims_(shared,
              database,
              *this,
              std::nullopt,
              milliseconds(500),
              [this](Transaction& tx, auto& items, Runs& runs) {
                store_.claim(tx, items, runs, claimant_);
              }),
      renewals_(
          shared,
          database,
          *this,
          false,
          seconds(2),
          [this](Transaction& tx, auto& items, Runs&) { store_.renew(tx, items, claimant_.id); }),
      attempts_(shared,
                database,
                *this,
                false,
                seconds(2),
                [this](Transaction& tx, auto& items, Runs&) { store_.start_attempts(tx, items); }),
      settlements_(shared,
                   database,
                   *this,
                   store::SettleOutcome::kFailed,
                   seconds(2),
                   [this](Transaction& tx, auto& items, Runs&) { store_.settle(tx, items); }),
      publisher_(shared, broker, *this, [](const Hint&) {}),
      sweeps_(shared, database, store, *this) {
  after(shared.random.between(milliseconds(0), kLookEvery), [this] { sweep(); });
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

// --- intake

std::size_t Worker::room() const {
  const std::size_t taken = jobs_.size() + reserved_ + waiting_.size();
  return closed_ || taken >= shared_.plan.places ? 0 : shared_.plan.places - taken;
}

void Worker::deliver(const Delivery& delivery) {
  waiting_.push_back(delivery);
  go_on();
}

std::size_t Worker::take(const std::vector<Hint>& hints) {
  const std::size_t count = std::min(hints.size(), room());
  reserved_ += count;
  for (std::size_t i = 0; i < count; ++i) {
    claim({hints[i], 0}, 0);
  }
  return count;
}

void Worker::go_on() {
  while (!closed_ && !waiting_.empty() && jobs_.size() + reserved_ < shared_.plan.places) {
    const Delivery next = waiting_.front();
    waiting_.pop_front();
    ++reserved_;
    claim(next, 0);
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
    --reserved_;
    return;
  }
  const auto asked_at = steady();
  claims_.submit(delivery.hint, [this, delivery, tries, asked_at](const auto& outcome) {
    const bool locked = !outcome && outcome.error() == store::StoreFault::kLocked;
    if (!outcome && !locked) {
      after(store_pause(tries), [this, delivery, tries] { claim(delivery, tries + 1); });
      return;
    }
    --reserved_;
    if (locked && closed_) {
      return;
    }
    ack(delivery);
    if (outcome && *outcome) {
      claimed(**outcome, asked_at);
    }
    go_on();
  });
}

void Worker::claimed(const store::Claim& claim, ClockLook::Steady asked_at) {
  const auto job = std::make_shared<Job>();
  job->claim = claim;
  job->lease_from = shared_.is(Mutant::kLeaseFromAnswer) ? steady() : asked_at;
  job->row = claim.attempts + (claim.provider.empty() ? 0U : 1U);
  jobs_[claim.task] = job;  // Where it was lost and claimed again, the old one is on its way out.
  const auto ago = std::chrono::duration_cast<Duration>(steady() - asked_at);
  shared_.judge.leased(of(*job), shared_.timeline.now() - ago);
  log(*job, "is mine, claim " + std::to_string(claim.claims));
  if (shared_.strikes(shared_.plan.uncalled)) {
    const std::vector<Trouble> troubles = {
        Trouble::kOurs, Trouble::kNoRoom, Trouble::kBadReference, Trouble::kNobodyNow};
    const Trouble trouble = shared_.random.pick(troubles);
    after(shared_.random.between(milliseconds(1), seconds(8)), [this, job, trouble] {
      if (job->lost) {
        leave(job);
      } else {
        give_up(job, trouble, trouble == Trouble::kNoRoom ? seconds(3) : seconds(0));
      }
    });
  } else if (claim.provider.empty()) {
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
  store::AttemptStart start;
  start.task = job->claim.task;
  start.epoch = job->claim.epoch;
  start.n = row;
  attempts_.submit(start, [this, job, row](const auto& ours) {
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
  store::SettleCommand command{end_by(trouble, job->claim.claims, shared_.random.jitter(), wait)};
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
    if (!outcome || *outcome == Outcome::kFailed) {
      after(store_pause(tries), [this, job, command, tries] { settle(job, command, tries + 1); });
      return;
    }
    if (*outcome == Outcome::kNotOurs) {
      log(*job, "was not mine any more");
    } else {
      log(*job, *outcome == Outcome::kSettled ? "settled" : "put back");
      const bool succeeded = command.kind == ClaimEnd::Kind::kSucceed;
      shared_.judge.settle_answered(of(*job), succeeded, command.output_key);
    }
    leave(job);
  });
}

void Worker::leave(const JobPtr& job) {
  const auto found = jobs_.find(job->claim.task);
  if (found != jobs_.end() && found->second == job) {
    jobs_.erase(found);
  }
  go_on();
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

void Worker::sweep() {
  sweeps_.sweep(publisher_.flows(), [this](const Sweeps::Result& result) {
    const std::size_t taken = take(result.publish);
    publisher_.submit(std::span(result.publish).subspan(taken));
    after(result.more ? Duration(0) : kLookEvery, [this] { sweep(); });
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
  const std::size_t places = room();
  if (places == 0) {
    go_on_pulling();
    return;
  }
  const auto found = std::make_shared<std::vector<Hint>>();
  database_.execute(
      *this,
      [this, found, places, connected] {
        *found = store_.ready(places, seconds(connected ? 1 : 0), asked_for_);
      },
      [this, found, go_on_pulling](bool) {
        const std::size_t taken = take(*found);
        for (std::size_t i = 0; i < taken; ++i) {
          asked_for_.insert((*found)[i].task);
          asked_at_.emplace_back(steady(), (*found)[i].task);
        }
        finding_ = taken > 0 || !found->empty();
        go_on_pulling();
      });
}

void Worker::stop(Action ended) {
  closed_ = true;
  waiting_.clear();
  broker_.leave(*this);
  after(kDrainLimit, [this] {
    for (const auto& [task, job] : std::map(jobs_)) {
      job->given_back = true;
      if (job->called) {
        end_call(*job);
        after(milliseconds(1), [this, held = job] { answered(held); });
      }
    }
  });
  after(kDrainLimit + kGiveBackLimit, std::move(ended));
}

}  // namespace audiogen::simulation
