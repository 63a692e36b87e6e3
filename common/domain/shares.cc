#include "common/domain/shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

namespace audiogen {
namespace {

constexpr double kPaceIn = 1000;            // Seconds.
constexpr double kPaceLeast = 1 / kPaceIn;  // Tasks a second.
constexpr double kMillionths = 1'000'000, kThousandths = 1'000;

// Of a user, all limits considered: one at the least.
std::uint32_t released_most(const OpenTasks& open, std::uint32_t window) {
  const std::uint32_t most = open.released_max == 0 ? window : std::min(window, open.released_max);
  return std::max(most, 1U);
}

std::uint32_t in_seconds(double seconds) {
  constexpr double kMost = 1e9;  // Longer than any deadline.
  return static_cast<std::uint32_t>(std::ceil(std::clamp(seconds, 0.0, kMost)));
}

// Of so many tasks a second.
std::uint32_t pace_in(double tasks) {
  return static_cast<std::uint32_t>(std::min(tasks * kPaceIn, 4e9));
}

double in_double(std::chrono::seconds time) {
  return std::chrono::duration<double>(time).count();
}

// But for a tenth.
bool is_near(std::uint64_t places, std::uint64_t others) {
  constexpr std::uint64_t kPart = 10;
  const std::uint64_t most = std::max(places, others), least = std::min(places, others);
  return least > 0 && most - least <= most / kPart;
}

// How long it is known what a task takes. Where calls of the same length end together, for a moment
// nobody waits: without it all that come after that are accepted until it is measured anew.
std::chrono::seconds known_for(double takes) {
  constexpr std::uint32_t kLeast = 120, kMost = 600;
  constexpr double kCalls = 4;
  return std::chrono::seconds(std::clamp(in_seconds(kCalls * takes), kLeast, kMost));
}

// What a task that had `whole` seconds must have left when it begins, or nobody is called for it:
// what workers tell, and where calls are of a length the same by the mean one. Nobody is kept from
// a provider who has half of his time left (worker/chain/usual_time.h).
double called_with(double takes, std::uint32_t needs, double whole) {
  return std::max(takes * 5 / 4 + 1, std::min(static_cast<double>(needs), whole / 2));
}

// And with what it is accepted. What is claimed while no slot is free must have as long again as a
// call takes, for it may wait for that one, and half of that because what began together ends
// together; looks are late; and what the lanes get varies meanwhile.
double accepted_with(double takes, std::uint32_t needs, double whole) {
  constexpr double kLooks = 2, kVaries = 4;
  return called_with(takes, needs, whole) + takes * 3 / 2 + kLooks + kVaries;
}

// In seconds, of either lane.
double longest_left(const QueueSeen& waiting) {
  double out = 0;
  for (const auto* const lane : {&waiting.express, &waiting.bulk}) {
    out = lane->empty() ? out : std::max(out, in_double(lane->back().left));
  }
  return out;
}

// How many tasks of a lane are begun before a further one, at so many a second: all that wait, but
// for those that have less than `needed` seconds left by then.
double begun_before(std::span<const QueueSeen::Waiting> waiting, double pace, double needed) {
  double begun = 0;
  for (const auto& [left, count] : waiting) {
    const double in_time = (in_double(left) - needed) * pace;
    begun = std::clamp(in_time, begun, begun + static_cast<double>(count));
  }
  return begun;
}

constexpr double kAnyPace = 1e9;

// At so many tasks a second.
LaneCounts before_newcomer(const QueueSeen& waiting, const RouteLine& of, double pace) {
  // As long as nobody knows what a call takes, everything.
  const double needed = of.takes == 0 ? 0 : called_with(of.takes, of.needs, longest_left(waiting));
  const auto begun = [&](std::span<const QueueSeen::Waiting> lane) {
    return static_cast<std::uint64_t>(std::ceil(begun_before(lane, pace, needed)));
  };
  std::vector<QueueSeen::Waiting> both;
  std::merge(waiting.express.begin(),
             waiting.express.end(),
             waiting.bulk.begin(),
             waiting.bulk.end(),
             std::back_inserter(both),
             [](const auto& a, const auto& b) { return a.left < b.left; });
  LaneCounts out{.express = 0, .bulk = begun(both)};
  const std::uint64_t express = begun(waiting.express), bulk = begun(waiting.bulk);
  out.express = std::min(out.bulk, express + std::min(bulk, express / (kBulkEvery - 1)));
  return out;
}

// What is known for a task of one route: of that, or else of all.
struct Known {
  double express_wait = 0, bulk_wait = 0, takes = 0;
  std::uint32_t needs = 0;
  // Seconds that a task of crowds takes from the time of another; nullopt: nobody knows.
  std::optional<double> each;
};
std::optional<Known> known_of(const ReleaseWindow& window, Route route) {
  const auto its = std::find_if(window.routes.begin(),
                                window.routes.end(),
                                [route](const RouteWait& one) { return one.route == route; });
  if (its == window.routes.end() && window.pace == 0) {
    return std::nullopt;
  }
  Known out;
  if (window.pace > 0) {
    out = {.express_wait = static_cast<double>(window.express_wait),
           .bulk_wait = static_cast<double>(window.bulk_wait),
           .takes = static_cast<double>(window.takes),
           .needs = window.needs,
           .each =
               1 / std::max(window.pace / kPaceIn * (window.bulk_share / kMillionths), kPaceLeast)};
  }
  if (its != window.routes.end()) {
    out.express_wait = its->express;
    out.bulk_wait = its->bulk;
    // What others take is nothing to a route that is not behind them.
    const bool is_apart =
        2 * (out.express_wait + out.bulk_wait) <
        static_cast<double>(window.express_wait) + static_cast<double>(window.bulk_wait);
    if (its->pace == 0 && (its->takes > 0 || is_apart)) {
      // What one call took, for which nobody waits, has nobody refused; nor has what others take.
      out.takes = std::min<double>(out.takes, its->takes);
      out.needs = std::min(out.needs, its->needs);
    } else if (its->pace > 0) {
      out.takes = its->takes;
      out.needs = its->needs;
      const double each = its->share / kThousandths / (its->pace / kPaceIn);
      out.each = std::max(out.each.value_or(each), each);
    }
  }
  return out;
}

std::optional<double> begins_in(const OpenTasks& open,
                                const ReleaseWindow& window,
                                const Known& known) {
  if (!would_park(open, window.size)) {
    return open.released < kExpressMax ? known.express_wait : known.bulk_wait;
  }
  if (!known.each) {
    return std::nullopt;
  }
  const auto his = static_cast<double>(open.count());
  const double crowds = std::max(window.crowds, 1U);
  const double at_his_share = his * crowds;
  const double at_the_whole =
      std::min(at_his_share, std::max(static_cast<double>(window.tasks), his));
  const double tasks = std::min((at_his_share + at_the_whole) / 2, 2 * at_the_whole);
  const double ends_in = (tasks + 1) * *known.each;
  return std::max<double>(in_seconds(ends_in - known.takes), known.bulk_wait);
}

}  // namespace

bool continues(std::optional<Instant> last, Instant now) {
  constexpr std::chrono::seconds kLooks{10};
  return last && now >= *last && now - *last <= kLooks;
}

ReleaseWindow known_at(ReleaseWindow window, std::optional<Instant> looked_at, Instant now) {
  if (!continues(looked_at, now)) {
    window.pace = 0;
    window.routes.clear();
  }
  return window;
}

bool WorkersSeen::full() const {
  constexpr std::uint64_t kOf = 10;
  return room < places / kOf + 1;
}

std::uint64_t EndsCount::look(std::span<const Told> workers, Instant now) {
  constexpr std::chrono::hours kKnown{1};
  std::erase_if(known_, [&](const auto& one) { return now - one.second.at > kKnown; });
  for (const Told& told : workers) {
    const auto [known, is_new] = known_.try_emplace(told.worker, Known{told.ended, now});
    count_ += told.ended - std::min(told.ended, known->second.ended);
    known->second = {told.ended, now};
  }
  return count_;
}

// Whether there are more of them than lately: users who become crowds and end being any, again and
// again, are no new ones.
bool WindowWatch::has_more(std::uint64_t crowds, std::uint64_t last, Instant now, bool known) {
  constexpr std::chrono::seconds kLately{30};
  const bool lately = known && most_at_ && now >= *most_at_ && now - *most_at_ <= kLately;
  const std::uint64_t before = lately ? most_ : last;
  if (!lately || crowds >= most_) {
    most_ = crowds;
    most_at_ = now;
  }
  return crowds > before;
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
  const bool more = has_more(crowds, last.crowds, now.at, known);
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
  if (more) {
    return share;  // Whoever has just come is to wait behind no more than the shares of the others.
  }
  // With some that were there lately it is smaller by what their shares are, but as much above them
  // as it had to grow.
  const std::uint64_t before = shared_by(std::max<std::uint64_t>(last.crowds, 1));
  const auto kept = crowds > last.crowds
                        ? static_cast<std::uint32_t>(std::uint64_t{last.size} * share / before)
                        : last.size;
  const std::uint32_t size = std::max(kept, share);
  if (grows) {
    return std::min(most, size + size / 2);
  }
  constexpr std::uint32_t kShrinks = 20;
  return std::clamp(now.full() ? size - size / kShrinks - 1 : size, share, most);
}

Lane LaneTurns::next(bool express, bool bulk) {
  const Lane other = last_ == Lane::kExpress ? Lane::kBulk : Lane::kExpress;
  if (!express || !bulk) {
    last_ = express ? Lane::kExpress : Lane::kBulk;
  } else if (again(other) > 0) {
    --again(other);
    last_ = other;
  } else {
    taken_ = (taken_ + 1) % kBulkEvery;
    last_ = taken_ == 0 ? Lane::kBulk : Lane::kExpress;
  }
  return last_;
}

void LaneTurns::give_back(Lane lane) {
  constexpr std::uint32_t kMost = 16;  // Some that are drawn together; no more is owed to anybody.
  again(lane) = std::min(again(lane) + 1, kMost);
}

bool TriedTurns::next(bool tried, bool others) {
  if (!tried || (others && tried_ + 1 >= kUntriedEvery)) {
    tried_ = 0;
    return false;
  }
  ++tried_;
  return true;
}

std::uint32_t pace_of(std::uint64_t ended, std::chrono::microseconds time) {
  return pace_in(static_cast<double>(ended) / std::chrono::duration<double>(time).count());
}

std::uint32_t PaceWatch::look(const WorkersSeen& now,
                              bool somebody_waits,
                              std::uint32_t last,
                              std::chrono::seconds over) {
  const auto places = static_cast<double>(now.places);
  if (!continues(looked_at_, now.at)) {
    from_.reset();
    takes_.reset();
    full_at_.reset();
    ended_.reset();
    if (last != 0 && now.places > 0) {  // Somebody else has told until now.
      takes_ = {.seconds = places * kPaceIn / last, .at = now.at, .measured = false};
    }
  }
  looked_at_ = now.at;
  const bool tells = somebody_waits && now.places > 0 && now.full();
  full_at_ = tells ? now.at : full_at_;
  if (takes_ && now.at - takes_->at > known_for(takes_->seconds)) {
    takes_.reset();
  }
  const std::chrono::milliseconds whole = over;
  measure(now, tells, takes_ && takes_->measured ? whole : whole / 2);
  // Where calls end together, workers seem to have room until they report again.
  constexpr std::chrono::seconds kReports{10};
  const bool is_full = now.places > 0 && full_at_ && now.at - *full_at_ <= kReports;
  return is_full && takes_ ? pace_in(places / takes_->seconds) : 0;
}

void PaceWatch::measure(const WorkersSeen& now, bool tells, std::chrono::milliseconds over) {
  constexpr int kQuiet = 4;  // One look of so many.
  ++looks_;
  quiet_ += tells ? 0 : 1;
  const bool some_ended = ended_ && now.ended > *ended_;
  ended_ = now.ended;
  // What many more places, or fewer, have ended is not to be divided by those there are.
  if (!from_ || from_->ended > now.ended || !is_near(from_->places, now.places) ||
      kQuiet * quiet_ > looks_) {
    const bool at_once = some_ended || !takes_ || !takes_->measured;
    from_ = tells && at_once ? std::optional(now) : std::nullopt;
    looks_ = quiet_ = 0;
    return;
  }
  // From ends to ends, but for the first: of calls that end together as many as begin meanwhile.
  const std::uint64_t ended = now.ended - from_->ended;
  if (tells && some_ended && now.at - from_->at >= over && ended >= now.places) {
    const double pace = static_cast<double>(pace_of(ended, now.at - from_->at)) / kPaceIn;
    takes_ = {.seconds = static_cast<double>(now.places) / std::max(pace, kPaceLeast),
              .at = now.at,
              .measured = true};
    from_ = now;
    looks_ = quiet_ = 0;
  }
}

bool would_park(const OpenTasks& open, std::uint32_t window) {
  return open.parked > 0 || open.released >= released_most(open, window);
}

ReleaseWindow with_waits(ReleaseWindow window,
                         const QueueSeen& queue,
                         std::uint64_t places,
                         const ReleaseWindow& last) {
  if (window.pace == 0) {
    return window;
  }
  const double pace = window.pace / kPaceIn;
  const double takes = static_cast<double>(places) / pace;
  window.takes = in_seconds(takes);
  // Where both lanes wait, the bulk lane has its turns, and it may get more where few want the
  // others. By calls alone it would seem to get nothing while its tasks wait for their references:
  // they have their turns, but take no place, and nobody is called for them.
  constexpr double kPart = 1.0 / kBulkEvery;
  const auto called = static_cast<double>(queue.called_bulk + queue.called_express);
  const double of_bulk = called > 0 ? static_cast<double>(queue.called_bulk) / called : kPart;
  const double gets = std::max(of_bulk, kPart);
  // A few calls say little: only with those of some time, in which what was called for has ended,
  // and enough has, they say how things go.
  constexpr double kLooks = 8, kEnds = 64;
  double share = last.pace == 0 ? gets : std::min(last.bulk_share / kMillionths, 1.0);
  if (last.pace != 0 && called > 0) {
    share += (gets - share) / std::max({kLooks, 2 * takes, kEnds / pace});
  }
  window.bulk_share = static_cast<std::uint32_t>(std::llround(share * kMillionths));
  // Who came last has nearly all of his time. Where all have waited long it is less, and some count
  // as begun whom nobody is called for.
  const double needed = called_with(takes, window.needs, longest_left(queue));
  const auto wait = [&](std::span<const QueueSeen::Waiting> waiting, double of_lane) {
    const double its_pace = std::max(of_lane * pace, kPaceLeast);
    return in_seconds(begun_before(waiting, its_pace, needed) / its_pace);
  };
  window.express_wait = wait(queue.express, 1 - std::min(of_bulk, kPart));
  window.bulk_wait = wait(queue.bulk, share);
  return window;
}

ReleaseWindow uncounted(ReleaseWindow window, const ReleaseWindow& last) {
  if (last.pace == 0) {
    window.pace = 0;
  }
  window.bulk_share = last.bulk_share;
  window.takes = last.takes;
  window.express_wait = last.express_wait;
  window.bulk_wait = last.bulk_wait;
  return window;
}

LaneCounts before_newcomer(const QueueSeen& waiting, const RouteLine& of) {
  return before_newcomer(waiting, of, of.pace == 0 ? kAnyPace : of.pace / kPaceIn);
}

RouteLine with_line(RouteLine of, const QueueSeen& here, const QueueSeen& first) {
  of.before = {.first = before_newcomer(first, of), .here = before_newcomer(here, of, kAnyPace)};
  if (of.pace > 0) {
    const LaneCounts begun = before_newcomer(here, of);
    const auto wait = [&](std::uint64_t count) {
      return in_seconds(static_cast<double>(count) / (of.pace / kPaceIn));
    };
    of.alone = {.express = wait(begun.express), .bulk = wait(begun.bulk)};
  }
  return of;
}

ReleaseWindow with_routes(ReleaseWindow window,
                          const QueueSeen* queue,
                          const WorkersSeen& workers) {
  const LaneCounts in_lines = workers.lines.waiting.all();
  // What is left of a wait, when so many of all that wait have a line of their own: whole seconds,
  // so that a few others are nobody's wait.
  const auto rest = [&](std::uint32_t wait, auto QueueSeen::*lane, std::uint64_t lined) {
    if (window.pace == 0 || queue == nullptr) {
      return window.pace == 0 ? 0.0 : wait;
    }
    double all = 0;
    for (const auto& [left, count] : queue->*lane) {
      all += static_cast<double>(count);
    }
    const double others = all - std::min(all, static_cast<double>(lined));
    return all > 0 ? std::floor(wait * others / all) : 0;
  };
  const double express_rest = rest(window.express_wait, &QueueSeen::express, in_lines.express),
               bulk_rest = rest(window.bulk_wait, &QueueSeen::bulk, in_lines.bulk);
  const auto all_of_them =
      static_cast<double>(in_lines.express + in_lines.bulk + workers.in_flight);
  window.routes.clear();
  for (const auto& [route, line] : workers.lines.of) {
    RouteWait out{
        .route = route, .express = in_seconds(express_rest), .bulk = in_seconds(bulk_rest)};
    if (line.anybody() && line.takes > 0 && line.pace > 0) {
      const double pace = line.pace / kPaceIn;
      const auto behind = [&](double rest_of_it, auto LaneCounts::*count, std::uint32_t alone) {
        const double first = static_cast<double>(line.before.first.*count) / pace;
        const double here = static_cast<double>(line.before.here.*count) / pace;
        return in_seconds(rest_of_it + std::max(first, std::min<double>(here, alone)));
      };
      const double share = static_cast<double>(line.before.all().bulk) / std::max(all_of_them, 1.0);
      out.express = behind(express_rest, &LaneCounts::express, line.alone.express);
      out.bulk = behind(bulk_rest, &LaneCounts::bulk, line.alone.bulk);
      out.pace = line.pace;
      out.share = static_cast<std::uint32_t>(std::llround(std::min(share, 1.0) * kThousandths));
    } else if (window.pace == 0) {
      continue;  // Nobody waits, or nobody knows how long: nobody is refused for it.
    }
    out.takes = line.takes;
    out.needs = line.needs;
    window.routes.push_back(out);
  }
  return window;
}

std::optional<std::chrono::seconds> begins_in(const OpenTasks& open,
                                              const ReleaseWindow& window,
                                              Route route) {
  const auto known = known_of(window, route);
  const auto begins = known ? begins_in(open, window, *known) : std::nullopt;
  return begins ? std::optional(std::chrono::seconds(in_seconds(*begins))) : std::nullopt;
}

std::optional<std::chrono::seconds> refused_for(const OpenTasks& open,
                                                const ReleaseWindow& window,
                                                Route route,
                                                std::chrono::seconds deadline,
                                                double draw) {
  const auto known = known_of(window, route);
  const auto begins = known ? begins_in(open, window, *known) : std::nullopt;
  if (!begins) {
    return std::nullopt;
  }
  constexpr double kBand = 8;
  const double time = in_double(deadline);
  // Of what a short deadline leaves beside two calls, half is a margin as well.
  const double two_calls =
      std::min(called_with(known->takes, known->needs, time), time / 2) + known->takes;
  const double last = std::max(
      {time - accepted_with(known->takes, known->needs, time), (time - two_calls) / 2, 0.0});
  const double band = last / kBand;
  const double beyond = *begins - (last - band);
  if (beyond <= draw * band) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::max(in_seconds(beyond), 1U));
}

double draw_of(TaskId task) {
  // The last bytes of a UUIDv7 are random.
  std::uint64_t bits = 0;
  for (std::size_t i = 8; i < task.uuid.bytes.size(); ++i) {
    bits = bits << 8U | task.uuid.bytes[i];
  }
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  return static_cast<double>(bits * kMix >> 11U) / static_cast<double>(std::uint64_t{1} << 53U);
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
