// What the rooms' batches of database commands have in common.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace audiogen::worker {

// Of one transaction. 64 cost the database a fifth more per task; 512 keep locks longer and gain
// nothing.
inline constexpr std::size_t kBatchMax = 256;
// Batches of claims and of settlements begin so far apart: a transaction costs the database most of
// a millisecond whatever is in it, and creations and polls beside them wait for it. So much a task
// waits at most for each, and what comes alone does not: nobody sees it of a task that takes a
// second. (At 25,000 requests/s, a tenth creations, a request cost all programs together 45.0 times
// the CPU of a test's provider with 2 ms, 42.2 with 8, 39.2 with 16, 39.0 with 25.) Who feels it:
// an entry with few slots whose calls take less than 16 ms for each of them, which a worker fills
// once in that time. Half a batch does not wait: 800 jobs of an instant provider would, most of the
// time (9.0 thousand a second instead of 9.9).
inline constexpr std::chrono::milliseconds kSpacing{16};
// Commands, or pieces of work, that wait in a room; more are refused.
inline constexpr std::size_t kWaitingMax = 20'000;

// Between tries of a database command: the database is away, and the lease still runs.
inline std::chrono::milliseconds store_pause(int tries) {
  return std::chrono::milliseconds(std::min(200 << std::min(tries, 4), 2000));
}

}  // namespace audiogen::worker
