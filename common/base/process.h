// What every long-running program does the same way: signals, and how its threads are scheduled.
#pragma once

namespace audiogen {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and ignores SIGPIPE. Call
// first in main.
void block_signals();

// Puts this thread, and what it starts, into SCHED_BATCH (sched(7)): a thread that wakes does not
// interrupt one that runs, so on busy cores it finds a batch of work where it found one piece, for
// at most a time slice (3 ms) of delay; on idle ones nothing changes. Call first in main.
void prefer_batches();

enum class Signal { kStop, kReload };

// Blocks until SIGTERM or SIGINT (stop) or SIGHUP (reload) arrives.
Signal wait_for_signal();

}  // namespace audiogen
