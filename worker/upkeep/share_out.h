// Pieces of a chore, several at once: each waits for somebody else.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

namespace audiogen::worker {

// Calls `one` with each number below `count`, on so many threads at once, of which the caller's is
// one. After `stop`, or once a call has said false, none is begun. Blocks until all have ended.
void share_out(std::size_t count,
               std::size_t threads,
               const std::stop_token& stop,
               const std::function<bool(std::size_t)>& one);

}  // namespace audiogen::worker
