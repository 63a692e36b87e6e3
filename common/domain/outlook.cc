#include "common/domain/outlook.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "common/domain/shares.h"

namespace audiogen {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

double seconds_of(microseconds time) {
  return std::chrono::duration<double>(time).count();
}

milliseconds rounded(double seconds) {
  return milliseconds(std::llround(seconds * 1000));
}

// The value that `part` of the sorted `values`, of which there is at least one, do not exceed.
microseconds quantile(std::span<const microseconds> values, double part) {
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

Spread operator+(const Spread& a, const Spread& b) {
  return {a.p50 + b.p50, a.p90 + b.p90};
}

}  // namespace

std::string_view waiting_on_name(WaitingOn what) {
  switch (what) {
    case WaitingOn::kCapacity:
      return "capacity";
    case WaitingOn::kProvider:
      return "provider";
    case WaitingOn::kRetry:
      return "retry";
    case WaitingOn::kReference:
      break;
  }
  return "reference";
}

std::optional<WaitingOn> waiting_on(const TaskView& task, Instant now) {
  if (is_final(task.state)) {
    return std::nullopt;
  }
  if (task.state == TaskState::kRunning) {
    return task.waits_for_reference ? WaitingOn::kReference : WaitingOn::kProvider;
  }
  return task.next_run_at <= now    ? WaitingOn::kCapacity
         : task.waits_for_reference ? WaitingOn::kReference
                                    : WaitingOn::kRetry;
}

Outlook::Outlook(QueueSample sample) : whole_(sample.whole) {
  for (const auto& task : sample.waiting) {
    (task.lane == Lane::kExpress ? express_ : bulk_).push_back(task);
  }
  auto& starts = sample.starts;
  std::erase_if(starts, [&](const auto& start) { return start.began < sample.at - kStartsKept; });
  std::sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.began, a.created) < std::pair(b.began, b.created);
  });
  for (const auto& start : starts) {
    if (start.done) {
      works_.push_back(std::max(*start.done - start.began, microseconds(0)));
    }
  }
  std::sort(works_.begin(), works_.end());
  if (starts.empty() || !whole_) {
    return;
  }
  // What comes together is taken together, so a single gap says little: usually 0, sometimes long.
  std::vector<microseconds> gaps;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const Instant since = std::max(starts[i - 1].began, starts[i].created);
    gaps.push_back(std::max(starts[i].began - since, microseconds(0)));
  }
  if (gaps.empty()) {
    gaps.push_back(std::max(starts[0].began - starts[0].created, microseconds(0)));
  }
  if (!sample.waiting.empty()) {
    const auto stall = sample.at - std::max(starts.back().began, sample.waiting.front().due);
    if (stall > kStallMax) {
      return;
    }
    gaps.push_back(std::max<microseconds>(stall, microseconds(0)));
  }
  const auto mean = [&](std::size_t from, std::size_t to) {
    microseconds sum{0};
    for (std::size_t i = from; i < to; ++i) {
      sum += gaps[i];
    }
    return seconds_of(sum) / static_cast<double>(to - from);
  };
  const double usual = mean(0, gaps.size());
  Pace pace{usual, usual};
  constexpr std::size_t kParts = 4;
  if (gaps.size() >= kParts) {
    for (std::size_t i = 0; i < kParts; ++i) {
      pace.slow =
          std::max(pace.slow, mean(gaps.size() * i / kParts, gaps.size() * (i + 1) / kParts));
    }
  }
  pace_ = pace;
}

const std::vector<QueueSample::Waiting>& Outlook::waiting(Lane lane) const {
  return lane == Lane::kExpress ? express_ : bulk_;
}

std::optional<Spread> Outlook::start_in(Lane lane) const {
  return lane == Lane::kParked ? std::nullopt : start_after(lane, waiting(lane).size());
}

// Behind so many others of its lane, and those of the other lane whose turns come before: while
// both wait, every kBulkEvery-th turn is the bulk lane's.
std::optional<Spread> Outlook::start_after(Lane lane, std::size_t others) const {
  if (!pace_) {
    return std::nullopt;
  }
  constexpr std::size_t kExpressTurns = kBulkEvery - 1;
  const std::size_t own = others + 1;
  const std::size_t of_other_lane = lane == Lane::kExpress
                                        ? std::min(others / kExpressTurns, bulk_.size())
                                        : std::min(own * kExpressTurns, express_.size());
  const auto turns = static_cast<double>(own + of_other_lane);
  return Spread{rounded(turns * pace_->usual), rounded(turns * pace_->slow)};
}

// By what took as long, or longer.
std::optional<Spread> Outlook::done_after(microseconds worked) const {
  const std::span<const microseconds> longer(std::lower_bound(works_.begin(), works_.end(), worked),
                                             works_.end());
  if (longer.empty()) {
    return std::nullopt;
  }
  const auto left = [&](double part) {
    return std::chrono::round<milliseconds>(quantile(longer, part) - worked);
  };
  return Spread{left(0.5), left(0.9)};
}

Prospect Outlook::of(const TaskView& task, Instant now) const {
  Prospect out;
  out.waiting_on = audiogen::waiting_on(task, now);
  if (!out.waiting_on) {
    return out;
  }
  if (task.state == TaskState::kQueued && task.lane == Lane::kParked) {
    return out;  // Its turn comes with the ends of its user's others.
  }
  switch (*out.waiting_on) {
    case WaitingOn::kProvider:
      // It was claimed when it was changed last.
      out.done_in = done_after(std::max(now - task.updated_at, microseconds(0)));
      return out;
    case WaitingOn::kCapacity:
      if (whole_) {
        const auto& its_lane = waiting(task.lane);
        const auto place = std::lower_bound(
            its_lane.begin(),
            its_lane.end(),
            QueueSample::Waiting{.due = task.next_run_at, .id = task.id, .lane = task.lane});
        const auto before = static_cast<std::size_t>(place - its_lane.begin());
        out.position = before + 1;
        out.start_in = start_after(task.lane, before);
      }
      break;
    case WaitingOn::kRetry:
    case WaitingOn::kReference:
      if (task.state == TaskState::kRunning) {
        return out;  // How long somebody else's server takes, nobody can tell.
      }
      if (const auto turn = start_in(task.lane)) {
        const auto due = std::chrono::ceil<milliseconds>(task.next_run_at - now);
        out.start_in = Spread{due, due} + *turn;
      }
      break;
  }
  const auto work = done_after(microseconds(0));
  if (out.start_in && work) {
    out.done_in = *out.start_in + *work;
  }
  return out;
}

std::chrono::seconds read_again_after(const std::optional<Spread>& done_in) {
  constexpr std::chrono::seconds kLeast{1}, kMost{5}, kUnknown{3};
  return done_in ? std::clamp(std::chrono::ceil<std::chrono::seconds>(done_in->p50), kLeast, kMost)
                 : kUnknown;
}

}  // namespace audiogen
