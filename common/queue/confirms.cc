// Publisher confirms: tags are consecutive, answers come in any order and may cover many.
#include "common/queue/confirms.h"

#include <algorithm>

namespace audiogen::queue {

void Confirms::sent(const Message& message, TimePoint now) {
  entries_.push_back({.message = message, .at = now});
  ++open_;
  open_hints_ += message.hints.size();
}

bool Confirms::returned(std::span<const Hint> hints) {
  // Returns carry no tag. Of equal messages the oldest is meant: returns come in the order of
  // sending.
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.state == State::kOpen &&
           std::equal(
               hints.begin(), hints.end(), entry.message.hints.begin(), entry.message.hints.end());
  });
  if (found == entries_.end()) {
    return false;
  }
  found->state = State::kReturned;
  return true;
}

std::optional<Confirms::Settled> Confirms::ack(std::uint64_t tag, bool multiple) {
  return settle(tag, multiple, true);
}

std::optional<Confirms::Settled> Confirms::nack(std::uint64_t tag, bool multiple) {
  return settle(tag, multiple, false);
}

std::optional<Confirms::Settled> Confirms::settle(std::uint64_t tag, bool multiple, bool accepted) {
  if (tag < first_ || tag >= first_ + entries_.size() ||
      entries_[tag - first_].state == State::kSettled) {
    return std::nullopt;
  }
  Settled out;
  for (std::uint64_t at = multiple ? first_ : tag; at <= tag; ++at) {
    Entry& entry = entries_[at - first_];
    if (entry.state == State::kSettled) {
      continue;
    }
    if (!accepted) {
      out.refused += entry.message.hints.size();
    } else if (entry.state == State::kReturned) {
      out.returned += entry.message.hints.size();
    } else {
      out.taken.insert(out.taken.end(), entry.message.hints.begin(), entry.message.hints.end());
    }
    entry.state = State::kSettled;
    --open_;
    open_hints_ -= entry.message.hints.size();
  }
  while (!entries_.empty() && entries_.front().state == State::kSettled) {
    entries_.pop_front();
    ++first_;
  }
  return out;
}

std::optional<Confirms::TimePoint> Confirms::oldest() const {
  return entries_.empty() ? std::nullopt : std::optional(entries_.front().at);
}

void Confirms::restart_clocks(TimePoint now) {
  for (Entry& entry : entries_) {
    entry.at = now;
  }
}

std::vector<Confirms::Message> Confirms::take_unknown() {
  std::vector<Message> out;
  for (Entry& entry : entries_) {
    if (entry.state == State::kOpen) {
      out.push_back(std::move(entry.message));
    }
  }
  first_ += entries_.size();
  entries_.clear();
  open_ = 0;
  open_hints_ = 0;
  return out;
}

}  // namespace audiogen::queue
