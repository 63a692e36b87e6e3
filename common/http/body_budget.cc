#include "common/http/body_budget.h"

#include <algorithm>

namespace audiogen::http {

BodyBudget::Victims BodyBudget::add(const std::shared_ptr<Connection>& connection,
                                    std::uint64_t number,
                                    std::uint64_t holder,
                                    std::size_t bytes) {
  Victims victims;
  const MutexLock lock(mutex_);
  auto [at, fresh] = bodies_.try_emplace(connection.get());
  Body& body = at->second;
  if (fresh) {
    body = {.connection = connection,
            .number = number,
            .holder = holder,
            .bytes = 0,
            .since = Clock::now()};
    holders_[holder].bodies.emplace(body.since, connection.get());
  }
  body.bytes += bytes;
  holders_[body.holder].bytes += bytes;
  used_ += bytes;
  while (used_ > limit_ && !bodies_.empty()) {
    const Connection* const chosen = worst();
    const Body& last = bodies_.at(chosen);
    if (auto victim = last.connection.lock()) {
      victims.push_back({.connection = std::move(victim), .number = last.number});
    }
    forget(chosen);
  }
  return victims;
}

const Connection* BodyBudget::worst() const {
  return std::max_element(
             holders_.begin(),
             holders_.end(),
             [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; })
      ->second.bodies.begin()
      ->second;
}

void BodyBudget::forget(const Connection* connection) {
  const auto found = bodies_.find(connection);
  if (found == bodies_.end()) {
    return;
  }
  const Body& body = found->second;
  const auto holder = holders_.find(body.holder);
  holder->second.bytes -= body.bytes;
  holder->second.bodies.erase({body.since, connection});
  if (holder->second.bodies.empty()) {
    holders_.erase(holder);
  }
  used_ -= body.bytes;
  bodies_.erase(found);
}

void BodyBudget::release(const Connection* connection) {
  const MutexLock lock(mutex_);
  forget(connection);
}

std::size_t BodyBudget::used() const {
  const MutexLock lock(mutex_);
  return used_;
}

}  // namespace audiogen::http
