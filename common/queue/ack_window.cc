// Consumer acknowledgements: delivery tags are consecutive, work ends in any order.
#include "common/queue/ack_window.h"

namespace audiogen::queue {

bool AckWindow::delivered(std::uint64_t tag, std::size_t parts) {
  if (tag != first_ + entries_.size()) {
    return false;
  }
  entries_.push_back({.state = State::kOpen, .parts = parts});
  return true;
}

AckWindow::Entry* AckWindow::open(std::uint64_t tag) {
  const bool known = tag >= first_ && tag < first_ + entries_.size();
  return known && entries_[tag - first_].state == State::kOpen ? &entries_[tag - first_] : nullptr;
}

void AckWindow::done(std::uint64_t tag) {
  Entry* const entry = open(tag);
  if (entry != nullptr && --entry->parts == 0) {
    entry->state = State::kDone;
    ++waiting_;
  }
}

void AckWindow::settled(std::uint64_t tag) {
  if (Entry* const entry = open(tag)) {
    entry->state = State::kSettled;
  }
}

std::vector<AckWindow::Ack> AckWindow::take() {
  std::vector<Ack> out;
  if (waiting_ == 0) {
    return out;
  }
  // The broker knows no tag that was settled before, so the covering ack names the last done one.
  Ack prefix;
  std::size_t covered = 0;
  for (; !entries_.empty() && entries_.front().state != State::kOpen;
       entries_.pop_front(), ++first_) {
    if (entries_.front().state == State::kDone) {
      prefix.tag = first_;
      ++covered;
    }
  }
  if (covered > 0) {
    prefix.multiple = covered > 1;
    out.push_back(prefix);
  }
  for (std::size_t i = 0; covered < waiting_; ++i) {
    if (entries_[i].state == State::kDone) {
      out.push_back({.tag = first_ + i, .multiple = false});
      entries_[i].state = State::kSettled;
      ++covered;
    }
  }
  waiting_ = 0;
  return out;
}

}  // namespace audiogen::queue
