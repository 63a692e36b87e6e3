// Consumer acknowledgements: delivery tags are consecutive, work ends in any order.
#include "common/queue/ack_window.h"

namespace audiogen::queue {

bool AckWindow::delivered(std::uint64_t tag) {
  if (tag != first_ + states_.size()) {
    return false;
  }
  states_.push_back(State::kOpen);
  return true;
}

void AckWindow::done(std::uint64_t tag) {
  if (tag >= first_ && tag < first_ + states_.size() && states_[tag - first_] == State::kOpen) {
    states_[tag - first_] = State::kDone;
    ++waiting_;
  }
}

void AckWindow::settled(std::uint64_t tag) {
  if (tag >= first_ && tag < first_ + states_.size() && states_[tag - first_] == State::kOpen) {
    states_[tag - first_] = State::kSettled;
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
  for (; !states_.empty() && states_.front() != State::kOpen; states_.pop_front(), ++first_) {
    if (states_.front() == State::kDone) {
      prefix.tag = first_;
      ++covered;
    }
  }
  if (covered > 0) {
    prefix.multiple = covered > 1;
    out.push_back(prefix);
  }
  for (std::size_t i = 0; covered < waiting_; ++i) {
    if (states_[i] == State::kDone) {
      out.push_back({.tag = first_ + i, .multiple = false});
      states_[i] = State::kSettled;
      ++covered;
    }
  }
  waiting_ = 0;
  return out;
}

}  // namespace audiogen::queue
