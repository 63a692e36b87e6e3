#include "common/domain/shares.h"

#include <algorithm>

namespace audiogen {
namespace {

constexpr double kPaceIn = 1000;  // Seconds.

// Of a user, all limits considered: one at the least.
std::uint32_t released_most(const OpenTasks& open, std::uint32_t window) {
  const std::uint32_t most = open.released_max == 0 ? window : std::min(window, open.released_max);
  return std::max(most, 1U);
}

// Of a time without looks nobody knows what was in it.
bool continues(std::optional<Instant> last, Instant now) {
  constexpr std::chrono::seconds kLooks{10};
  return last && now >= *last && now - *last <= kLooks;
}

}  // namespace

bool WorkersSeen::full() const {
  constexpr std::uint64_t kOf = 10;
  return room < places / kOf + 1;
}

std::optional<std::uint32_t> WindowWatch::look(const WorkersSeen& now,
                                               std::uint64_t crowds,
                                               const ReleaseWindow& last,
                                               std::chrono::seconds reports) {
  const bool known = continues(looked_at_, now.at);
  looked_at_ = now.at;
  if (now.places == 0) {
    room_from_.reset();
    return std::nullopt;
  }
  if (now.full() || !known || !room_from_) {
    room_from_ = now.full() ? std::nullopt : std::optional(now.at);
  }
  const bool grows = room_from_ && now.at - *room_from_ > reports;
  if (grows) {
    room_from_ = now.at;
  }
  constexpr std::uint64_t kAtHand = 2;  // For each place: the task at work, and the next.
  const std::uint64_t all = std::min<std::uint64_t>(now.places, kWindowMax) * kAtHand;
  const auto shared_by = [&](std::uint64_t users) {
    const std::uint64_t size = (all + users - 1) / users;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(size, kWindowMin, kWindowMax));
  };
  const std::uint32_t most = shared_by(1), share = shared_by(std::max<std::uint64_t>(crowds, 1));
  if (crowds > last.crowds) {
    return share;  // Whoever has just come is to wait behind no more than the shares of the others.
  }
  const std::uint32_t size = std::max(last.size, share);
  if (grows) {
    return std::min(most, size + size / 2);
  }
  constexpr std::uint32_t kShrinks = 20;
  return std::clamp(now.full() ? size - size / kShrinks - 1 : size, share, most);
}

Lane LaneTurns::next(bool express, bool bulk) {
  if (!express || !bulk) {
    return express ? Lane::kExpress : Lane::kBulk;
  }
  taken_ = (taken_ + 1) % kBulkEvery;
  return taken_ == 0 ? Lane::kBulk : Lane::kExpress;
}

std::uint32_t pace_of(std::uint64_t ended, std::chrono::microseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const double pace = static_cast<double>(ended) * kPaceIn / seconds;
  return static_cast<std::uint32_t>(std::min(pace, 4e9));
}

std::uint32_t PaceWatch::look(const WorkersSeen& now,
                              std::uint64_t crowds,
                              std::uint32_t last,
                              std::chrono::seconds over) {
  const bool known = continues(looked_at_, now.at);
  looked_at_ = now.at;
  if (crowds == 0 || now.places == 0 || !now.full()) {
    from_.reset();
    return 0;
  }
  // Workers that come or go make the sum jump.
  if (!known || !from_ || from_->workers != now.workers || from_->ended > now.ended) {
    from_ = now;
  } else if (now.at - from_->at >= over && now.ended - from_->ended >= now.places &&
             now.at > from_->at) {
    last = pace_of(now.ended - from_->ended, now.at - from_->at);
    from_ = now;
  }
  return last;
}

bool would_park(const OpenTasks& open, std::uint32_t window) {
  return open.parked > 0 || open.released >= released_most(open, window);
}

std::optional<std::chrono::seconds> parked_for(const OpenTasks& open, const ReleaseWindow& window) {
  if (window.pace == 0) {
    return std::nullopt;
  }
  const double users = std::max(window.crowds, 1U);
  const double tasks = std::min(static_cast<double>(open.count()) * users,
                                static_cast<double>(std::max(window.tasks, open.count())));
  const double seconds = (tasks + 1) * kPaceIn / window.pace;
  constexpr double kMost = 1e9;  // Longer than any deadline.
  return std::chrono::ceil<std::chrono::seconds>(
      std::chrono::duration<double>(std::min(seconds, kMost)));
}

Lane add_task(OpenTasks& open, std::uint32_t window, std::uint64_t seq) {
  if (would_park(open, window)) {
    if (open.parked == 0) {
      open.parked_after = seq;
    }
    ++open.parked;
    return Lane::kParked;
  }
  return open.released++ < kExpressMax ? Lane::kExpress : Lane::kBulk;
}

void end_task(OpenTasks& open, Lane lane) {
  std::uint32_t& count = lane == Lane::kParked ? open.parked : open.released;
  count -= std::min(count, 1U);
}

std::uint32_t may_release(const OpenTasks& open, std::uint32_t window) {
  const std::uint32_t most = released_most(open, window);
  return open.released >= most ? 0 : std::min(most - open.released, open.parked);
}

void release_tasks(OpenTasks& open, std::uint32_t count, std::uint64_t seq) {
  const std::uint32_t some = std::min(count, open.parked);
  open.parked -= some;
  open.released += some;
  open.parked_after = std::max(open.parked_after, seq);
}

}  // namespace audiogen
