// Keeps sound under a ceiling without bending it. Pure.
#pragma once

#include <span>

namespace audiogen {

// Turns the sound down around its peaks so far that none passes `ceiling` (1 is full scale), also
// between the samples, as a player's filter will draw it; `rate` in Hz. The level falls in the 10
// ms before a peak and comes back in some 100 ms after it: only loudness changes, no harmonics
// arise. Sound under the ceiling stays as it is, to the bit. False when it cannot be measured.
bool limit_peaks(std::span<float> samples, int rate, double ceiling);

}  // namespace audiogen
