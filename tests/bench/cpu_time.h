// CPU time of a process, as the kernel counts it.
#pragma once

#include <optional>

#include <sys/types.h>

namespace audiogen::bench {

// User and system time of all its threads in seconds, by ticks of 10 ms; nothing when it is gone.
std::optional<double> cpu_seconds(pid_t pid);

}  // namespace audiogen::bench
