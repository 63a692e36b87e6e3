#include "worker/job/roster.h"

#include <algorithm>
#include <utility>

namespace audiogen::worker {

Roster::Roster(std::size_t places, std::function<void()> freed)
    : places_(places), freed_(std::move(freed)) {}

Room Roster::room(std::size_t callable) const {
  const MutexLock lock(mutex_);
  return {.bulk = left(Lane::kBulk, callable), .express = left(Lane::kExpress, callable)};
}

bool Roster::reserve(Lane lane, std::size_t callable, std::size_t spoken_for) {
  const MutexLock lock(mutex_);
  if (left(lane, callable) <= spoken_for) {
    return false;
  }
  ++reserved_;
  ++taken(lane);
  return true;
}

void Roster::unreserve(Lane lane) {
  {
    const MutexLock lock(mutex_);
    --reserved_;
    --taken(lane);
  }
  changed_.notify_all();
  freed_();
}

void Roster::enter(const JobPtr& job, Lane lane) {
  const MutexLock lock(mutex_);
  --reserved_;
  // Where it was lost and claimed again, the old job is still on its way out.
  Entry& entry = jobs_[job->claim.task];
  if (entry.job) {
    uncount(entry);
  }
  entry = Entry{.job = job, .lane = lane};
}

void Roster::begin(const JobPtr& job) {
  {
    const MutexLock lock(mutex_);
    Entry* const entry = entry_of(job);
    if (entry == nullptr || entry->begun) {
      return;
    }
    entry->begun = true;
    ++begun_;
  }
  freed_();
}

void Roster::go_out(const JobPtr& job) {
  {
    const MutexLock lock(mutex_);
    Entry* const entry = entry_of(job);
    if (entry == nullptr || entry->out) {
      return;
    }
    taken(entry->lane) -= entry->takes_place() ? 1U : 0U;
    entry->out = true;
    begun_ += entry->begun ? 0U : 1U;
    entry->begun = true;
  }
  freed_();
}

void Roster::come_in(const JobPtr& job) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = entry_of(job); entry != nullptr && entry->out) {
    entry->out = false;
    taken(entry->lane) += entry->takes_place() ? 1U : 0U;
  }
}

void Roster::step_aside(const JobPtr& job) {
  {
    const MutexLock lock(mutex_);
    Entry* const entry = entry_of(job);
    if (entry == nullptr || entry->aside || aside_ >= places_) {
      return;
    }
    taken(entry->lane) -= entry->takes_place() ? 1U : 0U;
    entry->aside = true;
    ++aside_;
  }
  freed_();
}

void Roster::leave(const JobPtr& job) {
  {
    const MutexLock lock(mutex_);
    const Entry* const entry = entry_of(job);
    if (entry == nullptr) {
      return;
    }
    uncount(*entry);
    jobs_.erase(job->claim.task);
  }
  changed_.notify_all();
  freed_();
}

void Roster::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
}

void Roster::open() {
  {
    const MutexLock lock(mutex_);
    closed_ = false;
  }
  freed_();
}

Roster::Company Roster::company_of(const JobPtr& job) const {
  const MutexLock lock(mutex_);
  if (!has(job) || jobs_.at(job->claim.task).aside) {
    return Company::kGone;
  }
  return jobs_.size() == 1 && reserved_ == 0 ? Company::kAlone : Company::kOthers;
}

std::vector<JobPtr> Roster::all() const {
  const MutexLock lock(mutex_);
  std::vector<JobPtr> out;
  out.reserve(jobs_.size());
  for (const auto& [task, entry] : jobs_) {
    out.push_back(entry.job);
  }
  return out;
}

std::size_t Roster::size() const {
  const MutexLock lock(mutex_);
  return jobs_.size();
}

bool Roster::wait_empty(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  return changed_.wait_for(
      lock, limit, [this]() LOCKS_REQUIRED(mutex_) { return jobs_.empty() && reserved_ == 0; });
}

Roster::Entry* Roster::entry_of(const JobPtr& job) {
  return has(job) ? &jobs_.find(job->claim.task)->second : nullptr;
}

bool Roster::has(const JobPtr& job) const {
  const auto found = jobs_.find(job->claim.task);
  return found != jobs_.end() && found->second.job == job;
}

std::size_t Roster::left(Lane lane, std::size_t callable) const {
  if (closed_) {
    return 0;
  }
  const auto rest = [](std::size_t all, std::size_t used) { return all - std::min(all, used); };
  const std::size_t more = places_ / kExpressPart;
  const std::size_t free = lane == Lane::kExpress ? rest(places_ + more, bulk_ + express_)
                                                  : rest(places_, bulk_ + rest(express_, more));
  return std::min(free, rest(callable, jobs_.size() - begun_ + reserved_));
}

void Roster::uncount(const Entry& entry) {
  taken(entry.lane) -= entry.takes_place() ? 1U : 0U;
  begun_ -= entry.begun ? 1U : 0U;
  aside_ -= entry.aside ? 1U : 0U;
}

}  // namespace audiogen::worker
