#include "worker/job/roster.h"

#include <algorithm>
#include <utility>

namespace audiogen::worker {

Roster::Roster(std::size_t places, std::function<void()> freed)
    : places_(places), freed_(std::move(freed)) {}

std::size_t Roster::reserve(std::size_t most, std::size_t spoken_for) {
  const std::scoped_lock lock(mutex_);
  const std::size_t count = std::min(most, left(spoken_for));
  reserved_ += count;
  return count;
}

std::size_t Roster::free(std::size_t spoken_for) const {
  const std::scoped_lock lock(mutex_);
  return left(spoken_for);
}

void Roster::unreserve() {
  {
    const std::scoped_lock lock(mutex_);
    --reserved_;
  }
  changed_.notify_all();
  freed_();
}

void Roster::enter(const JobPtr& job) {
  const std::scoped_lock lock(mutex_);
  --reserved_;
  // Where it was lost and claimed again, the old job is still on its way out.
  Entry& entry = jobs_[job->claim.task];
  uncount(entry);
  entry = Entry{.job = job};
}

void Roster::go_out(const JobPtr& job) {
  {
    const std::scoped_lock lock(mutex_);
    Entry* const entry = entry_of(job);
    if (entry == nullptr || entry->out) {
      return;
    }
    entry->out = true;
    ++out_;
  }
  freed_();
}

void Roster::come_in(const JobPtr& job) {
  const std::scoped_lock lock(mutex_);
  if (Entry* const entry = entry_of(job); entry != nullptr && entry->out) {
    entry->out = false;
    --out_;
  }
}

void Roster::step_aside(const JobPtr& job) {
  {
    const std::scoped_lock lock(mutex_);
    Entry* const entry = entry_of(job);
    if (entry == nullptr || entry->aside || aside_ >= places_) {
      return;
    }
    entry->aside = true;
    ++aside_;
  }
  freed_();
}

void Roster::leave(const JobPtr& job) {
  {
    const std::scoped_lock lock(mutex_);
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

std::vector<JobPtr> Roster::all() const {
  const std::scoped_lock lock(mutex_);
  std::vector<JobPtr> out;
  out.reserve(jobs_.size());
  for (const auto& [task, entry] : jobs_) {
    out.push_back(entry.job);
  }
  return out;
}

std::size_t Roster::size() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.size();
}

bool Roster::wait_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return jobs_.empty() && reserved_ == 0; });
}

Roster::Entry* Roster::entry_of(const JobPtr& job) {
  const auto found = jobs_.find(job->claim.task);
  return found == jobs_.end() || found->second.job != job ? nullptr : &found->second;
}

void Roster::uncount(const Entry& entry) {
  out_ -= entry.out ? 1U : 0U;
  aside_ -= entry.aside ? 1U : 0U;
}

}  // namespace audiogen::worker
