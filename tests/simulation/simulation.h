// One run of the queue's protocol: API processes, workers, a database, a broker and what goes wrong
// with them, all made from a seed, in virtual time and one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tests/simulation/shared.h"

namespace audiogen::simulation {

struct Report {
  std::optional<std::string> verdict{};  // What is not as promised; nullopt: all is.
  std::string plan{}, log{};             // The log only where it was asked for.
  std::uint64_t events = 0;
  Duration lasted{};
  std::size_t tasks = 0, succeeded = 0;
  std::size_t parked = 0, suspects = 0;  // Tasks that once were.
  std::size_t refused_as_late = 0;
  Duration latest_after_deadline{}, latest_after_healing{};
  Duration longest_stuck{}, longest_single{};
};

// The same arguments give the same report, on any machine. Any thread.
Report simulate(std::uint64_t seed, Mutant mutant = Mutant::kNone, bool log = false);

}  // namespace audiogen::simulation
