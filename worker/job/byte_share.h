// Who may have more of the bytes that references may take: the rule, without the locks and fetches
// (references.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace audiogen::worker {

// What one user, or all of them, have of a limit.
struct ByteShare {
  std::size_t bytes = 0;       // received and not yet let go
  std::size_t kept = 0;        // of these, by results: in memory
  std::uint64_t starving = 0;  // the oldest fetch, while it waits for those to be let go

  // May fetch `number`, which has `held`, have `more`, up to `max` in all? `oldest`, of those under
  // way, goes on whatever the others have: of several that stop half-way nobody would ever end. But
  // not whatever results keep: these end without it. While it waits for them the others get
  // nothing, or each of them would take a part of what is let go.
  bool has_room(std::uint64_t number,
                std::size_t held,
                std::size_t more,
                std::uint64_t oldest,
                std::size_t max) const {
    if (number != oldest) {
      return starving != oldest && bytes + more <= max;
    }
    return bytes + more <= max || kept == 0 || kept + held + more <= max;
  }

  // Whether the oldest, `number`, has got what it wants. True: it had not before.
  bool note(std::uint64_t number, bool got) {
    return std::exchange(starving, got ? 0 : number) != 0 && got;
  }
};

}  // namespace audiogen::worker
