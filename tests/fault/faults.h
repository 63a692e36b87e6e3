// What can go wrong while the service works, one entry each. The arena's clients and its judge are
// the same for all.
#pragma once

#include <cstddef>
#include <span>

#include "tests/fault/arena.h"

namespace audiogen::test {

struct Fault {
  const char* name;  // As ctest knows it.
  // Breaks something, and returns while it is broken.
  void (*strike)(Arena&);
  // Mends it, as an operator or time would. Nothing: it mends itself.
  void (*heal)(Arena&) = nullptr;
  // It lasts until clients have had so many answers more: those that look every 20 ms have 100 in
  // half a second.
  std::size_t answers = 100;
  std::chrono::seconds longest{5};  // Or so long.
  std::uint64_t nonsense = 0;       // So many messages of it that nobody can read.
};

// Longer than a lease lasts, and than anybody trusts a silent connection.
inline constexpr std::chrono::seconds kLong{40};
inline constexpr std::size_t kNoEnd = 1'000'000;  // Of answers.

// On the links and in the processes: the servers stay whole.
std::span<const Fault> link_faults();
// Of the database's server, and of the broker's; each needs one of its own.
std::span<const Fault> database_faults();
std::span<const Fault> broker_faults();

// What happens to clusters (Arena::Options::clusters): to servers, or to the network among nodes.
struct ClusterFault {
  const char* name;
  void (*strike)(Arena&);
  bool majority_stays = true;  // Of the databases: the service goes on before anything is mended.
};
std::span<const ClusterFault> cluster_faults();

// What clients felt from the strike to the mending, and how long it took until all nodes were in
// step again.
struct ClusterFelt {
  Arena::Felt felt;
  std::chrono::milliseconds lasted{}, mending{};
};
// The fault strikes among clients at work; while a majority stays, their work goes on; it is
// mended, and everything goes on.
ClusterFelt try_on_clusters(Arena& arena, const ClusterFault& fault, std::chrono::seconds lasts);

}  // namespace audiogen::test
