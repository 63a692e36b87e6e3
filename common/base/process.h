// What every long-running program does the same way: signals.
#pragma once

namespace audiogen {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and ignores SIGPIPE. Call
// first in main.
void block_signals();

enum class Signal { kStop, kReload };

// Blocks until SIGTERM or SIGINT (stop) or SIGHUP (reload) arrives.
Signal wait_for_signal();

}  // namespace audiogen
