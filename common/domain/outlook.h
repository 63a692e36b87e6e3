// When tasks begin and end, as far as can be told from what waits and from what has begun lately.
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/domain/task.h"

namespace audiogen {

// What an open task waits for.
enum class WaitingOn : std::uint8_t {
  kCapacity,   // Nobody has taken it yet.
  kProvider,   // It is being worked on.
  kRetry,      // It was put back, and is not due yet.
  kReference,  // What it refers to, to be fetched; or put back because that cannot be yet.
};
std::string_view waiting_on_name(WaitingOn what);
// Nullopt: it is final.
std::optional<WaitingOn> waiting_on(const TaskView& task, Instant now);

// Half of all come sooner than `p50`, nine of ten sooner than `p90`.
struct Spread {
  std::chrono::milliseconds p50{}, p90{};
  friend bool operator==(const Spread&, const Spread&) = default;
};

// What was seen of all tasks at one time, by the database's clock.
struct QueueSample {
  // A task that is due and that nobody has taken. Those of a lane sort as they are taken.
  struct Waiting {
    Instant due;
    TaskId id;
    Lane lane = Lane::kBulk;  // None is parked.
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  // The first and only call of a task, and when it brought audio.
  struct Start {
    Instant created{}, began{};
    std::optional<Instant> done{};
  };
  Instant at{};
  bool whole = true;               // False: more tasks are open than anybody looks at.
  std::vector<Waiting> waiting{};  // Sorted. Empty if not `whole`.
  std::vector<Start> starts{};     // Of tasks that are among the newest that have begun.
};

// Starts before this say nothing any more, and when nothing has begun for kStallMax although tasks
// wait, neither does the rest.
inline constexpr std::chrono::minutes kStartsKept{10};
inline constexpr std::chrono::seconds kStallMax{30};

// Of one task.
struct Prospect {
  std::optional<WaitingOn> waiting_on{};
  std::optional<std::size_t> position{};  // 1: its lane's next. Only of what waits for capacity.
  std::optional<Spread> start_in{};       // Until a call begins; not of what is worked on.
  std::optional<Spread> done_in{};        // Until it is final.
  friend bool operator==(const Prospect&, const Prospect&) = default;
};

class Outlook {
 public:
  // Without figures: positions, starts and ends are not known.
  Outlook() = default;
  explicit Outlook(QueueSample sample);

  // Of a task that would be created at the time of the sample and go by `lane`. Of one that would
  // be parked it is not known.
  std::optional<Spread> start_in(Lane lane) const;
  // Of `task` at `now`, which may be a little later than the sample.
  Prospect of(const TaskView& task, Instant now) const;

 private:
  // Seconds between one start and the next while somebody waits: usually, and at worst.
  struct Pace {
    double usual, slow;
  };

  const std::vector<QueueSample::Waiting>& waiting(Lane lane) const;
  std::optional<Spread> start_after(Lane lane, std::size_t others) const;
  std::optional<Spread> done_after(std::chrono::microseconds worked) const;

  bool whole_ = false;
  std::vector<QueueSample::Waiting> bulk_, express_;
  std::optional<Pace> pace_;                      // Nullopt: not known.
  std::vector<std::chrono::microseconds> works_;  // How long work took, sorted.
};

// How long whoever reads a task that is not final may rest before the next read: until it is
// probably done, from 1 to 5 s; 3 s when nobody can tell.
std::chrono::seconds read_again_after(const std::optional<Spread>& done_in);

}  // namespace audiogen
