#include "common/http/connection_budget.h"

#include <algorithm>

namespace audiogen::http {

ConnectionBudget::Victims ConnectionBudget::add(const std::shared_ptr<Connection>& connection,
                                                std::uint64_t number,
                                                std::uint64_t holder,
                                                std::size_t bytes) {
  Victims victims;
  const MutexLock lock(mutex_);
  auto [at, fresh] = pieces_.try_emplace(connection.get());
  Piece& piece = at->second;
  if (fresh) {
    piece = {.connection = connection,
             .number = number,
             .holder = holder,
             .bytes = 0,
             .since = Clock::now()};
    holders_[holder].pieces.emplace(piece.since, connection.get());
  }
  piece.bytes += bytes;
  holders_[piece.holder].bytes += bytes;
  used_ += bytes;
  while (used_ > limit_ && !pieces_.empty()) {
    const Connection* const chosen = worst();
    const Piece& last = pieces_.at(chosen);
    if (auto victim = last.connection.lock()) {
      victims.push_back({.connection = std::move(victim), .number = last.number});
    }
    forget(chosen);
  }
  return victims;
}

const Connection* ConnectionBudget::worst() const {
  return std::max_element(
             holders_.begin(),
             holders_.end(),
             [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; })
      ->second.pieces.begin()
      ->second;
}

void ConnectionBudget::forget(const Connection* connection) {
  const auto found = pieces_.find(connection);
  if (found == pieces_.end()) {
    return;
  }
  const Piece& piece = found->second;
  const auto holder = holders_.find(piece.holder);
  holder->second.bytes -= piece.bytes;
  holder->second.pieces.erase({piece.since, connection});
  if (holder->second.pieces.empty()) {
    holders_.erase(holder);
  }
  used_ -= piece.bytes;
  pieces_.erase(found);
}

void ConnectionBudget::release(const Connection* connection) {
  const MutexLock lock(mutex_);
  forget(connection);
}

std::size_t ConnectionBudget::used() const {
  const MutexLock lock(mutex_);
  return used_;
}

}  // namespace audiogen::http
