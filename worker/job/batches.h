// What the rooms' batches of database commands have in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace audiogen::worker {

// Of one transaction. 64 cost the database a fifth more per task; 512 keep locks longer and gain
// nothing.
inline constexpr std::size_t kBatchMax = 256;
// Batches of claims and of settlements begin so far apart, so that tasks share transactions before
// there are more than fit: nobody sees two milliseconds of a task that takes a second, and the
// creations beside them wait for fewer transactions. (At 23,000 requests/s, a tenth creations,
// their p50 fell from 7 to 4 ms.)
inline constexpr std::chrono::microseconds kSpacing{2'000};
// Commands, or pieces of work, that wait in a room; more are refused.
inline constexpr std::size_t kWaitingMax = 20'000;

// Between tries of a database command: the database is away, and the lease still runs.
inline std::chrono::milliseconds store_pause(int tries) {
  return std::chrono::milliseconds(std::min(200 << std::min(tries, 4), 2000));
}

}  // namespace audiogen::worker
