// Puts words and sounds together as a script has them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/domain/cues.h"
#include "worker/local/sounds.h"

namespace audiogen {

// A cue, or words that were spoken: mono samples at kSoundRate.
struct StageItem {
  std::optional<Cue> cue{};
  std::vector<float> words{};
};

// What is heard of `items`, one after the other: mono at kSoundRate, at most `samples_max` of it,
// within full scale. A sound stands between the words before and after it. An ambience begins where
// it stands, alone for a second, and lies under all that follows, lower under words, until
// Cue::kSilence or the end; there it has had five seconds and fades. One that is heard already
// begins no second time. Sounds are made from `seed` and where they stand. All words get one gain.
// Takes time and memory by `samples_max`, whatever there is in `items`.
std::vector<float> perform(const std::vector<StageItem>& items,
                           std::uint64_t seed,
                           std::size_t samples_max);

}  // namespace audiogen
