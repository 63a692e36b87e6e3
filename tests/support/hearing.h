// What a listener makes of speech: the words that a recogniser hears in it, and its pitch.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace audiogen::test {

// Plain English, 101 words, for comparing voices by how much of it is understood.
inline constexpr std::array<std::string_view, 10> kPlainEnglish = {
    "The train to the coast leaves in ten minutes.",
    "She opened the window and looked out at the garden.",
    "Please call me back tomorrow morning before nine.",
    "The children walked home along the river after school.",
    "We have not seen any rain for more than three weeks.",
    "He wrote a long letter to his brother in London.",
    "There is nothing to eat in the house except bread and cheese.",
    "The doctor said that everything would be fine.",
    "My father bought a new car in the middle of the summer.",
    "It was a cold night and the wind blew through the trees."};

// The share of the words in kPlainEnglish that pocketsphinx (Debian's, with its model of American
// English) gets wrong, leaves out or adds when it listens to `speech`: WAV files at 16 kHz, one for
// each sentence. 0 is all right, and there is no upper end.
double word_errors(std::span<const std::string> speech);

// The median of the voiced parts in Hz, of pitches between `low` and `high`; none when nothing is
// voiced. With less than an octave between both it cannot be wrong by one.
std::optional<double> median_pitch(std::span<const float> samples,
                                   int rate,
                                   double low,
                                   double high);

// How many semitones `shifted` lies above `plain`, the same words at the same pace: the median over
// the moments at which both are voiced. Looks around the `semitones` that it should be.
std::optional<double> pitch_shift(std::span<const float> plain,
                                  std::span<const float> shifted,
                                  int rate,
                                  double semitones);

}  // namespace audiogen::test
