// How much of a long sound is worked on at a time.
#pragma once

#include <cstddef>

namespace audiogen {

inline constexpr std::size_t kBlockSamples = 8192;

}  // namespace audiogen
