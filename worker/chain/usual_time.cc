#include "worker/chain/usual_time.h"

#include <algorithm>
#include <numeric>

namespace audiogen {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAfterTheCall{1000};

}  // namespace

void UsualTime::add(milliseconds time) {
  recent_[seen_ % kRecent] = time;
  ++seen_;
}

std::optional<milliseconds> UsualTime::usual() const {
  const std::size_t count = std::min(seen_, kRecent);
  if (count == 0) {
    return std::nullopt;
  }
  auto times = recent_;
  const std::size_t rank = (count * 19 + 19) / 20 - 1;
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(times.begin(), at, times.begin() + static_cast<std::ptrdiff_t>(count));
  return *at;
}

std::optional<milliseconds> UsualTime::mean() const {
  const std::size_t count = std::min(seen_, kRecent);
  if (count == 0) {
    return std::nullopt;
  }
  const auto end = recent_.begin() + static_cast<std::ptrdiff_t>(count);
  return std::accumulate(recent_.begin(), end, milliseconds(0)) /
         static_cast<milliseconds::rep>(count);
}

std::optional<milliseconds> UsualTime::needed() const {
  const auto time = usual();
  return time ? std::optional(*time + *time / 4 + kAfterTheCall) : std::nullopt;
}

bool UsualTime::fits(TaskTime time) const {
  return time.left > milliseconds(0) &&
         time.left >= std::min(needed().value_or(milliseconds(0)), time.whole / 2);
}

}  // namespace audiogen
