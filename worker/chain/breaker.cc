#include "worker/chain/breaker.h"

#include <algorithm>
#include <utility>

namespace audiogen::worker {

std::int64_t Breaker::slot_number(Time now) const {
  return now.time_since_epoch() / (std::chrono::nanoseconds(rules_.window) / kSlots);
}

const Breaker::Override* Breaker::overridden(Time now) const {
  return override_ && now < override_->until ? &*override_ : nullptr;
}

Breaker::State Breaker::state(Time now) const {
  if (const Override* const said = overridden(now)) {
    return said->open ? State::kOpen : State::kClosed;
  }
  return own_state(now);
}

Breaker::State Breaker::own_state(Time now) const {
  if (!opened_at_) {
    return State::kClosed;
  }
  return now - *opened_at_ >= open_for_ ? State::kHalfOpen : State::kOpen;
}

Breaker::Time::duration Breaker::closed_to_calls(Time now) const {
  constexpr Time::duration kNone{0};
  if (const Override* const said = overridden(now)) {
    return said->open ? std::min<Time::duration>(said->until - now, rules_.open_for) : kNone;
  }
  if (!opened_at_) {
    return kNone;
  }
  if (own_state(now) == State::kOpen) {
    return *opened_at_ + open_for_ - now;
  }
  return probe_at_ ? std::max<Time::duration>(kNone, *probe_at_ + rules_.open_for - now) : kNone;
}

bool Breaker::allow(Time now) {
  if (closed_to_calls(now).count() > 0) {
    return false;
  }
  if (opened_at_ && overridden(now) == nullptr) {
    probe_at_ = now;
  }
  ++under_way_;
  return true;
}

Breaker::Slot& Breaker::slot(Time now) {
  const std::int64_t number = slot_number(now);
  Slot& out = slots_[static_cast<std::size_t>(number % kSlots)];
  if (out.number != number) {
    out = Slot{.number = number};
  }
  return out;
}

void Breaker::answered(Time now) {
  under_way_ -= std::min(under_way_, 1U);
  if (!opened_at_) {
    ++slot(now).calls;
  }
}

void Breaker::take_back_call(Time now) {
  Slot& recent = slot(now);
  recent.calls -= std::min(recent.calls, 1U);
}

void Breaker::open(Time now, Failure failure) {
  opened_at_ = now;
  open_for_ = failure == Failure::kLasting ? rules_.open_for_lasting : rules_.open_for;
  failures_in_row_ = 0;
  refusals_in_row_ = 0;
  failed_.clear();
  opened_by_.reset();
}

Breaker::Known Breaker::remember(std::uint64_t what, Failure failure) {
  constexpr std::size_t kMost = 64;  // Long before, it is open, or all fail in passing.
  const auto known = std::find_if(
      failed_.begin(), failed_.end(), [what](const Failed& one) { return one.what == what; });
  if (known == failed_.end()) {
    if (failed_.size() < kMost) {
      failed_.push_back({what, failure});
    }
    return Known::kNot;
  }
  if (known->failure >= failure) {
    return Known::kAsBad;
  }
  known->failure = failure;
  return Known::kLessBad;
}

void Breaker::proved(Failure failure, Time now, std::optional<std::uint64_t> of) {
  const bool success = failure == Failure::kNone;
  if (opened_at_) {
    if (own_state(now) == State::kOpen) {
      return;  // A call from before it opened: its failure is what opened it.
    }
    probe_at_.reset();
    if (success) {
      opened_at_.reset();
      opened_by_.reset();
      troubled_since_.reset();
      slots_ = {};
    } else if (failure == Failure::kThrottled) {
      pause_probes(now);
    } else {
      open(now, failure);
    }
    return;
  }
  Known known = Known::kNot;
  if (success) {
    failed_.clear();
  } else if (of && failure != Failure::kLasting) {
    known = remember(*of, failure);
  }
  const bool counts = known == Known::kNot && failure != Failure::kThrottled;
  if (!counts) {
    // That it fails again says nothing new, and "later" is no failure. Neither says that others
    // work.
    take_back_call(now);
  }
  if (known == Known::kAsBad) {
    return;
  }
  if (success) {
    failures_in_row_ = 0;
    refusals_in_row_ = 0;
  } else if (failure != Failure::kPassing) {
    failures_in_row_ += failure == Failure::kThrottled ? 0 : 1;
    ++refusals_in_row_;
  }
  slot(now).failures += success || !counts ? 0U : 1U;
  std::uint32_t calls = 0;
  std::uint32_t failures = 0;
  for (const Slot& recent : slots_) {
    if (recent.number > slot_number(now) - kSlots) {
      calls += recent.calls;
      failures += recent.failures;
    }
  }
  calls = std::max(calls, failures);  // Some were proved bad when their answers are out of sight.
  // Among many calls a few failures in a row are chance, and the first answers to come. Where calls
  // are many but slow (each of them times out), too few answers are in the window for the share.
  const bool few = calls + under_way_ < rules_.calls_min;
  const bool share = calls >= rules_.calls_min;
  const bool in_row = few && failures_in_row_ >= rules_.failures_in_row;
  // Among many calls as well, where the last word is that it wants fewer: no share tells of those.
  const bool refused =
      (!share || failure == Failure::kThrottled) && refusals_in_row_ >= rules_.calls_min;
  if (refused || (share ? failures > rules_.failures_max * calls : in_row)) {
    Row row{.failed = failed_, .failures = failures_in_row_, .refusals = refusals_in_row_};
    open(now, failure);
    if (!refused && !share && failure == Failure::kUsual) {
      opened_by_ = std::move(row);
    }
    troubled_since_ = now;
    probe_at_.reset();
  }
}

void Breaker::take_back(std::uint64_t of) {
  if (opened_at_ && !opened_by_) {
    return;
  }
  std::vector<Failed>& failed = opened_by_ ? opened_by_->failed : failed_;
  std::uint32_t& in_row = opened_by_ ? opened_by_->failures : failures_in_row_;
  const auto known = std::find_if(failed.begin(), failed.end(), [of](const Failed& one) {
    return one.what == of && one.failure == Failure::kUsual;
  });
  if (known == failed.end()) {
    return;
  }
  known->failure = Failure::kPassing;
  in_row -= std::min(in_row, 1U);
  if (opened_by_ && in_row < rules_.failures_in_row) {
    failed_ = std::move(opened_by_->failed);
    failures_in_row_ = opened_by_->failures;
    refusals_in_row_ = opened_by_->refusals;
    opened_by_.reset();
    opened_at_.reset();
    probe_at_.reset();
    troubled_since_.reset();
  }
}

void Breaker::said_nothing(Time now) {
  under_way_ -= std::min(under_way_, 1U);
  if (own_state(now) == State::kHalfOpen) {
    probe_at_.reset();
  }
}

void Breaker::said_later(Time now) {
  said_nothing(now);
  if (own_state(now) == State::kHalfOpen) {
    pause_probes(now);
  }
}

// Another is made soon, but not at once: or all that wait for it would ask, one after the other, as
// long as it says "later".
void Breaker::pause_probes(Time now) {
  probe_at_ = now - rules_.open_for + rules_.probe_pause;
}

void Breaker::proved_nothing(Time now) {
  if (!opened_at_) {
    take_back_call(now);
  } else if (own_state(now) == State::kHalfOpen) {
    probe_at_.reset();
  }
}

std::string_view breaker_state_name(Breaker::State state) {
  switch (state) {
    case Breaker::State::kClosed:
      return "closed";
    case Breaker::State::kOpen:
      return "open";
    case Breaker::State::kHalfOpen:
      return "half_open";
  }
  return "closed";
}

}  // namespace audiogen::worker
