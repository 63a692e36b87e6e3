// Who works for whom next: the rules by which one user's tasks keep nobody else waiting.
//
// Of each user only so many open tasks are *released* at once: hinted to the workers, and theirs to
// claim. Further ones are *parked*, and whoever ends one of the user's tasks releases the next, the
// oldest first. So what waits before anybody's task is bounded by the number of users who want
// something, not by how much one of them wants; and as each of them has as many released as the
// others, and a new one is released for each that ends, they get on equally fast.
//
// The window, how many that is, is twice what all workers can work on at once, shared by the
// crowds: the users who have parked tasks. Alone, one of them keeps every worker busy, the next
// task at hand when one ends. Where workers have room all the same, because what is released of
// some waits for something else, the window grows until they have none.
//
// Whoever has little under way does not wait behind crowds at all: his first few tasks go by the
// express lane.
//
// What could not end in time is refused when it is asked for, by what waits before it in its own
// lane alone: so no crowd has a small user refused.
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/base/time.h"
#include "common/domain/route.h"
#include "common/domain/task.h"

namespace audiogen {

// A task goes express while its user has fewer released ones than this.
inline constexpr std::uint32_t kExpressMax = 4;
// The least and the most of a window. The least keeps a task of each user at hand while the one
// before it ends, however many users there are.
inline constexpr std::uint32_t kWindowMin = kExpressMax, kWindowMax = 1'000'000;
// When there is room for both, every so-many-th place is for the bulk lane: however many have
// little under way, the crowds get on.
inline constexpr std::uint32_t kBulkEvery = 4;

// When there is room for both, every so-many-th place is for what was not tried yet. With every
// second one, retries that came as fast as half the places took them waited 9 s.
inline constexpr std::uint32_t kUntriedEvery = 3;

// How many more tasks of each lane a worker could take, if none of the other were taken.
struct Room {
  std::size_t bulk = 0, express = 0;
  std::size_t of(Lane lane) const { return lane == Lane::kExpress ? express : bulk; }
};

// Whose turn it is.
class LaneTurns {
 public:
  // `begin`: any number, so that those who take little at a time do not all begin with express.
  explicit LaneTurns(std::uint32_t begin = 0) : taken_(begin % kBulkEvery) {}
  // Of the lanes that have something, of which there is one at least: from which to take.
  Lane next(bool express, bool bulk);
  // Nobody was called for what was taken from this lane: it has another turn, after one of the
  // other. Else a lane whose first tasks are too late would spend its turns on them, and those
  // behind them would become too late as well; and at once, whoever comes to a lane full of such
  // would keep the other waiting for all of them.
  void give_back(Lane lane);

 private:
  std::uint32_t& again(Lane lane) { return lane == Lane::kExpress ? express_again_ : bulk_again_; }

  std::uint32_t taken_;
  std::uint32_t express_again_ = 0, bulk_again_ = 0;  // Turns that were given back.
  Lane last_ = Lane::kBulk;
};

// Whose turn it is of those that were tried before, and are due again, and those that wait for
// their first turn. A task that has begun had waited already: it does not queue a second time
// behind everybody. But every so-many-th place that is free for both is for the others: where all
// that is tried fails, they get on all the same.
class TriedTurns {
 public:
  // True: it is one that was tried. Of the two, one at least has something.
  bool next(bool tried, bool others);

 private:
  std::uint32_t tried_ = 0;  // In a row.
};

// As all programs know it.
struct ReleaseWindow {
  std::uint32_t size = 0;    // Tasks of a user.
  std::uint32_t crowds = 0;  // Users who have parked tasks.
  std::uint64_t tasks = 0;   // Open ones of these users.
  std::uint32_t pace = 0;    // Tasks that end in 1000 s, of all users; 0: not known.
  // Of no meaning where the pace is not known. In millionths, what part of it the bulk lane gets;
  // in seconds, what a task takes once it has begun, and until a further one of each lane begins.
  std::uint32_t bulk_share = 0;
  std::uint32_t takes = 0;
  std::uint32_t express_wait = 0, bulk_wait = 0;
  // In seconds, what a task must have left when it begins, as workers tell (WorkersSeen).
  std::uint32_t needs = 0;
  // Of those routes of which it is known, whether or not the pace of all is.
  std::vector<RouteWait> routes{};
  friend bool operator==(const ReleaseWindow&, const ReleaseWindow&) = default;
};

// What is still true at `now` of what was written at `looked_at`: of a time without looks nobody
// knows the pace.
ReleaseWindow known_at(ReleaseWindow window, std::optional<Instant> looked_at, Instant now);

// Whether a look now goes on from the last one: of a longer time without looks nobody knows what
// was in it.
bool continues(std::optional<Instant> last, Instant now);

// What is seen of all workers together, from time to time.
struct WorkersSeen {
  Instant at;
  std::uint64_t workers = 0;
  std::uint64_t places = 0;  // They can work on so many tasks at once,
  std::uint64_t room = 0;    // and would take so many more now.
  std::uint64_t ended = 0;   // Tasks so far, but for want of time (EndsCount).
  // In seconds, the most that a provider that is asked first wants a task to have left; 0: not
  // known. Calls are not all of a length, and it wants what nearly all of its take.
  std::uint32_t needs = 0;
  std::uint64_t in_flight = 0;  // Tasks that they have in hand.
  RouteLines lines{};

  // But for a few places that are just changing hands.
  bool full() const;
};

// Counts what workers end, who come and go: one that ends again and again takes nothing away, and
// one that joins brings nothing along.
class EndsCount {
 public:
  struct Told {
    WorkerId worker;
    std::uint64_t ended = 0;  // By it, since it began.
  };
  // All that was told at one look; the sum of what each has ended since it was seen first.
  std::uint64_t look(std::span<const Told> workers, Instant now);

 private:
  struct Known {
    std::uint64_t ended = 0;
    Instant at;
  };
  std::map<WorkerId, Known> known_;  // Also those that are not heard of for a while.
  std::uint64_t count_ = 0;
};

// Tells the window by looks at all workers.
class WindowWatch {
 public:
  // How many tasks of a user are released at once from now on, while so many users have parked
  // tasks; `last` is how things were. It grows only when there was room for longer than `reports`,
  // the time after which each worker tells of itself again: one that has just come has all of its
  // places free. Nullopt: there is no place, and nothing to go by.
  std::optional<std::uint32_t> look(const WorkersSeen& now,
                                    std::uint64_t crowds,
                                    const ReleaseWindow& last,
                                    std::chrono::seconds reports);

 private:
  bool has_more(std::uint64_t crowds, std::uint64_t last, Instant now, bool known);

  std::optional<Instant> room_from_, looked_at_;
  // Crowds there were lately, at the most, and when there were as many for the last time.
  std::uint64_t most_ = 0;
  std::optional<Instant> most_at_;
};

// So many tasks ended within `time`, which is positive.
std::uint32_t pace_of(std::uint64_t ended, std::chrono::microseconds time);

// Tells the pace by looks at all workers. Only while they are full, and somebody waits, does what
// ends say how much can be done, but for a look of four; else it says how much was asked for, and
// nobody is to be refused for that: there is no pace then, after ten seconds. What a task takes, by
// what was measured last, is known for two minutes or four calls, ten minutes at most; the pace of
// more or fewer places follows from that.
class PaceWatch {
 public:
  // The pace from now on, which was `last` until now. Measured anew over `over` at the least, or
  // half of that while nothing is known, and as many ends as there are places: tasks that began
  // together end together.
  std::uint32_t look(const WorkersSeen& now,
                     bool somebody_waits,
                     std::uint32_t last,
                     std::chrono::seconds over);

 private:
  struct Takes {
    double seconds;  // A task, in one place.
    Instant at;
    bool measured;  // Here; else told by whoever looked before.
  };
  void measure(const WorkersSeen& now, bool tells, std::chrono::milliseconds over);

  std::optional<Takes> takes_;
  std::optional<WorkersSeen> from_;
  int looks_ = 0, quiet_ = 0;  // Since then; looks that told nothing.
  std::optional<std::uint64_t> ended_;
  std::optional<Instant> looked_at_, full_at_;
};

// The released tasks there are, from time to time.
struct QueueSeen {
  // That many of a lane wait to be taken, and have so much of their time left.
  struct Waiting {
    std::chrono::seconds left{0};
    std::uint64_t count = 0;
  };
  // The least time first: so they were created, and so they are taken.
  std::vector<Waiting> express{}, bulk{};
  std::uint64_t called_express = 0, called_bulk = 0;  // Somebody is called for that many.

  bool somebody_waits() const { return !express.empty() || !bulk.empty(); }
};

// `window` with all that follows from its pace, which is known: the time that a task takes, of
// which `places` at once make the pace; and how long a further one of each lane waits. `last`: how
// things were until now.
ReleaseWindow with_waits(ReleaseWindow window,
                         const QueueSeen& queue,
                         std::uint64_t places,
                         const ReleaseWindow& last);

// `window` while what waits is still being counted: with the waits of `last`. If those are not
// known, neither is the pace: what has not been counted yet would be taken for nothing.
ReleaseWindow uncounted(ReleaseWindow window, const ReleaseWindow& last);

// How many of what waits for a provider are before a newcomer of either lane, at so many in 1000 s:
// in the express lane a third as much of the other one as of that lane itself, in the bulk lane
// everything; but for those that will be too late. `takes` and `needs` as of RouteLine.
LaneCounts before_newcomer(const QueueSeen& waiting, const RouteLine& of);

// `of`, of which the pace and what calls take and want are known, with the line of a worker that
// has these, and has heard of those first.
RouteLine with_line(RouteLine of, const QueueSeen& here, const QueueSeen& first);

// `window` with the waits of those routes of which workers tell: behind what waits for the provider
// that would have it, and as before behind what waits for none that is known, of all in `queue`;
// null: nobody knows how many that is, so it is everything. Behind a line whose pace is not known
// nobody is told to wait.
ReleaseWindow with_routes(ReleaseWindow window, const QueueSeen* queue, const WorkersSeen& workers);

// The open tasks of one user.
struct OpenTasks {
  std::uint32_t released = 0, parked = 0;
  // The holds of all parked ones come after this row of the user's ledger.
  std::uint64_t parked_after = 0;
  std::uint32_t released_max = 0;  // By the plan; 0: no limit but the window.

  std::uint64_t count() const { return std::uint64_t{released} + parked; }
  bool crowded() const { return parked > 0; }
  friend bool operator==(const OpenTasks&, const OpenTasks&) = default;
};

// Would a further task be parked?
bool would_park(const OpenTasks& open, std::uint32_t window);
// After what time a further task begins, as things go: those before it in its lane at that lane's
// pace. Where it would be parked, half way between two times: that of all the user's others at his
// share of the crowds' pace, which is right if the other crowds go on asking, and that of all that
// all crowds have at the whole of it, if that is sooner: right if they do not; and no later than
// twice that. Where tasks of its route wait for their provider, of all those as large a part as of
// what workers have is taken to wait for it as well, and it goes no faster than that one can do.
// Nullopt: not known.
std::optional<std::chrono::seconds> begins_in(const OpenTasks& open,
                                              const ReleaseWindow& window,
                                              Route route);
// Whether a further task of this user and route, worth nothing after `deadline`, is refused:
// nullopt if not; else after what time that is over, if nobody asks for more. What is known of the
// queue is a look old, and many who ask at once know the same. So in the last eighth of the time in
// which a task may begin more and more are refused, by `draw`, any number from 0 to 1 for each
// task; and after it all.
std::optional<std::chrono::seconds> refused_for(const OpenTasks& open,
                                                const ReleaseWindow& window,
                                                Route route,
                                                std::chrono::seconds deadline,
                                                double draw);
// One for each task.
double draw_of(TaskId task);

// Adds a task whose hold will be the ledger's row after `seq`. Those that are parked go first.
Lane add_task(OpenTasks& open, std::uint32_t window, std::uint64_t seq);
// A task in `lane` has ended.
void end_task(OpenTasks& open, Lane lane);
// How many parked tasks may be released now.
std::uint32_t may_release(const OpenTasks& open, std::uint32_t window);
// `count` of them are. From now on those that are parked come after the ledger's row `seq`.
void release_tasks(OpenTasks& open, std::uint32_t count, std::uint64_t seq);

}  // namespace audiogen
