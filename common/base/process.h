// What every long-running program does the same way: signals, and how its threads are scheduled.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace audiogen {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and ignores SIGPIPE. Call
// first in main.
void block_signals();

// Undoes the blocking, for commands that a person may interrupt: they end where they are.
void allow_signals();

// Puts this thread, and what it starts, into SCHED_BATCH (sched(7)): a thread that wakes does not
// interrupt one that runs, so on busy cores it finds a batch of work where it found one piece, for
// at most a time slice (3 ms) of delay; on idle ones nothing changes. Call first in main.
void prefer_batches();

// A crash leaves no core file, and only root may look into this process (PR_SET_DUMPABLE of
// prctl(2)): its memory holds passwords and clients' keys. Programs it starts inherit the limit and
// nothing else. Call first in main, before any secret is read.
void leave_no_core();

// Raises the soft limit of open descriptors (RLIMIT_NOFILE) to the hard one, for this process and
// what it starts. The limit now in force.
std::size_t raise_descriptor_limit();

enum class Signal { kStop, kReload };

// Blocks until SIGTERM or SIGINT (stop) or SIGHUP (reload) arrives.
Signal wait_for_signal();

// The same, for `limit` at most; nullopt: none has arrived.
std::optional<Signal> wait_for_signal(std::chrono::milliseconds limit);

// What the service manager that started this program may want to hear.
enum class Stage { kReady, kStopping };

// Tells it so, where it asks for that (NOTIFY_SOCKET of sd_notify(3)); else nothing happens. Blocks
// while the manager has too much to read, 5 s at most; when it cannot be told the log says why.
void tell_service_manager(Stage stage);

}  // namespace audiogen
