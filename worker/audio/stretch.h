// Pace and pitch of mono sound. Pure.
#pragma once

#include <vector>

namespace audiogen {

// Changes length by 1/speed and pitch by `semitones`, each without the other; `rate` in Hz, speed
// above 0. Exactly round(n / speed) samples.
std::vector<float> stretch(std::vector<float> samples, int rate, double speed, double semitones);

}  // namespace audiogen
