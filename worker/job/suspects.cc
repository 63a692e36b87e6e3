#include "worker/job/suspects.h"

#include <algorithm>
#include <utility>

#include "common/base/jitter.h"
#include "common/base/log.h"
#include "common/domain/lifecycle.h"

namespace audiogen::worker {
namespace {

// Whether the one that waits was lost, or has waited for too long; what leaves says so itself.
constexpr auto kWatchEvery = std::chrono::seconds(1);

// In [0, 1).
double chance() {
  return (jitter() + 1) / 2;
}

}  // namespace

bool Isolation::offer(TaskId task, bool busy, double chance, Clock::time_point now) {
  if (turn_) {
    return is(Turn::Stage::kOffered) && turn_->task == task;
  }
  const bool rests = rest_until_ && now < *rest_until_ && (busy || now < *ended_at_ + kRestAlone);
  if (rests || (busy && chance < kGoOn)) {
    return false;
  }
  turn_ = Turn{.task = task, .from = now};
  return true;
}

bool Isolation::granted(std::optional<TaskId> task) {
  if (!is(Turn::Stage::kOffered)) {
    return true;
  }
  if (task != turn_->task) {
    turn_.reset();
    return false;
  }
  turn_->stage = Turn::Stage::kWaits;
  return true;
}

Isolation::Next Isolation::look(Roster::Company company, Clock::time_point now) {
  if (company == Roster::Company::kGone) {
    return Next::kOver;
  }
  if (!waits()) {
    return Next::kWait;
  }
  if (company == Roster::Company::kAlone) {
    turn_->stage = Turn::Stage::kRuns;
    patience_ = kPatience;
    return Next::kBegin;
  }
  if (now - turn_->from < patience_) {
    return Next::kWait;
  }
  patience_ = std::min(patience_ * kPatienceGrows, kPatienceMost);
  return Next::kGiveBack;
}

void Isolation::end(Clock::time_point now) {
  ended_at_ = now;
  rest_until_ = now + (now - turn_->from);
  turn_.reset();
}

Suspects::Suspects(Roster& roster, Scheduler& scheduler, Begin begin, GiveBack give_back)
    : roster_(roster),
      scheduler_(scheduler),
      begin_(std::move(begin)),
      give_back_(std::move(give_back)) {}

bool Suspects::offer(TaskId task) {
  const MutexLock lock(mutex_);
  if (stopped_ || !isolation_.offer(task, roster_.size() > 0, chance(), Clock::now())) {
    return false;
  }
  roster_.close();
  return true;
}

void Suspects::granted(std::optional<TaskId> task) {
  {
    const MutexLock lock(mutex_);
    if (isolation_.granted(task)) {
      return;
    }
  }
  roster_.open();
}

void Suspects::came(const JobPtr& job) {
  MutexLock lock(mutex_);
  if (stopped_) {
    end_turn();
    lock.unlock();
    roster_.open();
    give_back_(job, std::chrono::milliseconds(0));
    return;
  }
  job_ = job;
  lock.unlock();
  log::info("a task whose workers were lost will run alone",
            about(*job),
            {{"lost_leases", job->claim.lost_leases}});
  watch(job);
}

void Suspects::watch(const JobPtr& job) {
  look();
  const MutexLock lock(mutex_);
  if (job_ == job && isolation_.waits()) {
    scheduler_.after(kWatchEvery, [this, job] { watch(job); });
  }
}

void Suspects::look() {
  MutexLock lock(mutex_);
  if (!job_) {
    return;
  }
  const JobPtr job = job_;
  const auto company = roster_.company_of(job);
  if (company != Roster::Company::kGone && isolation_.waits() && job->is_lost()) {
    lock.unlock();
    roster_.leave(job);  // Which looks again.
    return;
  }
  const Isolation::Next next = isolation_.look(company, Clock::now());
  if (next == Isolation::Next::kGiveBack || next == Isolation::Next::kOver) {
    end_turn();
  }
  lock.unlock();
  switch (next) {
    case Isolation::Next::kWait:
      break;
    case Isolation::Next::kBegin:
      begin_(job);
      break;
    case Isolation::Next::kGiveBack:
      roster_.open();
      give_back_(job, alone_delay(jitter()));
      break;
    case Isolation::Next::kOver:
      roster_.open();
      break;
  }
}

void Suspects::end_turn() {
  isolation_.end(Clock::now());
  job_.reset();
}

void Suspects::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  if (job_ && isolation_.waits()) {
    const JobPtr job = job_;
    end_turn();
    lock.unlock();
    roster_.open();
    give_back_(job, std::chrono::milliseconds(0));
  }
}

}  // namespace audiogen::worker
