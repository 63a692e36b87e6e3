// The ceilings: what a part does with nothing else to do, on the same machine in the same run. All
// in operations a second.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/stand.h"

namespace audiogen::bench {

// The service's own transactions in full batches, with no HTTP, no hints and nothing to wait for:
// creations by the first `users`, with an idempotency key each or without.
double create_ceiling(Stand& stand, double seconds, std::size_t users, bool keys);
// Claims and settlements, on as many connections as a worker has for them.
double work_ceiling(Stand& stand, double seconds);
// Reads, one row a round trip.
double read_ceiling(Stand& stand, double seconds, const std::vector<TaskId>& tasks);
// The HTTP server with a constant answer of the usual size.
double http_ceiling(double seconds, const std::string& request);
// Hints that the broker confirms.
double publish_ceiling(double seconds);

}  // namespace audiogen::bench
