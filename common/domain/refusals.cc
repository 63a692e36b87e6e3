#include "common/domain/refusals.h"

#include <algorithm>

namespace audiogen {

CreationCount Refusals::look(Clock::time_point now, CreationCount so_far) {
  while (looks_.size() > 1 && now - looks_[1].at >= kSpan) {
    looks_.pop_front();
  }
  // Before the first look there was nothing: the process began.
  const CreationCount before =
      looks_.empty() || now - looks_.front().at < kSpan ? CreationCount{} : looks_.front().so_far;
  if (looks_.empty() || now - looks_.back().at >= std::chrono::seconds(1)) {
    looks_.push_back({now, so_far});
  }
  // The counts are not read at one instant, so of a refusal just now only one may tell.
  const auto since = [](std::uint64_t now_, std::uint64_t then) {
    return now_ - std::min(now_, then);
  };
  const std::uint64_t answered = since(so_far.answered, before.answered);
  return {.answered = answered,
          .refused = std::min(answered, since(so_far.refused, before.refused))};
}

}  // namespace audiogen
