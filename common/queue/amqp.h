// What both sides of the queue share: the topology and the message (README.md, "Topology").
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/config.h"
#include "common/domain/task.h"

namespace audiogen::queue {

// One message carries as many hints as came together, because for the broker a message of a quorum
// queue costs about as much as everything else a creation costs.
inline constexpr std::size_t kHintsMax = 64;

// The longest body of a message: what encode_hints writes is shorter, what is longer is no message
// of ours.
inline constexpr std::size_t kMessageBytesMax = 4096;

// The most of a body that people are shown.
inline constexpr std::size_t kShownBytesMax = 65'536;

// What stands beside a body, as text: the properties, and the headers by their paths
// ("x-death.0.reason").
using Headers = std::vector<std::pair<std::string, std::string>>;

// {"hints":[{"task":"aud_…","epoch":3},…]}
std::string encode_hints(std::span<const Hint> hints);
// The reverse, 1 to kHintsMax of them; other members are ignored. Nullopt when anything is wrong.
std::optional<std::vector<Hint>> decode_hints(std::string_view body);

// Names and limits of what the broker holds for us. All of it is durable. Arguments of a queue
// never change once it exists: another argument needs another name.
struct Topology {
  std::string prefix = "audiogen";
  std::int64_t max_length = 100'000;  // Of each work queue; when full, publishing is refused.

  std::string exchange() const { return prefix; }
  std::string dead_exchange() const { return prefix + ".dlx"; }
  // The work queue of each lane that is sent.
  std::string jobs() const { return prefix + ".jobs.v1"; }
  std::string express() const { return prefix + ".express.v1"; }
  std::string dead() const { return prefix + ".dead.v1"; }
};

inline constexpr int kWorkQueues = 2;

struct Depth {
  std::uint64_t ready = 0;  // Messages waiting in the work queues.
  std::uint64_t dead = 0;   // Messages in the dead-letter queue: more than 0 is an alert.
};

// Asks the broker once, on a connection of its own. Blocks up to about 3 s (plus name lookup).
std::optional<Depth> read_depth(const AmqpUrl& url, const Topology& topology = {});

}  // namespace audiogen::queue
